"""SIGKILL exactly at each step of an attempt: the run finishes once, and what was trained is not trained again.

The functions that make a step are patched in this process, whose forks (workers and their children) inherit it; a mark
in a file makes the death happen once. Everything else is as in life: real workers under a supervisor, a real trainer,
the recovery of the leader on a clock that the test moves.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from lab import events, hosts, leases
from lab.leases import Leases
from lab.ledger import Ledger
from lab.queue import card_queue
from lab.run import ExperimentState, Room, Run, RunResult, RunState
from lab.settings import Settings
from tests.workers.dying import Death
from tests.workers.under_test import Lab, cards_of, until
from workers import job, launch, recover, supervisor
from workers.gpu_worker import GpuWorker
from workers.recover import Recovery
from workers.rundir import Metrics, RunDir
from workers.supervisor import Supervisor
from workers.watch import Watch

CARD = "SIM-lab-a-0"
Victim = Literal["worker", "child"]
SLOW_S = 0.2
_fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Step:
    """A step of an attempt, and what is left to do for who dies right before or after it."""

    owner: Any
    function: str
    when: Literal["before", "after"]
    attempts: int
    """Attempts that the run has had in the end, when its worker or the child died there."""
    trained: int
    """Those of them in which a trainer made steps."""
    reached: Callable[[Any, Any], bool] = lambda owner, result: True
    """Whether this call is the one; it sees the object, and what the function gave."""
    step_s: float = 0.02
    """Longer where the trainer must not be done before its watcher sees the step."""


STEPS = {
    "handed to the child": Step(GpuWorker, "perform_job", "before", 1, 1),
    "popped for good": Step(GpuWorker, "prepare_job_execution", "after", 1, 1),
    "claimed": Step(job, "_claim", "after", 2, 1),
    "spec written": Step(RunDir, "write_spec", "after", 2, 1),
    "trainer spawned": Step(launch, "start", "after", 2, 1),
    "started": Step(Ledger, "start", "after", 2, 1),
    "first step": Step(Metrics, "read", "after", 2, 2, lambda _, news: news is not None, SLOW_S),
    "checkpointed": Step(Watch, "_report", "before", 2, 2, lambda watch, _: bool(watch._saved()), SLOW_S),
    "result written": Step(Ledger, "finish", "before", 2, 1),
    "committed": Step(Ledger, "finish", "after", 1, 1),
    "card released": Step(Leases, "release", "after", 1, 1),
    "acknowledged": Step(GpuWorker, "handle_job_success", "after", 1, 1),
}


class Clock:
    """Monotonic seconds that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Night:
    """A host with one card, its supervisor in this process, and the leader's recovery."""

    lab: Lab
    supervisor: Supervisor
    recovery: Recovery
    clock: Clock
    mark: Path
    """The file that is there once somebody has died."""

    def bound(self, **params: Any) -> Run:
        """A probe of three steps, dispatched to the card."""
        experiment = self.lab.approve(**{"steps": 3, "step_s": 0.02} | params)
        return self.bind(f"{experiment.id}/1")

    def bind(self, run_id: str) -> Run:
        return self.lab.ledger.bind(run_id, (CARD,), "lab-a", 0)

    def finished(self, run_id: str) -> Run:
        """Somebody has died, all has been put right by those who do so in life, and the run has finished."""
        self._until(self.mark.exists)
        self._until(lambda: self._worker_pid() and not self._is_held_by_the_dead(run_id))
        if self.lab.ledger.run(run_id).state is RunState.DISPATCHED:
            self.recover()
        if self.lab.ledger.run(run_id).state is RunState.QUEUED:
            self.bind(run_id)
        self._until(lambda: self.lab.ledger.run(run_id).state is RunState.FINISHED)
        self._until(lambda: Leases(self.lab.client, 10).held(CARD) is None and not self._entries())
        return self.lab.ledger.run(run_id)

    def recover(self) -> None:
        """Two rounds of the leader, with enough time between them to be sure."""
        self.recovery.step()
        self.clock.now += recover.UNCLAIMED_S
        self.recovery.step()

    def _until(self, true: Callable[[], Any]) -> None:
        def looked() -> Any:
            self.supervisor.step()
            return true()

        until(looked)

    def _worker_pid(self) -> int | None:
        """The card's living worker; None while there is none."""
        process = self.supervisor.slots[CARD].process
        return process.pid if process and process.is_alive() else None

    def _is_held_by_the_dead(self, run_id: str) -> bool:
        held = Leases(self.lab.client, 10).held(CARD)
        return held is not None and str(held["fence"]) == "1"

    def _entries(self) -> list[str]:
        """What waits in the card's queue or is on its way out of it."""
        key = f"rq:queue:{card_queue(CARD)}"
        return [*self.lab.client.lrange(key, 0, -1), *self.lab.client.lrange(f"{key}:intermediate", 0, -1)]


