"""A data folder with live runs moves from an earlier revision to this one and loses nothing: `make upgrade-test`.

    python tests/upgrade/run.py [term | kill ...]      how the earlier `up` ends; both without names
    FROM=v0.1.0 python tests/upgrade/run.py            else the newest tag before HEAD, else deploy/previous-release

The earlier revision runs from an archive of its own in a temporary folder, with its own code and this environment's
packages: `up` with simulated cards, probe runs that have ended, run and wait, a proposal and a request without an
answer. It is stopped, this revision's `up` starts on the same folder, and one JSON object tells what became of
everything. Exit status 1: something was lost; 2: the earlier revision is not in this clone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import psutil

from lab import store
from lab.ledger import Ledger
from lab.run import FINAL_RUN, RequestState
from lab.settings import Settings, load
from terminal import agreement

log = logging.getLogger("upgrade")

ROOT = Path(__file__).parents[2]
EARLIER = Path(__file__).with_name("earlier.py")
PREVIOUS = ROOT / "deploy" / "previous-release"
PATIENCE_S = 90.0
LEASE_S = 6
CONFIG = {
    "gpu": {"simulate": 4},
    "keeper": {"reading_interval_s": 0.5},
    "run": {"lease_s": LEASE_S, "renew_s": 1, "grace_s": 5},
    "agent": {"workers": 1},
}
FINAL = frozenset(json.dumps(state) for state in ("answered", "finished", "failed", "cancelled"))
RUN = "on:run:"
LATER = frozenset({"report_revision", "n_retried"})
"""Fields of an ended experiment that may still change."""


class Missing(Exception):
    """The earlier revision is not there to be tried."""


def earlier_revision() -> str:
    """Commit of the revision to come from. Raises Missing."""
    wanted = os.environ.get("FROM") or _git("describe", "--tags", "--abbrev=0", "HEAD^") or PREVIOUS.read_text().strip()
    commit = _git("rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}")
    if not commit:
        raise Missing(f"this clone has no revision {wanted}; fetch the history, or name one: FROM=revision")
    return commit


def _git(*arguments: str) -> str:
    """What git prints; nothing where it fails or is not there."""
    if shutil.which("git") is None:
        return ""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def unpack(commit: str, folder: Path) -> Path:
    """The revision's files lie in the folder."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


class Lab:
    """One revision's code on the data folder."""

    def __init__(self, code: Path, config: Path) -> None:
        self.code, self.config = code, config
        own = {k: v for k, v in os.environ.items() if not k.startswith(("OVERNIGHT_", "SLACK_", "OPENAI_"))}
        # PYTHONPATH stands before what pip installed as editable.
        self.environ = own | {"PYTHONPATH": str(code), "OVERNIGHT_CONFIG": str(config)}

    def python(self, *arguments: str) -> str:
        """What a command of this revision prints."""
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=self.code, env=self.environ, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{command} failed: {done.stderr[-2000:]}"
        return done.stdout

    def earlier(self, *arguments: str) -> dict[str, Any]:
        """What earlier.py found with this revision's code."""
        act, *options = arguments
        found: dict[str, Any] = json.loads(self.python(str(EARLIER), str(self.config), act, *options))
        assert Path(found["code"]).is_relative_to(self.code), f"{found['code']} ran instead of {self.code}"
        return found

    @contextlib.contextmanager
    def up(self) -> Iterator[psutil.Popen]:
        """Everything runs within the block, apart from Slack."""
        with (self.config.parent / "up.log").open("ab") as log:
            command = [sys.executable, "-m", "overnight", "up"]
            process = psutil.Popen(command, cwd=self.code, env=self.environ, stdout=log, stderr=log)
        try:
            yield process
        finally:
            if process.is_running():
                end(process)


def end(up: psutil.Popen) -> None:
    """The lab was stopped in order."""
    up.send_signal(signal.SIGTERM)
    up.wait(PATIENCE_S)


def kill(up: psutil.Popen, still: list[psutil.Process]) -> None:
    """The lab was killed, and nothing that it had started is left.

    Args:
        still: processes that stand still, so that no signal of the parent's death but SIGKILL ends them.
    """
    everything = up.children(recursive=True)
    for process in (up, *still):
        process.kill()
    _, left = psutil.wait_procs([up, *everything], PATIENCE_S)
    assert not left, f"{left} outlived `up`"


def stop_agent(up: psutil.Popen) -> list[psutil.Process]:
    """The agent's processes, which stand still from now on: what reaches them dies with them."""
    agent = next(p for p in up.children() if p.cmdline()[-1] == "agent")
    family = [agent, *agent.children(recursive=True)]
    for process in family:
        process.suspend()
    return family


def earlier_night(lab: Lab, how: str) -> dict[str, Any]:
    """The earlier revision has run and was stopped in this way; what its ledger held, and the request it left."""
    with lab.up() as up:
        wait(lambda: (lab.config.parent / "data" / "valkey" / "valkey.sock").exists(), "the earlier lab")
        found = lab.earlier("prepare")
        if how == "kill":
            agent = stop_agent(up)
            found["request"] = lab.earlier("ask")["request"]
            kill(up, agent)
        else:
            end(up)
    if how == "term":
        found["request"] = lab.earlier("ask", "--alone")["request"]
    return found


