"""SIGKILL exactly at each step of an answer and of a report: one answer, one report, whoever dies.

As in tests/workers/test_boundaries.py: functions are patched in this process, whose forks inherit it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from rq.serializers import JSONSerializer

import agent.reporting  # noqa: F401  imported once here, not in every fork
from agent import desk
from agent.worker import AgentWorker
from lab import events, hosts, store
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Plan
from lab.queue import AGENT, KnownJob, open_queue
from lab.run import Answer, ExperimentState, RequestState, RunResult
from lab.settings import Settings
from lab.store import Client
from tests.workers.dying import Death
from tests.workers.under_test import until
from workers import recover
from workers.host import describe
from workers.recover import Recovery

_fork = multiprocessing.get_context("fork")
STEPS: dict[str, tuple[Any, str, str]] = {
    "popped": (AgentWorker, "perform_job", "before"),
    "begun": (AgentWorker, "prepare_job_execution", "after"),
    "not written": (Ledger, "_transact", "before"),
    "written, not acknowledged": (Ledger, "_transact", "after"),
    "acknowledged": (AgentWorker, "handle_job_success", "after"),
}
DEATHS = [
    ("popped", "worker"),
    ("begun", "child"),
    ("not written", "child"),
    ("written, not acknowledged", "worker"),
    ("acknowledged", "worker"),
]


class Clock:
    """Seconds that a test moves, on both clocks that recovery reads."""

    def __init__(self) -> None:
        self.passed = 0.0

    def __call__(self) -> float:
        return 1000.0 + self.passed

    def time(self) -> float:
        return time.time() + self.passed


@dataclass
class Desk:
    """An agent's workers, one after the other, and the leader's recovery."""

    settings: Settings
    client: Client
    recovery: Recovery
    clock: Clock

    def work(self) -> int | None:
        """A worker has done what waited, or has died; its exit status."""
        process = _fork.Process(target=serve, args=(self.settings,))
        process.start()
        process.join(15)  # it ends with its children, which hold the same pipe
        return process.exitcode

    def recover(self) -> None:
        """Rounds of the leader: RQ's word that somebody works on an entry holds for a while, then nothing does."""
        for passed in (200.0, recover.UNANSWERED_S):
            self.clock.passed += passed
            self.recovery.step()

    def events(self) -> Counter[str]:
        """How often each kind of event was written."""
        return Counter(events.parse(entry_id, fields).kind for entry_id, fields in self.client.xrange(events.STREAM))

    def waiting(self) -> list[str]:
        """What is in the agent's queue."""
        return list(self.client.lrange(f"rq:queue:{AGENT}", 0, -1))


def serve(settings: Settings) -> None:
    """One of the agent's workers, until nothing waits."""
    desk.set_settings(settings)
    client = store.connect(settings, decode=False)
    queue = open_queue(client, AGENT)
    worker = AgentWorker([queue], connection=client, serializer=JSONSerializer, job_class=KnownJob)
    worker.work(burst=True, logging_level="WARNING")


@pytest.fixture
def agent_desk(settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A host is up, so that requests become plans."""
    clock = Clock()
    monkeypatch.setattr(recover, "time", clock)
    hosts.publish_host(ledger.client, describe(settings, ("SIM-lab-a-0",), 1e10))
    return Desk(settings, ledger.client, Recovery(ledger.client, settings, clock), clock)


def die_at(monkeypatch: pytest.MonkeyPatch, name: str, victim: str, mark: Path) -> None:
    """The first worker or child that comes to the step is killed there."""
    owner, function, when = STEPS[name]
    death = Death(mark, when, victim == "worker", spared=os.getpid())
    monkeypatch.setattr(owner, function, death.at(getattr(owner, function)))


@pytest.mark.parametrize(("name", "victim"), DEATHS)
def test_a_request_has_one_answer_whoever_dies_on_the_way(
    name: str, victim: str, agent_desk: Desk, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two plan cards for one message, or none, would both be taken for a broken bot."""
    die_at(monkeypatch, name, victim, tmp_path / "dead")
    request = ledger.submit("compare resnet18 vs resnet34 on digits", "U1", "terminal:1")
    assert request

    agent_desk.work()
    agent_desk.recover()
    agent_desk.work()

    answered = ledger.request(request.id)
    assert (tmp_path / "dead").exists()
    assert answered.state is RequestState.ANSWERED
    assert answered.answer
    assert answered.answer.kind == "plan"
    assert agent_desk.events()["request.answered"] == 1
    assert len(ledger.experiments()) == 1
    assert agent_desk.waiting() == []


@pytest.mark.parametrize(("name", "victim"), DEATHS)
def test_an_experiment_has_one_report_whoever_dies_on_the_way(
    name: str, victim: str, agent_desk: Desk, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Written to files and not saved: it is written again, and told of once."""
    ended = end_experiment(ledger)
    die_at(monkeypatch, name, victim, tmp_path / "dead")

    agent_desk.work()
    agent_desk.recover()
    agent_desk.work()

    text = ledger.report(ended, 1)
    files = sorted(path.name for path in (agent_desk.settings.data_dir / "experiments" / ended).iterdir())
    assert (tmp_path / "dead").exists()
    assert text
    assert json.loads(text)["revision"] == 1
    assert (agent_desk.events()["report.ready"], ledger.experiment(ended).report_revision) == (1, 1)
    assert "report-1.md" in files
    assert ".report-1.md" not in " ".join(files)
    assert agent_desk.waiting() == []


def end_experiment(ledger: Ledger) -> str:
    """Id of an experiment whose one run has finished, its report in the queue."""
    request = ledger.submit("x", "U1", "terminal:1")
    assert request
    experiment = ledger.propose(request.id, Plan(template="probe", models=("probe",)), None, Answer(kind="plan"))
    assert experiment
    ledger.approve(experiment.id, "U1")
    run = ledger.bind(f"{experiment.id}/1", ("SIM-lab-a-0",), "lab-a", 0)
    lease = Leases(ledger.client, 10).claim(run.id, run.dispatches, run.cards, "lab-a.0")
    ledger.start(run.id, lease.fence, 4711)
    ledger.finish(run.id, lease.fence, RunResult(metrics={"val_acc": 0.5}, curves={"val_acc": [(1, 0.5)]}))
    assert ledger.experiment(experiment.id).state is ExperimentState.FINISHED
    return experiment.id


def test_a_killed_workers_child_dies_with_it(
    agent_desk: Desk, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """RQ's goes on alone, for as long as a language model may take, and `overnight up` ends without it."""
    die_at(monkeypatch, "not written", "worker", tmp_path / "dead")
    request = ledger.submit("compare resnet18 vs resnet34 on digits", "U1", "terminal:1")
    assert request

    agent_desk.work()

    until(lambda: not psutil.pid_exists(int((tmp_path / "dead").read_text())), within_s=3)
    assert ledger.request(request.id).state is RequestState.RECEIVED
