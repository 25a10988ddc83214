"""A running run makes room for another, goes on from its checkpoint, and nothing is lost or done twice."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from lab import events, hosts, leases, tally
from lab.card import Host
from lab.leases import Leases
from lab.plan import Plan
from lab.run import Experiment, Run, RunResult, RunState, Usage
from lab.settings import Settings
from lab.store import Client
from tests.workers.under_test import Lab, cards_of, until
from workers.dispatch import LOOK_EVERY_S, Dispatcher

SHORT = {"first_look_s": 0.5, "preempt_after_s": 1.0, "preempt_every_s": 600.0}
"""Timings of seconds, as the settings allow them."""
EPOCHS = 20
"""Of a net for tests: some seconds."""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Two cards train; a run yields after a second, once in ten minutes."""
    return settings.model_copy(update={"run": settings.run.model_copy(update=SHORT | {"grace_s": 20.0})})


def two_cards(lab: Lab) -> None:
    """The host has two cards for training."""
    lab.train = 2
    hosts.publish_cards(lab.client, cards_of("lab-a", train=2))


def told(lab: Lab, run_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Kinds and data of the run's events."""
    found = [events.parse(entry_id, fields) for entry_id, fields in lab.client.xrange(events.STREAM)]
    return [(event.kind, event.data) for event in found if event.subject == run_id]


def steps(lab: Lab, run: Run, attempt: int) -> list[int]:
    """Steps that an attempt's trainer told, in order."""
    path = lab.settings.runs_dir / run.id / f"attempt-{attempt}" / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["step"] for line in lines if line["kind"] == "step"]


def trains(lab: Lab, experiment: Experiment) -> None:
    """Every run of the experiment has come a few steps far."""
    ids = [run.id for run in lab.ledger.runs(experiment.id)]

    def under_way() -> bool:
        progress = lab.ledger.progress(ids)
        return len(progress) == len(ids) and all(p.step > 3 for p in progress.values())

    until(under_way, within_s=120)


def test_a_long_run_of_low_priority_makes_room_and_finishes_from_its_checkpoint(lab: Lab) -> None:
    """Who is in a hurry need not wait for tomorrow, and who is not loses a minute."""
    two_cards(lab)
    slow = lab.approve(priority="low", seeds=2, steps=80, step_s=0.1)
    lab.start()
    trains(lab, slow)
    urgent = lab.approve(priority="high", steps=5, step_s=0.1)

    first = lab.ended(urgent, within_s=40)[0]
    runs = lab.ended(slow, within_s=60)

    moved = [run for run in runs if run.made_room_for]
    assert [run.made_room_for for run in moved] == [(first.id,)]
    done = moved[0]
    assert [run.state for run in (first, *runs)] == [RunState.FINISHED] * 3
    assert (done.fence, done.losses, done.retries, done.lost_gpu_s) == (2, 0, 0, 0)
    assert ("run.making_room", {"for": first.id, "why": "higher priority"}) in told(lab, done.id)
    assert [kind for kind, _ in told(lab, done.id)].count("run.finished") == 1
    assert steps(lab, done, 2)[0] > steps(lab, done, 1)[-1]  # no step twice
    assert steps(lab, done, 2)[-1] == 80
    assert all(run.fence == 1 for run in runs if run is not done)
    counts = tally.parse(lab.client.hgetall(tally.KEY))
    assert (counts.attempts[("preempted", "none")], counts.attempts[("finished", "none")]) == (1, 3)
    assert counts.gpu_s == pytest.approx(sum(run.used.gpu_s for run in (first, *runs)), abs=0.1)
    assert done.used.gpu_s > 80 * 0.1 > (done.result or RunResult()).usage.gpu_s


def test_a_real_training_that_made_room_ends_as_one_that_did_not(lab: Lab) -> None:
    """torch, a real net and real data: two runs alike, one of them stopped on the way, and the same numbers."""
    two_cards(lab)
    params = {"seed": 0, "lr": 0.05, "optimizer": "sgd", "batch_size": 128, "val_share": 0.5}
    axes = {name: (value,) for name, value in params.items()}
    plan = Plan(template="vision", models=("test_vit",), dataset="digits", epochs=EPOCHS, axes=axes, priority="low")
    alike = [lab.approve_plan(plan) for _ in range(2)]
    lab.start()
    for experiment in alike:
        trains(lab, experiment)
    urgent = lab.approve(priority="high", steps=5, step_s=0.1)

    first = lab.ended(urgent, within_s=120)[0]
    done = [lab.ended(experiment, within_s=240)[0] for experiment in alike]

    moved, other = sorted(done, key=lambda run: -run.fence)
    assert (moved.state, moved.fence, moved.made_room_for) == (RunState.FINISHED, 2, (first.id,))
    assert (other.state, other.fence) == (RunState.FINISHED, 1)
    assert moved.result
    assert other.result
    assert moved.result.metrics == other.result.metrics
    assert moved.result.curves["val_loss"] == other.result.curves["val_loss"]
    assert "resumed at step" in (lab.settings.runs_dir / moved.id / "attempt-2" / "log.txt").read_text()


