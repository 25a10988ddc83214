"""What is done with the earlier revision's code, on its own path: `python earlier.py CONFIG prepare | ask [--alone]`.

Only names that the earlier revision and this one share are used; run.py starts it.

    prepare        a finished experiment with its report, one that runs and queues, one proposed; prints every record
    ask            one more request, while the agent is stopped
    ask --alone    the same, with nothing up: the embedded Valkey runs for as long as this takes
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lab
from lab import store
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, RunState
from lab.settings import load

PATIENCE_S = 60.0
ENDED = {"steps": (5,), "step_s": (0.02,), "fail": ("none", "error"), "fail_at_step": (3,), "seed": (0, 1)}
LIVE = {"steps": (50,), "step_s": (0.1,), "seed": (0, 1, 2, 3, 4)}
PROPOSED = {"steps": (5,), "step_s": (0.02,), "seed": (0, 1)}
RECORDS = ("on:req:*", "on:exp:*", "on:run:*", "on:report:*")


def prepare(ledger: Ledger) -> dict[str, Any]:
    """The ledger holds one experiment of each kind; some runs are running and some queued at this moment."""
    ended, live = propose(ledger, ENDED), propose(ledger, LIVE)
    proposed = propose(ledger, PROPOSED)
    ledger.approve(ended, "alice")
    wait(lambda: ledger.experiment(ended).report_revision == 1, "the first report")
    ledger.approve(live, "alice")
    wait(lambda: under_way(ledger, live) == 3, "three runs under way")
    return {"code": lab.__file__, "live": live, "proposed": proposed, "records": records(ledger.client)}


def under_way(ledger: Ledger, experiment_id: str) -> int:
    """How many runs train and have a checkpoint: the probe writes one a second."""
    running = [run.id for run in ledger.runs(experiment_id) if run.state is RunState.RUNNING]
    return sum(progress.step >= 12 for progress in ledger.progress(running).values())


def propose(ledger: Ledger, axes: dict[str, Any]) -> str:
    """A probe's plan is proposed, as if somebody had asked for it; once more where the agent answered faster."""
    plan = Plan(template="probe", models=("probe",), axes=axes)
    while True:
        request = ledger.submit("a probe", "alice", "terminal:upgrade")
        assert request is not None
        experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
        if experiment is not None:
            return experiment.id


def records(client: Any) -> dict[str, dict[str, str]]:
    """Every record and report, field by field."""
    keys = [key for pattern in RECORDS for key in client.scan_iter(pattern)]
    return {key: client.hgetall(key) for key in sorted(keys)}


def ask(ledger: Ledger) -> dict[str, Any]:
    """A request that nobody has answered."""
    request = ledger.submit("compare resnet18 vs resnet34 on digits", "bob", "terminal:upgrade")
    assert request is not None
    return {"code": lab.__file__, "request": request.id}


def wait(there: Callable[[], bool], what: str) -> None:
    """Returns when it is there; AssertionError when it does not come."""
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < deadline, f"{what} did not come within {PATIENCE_S:.0f} s"
        time.sleep(0.05)


def main(config: str, act: str, *options: str) -> None:
    """Prints one JSON object."""
    settings = load(Path(config))
    with store.embedded(settings) if "--alone" in options else contextlib.nullcontext():
        ledger = Ledger(store.connect(settings))
        print(json.dumps({"prepare": prepare, "ask": ask}[act](ledger)))


if __name__ == "__main__":
    main(*sys.argv[1:])
