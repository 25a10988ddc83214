"""What the leader asks of a running attempt: to make room for another run, and to go on later."""

from __future__ import annotations

from typing import Any

import pytest

from lab import events, tally
from lab.errors import FenceError, MoveRefused
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, ExperimentState, Room, Run, RunResult, RunState, Usage
from lab.wishes import CHUNK

ALICE = "U0ALICE"
ROOM = Room(for_run="exp-9/1", reason="higher priority", ends_look=False, asked_at=1000.0)


@pytest.fixture
def run(ledger: Ledger) -> Run:
    """The only run of an experiment, with an attempt that runs."""
    request = ledger.submit("x", ALICE, "slack:T:C:1")
    assert request
    proposed = ledger.propose(request.id, Plan(models=("m",), template="probe"), None, Answer(kind="plan"))
    assert proposed
    ledger.approve(proposed.id, ALICE)
    return started(ledger, f"{proposed.id}/1")


def started(ledger: Ledger, run_id: str) -> Run:
    """The run's next attempt runs."""
    bound = ledger.bind(run_id, ("G0",), "a", 0)
    lease = Leases(ledger.client, 60).claim(run_id, bound.dispatches, ("G0",), "w")
    run = ledger.start(run_id, lease.fence, 1)
    Leases(ledger.client, 60).release(lease)
    return run