def move(commit: str, how: str) -> dict[str, Any]:
    """What became of everything."""
    with tempfile.TemporaryDirectory(prefix="on-", ignore_cleanup_errors=True) as name:
        config = Path(name) / "config.yaml"
        config.write_text(json.dumps(CONFIG | {"data_dir": f"{name}/data", "host": "lab-a"}))  # JSON is YAML
        before = earlier_night(Lab(unpack(commit, Path(name) / "earlier"), config), how)
        began, now = time.monotonic(), Lab(ROOT, config)
        with now.up():
            found = look(load(config), before, now)
        return {"from": commit, "stopped_by": how, **found, "seconds": round(time.monotonic() - began, 1)}


def tried(commit: str, how: str) -> dict[str, Any]:
    """What became of everything, or the error that it ended with."""
    try:
        return move(commit, how)
    except Exception as error:
        log.exception("the move that begins with %s broke off", how)
        return {"from": commit, "stopped_by": how, "error": [f"{type(error).__name__}: {error}"]}


def look(settings: Settings, before: dict[str, Any], lab: Lab) -> dict[str, Any]:
    """This revision is up: it carries on, and its ledger is held against what there was before."""
    wait(settings.socket_path.exists, "this revision's Valkey")
    ledger = Ledger(store.connect(settings))
    wait(lambda: answers(ledger), "this revision's Valkey")
    ledger.approve(before["proposed"], "alice")
    with contextlib.suppress(AssertionError):
        wait(lambda: not waiting(ledger, before), "the end of all runs")
    unfinished = waiting(ledger, before)
    old, now = before["records"], {key: ledger.client.hgetall(key) for key in before["records"]}
    runs = [run for experiment in ledger.experiments() for run in ledger.runs(experiment.id)]
    then = Counter(json.loads(fields["state"]) for key, fields in old.items() if key.startswith(RUN))
    return {
        "records": len(old),
        "runs_before": dict(then),
        "runs_now": dict(Counter(run.state.value for run in runs)),
        "lost": [key for key in old if not now[key]],
        "passed_over": sorted(read_before(old) - {run.id for run in runs}),
        "changed_after_their_end": [
            key for key in old if now[key] and ended(old[key]) and not kept(old[key], now[key])
        ],
        "failed_without_cause": [run.id for run in runs if run.state.value == "failed" and not run.cause],
        "unfinished": unfinished,
        "resumed": sum(resumed(settings, run.id) for run in runs),
        "disagreements": [str(disagreement) for disagreement in agreement.examine(settings, ledger.client).found],
        "request_answered": ledger.request(before["request"]).answer is not None,
        "unreadable": unreadable(lab, [e.id for e in ledger.experiments() if e.approved_at]),
    }


def read_before(old: dict[str, dict[str, str]]) -> set[str]:
    """Runs that the earlier revision knew; this one passes over what it cannot read, and must not have to."""
    return {key.removeprefix(RUN) for key in old if key.startswith(RUN)}


def answers(ledger: Ledger) -> bool:
    """True when the store takes commands."""
    try:
        return bool(ledger.client.ping())
    except store.AWAY:
        return False


def waiting(ledger: Ledger, before: dict[str, Any]) -> list[str]:
    """What has not come to its end yet."""
    experiments = [ledger.experiment(key.removeprefix("on:exp:")) for key in before["records"] if ":exp:" in key]
    open_runs = [run.id for e in experiments for run in ledger.runs(e.id) if run.state not in FINAL_RUN]
    reports = [f"{e.id}'s report" for e in experiments if not e.report_revision]
    return open_runs + reports + [request.id for request in ledger.requests(RequestState.RECEIVED)]


def ended(fields: dict[str, str]) -> bool:
    """True for what may not change any more; a report has no state and never may."""
    return fields.get("state") in FINAL or "state" not in fields


def kept(old: dict[str, str], now: dict[str, str]) -> bool:
    """Every field stands as it did."""
    return all(now.get(name) == value for name, value in old.items() if name not in LATER)


def resumed(settings: Settings, run_id: str) -> bool:
    """The run's last attempt went on from a checkpoint."""
    logs = sorted((settings.runs_dir / run_id).glob("attempt-*/log.txt"))
    return bool(logs) and "resuming from" in logs[-1].read_text()


def unreadable(lab: Lab, experiments: list[str]) -> list[str]:
    """Experiments that `list` does not name or `show` cannot show with their report."""
    listed = {experiment["id"] for experiment in json.loads(lab.python("-m", "overnight", "list", "--json"))}
    documents = {name: json.loads(lab.python("-m", "overnight", "show", name, "--json")) for name in experiments}
    return [name for name in experiments if name not in listed or not documents[name]["report"]]


def wait(there: Callable[[], bool], what: str) -> None:
    """Returns when it is there. Raises AssertionError when it does not come."""
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < deadline, f"{what} did not come within {PATIENCE_S:.0f} s"
        time.sleep(0.1)


LOSSES = (
    "error",
    "lost",
    "passed_over",
    "changed_after_their_end",
    "failed_without_cause",
    "unfinished",
    "disagreements",
    "unreadable",
)


def main(*ways: str) -> int:
    """Prints one JSON object; 0 when nothing was lost."""
    try:
        commit = earlier_revision()
    except Missing as error:
        print(f"upgrade: {error}", file=sys.stderr)
        return 2
    with ThreadPoolExecutor() as pool:
        moves = list(pool.map(lambda how: tried(commit, how), ways or ("term", "kill")))
    bad = sum(len(found.get(name, ())) for found in moves for name in LOSSES)
    print(json.dumps({"moves": moves, "losses": bad}, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
