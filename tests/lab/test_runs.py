"""What the attempts of a run used is kept with it, whatever became of them."""

from __future__ import annotations

import time

import pytest

from lab import tally
from lab.ledger import Ledger
from lab.records import record_key
from lab.run import Room, Run, RunResult, RunState, Usage
from lab.usage import ended_since
from tests.lab.test_wishes import run, started

__all__ = ["run"]


def counted(ledger: Ledger) -> tuple[float, float]:
    """GPU-seconds and joules of the tally."""
    found = tally.parse(ledger.client.hgetall(tally.KEY))
    return found.gpu_s, found.energy_j


def began(ledger: Ledger, run_id: str, seconds_ago: float) -> Run:
    """The run's next attempt runs, and did so for a while already."""
    run = started(ledger, run_id)
    ledger.client.hset(record_key(run.id), "started_at", str(time.time() - seconds_ago))
    return run


def test_every_attempt_counts_in_what_a_run_used_and_lost_ones_are_known(ledger: Ledger, run: Run) -> None:
    """Hours that an experiment took are hours that others did not have, also where nothing came of them."""
    ledger.again(run.id, run.fence, "oom_gpu/split", "half the batch", usage=Usage(gpu_s=10, energy_j=100))
    room = Room(for_run="exp-9/1", reason="shorter", ends_look=False, asked_at=0)
    ledger.make_room(run.id, started(ledger, run.id).fence, room)
    ledger.made_room(run.id, 2, Usage(gpu_s=20, energy_j=200))
    ledger.paused(run.id, started(ledger, run.id).fence, "paused", Usage(gpu_s=30))
    ledger.resume(run.id, "U1")
    ledger.give_back(run.id, began(ledger, run.id, 40).fence, "its host is gone", lost=True)
    ledger.give_back(run.id, started(ledger, run.id).fence, "stopped", usage=Usage(gpu_s=50, energy_j=500))
    done = ledger.finish(run.id, started(ledger, run.id).fence, RunResult(usage=Usage(gpu_s=60, energy_j=600)))

    assert done.fence == 6
    assert done.used.gpu_s == pytest.approx(210, abs=1)
    assert done.used.energy_j == 1400  # of those that were measured
    assert done.lost_gpu_s == pytest.approx(40, abs=1)
    assert counted(ledger) == pytest.approx((done.used.gpu_s, 1400), abs=0.01)
    assert [one.usage for one in ended_since(ledger.client, 0)] == [done.used]


def test_a_run_that_fails_with_its_host_has_used_what_it_held(ledger: Ledger, run: Run) -> None:
    """No result came of it, and the time is the more to be told."""
    failed = ledger.fail(run.id, began(ledger, _again(ledger, run), 25).fence, "hardware", "lost 3 times")

    assert failed.used.gpu_s == pytest.approx(25, abs=1)
    assert failed.lost_gpu_s == failed.used.gpu_s
    assert counted(ledger)[0] == failed.used.gpu_s


def test_waiting_costs_nothing(ledger: Ledger, run: Run) -> None:
    """A run that was cancelled in the queue, hours after its first attempt, used what that attempt did."""
    back = ledger.give_back(run.id, run.fence, "its worker was told to stop", usage=Usage(gpu_s=7))
    ledger.client.hset(record_key(run.id), "started_at", str(time.time() - 9000))
    cancelled = ledger.cancel_run(run.id, "U1")

    assert back.used == cancelled.used
    assert cancelled.used.gpu_s == 7
    assert cancelled.state is RunState.CANCELLED


def test_a_record_of_an_earlier_version_counts_as_it_did(ledger: Ledger, run: Run) -> None:
    """It kept nothing of an attempt without a result: the time from start to end is the best guess."""
    ledger.fail(run.id, run.fence, "hardware", "lost 3 times")
    key = record_key(run.id)
    ledger.client.hdel(key, "earlier", "lost_gpu_s", "room", "made_room_for", "preempted_at")
    ledger.client.hset(key, mapping={"started_at": "1000.0", "finished_at": "1090.0"})

    assert ledger.run(run.id).used.gpu_s == 90


def _again(ledger: Ledger, run: Run) -> str:
    ledger.give_back(run.id, run.fence, "not begun", usage=Usage())
    return run.id
