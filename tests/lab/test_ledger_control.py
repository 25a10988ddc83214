"""Pause, priority, retry and cures in the ledger: what people and recovery ask of runs that are under way."""

from __future__ import annotations

import pytest

from lab.errors import FenceError, MoveRefused
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, Experiment, ExperimentState, Run, RunResult, RunState

ALICE = "U0ALICE"


@pytest.fixture
def experiment(ledger: Ledger) -> Experiment:
    """Approved, three runs."""
    request = ledger.submit("x", ALICE, "slack:T:C:1")
    assert request is not None
    plan = Plan(models=("m",), axes={"seed": (0, 1, 2)}, template="probe")
    proposed = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert proposed is not None
    return ledger.approve(proposed.id, ALICE)


def _running(ledger: Ledger, run_id: str, card: str = "G0") -> Run:
    bound = ledger.bind(run_id, (card,), "a", 0)
    lease = Leases(ledger.client, 60).claim(run_id, bound.dispatches, (card,), "w")
    started = ledger.start(run_id, lease.fence, 1)
    Leases(ledger.client, 60).release(lease)
    return started.model_copy(update={"fence": lease.fence})


def _fail(ledger: Ledger, run_id: str) -> Run:
    return ledger.fail(run_id, _running(ledger, run_id).fence, "user_code", "boom", advice="mend it")


def test_a_waiting_run_pauses_at_once_and_a_running_one_when_its_attempt_says_so(
    ledger: Ledger, experiment: Experiment
) -> None:
    """`paused` must mean that nothing of it runs."""
    waiting = ledger.wish(f"{experiment.id}/1", "pause", ALICE)
    running = _running(ledger, f"{experiment.id}/2")
    asked = ledger.wish(running.id, "pause", ALICE)

    assert waiting.state is RunState.PAUSED
    assert (asked.state, asked.wish) == (RunState.RUNNING, "pause")
    stopped = ledger.paused(running.id, running.fence, "paused by alice")
    assert stopped.state is RunState.PAUSED
    assert ledger.run(running.id).card is None
    assert ledger.resume(running.id, ALICE).state is RunState.QUEUED
    assert ledger.run(running.id).wish is None


def test_a_paused_run_can_be_cancelled_and_ends_its_experiment(ledger: Ledger, experiment: Experiment) -> None:
    """Nothing waits for a run that nobody resumes."""
    for run in ledger.runs(experiment.id):
        ledger.wish(run.id, "pause", ALICE)
    ledger.cancel(experiment.id, ALICE)

    assert ledger.experiment(experiment.id).state is ExperimentState.CANCELLED


def test_an_older_attempt_cannot_pause_or_change_the_run(ledger: Ledger, experiment: Experiment) -> None:
    """The fence holds for every write."""
    run = _running(ledger, f"{experiment.id}/1")

    with pytest.raises(FenceError):
        ledger.paused(run.id, run.fence - 1, "")
    with pytest.raises(FenceError):
        ledger.again(run.id, run.fence - 1, "halve", "halved")


def test_a_cure_changes_the_run_and_is_counted_apart_from_losses(ledger: Ledger, experiment: Experiment) -> None:
    """Three retries for its own faults; a lost host must not use them up."""
    run = _running(ledger, f"{experiment.id}/1")
    ledger.again(run.id, run.fence, "split", "batch in 2 parts", overrides={"grad_accum_steps": 2}, avoid=("G0",))
    second = _running(ledger, run.id, "G1")
    ledger.give_back(run.id, second.fence, "its worker died", lost=True)
    now = ledger.run(run.id)

    assert (now.retries, now.losses) == (1, 1)
    assert now.overrides == {"grad_accum_steps": 2}
    assert (now.cures, now.changes, now.avoid) == (("split",), ("batch in 2 parts",), ("G0",))
    assert now.state is RunState.QUEUED


def test_a_cure_for_a_card_that_broke_counts_as_a_loss(ledger: Ledger, experiment: Experiment) -> None:
    """It is no fault of the run's own."""
    run = _running(ledger, f"{experiment.id}/1")

    moved = ledger.again(run.id, run.fence, "hardware/move", "moved", lost=True, avoid=("G0",))

    assert (moved.retries, moved.losses, moved.avoid) == (0, 1, ("G0",))