def told(ledger: Ledger, run_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Kinds and data of the run's events."""
    found = [events.parse(entry_id, fields) for entry_id, fields in ledger.client.xrange(events.STREAM)]
    return [(event.kind, event.data) for event in found if event.subject == run_id]


def test_a_run_that_made_room_waits_again_and_nothing_counts_against_it(ledger: Ledger, run: Run) -> None:
    """It was not its fault, so neither retries nor losses may run out; and it says for whom it stopped."""
    asked = ledger.make_room(run.id, run.fence, ROOM)
    back = ledger.made_room(run.id, run.fence, Usage(gpu_s=700))

    assert (asked.state, asked.room) == (RunState.RUNNING, ROOM)
    assert (back.state, back.cards, back.room, back.losses, back.retries) == (RunState.QUEUED, (), ROOM, 0, 0)
    assert back.made_room_for == ("exp-9/1",)
    assert back.message == "made room for exp-9/1 (higher priority), goes on later"
    assert (back.served_s, back.lost_gpu_s) == (700, 0)
    assert back == ledger.run(run.id)
    assert ledger.bind(run.id, ("G1",), "a", 1).room is None
    assert told(ledger, run.id)[-3:-1] == [
        ("run.making_room", {"for": "exp-9/1", "why": "higher priority"}),
        ("run.queued", {"for": "exp-9/1", "why": "higher priority"}),
    ]
    assert tally.parse(ledger.client.hgetall(tally.KEY)).attempts == {("preempted", "none"): 1}


def test_only_a_preemption_counts_as_one_the_end_of_a_first_look_does_not(ledger: Ledger, run: Run) -> None:
    """Else a new run could not make room for an hour after the two minutes that it was lent."""
    ledger.make_room(run.id, run.fence, ROOM.model_copy(update={"ends_look": True}))
    looked = ledger.made_room(run.id, run.fence)
    again = started(ledger, run.id)
    ledger.make_room(run.id, again.fence, ROOM)
    preempted = ledger.made_room(run.id, again.fence)

    assert looked.preempted_at is None
    assert preempted.preempted_at is not None
    assert preempted.made_room_for == ("exp-9/1", "exp-9/1")


def test_who_is_asked_for_a_pause_or_cancelled_while_making_room_is_paused_or_cancelled(
    ledger: Ledger, run: Run
) -> None:
    """People's word stands over the leader's."""
    ledger.make_room(run.id, run.fence, ROOM)
    ledger.wish(run.id, "pause", ALICE)
    paused = ledger.made_room(run.id, run.fence)
    ledger.resume(run.id, ALICE)
    again = started(ledger, run.id)
    ledger.make_room(run.id, again.fence, ROOM)
    ledger.cancel_run(run.id, ALICE)

    assert (paused.state, paused.message) == (RunState.PAUSED, f"paused by {ALICE}")
    with pytest.raises(MoveRefused, match="cancelling"):
        ledger.made_room(run.id, again.fence)
    assert ledger.cancelled(run.id, again.fence, "cancelled by alice").state is RunState.CANCELLED


def test_who_is_resumed_while_pausing_goes_on(ledger: Ledger, run: Run) -> None:
    """The attempt may be writing its checkpoint already; else the run stays paused against the last word on it."""
    ledger.wish(run.id, "pause", ALICE)
    resumed = ledger.resume(run.id, ALICE)
    back = ledger.paused(run.id, run.fence, f"paused by {ALICE}", wished=True)
    again = started(ledger, run.id)
    ledger.wish(run.id, "pause", ALICE)
    ledger.resume(run.id, ALICE)
    ledger.wish(run.id, "pause", ALICE)
    paused = ledger.paused(run.id, again.fence, f"paused by {ALICE}", wished=True)

    assert (resumed.state, resumed.wish, resumed.message) == (RunState.RUNNING, None, None)
    assert (back.state, back.message, back.losses) == (RunState.QUEUED, None, 0)
    assert (paused.state, paused.message) == (RunState.PAUSED, f"paused by {ALICE}")


def test_a_full_disk_takes_no_pause_from_the_person_who_wished_it(ledger: Ledger, run: Run) -> None:
    """With the disk's message it would go on by itself as soon as there is room."""
    ledger.wish(run.id, "pause", ALICE)

    assert ledger.paused(run.id, run.fence, "the disk of a is full").message == f"paused by {ALICE}"


def test_nobody_is_told_to_make_room_who_stops_anyway_or_does_not_run(ledger: Ledger, run: Run) -> None:
    """Its cards are coming; told twice, it would count twice."""
    with pytest.raises(FenceError):
        ledger.make_room(run.id, run.fence - 1, ROOM)
    with pytest.raises(MoveRefused):
        ledger.made_room(run.id, run.fence)  # nobody asked
    ledger.make_room(run.id, run.fence, ROOM)
    with pytest.raises(MoveRefused, match="stopping already"):
        ledger.make_room(run.id, run.fence, ROOM)
    ledger.made_room(run.id, run.fence)
    with pytest.raises(MoveRefused, match="queued"):
        ledger.make_room(run.id, run.fence, ROOM)


@pytest.mark.parametrize("end", ["lost", "cured", "given back"])
def test_an_attempt_that_ends_otherwise_has_nothing_to_make_room_for(end: str, ledger: Ledger, run: Run) -> None:
    """The next one must not stop at once for a run that has its cards by then."""
    ledger.make_room(run.id, run.fence, ROOM)

    if end == "cured":
        ledger.again(run.id, run.fence, "oom_gpu/split", "half the batch")
    else:
        ledger.give_back(run.id, run.fence, "gone", lost=end == "lost")

    again = started(ledger, run.id)
    assert again.room is None
    assert (again.made_room_for, again.preempted_at) == ((), None)


def test_a_run_that_finished_before_it_could_stop_is_finished(ledger: Ledger, run: Run) -> None:
    """Its card is free in any case."""
    ledger.make_room(run.id, run.fence, ROOM)
    ledger.finish(run.id, run.fence, RunResult(usage=Usage(gpu_s=9)))

    with pytest.raises(MoveRefused, match="finished"):
        ledger.made_room(run.id, run.fence)
    assert ledger.run(run.id).state is RunState.FINISHED


def test_all_that_waits_is_cancelled_at_once_and_what_moved_meanwhile_as_it_is_now(ledger: Ledger) -> None:
    """A run got a card and another one ended between the look and the cancellation: neither may stop the rest."""
    request = ledger.submit("x", ALICE, "slack:T:C:1")
    assert request
    plan = Plan(models=("m",), template="probe", axes={"seed": tuple(range(CHUNK + 5))})
    proposed = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert proposed
    ledger.approve(proposed.id, ALICE)
    ended = started(ledger, f"{proposed.id}/1")
    ledger.wish(f"{proposed.id}/4", "pause", ALICE)
    seen = ledger.runs(proposed.id)
    ledger.finish(ended.id, ended.fence, RunResult())
    bound = ledger.bind(f"{proposed.id}/3", ("G1",), "a", 1)

    ledger.cancel_runs(seen, ALICE)
    before = ledger.experiment(proposed.id).state
    ledger.give_back(bound.id, bound.fence, "no worker took it")
    states = [run.state for run in ledger.runs(proposed.id)]

    assert before is ExperimentState.RUNNING
    assert states == [RunState.FINISHED, *[RunState.CANCELLED] * (CHUNK + 4)]
    assert ledger.counts(proposed.id) == {"finished": 1, "cancelled": CHUNK + 4}
    assert ledger.experiment(proposed.id).state is ExperimentState.FINISHED
    assert [e.id for e in ledger.reports_due()] == [proposed.id]