def test_preemption_can_be_switched_off(lab: Lab) -> None:
    """Some labs want a card to be a run's until it ends."""
    lab.train = 1
    hosts.publish_cards(lab.client, cards_of("lab-a", train=1))
    lab.settings = lab.settings.model_copy(update={"run": lab.settings.run.model_copy(update={"preempt": False})})
    slow = lab.approve(priority="low", steps=40, step_s=0.1)
    lab.start()
    trains(lab, slow)
    urgent = lab.approve(priority="high", steps=5, step_s=0.1)

    first, second = lab.ended(slow, within_s=40)[0], lab.ended(urgent, within_s=40)[0]

    assert (first.fence, first.made_room_for) == (1, ())
    assert (first.finished_at or 0) < (second.started_at or 0)


# -- the dispatcher alone --------------------------------------------------------------------------------------------


@pytest.fixture
def dispatcher(settings: Settings, store: Client) -> Dispatcher:
    """A leader on a host that is up, with two cards that train."""
    cards = tuple(f"SIM-lab-a-{i}" for i in range(2))
    hosts.publish_host(store, Host(host="lab-a", version="1", templates={"probe": {}}, cards=cards))
    hosts.publish_cards(store, cards_of("lab-a", train=2))
    return Dispatcher(settings, store)


def running(dispatcher: Dispatcher, lab: Lab, **plan: Any) -> list[Run]:
    """Approved runs, bound by the dispatcher and started, since long enough to yield."""
    lab.approve(**plan)
    started = []
    for binding in dispatcher.step():
        run = lab.ledger.run(binding.run.id)
        lease = Leases(lab.client, 60).claim(run.id, run.dispatches, run.cards, "w")
        started.append(lab.ledger.start(run.id, lease.fence, 1))
        lab.client.hset(f"on:run:{run.id}", "started_at", json.dumps(time.time() - 60))
    return started


def leaves(lab: Lab, run: Run) -> None:
    """The worker has stopped the attempt, and its cards are released."""
    lab.ledger.made_room(run.id, run.fence, Usage(gpu_s=60))
    for card in run.cards:
        lab.client.delete(leases.key(card))


def asked(lab: Lab) -> list[Run]:
    """Runs that are told to make room."""
    return [run for run in lab.ledger.runs_in(RunState.RUNNING) if run.room]


def publish(lab: Lab, at: float, named: str | None = None, **fields: Any) -> None:
    """Readings of that time, the named card's with these fields."""
    read = cards_of("lab-a", train=2, read_at=at)
    cards = tuple(card.model_copy(update=fields) if card.uuid == named else card for card in read.cards)
    hosts.publish_cards(lab.client, read.model_copy(update={"cards": cards}))


def test_one_run_is_told_and_no_second_one_while_its_card_is_coming(dispatcher: Dispatcher, lab: Lab) -> None:
    """A driver shows a trainer's memory for a moment after its end; a second run would be stopped for nothing."""
    running(dispatcher, lab, priority="low", seeds=2)
    urgent = lab.approve(priority="high")
    now = time.time() + LOOK_EVERY_S

    dispatcher._bind(now)
    first = asked(lab)
    dispatcher._bind(now + LOOK_EVERY_S)
    again = asked(lab)
    leaves(lab, first[0])
    publish(lab, now + 5, first[0].card, problem="40 GiB in use")
    dispatcher._bind(now + 5)
    while_coming = asked(lab)
    publish(lab, now + 20, first[0].card, problem="40 GiB in use")
    dispatcher._bind(now + 20)
    when_it_did_not_come = asked(lab)

    assert len(first) == 1
    assert first[0].room
    assert (first[0].room.for_run, first[0].room.reason) == (f"{urgent.id}/1", "higher priority")
    assert again == first
    assert while_coming == []
    assert len(when_it_did_not_come) == 1


def test_nobody_is_told_to_leave_a_card_that_could_not_be_given_out(dispatcher: Dispatcher, lab: Lab) -> None:
    """In quarantine, or due to go back to the keeper: its run would wait with the other one."""
    runs = running(dispatcher, lab, priority="low", seeds=2)
    lab.ledger.quarantine(str(runs[0].card), "uncorrectable ECC error", 600)
    publish(lab, time.time(), runs[1].card, closing=True)
    lab.approve(priority="high")
    now = time.time() + LOOK_EVERY_S

    dispatcher._bind(now)
    before = asked(lab)
    publish(lab, now)
    dispatcher._bind(now + LOOK_EVERY_S)

    assert before == []
    assert [run.id for run in asked(lab)] == [runs[1].id]


def test_while_no_card_is_free_the_queue_is_looked_at_now_and_then(dispatcher: Dispatcher, lab: Lab) -> None:
    """Ten thousand waiting runs are not read at every event; who comes meanwhile is seen at the next look."""
    running(dispatcher, lab, priority="low", seeds=2)
    now = time.time()
    dispatcher._bind(now)
    lab.approve(priority="high")
    dispatcher._bind(now + LOOK_EVERY_S / 2)
    before = asked(lab)
    dispatcher._bind(now + LOOK_EVERY_S)

    assert before == []
    assert len(asked(lab)) == 1