def test_a_run_that_was_to_pause_pauses_however_its_attempt_ends(ledger: Ledger, experiment: Experiment) -> None:
    """Its worker dies, or it fails, just after somebody asked: it must not start again by itself."""
    lost, failed = _running(ledger, f"{experiment.id}/1"), _running(ledger, f"{experiment.id}/2", "G1")
    ledger.wish(lost.id, "pause", ALICE)
    ledger.wish(failed.id, "pause", ALICE)

    ledger.give_back(lost.id, lost.fence, "its worker died", lost=True)
    ledger.again(failed.id, failed.fence, "hang/elsewhere", "once more")

    assert {ledger.run(run.id).state for run in (lost, failed)} == {RunState.PAUSED}
    assert {ledger.run(run.id).wish for run in (lost, failed)} == {None}


def test_asking_for_a_checkpoint_leaves_the_runs_message_alone(ledger: Ledger, experiment: Experiment) -> None:
    """The message is about the end."""
    run = _running(ledger, f"{experiment.id}/1")

    assert ledger.wish(run.id, "checkpoint", ALICE).message is None
    assert ledger.run(run.id).message is None


def test_priority_changes_until_the_run_has_ended(ledger: Ledger, experiment: Experiment) -> None:
    """A bump after the end is no bump."""
    run_id = f"{experiment.id}/1"

    assert ledger.set_priority(run_id, "high", ALICE).priority == "high"
    assert ledger.run(run_id).priority == "high"
    ledger.cancel_run(run_id, ALICE)
    with pytest.raises(MoveRefused):
        ledger.set_priority(run_id, "low", ALICE)


def _ended(ledger: Ledger, experiment: Experiment) -> None:
    """The first run finished, the others failed."""
    first = _running(ledger, f"{experiment.id}/1")
    ledger.finish(first.id, first.fence, RunResult(metrics={"val_acc": 0.5}))
    _fail(ledger, f"{experiment.id}/2")
    _fail(ledger, f"{experiment.id}/3")


def test_retry_runs_only_what_failed_and_brings_a_new_revision(ledger: Ledger, experiment: Experiment) -> None:
    """Finished states stay; the report follows when the new runs have ended."""
    _ended(ledger, experiment)
    assert ledger.save_report(experiment.id, 1, "{}", {})
    new = ledger.retry(experiment.id, ALICE)

    assert [(run.number, run.retry_of) for run in new] == [(4, f"{experiment.id}/2"), (5, f"{experiment.id}/3")]
    assert ledger.run(f"{experiment.id}/2").state is RunState.FAILED
    assert ledger.run(f"{experiment.id}/2").advice == "mend it"
    jobs = ledger.client.llen("rq:queue:agent")
    for run in new:
        again = _running(ledger, run.id)
        ledger.finish(again.id, again.fence, RunResult())
    assert ledger.experiment(experiment.id).state is ExperimentState.FINISHED
    assert ledger.client.llen("rq:queue:agent") == jobs + 1
    assert "report-2" in ledger.client.lindex("rq:queue:agent", -1)


def test_what_did_not_fail_is_not_retried_and_nothing_is_retried_twice(ledger: Ledger, experiment: Experiment) -> None:
    """A double click must not double the night."""
    _ended(ledger, experiment)
    new = ledger.retry(f"{experiment.id}/2", ALICE)

    assert len(new) == 1
    with pytest.raises(MoveRefused, match=f"retried as {new[0].id}"):
        ledger.retry(f"{experiment.id}/2", ALICE)
    with pytest.raises(MoveRefused, match="finished"):
        ledger.retry(f"{experiment.id}/1", ALICE)
    assert [run.retry_of for run in ledger.retry(experiment.id, ALICE)] == [f"{experiment.id}/3"]
    with pytest.raises(MoveRefused, match="without failures"):
        ledger.retry(experiment.id, ALICE)


def test_a_notice_is_told_once(ledger: Ledger, experiment: Experiment) -> None:
    """The same trouble in ten runs is one sentence."""
    assert ledger.notice(experiment.id, "stopped:m", "stopped")
    assert not ledger.notice(experiment.id, "stopped:m", "stopped")


def test_a_quarantined_card_is_known_with_its_reason(ledger: Ledger) -> None:
    """And forgotten when its time is over."""
    ledger.quarantine("G1", "uncorrectable ECC", 60)

    assert ledger.quarantined(["G0", "G1"]) == {"G1": "uncorrectable ECC"}


def test_a_cure_that_helped_is_known_by_the_fault(ledger: Ledger) -> None:
    """The next run with that fault begins with it and names the run."""
    ledger.remember_cure("oom_gpu|vit", "split", "exp-1/3")

    assert ledger.known_cure("oom_gpu|vit") == ("split", "exp-1/3")
    assert ledger.known_cure("oom_gpu|resnet") is None
