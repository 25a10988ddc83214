"""What happened in the lab is counted with the move itself: nothing is lost by a restart, nothing counted twice."""

from __future__ import annotations

import pytest

from lab import tally
from lab.errors import MoveRefused
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, Run, RunResult, Usage
from lab.tally import Tally


def counted(ledger: Ledger) -> Tally:
    return tally.parse(ledger.client.hgetall(tally.KEY))


def queued(ledger: Ledger, seeds: int = 1) -> str:
    """The id of an approved experiment."""
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request is not None
    plan = Plan(template="probe", models=("probe",), axes={"seed": tuple(range(seeds))})
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment is not None
    return ledger.approve(experiment.id, "U1").id


def running(ledger: Ledger, run_id: str, card: str = "SIM-1") -> Run:
    run = ledger.bind(run_id, (card,), "lab-a", 1)
    leases = Leases(ledger.client, 60)
    lease = leases.claim(run.id, run.dispatches, run.cards, "lab-a.1")
    leases.release(lease)
    return ledger.start(run.id, lease.fence, 123)


def test_attempts_are_counted_by_how_they_ended_and_why(ledger: Ledger) -> None:
    """A cured fault and a lost worker are attempts too, though their run goes on."""
    run_id = f"{queued(ledger)}/1"

    ledger.again(run_id, running(ledger, run_id).fence, "oom_gpu/split", "half the batch")
    ledger.give_back(run_id, running(ledger, run_id).fence, "its worker died", lost=True)
    ledger.give_back(run_id, running(ledger, run_id).fence, "its worker was told to stop")
    ledger.fail(run_id, running(ledger, run_id).fence, "nan_loss", "step 3")

    assert counted(ledger).attempts == {
        ("retried", "oom_gpu"): 1,
        ("lost", "host_or_worker"): 1,
        ("given_back", "none"): 1,
        ("failed", "nan_loss"): 1,
    }


def test_a_run_that_never_ran_is_no_attempt(ledger: Ledger) -> None:
    """Cancelling what waits must not look like work that came to nothing."""
    ledger.cancel(queued(ledger, seeds=3), "U1")

    assert counted(ledger).attempts == {}


def test_a_repeated_end_counts_once(ledger: Ledger) -> None:
    """Every message may come twice."""
    run_id = f"{queued(ledger)}/1"
    fence = running(ledger, run_id).fence
    result = RunResult(usage=Usage(gpu_s=90.5, energy_j=1000))

    ledger.finish(run_id, fence, result)
    with pytest.raises(MoveRefused):
        ledger.finish(run_id, fence, result)

    seen = counted(ledger)
    assert (seen.attempts, seen.gpu_s, seen.energy_j) == ({("finished", "none"): 1}, 90.5, 1000)


def test_energy_that_is_not_known_adds_nothing(ledger: Ledger) -> None:
    """Unknown is not zero watts; the sum says of what it is one."""
    run_id = f"{queued(ledger)}/1"

    ledger.finish(run_id, running(ledger, run_id).fence, RunResult(usage=Usage(gpu_s=10)))

    assert ledger.client.hget(tally.KEY, "energy_j") is None


def test_a_wait_ends_with_the_first_attempt(ledger: Ledger) -> None:
    """A second attempt has been waited for too, but not by anybody who asked."""
    run_id = f"{queued(ledger)}/1"

    ledger.give_back(run_id, running(ledger, run_id).fence, "its worker was told to stop")
    running(ledger, run_id)

    waits = counted(ledger).waits["normal"]
    assert waits.below[0] == waits.below[-1] == 1
    assert 0 <= waits.seconds < 10


def test_waits_are_cumulative_up_to_the_longest(ledger: Ledger) -> None:
    """What Prometheus expects of a histogram; its last bucket has no bound."""
    with ledger.client.pipeline() as pipe:
        for seconds in (5, 10, 11, 1_000_000):
            tally.count_wait(pipe, "high", seconds)
        pipe.execute()

    waits = counted(ledger).waits["high"]
    assert waits.below == (2, 3, 3, 3, 3, 3, 3, 3, 4)
    assert waits.seconds == 1_000_026


def test_answers_are_counted_by_kind(ledger: Ledger) -> None:
    """How often the reader has to ask back is worth a curve."""
    queued(ledger)
    request = ledger.submit("better", "U1", "terminal:1")
    assert request is not None
    for _ in range(2):
        ledger.answer(request.id, Answer(kind="question", text="Which model?"))

    assert counted(ledger).answers == {"plan": 1, "question": 1}


def test_counts_of_other_versions_are_passed_over() -> None:
    """A newer version may count more."""
    assert tally.parse({"attempt failed oom_gpu": "2", "attempt a b c": "1", "moons": "3", "answer": "9"}) == Tally(
        attempts={("failed", "oom_gpu"): 2}
    )
