"""Orders on what exists: who may, what happens, what is said."""

from __future__ import annotations

import pytest

from lab.errors import MoveRefused, RequestError, UnknownRecord
from lab.ledger import Ledger
from lab.orders import MINE, NotYours, Order, carry_out, refusal
from lab.plan import Plan
from lab.run import Answer, Experiment, ExperimentState, RunState

ALICE, BOB = "U0ALICE", "U0BEN"


def _approved(ledger: Ledger, user: str = ALICE, seeds: int = 3) -> Experiment:
    request = ledger.submit("x", user, "slack:T:C:1")
    assert request is not None
    plan = Plan(models=("m",), axes={"seed": tuple(range(seeds))}, template="probe")
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment is not None
    return ledger.approve(experiment.id, user)


def test_an_experiment_is_paused_and_resumed_as_a_whole(ledger: Ledger) -> None:
    """One sentence tells what became of all its runs."""
    experiment = _approved(ledger)
    ledger.bind(f"{experiment.id}/1", ("G0",), "a", 0)

    said = carry_out(Order("pause", experiment.id), ledger, ALICE)
    assert said == f"{experiment.id}: 1 asked to pause at its next checkpoint, 2 paused."
    resumed = carry_out(Order("resume", experiment.id), ledger, ALICE)
    assert resumed == f"{experiment.id}: 1 dispatched, 2 waiting for a card."


def test_one_run_is_changed_alone(ledger: Ledger) -> None:
    """`pause exp-1/2` is not `pause exp-1`."""
    experiment = _approved(ledger)

    assert carry_out(Order("pause", f"{experiment.id}/2"), ledger, ALICE) == f"{experiment.id}/2 is paused."
    assert [run.state for run in ledger.runs(experiment.id)] == [RunState.QUEUED, RunState.PAUSED, RunState.QUEUED]


def test_priority_is_said_with_what_it_is_now(ledger: Ledger) -> None:
    """A person sees that it took."""
    experiment = _approved(ledger)

    said = carry_out(Order("priority", experiment.id, "high"), ledger, ALICE)
    assert said == f"{experiment.id}: 3 waiting for a card, high priority."
    assert {run.priority for run in ledger.runs(experiment.id)} == {"high"}


def test_priority_is_said_of_runs_that_are_paused_or_about_to(ledger: Ledger) -> None:
    """Else the answer to "low priority" says nothing of it."""
    experiment = _approved(ledger, seeds=2)
    ledger.bind(f"{experiment.id}/1", ("G0",), "a", 0)
    carry_out(Order("pause", experiment.id), ledger, ALICE)

    said = carry_out(Order("priority", experiment.id, "low"), ledger, ALICE, chinese=True)
    assert said == f"{experiment.id}：1 个将在下一个检查点暂停，低优先级，1 个已暂停，低优先级。"
    said = carry_out(Order("priority", experiment.id, "normal"), ledger, ALICE)
    assert "1 paused, normal priority" in said


def test_somebody_elses_needs_an_admin(ledger: Ledger) -> None:
    """And the refusal changes nothing."""
    experiment = _approved(ledger, BOB)

    for verb in ("cancel", "pause", "retry"):
        with pytest.raises(NotYours, match="only its owner or an admin"):
            carry_out(Order(verb, experiment.id), ledger, ALICE)  # type: ignore[arg-type]
    assert carry_out(Order("cancel", experiment.id), ledger, ALICE, admin=True) == f"{experiment.id} is cancelled."


def test_everything_of_mine_means_what_waits_and_nobody_elses(ledger: Ledger) -> None:
    """What runs has to be named, and Bob's queue is Bob's."""
    mine, bobs = _approved(ledger, ALICE, 2), _approved(ledger, BOB, 2)
    ledger.bind(f"{mine.id}/1", ("G0",), "a", 0)

    assert carry_out(Order("cancel", MINE), ledger, ALICE) == f"{mine.id}/2 is cancelled."
    assert ledger.run(f"{mine.id}/1").state is RunState.DISPATCHED
    assert {run.state for run in ledger.runs(bobs.id)} == {RunState.QUEUED}
    assert "Nothing of yours" in carry_out(Order("cancel", MINE), ledger, ALICE)


