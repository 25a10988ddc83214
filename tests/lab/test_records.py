"""Records of other versions: those of 0.1 as they stood in Redis, and fields that only a later version knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab import events
from lab.ledger import Ledger
from lab.plan import Plan
from lab.records import record_key
from lab.report import Report, to_markdown
from lab.run import Answer, Experiment, ExperimentState, Progress, Run, RunResult, RunState
from lab.store import PREFIX, Client

STORED: dict[str, Any] = json.loads(Path(__file__).with_name("records-0.1.json").read_text())
"""Hashes, progress and events that version 0.1.0 wrote in a night of probes."""


@pytest.fixture
def old(store: Client) -> Ledger:
    """A ledger on what 0.1 left."""
    for key, fields in STORED["records"].items():
        store.hset(key, mapping=fields)
        _, kind, name = key.split(":", 2)
        if kind in ("exp", "run"):
            index = f"{PREFIX}index:{ {'exp': 'experiment', 'run': 'run'}[kind] }:{json.loads(fields['state'])}"
            store.zadd(index, {name: 1.0})
    return Ledger(store)


def test_records_of_the_last_version_are_read(old: Ledger) -> None:
    """An upgrade finds the lab's whole past, and passes over nothing."""
    runs = {run.state: run for run in old.runs_in(*RunState)}

    assert {e.id for e in old.experiments()} == {"exp-1", "exp-2", "exp-3", "exp-4"}
    assert set(runs) == {RunState.FINISHED, RunState.FAILED, RunState.RUNNING, RunState.QUEUED}
    assert runs[RunState.FINISHED].result is not None
    assert runs[RunState.FINISHED].result.curves["val_acc"]
    assert runs[RunState.FAILED].cause == "user_code"
    answer, estimate = old.request("req-4").answer, old.experiment("exp-4").estimate
    assert answer is not None
    assert answer.experiment_id == "exp-4"
    assert estimate is not None
    assert estimate.cards == 3


def test_reports_progress_and_events_of_the_last_version_are_read(old: Ledger) -> None:
    """The thread of an old experiment is still shown."""
    report = Report.model_validate_json(old.report("exp-1", 1) or "")

    assert "exp-1" in to_markdown(report)
    assert all(Progress.model_validate_json(progress).step for progress in STORED["progress"].values())
    assert [events.parse("1-0", fields).kind for fields in STORED["events"]]


def test_records_of_the_last_version_move_on(old: Ledger) -> None:
    """What was proposed or ran when the lab was upgraded goes on."""
    old.approve("exp-3", "alice")
    finished = old.finish("exp-2/1", 1, RunResult(metrics={"val_acc": 0.9}))

    assert [run.state for run in old.runs("exp-3")] == [RunState.QUEUED] * 2
    assert finished.state is RunState.FINISHED
    assert old.run("exp-2/1") == finished
    assert old.experiment("exp-3").state is ExperimentState.APPROVED


@pytest.mark.parametrize("cls", [Experiment, Run, Progress, Report])
def test_every_record_has_a_schema_number(cls: type[Any]) -> None:
    """A later version tells by it what it reads."""
    assert "schema_version" in cls.model_fields


def test_fields_of_a_later_version_outlive_every_move(ledger: Ledger, store: Client) -> None:
    """Hosts are upgraded one by one, and an older one must not wipe out what a newer one wrote."""
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request is not None
    plan = Plan(template="probe", models=("probe",), axes={"seed": (0,)})
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment is not None
    keys = [record_key(request.id), record_key(experiment.id), record_key(f"{experiment.id}/1")]
    later = {"schema_version": "7", "from_later": '{"kept": [1, null]}'}
    store.hset(keys[1], mapping=later)

    ledger.approve(experiment.id, "U1")
    store.hset(keys[2], mapping=later)
    before = [store.hgetall(key) for key in keys]
    ledger.bind(f"{experiment.id}/1", ("GPU-a",), "lab-a", 0)
    ledger.start(f"{experiment.id}/1", 0, 123)
    ledger.finish(f"{experiment.id}/1", 0, RunResult(metrics={"val_acc": 1.0}))
    ledger.save_report(experiment.id, 1, "{}", {})
    after = [store.hgetall(key) for key in keys]

    assert [json.loads(fields["state"]) for fields in after] == ["answered", "finished", "finished"]
    for was, now in zip(before, after, strict=True):
        assert set(was) <= set(now)
    assert all(fields.items() >= later.items() for fields in after[1:])
