"""Takes Valkey away from a running lab for a while and measures what the trainers did meanwhile.

    SECONDS="8 40 300" LEASE_S=20 HOW="stop kill" python -m tests.chaos.outage

`stop` halts the server (SIGSTOP: calls hang), `kill` kills it and starts it again from its file (calls fail at once).
Each outage meets running probes and some that wait. Prints one JSON object; its exit status is 1 when anything was
lost, doubled, overlapping or left unfinished, when a trainer made a step after its lease could have ended, or when one
was stopped although the outage was shorter than that.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from lab import store
from lab.leases import key
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import FINAL_RUN, Answer, Experiment, Run, RunState
from lab.settings import Settings, load
from terminal.stack import Stack
from tests.chaos import counting
from workers import watch

CARDS, RUNS = 3, 5
STEP_S = 0.05
AFTER_S = 4.0
"""A run is so much longer than the outage, or than the lease where that is shorter: nobody is done before."""
LOOK_S = 0.05
LAG_S = 2.0
"""From the server's return to the first renewal."""
QUIET_S = 120.0
FAULTS = ("lost", "doubled", "overlapping", "unfinished", "past_lease", "stopped_early")


@dataclass(frozen=True)
class Held:
    """A run that an outage met."""

    run: Run
    ends_at: float
    """Seconds since the epoch: when its lease ends if it is not renewed any more."""


def main() -> int:
    """Each outage with each kind of loss, counted; 0 when none cost anything."""
    lengths = [float(word) for word in (os.environ.get("SECONDS") or "8 40").split()]
    ways = (os.environ.get("HOW") or "stop kill").split()
    lease_s = float(os.environ.get("LEASE_S") or 20)
    with tempfile.TemporaryDirectory(prefix="on-", dir="/tmp", ignore_cleanup_errors=True) as name:
        config = _config(Path(name), lease_s)
        settings = load(config)
        with Stack(settings, names=("keep", "dispatch", "work"), environ={"OVERNIGHT_CONFIG": str(config)}) as stack:
            stack.wait_ready(120, cards=CARDS)
            outages = [_outage(stack, settings, way, length) for length in lengths for way in ways]
            total = _count(settings, Ledger(store.connect(settings)), len(outages))
    run = settings.run
    print(json.dumps({"lease_s": run.lease_s, "renew_s": run.renew_s, "outages": outages, **total}, indent=1))
    costs = [found.get(fault, 0) for found in (*outages, total) for fault in FAULTS]
    return 1 if any(costs) else 0


def _config(folder: Path, lease_s: float) -> Path:
    path = folder / "config.yaml"
    chosen = {
        "data_dir": str(folder / "data"),
        "host": "lab-a",
        "gpu": {"simulate": CARDS + 1},
        "run": {"lease_s": lease_s, "renew_s": max(0.5, round(lease_s / 6, 1)), "grace_s": 5, "max_attempts": 20},
    }
    path.write_text(yaml.safe_dump(chosen))
    return path


def _outage(stack: Stack, settings: Settings, how: str, seconds: float) -> dict[str, Any]:
    """One outage, and how it went until all was done."""
    ledger, lease_s = Ledger(store.connect(settings)), settings.run.lease_s
    experiment = _approve(ledger, min(seconds, lease_s) + AFTER_S)
    held = _running(stack, settings, ledger, experiment)
    began = time.time()
    gone = _away(stack, how, seconds, held)
    back = time.time()
    unfinished = _wait_for_all(stack, settings, experiment)
    done = time.time()
    runs = {run.id: run for run in ledger.runs(experiment.id)}
    met = {(a.run_id, a.number): a for a in counting.attempts(settings)}
    went_on = [found for found in held if runs[found.run.id].fence == found.run.fence]
    stopped = [found for found in held if found not in went_on]
    steps = {found.run.id: met[found.run.id, found.run.fence].times for found in held}
    spare = [found.ends_at - max(steps[found.run.id]) for found in stopped]
    spare_process = [found.ends_at - gone.get(found.run.id, back) for found in stopped]
    short = back < min(found.ends_at for found in held) - watch.margin_s(lease_s) - LAG_S
    return {
        "how": how,
        "outage_s": round(back - began, 1),
        "running": len(held),
        "went_on_in_the_same_attempt": len(went_on),
        "steps_written_meanwhile": sum(began < t < back for times in steps.values() for t in times),
        "stopped_themselves": len(stopped),
        "last_step_before_lease_end_s": _least(spare),
        "trainer_gone_before_lease_end_s": _least(spare_process),
        "past_lease": sum(s < 0 for s in spare) + sum(s < 0 for s in spare_process),
        "stopped_early": len(stopped) if short else 0,
        "all_done_after_s": round(done - back, 1),
        "unfinished": len(unfinished),
        "which": unfinished,
    }


