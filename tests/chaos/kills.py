"""Kills parts of a running lab at random and counts what was lost, doubled, overlapping or left unfinished.

    KILLS=200 SEED=1 python -m tests.chaos.kills

A whole lab on one machine: simulator, Valkey, keeper, dispatcher, workers, agent and bot, three training cards. Leases
are shorter than the runs, so that a lease that is not kept would show; and runs of all priorities make room for each
other all the while. Prints one JSON object and ends with 1 when any
of the four counts is not 0. With STATE=file the counts of earlier calls are added, so that 1000 kills can be had in
several calls.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from bot.simulator import Simulator
from lab import store
from lab.ledger import Ledger
from lab.plan import PRIORITIES, Plan, Priority
from lab.run import FINAL_RUN, Answer, Experiment, RunState
from lab.settings import Settings, load
from terminal import stack as stacks
from terminal.demo import CHANNEL, USER, write_config
from terminal.stack import Stack
from tests.chaos import counting

SIGNS = ("lost", "doubled", "overlapping", "unfinished")
LEASE_S, RENEW_S = 4.0, 0.5
STEPS, STEP_S = 60, 0.1
"""A run takes 6 s, longer than a lease."""
LOOK_S, STINT_S, PREEMPT_EVERY_S = 0.5, 0.7, 2.0
"""So that a run makes room once or twice, if somebody goes first."""
PAUSE_S = (0.1, 2.5)
"""Between two kills."""
WEIGHTS = {"worker": 3, "worker's child": 3, "trainer": 3}
"""Those that hold a run are there only part of the time."""
AT_ONCE = 9
"""Runs that wait or run at any moment."""
QUIET_S = 240.0
"""How long the lab may take to finish everything after the last kill."""

Victims = Callable[[Stack], list[psutil.Process]]


@dataclass
class Night:
    """What the kills met."""

    kills: Counter[str] = field(default_factory=Counter)
    experiments: list[str] = field(default_factory=list)


def main() -> int:
    """Kills, waits until all is quiet, counts, prints; 0 when nothing was lost or doubled."""
    wanted = int(os.environ.get("KILLS") or 200)
    seed = int(os.environ.get("SEED") or time.time_ns() % 1_000_000)
    began = time.monotonic()
    stacks.RESTART_S = (0.5,)  # so many kills would otherwise mostly meet pauses
    with (
        Simulator() as slack,
        tempfile.TemporaryDirectory(prefix="on-", dir="/tmp", ignore_cleanup_errors=True) as name,
    ):
        config = _config(slack, Path(name))
        settings = load(config)
        with Stack(settings, environ={"OVERNIGHT_CONFIG": str(config)}) as stack:
            stack.wait_ready(120, cards=3)
            night = _kill(stack, slack, wanted, random.Random(seed))
            unfinished = _wait_for_all(stack, night)
            found = _count(settings, Ledger(store.connect(settings)), night, unfinished)
    figures = {"seed": seed, "kills": dict(night.kills), "seconds": round(time.monotonic() - began, 1), **found}
    print(json.dumps(_added(figures), indent=1))
    return 1 if any(found[sign] for sign in SIGNS) else 0


def _config(slack: Simulator, folder: Path) -> Path:
    path = write_config(slack, folder, cards=4)
    chosen: dict[str, Any] = yaml.safe_load(path.read_text())
    chosen["run"] = {
        "lease_s": LEASE_S, "renew_s": RENEW_S, "grace_s": 3, "max_attempts": 100, "max_retries": 20,
        "first_look_s": LOOK_S, "preempt_after_s": STINT_S, "preempt_every_s": PREEMPT_EVERY_S,
    }  # fmt: skip
    path.write_text(yaml.safe_dump(chosen))
    return path


# -- the kills ---------------------------------------------------------------------------------------------------


def _kill(stack: Stack, slack: Simulator, wanted: int, chance: random.Random) -> Night:
    """So many processes were killed, while there was always something to do."""
    night = Night()
    while sum(night.kills.values()) < wanted:
        stack.step()
        _keep_busy(stack, night)
        part = chance.choices(list(VICTIMS), weights=[WEIGHTS.get(name, 1) for name in VICTIMS])[0]
        found = VICTIMS[part](stack)
        if found:
            victim = chance.choice(found)
            try:
                victim.kill()
            except psutil.NoSuchProcess:
                continue
            night.kills[part] += 1
        time.sleep(chance.uniform(*PAUSE_S))
    return night


def _keep_busy(stack: Stack, night: Night) -> None:
    """A new experiment is approved whenever few runs are left; nothing when Valkey has just been killed.

    Each goes before the one that came before it, but for every third.
    """
    priority = PRIORITIES[len(night.experiments) % len(PRIORITIES)]
    try:
        ledger = Ledger(store.connect(stack.settings, patient=False))
        open_runs = ledger.runs_in(*(state for state in RunState if state not in FINAL_RUN))
        if len(open_runs) < AT_ONCE:
            night.experiments.append(_approve(ledger, priority).id)
    except store.AWAY:
        time.sleep(0.2)


def _approve(ledger: Ledger, priority: Priority) -> Experiment:
    request = ledger.submit("probe", USER, f"slack:T0LAB:{CHANNEL}:1700000000.000001")
    assert request is not None
    axes = {"steps": (STEPS,), "step_s": (STEP_S,), "seed": (0, 1, 2)}
    plan = Plan(template="probe", models=("probe",), axes=axes, priority=priority, anew=True)  # type: ignore[arg-type]
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    if experiment is None:  # the agent answered the text first; its answer is no plan
        return _approve(ledger, priority)
    return ledger.approve(experiment.id, USER)


def _part(name: str) -> Victims:
    def find(stack: Stack) -> list[psutil.Process]:
        return [p for p in _ours() if _command(p)[-2:] == ["overnight", name]]

    return find


def _below(name: str, depth: int) -> Victims:
    """Processes so many levels below a part of the stack: a worker, its child, the trainer."""

    def find(stack: Stack) -> list[psutil.Process]:
        level = _part(name)(stack)
        for _ in range(depth):
            level = [child for parent in level for child in _children(parent)]
        return level

    return find


def _valkey(stack: Stack) -> list[psutil.Process]:
    return [p for p in _ours() if "valkey.sock" in " ".join(_command(p))]


def _ours() -> list[psutil.Process]:
    return psutil.Process().children()


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


VICTIMS: dict[str, Victims] = {
    "bot": _part("bot"),
    "agent": _part("agent"),
    "dispatcher": _part("dispatch"),
    "keeper": _part("keep"),
    "supervisor": _part("work"),
    "worker": _below("work", 1),
    "worker's child": _below("work", 2),
    "trainer": _below("work", 3),
    "valkey": _valkey,
}


# -- the count ---------------------------------------------------------------------------------------------------


def _wait_for_all(stack: Stack, night: Night) -> list[str]:
    """Ids of the runs that had not ended when the lab had had its time."""
    deadline = time.monotonic() + QUIET_S
    left: list[str] = ["?"]
    while left and time.monotonic() < deadline:
        stack.step()
        try:
            ledger = Ledger(store.connect(stack.settings, patient=False))
            left = [run.id for e in night.experiments for run in ledger.runs(e) if run.state not in FINAL_RUN]
        except store.AWAY:
            pass
        time.sleep(0.5)
    return left


def _count(settings: Settings, ledger: Ledger, night: Night, unfinished: list[str]) -> dict[str, Any]:
    runs = [run for e in night.experiments for run in ledger.runs(e)]
    expected = 3 * len(night.experiments)
    ends = counting.ends(ledger)
    failed = {run.id: f"{run.cause}: {run.message}" for run in runs if run.state is RunState.FAILED}
    attempts = list(counting.attempts(settings))
    return {
        "runs": len(runs),
        "attempts": len(attempts),
        "made_room": sum(len(run.made_room_for) for run in runs),
        "lost": expected - len(runs),
        "doubled": sum(n > 1 for n in ends.values()) + counting.overlaps(attempts, lambda a: a.run_id),
        "overlapping": counting.overlaps(attempts, lambda a: a.card),
        "unfinished": len(unfinished) + len(failed),
        "which": [*unfinished, *(f"{run_id} {why}" for run_id, why in failed.items())],
    }


def _added(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures, with those of earlier calls added up in the file that STATE names."""
    state = os.environ.get("STATE")
    if not state:
        return figures
    path = Path(state)
    before: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    now = {sign: figures[sign] for sign in (*SIGNS, "runs", "attempts", "made_room")}
    now["kills"] = sum(figures["kills"].values())
    total = {key: before.get(key, 0) + value for key, value in now.items()}
    path.write_text(json.dumps(total))
    return {**figures, "in_all": total}


if __name__ == "__main__":
    sys.exit(main())