def test_an_order_on_mine_that_finds_nothing_names_no_single_run(ledger: Ledger) -> None:
    """ "Pause all of mine" was answered with the state of one run out of many."""
    experiment = _approved(ledger, seeds=2)
    assert carry_out(Order("resume", MINE), ledger, ALICE) == "Nothing of yours is paused."
    carry_out(Order("pause", MINE), ledger, ALICE)

    assert carry_out(Order("pause", MINE), ledger, ALICE, chinese=True) == "你没有在等卡的任务。"
    assert carry_out(Order("resume", MINE), ledger, ALICE) == f"{experiment.id}: 2 waiting for a card."


def test_a_refusal_in_chinese_has_no_english_state(ledger: Ledger) -> None:
    """States that are no record's own have their words too."""
    experiment = _approved(ledger)
    order = Order("retry", experiment.id)
    with pytest.raises(MoveRefused) as none_failed:
        carry_out(order, ledger, ALICE)
    ledger.cancel_run(f"{experiment.id}/1", ALICE)
    ledger.retry(f"{experiment.id}/1", ALICE)
    with pytest.raises(MoveRefused) as retried:
        carry_out(Order("retry", f"{experiment.id}/1"), ledger, ALICE)

    assert refusal(none_failed.value, order, chinese=True) == f"没有可重试的：{experiment.id} 没有失败的 run。"
    told = refusal(retried.value, order, chinese=True)
    assert told == f"没有可重试的：{experiment.id}/1 已重试，见 {experiment.id}/4。"


def test_what_cannot_be_done_is_refused_and_changes_nothing(ledger: Ledger) -> None:
    """A clear answer each time."""
    experiment = _approved(ledger)

    with pytest.raises(UnknownRecord):
        carry_out(Order("cancel", "exp-99"), ledger, ALICE)
    with pytest.raises(UnknownRecord):
        carry_out(Order("cancel", f"{experiment.id}/9"), ledger, ALICE)
    with pytest.raises(UnknownRecord):
        carry_out(Order("cancel", "rm -rf /"), ledger, ALICE)
    with pytest.raises(MoveRefused):
        carry_out(Order("resume", experiment.id), ledger, ALICE)
    with pytest.raises(MoveRefused):
        carry_out(Order("retry", experiment.id), ledger, ALICE)
    with pytest.raises(RequestError):
        carry_out(Order("retry", MINE), ledger, ALICE)
    carry_out(Order("cancel", experiment.id), ledger, ALICE)
    with pytest.raises(MoveRefused):
        carry_out(Order("cancel", experiment.id), ledger, ALICE)
    with pytest.raises(MoveRefused):
        carry_out(Order("pause", experiment.id), ledger, ALICE)


def test_the_retry_of_an_experiment_that_has_ended_is_cancelled_by_its_name(ledger: Ledger) -> None:
    """It was refused, "exp-3 is failed", while a run of it trained on."""
    experiment = _approved(ledger, seeds=1)
    carry_out(Order("cancel", experiment.id), ledger, ALICE)
    carry_out(Order("retry", f"{experiment.id}/1"), ledger, ALICE)
    ledger.bind(f"{experiment.id}/2", ("G0",), "a", 0)

    assert carry_out(Order("cancel", experiment.id), ledger, ALICE) == f"{experiment.id}/2 is stopping."
    ledger.cancelled(f"{experiment.id}/2", 0, "cancelled")
    assert ledger.experiment(experiment.id).state is ExperimentState.CANCELLED
    with pytest.raises(MoveRefused):
        carry_out(Order("cancel", experiment.id), ledger, ALICE)