def _approve(ledger: Ledger, seconds: float) -> Experiment:
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request
    axes = {"steps": (round(seconds / STEP_S),), "step_s": (STEP_S,), "seed": tuple(range(RUNS))}
    plan = Plan(template="probe", models=("probe",), axes=axes, anew=True)
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment
    return ledger.approve(experiment.id, "U1")


def _running(stack: Stack, settings: Settings, ledger: Ledger, experiment: Experiment) -> list[Held]:
    """As many runs as there are cards make steps; and when their leases end as they stand now."""
    deadline = time.monotonic() + QUIET_S
    while time.monotonic() < deadline:
        stack.step()
        runs = [run for run in ledger.runs(experiment.id) if run.state is RunState.RUNNING]
        if len(runs) == CARDS and len(ledger.progress(run.id for run in runs)) == CARDS:
            return [Held(run, time.time() + ledger.client.pttl(key(str(run.card))) / 1000) for run in runs]
        time.sleep(LOOK_S)
    raise TimeoutError(f"{CARDS} runs did not start within {QUIET_S:g} s")


def _away(stack: Stack, how: str, seconds: float, held: list[Held]) -> dict[str, float]:
    """The server was away for so long; seconds since the epoch at which a run's trainer was gone, if it was."""
    server = next(p for p in psutil.Process().children() if "valkey.sock" in " ".join(p.cmdline()))
    until = time.monotonic() + seconds
    if how == "kill":
        server.kill()
    else:
        server.suspend()
    gone: dict[str, float] = {}
    while time.monotonic() < until:
        if how == "stop":
            stack.step()  # while it is killed this would start it again
        for found in held:
            if found.run.id not in gone and not psutil.pid_exists(found.run.pid or 0):
                gone[found.run.id] = time.time()
        time.sleep(LOOK_S)
    if how == "stop":
        server.send_signal(signal.SIGCONT)
    stack.step()
    return gone


def _wait_for_all(stack: Stack, settings: Settings, experiment: Experiment) -> list[str]:
    """Ids of the runs that had not finished when the lab had had its time."""
    deadline = time.monotonic() + QUIET_S
    left = ["?"]
    while left and time.monotonic() < deadline:
        stack.step()
        try:
            ledger = Ledger(store.connect(settings, patient=False))
            left = [run.id for run in ledger.runs(experiment.id) if run.state not in FINAL_RUN]
        except store.AWAY:
            pass
        time.sleep(0.2)
    if left == ["?"]:
        return left
    return [run.id for run in Ledger(store.connect(settings)).runs(experiment.id) if run.state is not RunState.FINISHED]


def _count(settings: Settings, ledger: Ledger, n_outages: int) -> dict[str, int]:
    """What all of it cost."""
    runs = [run for experiment in ledger.experiments() for run in ledger.runs(experiment.id)]
    found = list(counting.attempts(settings))
    ends = counting.ends(ledger)
    return {
        "runs": len(runs),
        "attempts": len(found),
        "lost": n_outages * RUNS - len(runs) + sum(ends[run.id] == 0 for run in runs if run.state is RunState.FINISHED),
        "doubled": sum(n > 1 for n in ends.values()) + counting.overlaps(found, lambda a: a.run_id),
        "overlapping": counting.overlaps(found, lambda a: a.card),
    }


def _least(seconds: list[float]) -> float | None:
    return round(min(seconds), 2) if seconds else None


if __name__ == "__main__":
    sys.exit(main())