@pytest.fixture
def night(lab: Lab, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    """The supervisor has not looked at its card yet, so that a test can patch what the worker inherits."""
    monkeypatch.setattr(supervisor, "FIRST_BACKOFF_S", 0.02)
    hosts.publish_cards(lab.client, cards_of(settings.host, train=1))
    clock = Clock()
    supervising = Supervisor(settings, measure=False)
    yield Night(lab, supervising, Recovery(lab.client, settings, clock), clock, tmp_path / "dead")
    supervising._end_all()


def kill_at(monkeypatch: pytest.MonkeyPatch, step: Step, victim: Victim, mark: Path) -> None:
    """The first process but this one that comes to the step is killed there, or its worker is, whose child it is."""
    death = Death(mark, step.when, victim == "worker", step.reached, spared=os.getpid())
    monkeypatch.setattr(step.owner, step.function, death.at(getattr(step.owner, step.function)))


def ends(lab: Lab, run_id: str) -> list[str]:
    """The events that say how the run ended."""
    found = [events.parse(entry_id, fields) for entry_id, fields in lab.client.xrange(events.STREAM)]
    final = ("run.finished", "run.failed", "run.cancelled")
    return [event.kind for event in found if event.subject == run_id and event.kind in final]


def trained(lab: Lab, run_id: str) -> int:
    """Attempts in which a trainer made steps."""
    return len(list((lab.settings.runs_dir / run_id).glob("attempt-*/metrics.jsonl")))


@pytest.mark.parametrize("victim", ["worker", "child"])
@pytest.mark.parametrize("name", STEPS)
def test_whoever_dies_at_a_step_the_run_finishes_once(
    name: str, victim: Victim, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between any two steps: nothing lost, nothing twice, nothing left behind."""
    step = STEPS[name]
    kill_at(monkeypatch, step, victim, night.mark)
    run = night.bound(step_s=step.step_s)

    done = night.finished(run.id)

    assert ends(night.lab, run.id) == ["run.finished"]
    assert (done.fence, trained(night.lab, run.id)) == (step.attempts, step.trained)
    assert done.losses == step.attempts - 1
    assert night.lab.ledger.counts(run.experiment_id) == {"finished": 1}
    assert night.lab.ledger.experiment(run.experiment_id).state is ExperimentState.FINISHED
    assert done.result
    assert done.result.metrics["val_acc"]


ROOM = Room(for_run="exp-9/1", reason="higher priority", ends_look=False, asked_at=0.0)
MAKING_ROOM = {
    "trainer told": (Step(Watch, "_stop", "after", 2, 2), 1),
    "trainer stopped": (Step(Ledger, "made_room", "before", 2, 2), 1),
    "queued again": (Step(Ledger, "made_room", "after", 2, 2), 0),
}
"""Steps of an attempt that makes room, each with the losses that a death there costs."""


@pytest.mark.parametrize("victim", ["worker", "child"])
@pytest.mark.parametrize("name", MAKING_ROOM)
def test_whoever_dies_while_a_run_makes_room_it_goes_on_from_its_checkpoint(
    name: str, victim: Victim, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half told, half stopped, half queued: the run is there once, and its steps are not done again."""
    step, losses = MAKING_ROOM[name]
    kill_at(monkeypatch, step, victim, night.mark)
    run = night.bound(steps=40, step_s=0.1)
    night._until(lambda: (p := night.lab.ledger.progress([run.id])) and p[run.id].step > 15)
    night.lab.ledger.make_room(run.id, 1, ROOM)

    done = night.finished(run.id)

    assert ends(night.lab, run.id) == ["run.finished"]
    assert (done.fence, done.losses, trained(night.lab, run.id)) == (2, losses, 2)
    assert (done.room, done.made_room_for) == (None, () if losses else ("exp-9/1",))
    assert done.used.gpu_s > (done.result or RunResult()).usage.gpu_s > 0
    assert "resuming from" in (night.lab.settings.runs_dir / run.id / "attempt-2" / "log.txt").read_text()


def test_a_worker_that_dies_with_an_entry_in_its_hands_costs_no_attempt(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Popped, not given to a child: the entry lies in RQ's intermediate list, where nobody would look for minutes."""
    kill_at(monkeypatch, Step(GpuWorker, "execute_job", "before", 1, 1), "child", night.mark)
    run = night.bound()

    done = night.finished(run.id)

    assert ends(night.lab, run.id) == ["run.finished"]
    assert (done.fence, done.dispatches, done.losses, trained(night.lab, run.id)) == (1, 2, 0, 1)


@pytest.mark.parametrize(("at", "times_trained"), [("first step", 2), ("checkpointed", 2), ("result written", 1)])
def test_a_trainer_that_is_shot_at_a_step_is_followed_by_another(
    at: str, times_trained: int, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its result written it is done, whatever its exit status says: nobody trains that again."""
    start = launch.start

    def dying(module: str, attempt: Path, env: dict[str, str], inherit: list[int]) -> launch.Trainer:
        wanted = env | {"DIE_AT": at, "DIE_ONCE": str(night.mark)}
        return start("tests.workers.dying", attempt, wanted, inherit)

    monkeypatch.setattr(launch, "start", dying)
    run = night.bound()

    done = night.finished(run.id)

    assert ends(night.lab, run.id) == ["run.finished"]
    assert (done.fence, done.losses, trained(night.lab, run.id)) == (2, 1, times_trained)
    if at == "checkpointed":
        assert "resuming from" in (night.lab.settings.runs_dir / run.id / "attempt-2" / "log.txt").read_text()


@pytest.mark.parametrize(
    ("name", "state", "losses"),
    [
        ("claimed", RunState.QUEUED, 0),
        ("started", RunState.QUEUED, 1),
        ("result written", RunState.QUEUED, 1),
        ("committed", RunState.FINISHED, 0),
    ],
)
def test_a_host_that_is_gone_at_a_step_leaves_its_run_to_the_leader(
    name: str, state: RunState, losses: int, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No supervisor releases anything there: the lease runs out, and the leader gives the run to whoever is left."""
    step, lab = STEPS[name], night.lab
    kill_at(monkeypatch, step, "child", night.mark)
    run = night.bound()
    host = _fork.Process(target=attempt, args=(lab.settings, run))
    host.start()
    host.join(10)
    monkeypatch.undo()

    night.recover()
    held = lab.ledger.run(run.id)
    lab.client.delete(leases.key(CARD))  # as its expiry does
    night.recover()
    moved = lab.ledger.run(run.id)
    if moved.state is RunState.QUEUED:
        attempt(lab.settings, night.bind(run.id))

    done = lab.ledger.run(run.id)
    assert host.exitcode == -signal.SIGKILL
    assert held.state is not RunState.QUEUED
    assert (moved.state, moved.losses) == (state, losses)
    assert ends(lab, run.id) == ["run.finished"]
    assert (done.fence, trained(lab, run.id)) == (step.attempts, 1)
    assert Leases(lab.client, 10).held(CARD) is None


def attempt(settings: Settings, run: Run) -> None:
    """The run's attempt in this process, as the only worker of its card."""
    card = cards_of("lab-a", train=1).cards[0]
    job.take_post(job.Post(settings, "lab-a.0.test", card, threads=1))
    job.run_attempt(run.id, run.dispatches, [CARD])
