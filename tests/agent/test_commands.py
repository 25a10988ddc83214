"""Requests that are no plan: looked up, cancelled or refused, never guessed."""

from __future__ import annotations

import time

import pytest

from agent import commands
from agent.understand import Understood
from lab import forecast
from lab.forecast import End, Forecast, Place, Queue
from lab.ledger import Ledger
from lab.orders import Order
from lab.plan import Plan
from lab.run import Answer, Experiment, ExperimentState, Request, RunState
from lab.when import stamp

PLAN = Plan(models=("resnet18", "resnet34"), dataset="digits", axes={"seed": (0,)})


def _experiment(ledger: Ledger, user: str = "U0ALICE") -> tuple[Request, Experiment]:
    request = ledger.submit("compare", user, "slack:C:1")
    assert request is not None
    experiment = ledger.propose(request.id, PLAN, None, Answer(kind="plan"))
    assert experiment is not None
    return request, ledger.approve(experiment.id, user)


def _do(
    ledger: Ledger,
    request: Request,
    intent: str,
    target: str | None = None,
    before: tuple[Experiment, ...] = (),
    **args: str,
) -> Answer:
    understood = Understood(intent=intent, reply="as said", target=target, args=args)  # type: ignore[arg-type]
    return commands.carry_out(understood, request, before, ledger)


def test_the_owner_cancels_by_name_or_from_the_thread(ledger: Ledger) -> None:
    """Both are how people say it; the second must not need the id."""
    request, first = _experiment(ledger)
    _, second = _experiment(ledger)
    named = _do(ledger, request, "cancel", first.id)
    here = _do(ledger, request, "cancel", None, (second,))

    assert named.text == f"{first.id} is cancelled."
    assert here.text == f"{second.id} is cancelled."
    assert {run.state for run in ledger.runs(first.id)} == {RunState.CANCELLED}


def test_what_shall_be_paused_is_not_cancelled(ledger: Ledger) -> None:
    """The reader calls both a stop; a cancelled night cannot be resumed."""
    request, experiment = _experiment(ledger)
    paused = _do(ledger, request, "cancel", experiment.id, op="pause")
    asked = _do(ledger, request, "cancel", "the vit one", (experiment,), op="pause")

    assert paused.text == f"{experiment.id}: 2 paused."
    assert {run.state for run in ledger.runs(experiment.id)} == {RunState.PAUSED}
    assert "`pause exp-" in asked.text


def test_what_waits_of_mine_is_cancelled_however_it_is_said(ledger: Ledger) -> None:
    """The reader names it where the words are no short order."""
    request, mine = _experiment(ledger)
    _, bobs = _experiment(ledger, "U0BOB")
    answer = _do(ledger, request, "cancel", "requester's queued runs")

    assert answer.text == f"{mine.id}: 2 cancelled."
    assert {run.state for run in ledger.runs(bobs.id)} == {RunState.QUEUED}


def test_another_priority_for_a_plan_that_nobody_started_is_a_change_of_the_plan(ledger: Ledger) -> None:
    """ "Make it urgent" below a plan card was refused: nothing of it runs."""
    asked = ledger.submit("compare", "U0ALICE", "slack:C:1")
    assert asked is not None
    proposed = ledger.propose(asked.id, PLAN, None, Answer(kind="plan"))
    assert proposed is not None
    request = asked.model_copy(update={"text": "make it urgent"})
    before = commands.told(request, (proposed,), ledger)
    after = commands.told(request, (ledger.approve(proposed.id, "U0ALICE"),), ledger)

    assert before == ()
    assert after == (Order("priority", proposed.id, "high"),)


def test_one_run_is_cancelled_without_the_others(ledger: Ledger) -> None:
    """`cancel exp-1 run 2` is not `cancel exp-1`."""
    request, experiment = _experiment(ledger)
    answer = _do(ledger, request, "cancel", f"{experiment.id} run 2")

    assert answer.text == f"{experiment.id}/2 is cancelled."
    assert ledger.run(f"{experiment.id}/1").state is RunState.QUEUED


def test_somebody_elses_experiment_is_not_cancelled(ledger: Ledger) -> None:
    """A colleague's night is not yours to end."""
    _, experiment = _experiment(ledger, "U0BOB")
    request, _ = _experiment(ledger, "U0ALICE")
    answer = _do(ledger, request, "cancel", experiment.id)

    assert answer.kind == "refusal"
    assert ledger.experiment(experiment.id).state is ExperimentState.APPROVED


@pytest.mark.parametrize("target", ["the vit one", "everything of mine"])
def test_a_target_that_is_no_id_is_asked_about(ledger: Ledger, target: str) -> None:
    """The wrong run stopped costs a night; a question costs a minute."""
    request, experiment = _experiment(ledger)
    answer = _do(ledger, request, "cancel", target, (experiment,))

    assert answer.kind == "question"
    assert ledger.experiment(experiment.id).state is ExperimentState.APPROVED


def test_an_unknown_id_changes_nothing(ledger: Ledger) -> None:
    """Nor does it fall back on the experiment of the thread."""
    request, experiment = _experiment(ledger)
    answer = _do(ledger, request, "cancel", "exp-999", (experiment,))

    assert answer.kind == "question"
    assert ledger.experiment(experiment.id).state is ExperimentState.APPROVED


def test_cancelling_twice_says_that_there_is_nothing_to_cancel(ledger: Ledger) -> None:
    """A clear answer and no change."""
    request, experiment = _experiment(ledger)
    _do(ledger, request, "cancel", experiment.id)

    assert "Nothing to cancel" in _do(ledger, request, "cancel", experiment.id).text


def test_status_counts_what_the_ledger_holds(ledger: Ledger) -> None:
    """Numbers come from code."""
    request, experiment = _experiment(ledger)
    run = ledger.bind(f"{experiment.id}/1", ("G0",), "a", 0)
    ledger.cancel_run(f"{experiment.id}/2", "U0ALICE")

    assert "1 of 2 runs done" in _do(ledger, request, "status", experiment.id).text
    assert "dispatched" in _do(ledger, request, "status", run.id).text
    assert _do(ledger, request, "status").text.startswith(experiment.id)
    assert _do(ledger, request, "gpu_status").kind == "cards"


def test_what_is_not_built_is_not_claimed(ledger: Ledger) -> None:
    """`Quota granted` without a quota would be a lie."""
    request, _ = _experiment(ledger)

    assert _do(ledger, request, "quota").text == commands.LATER


def test_who_asks_when_it_is_done_is_told_by_what_the_dispatcher_expects(ledger: Ledger) -> None:
    """Place in the queue, what is left and when that is: in the question's language, on its reader's clock."""
    request, experiment = _experiment(ledger)
    now = time.time()
    told = Forecast(
        waiting={1: Place(3, now + 720, now + 900), 2: Place(4, now + 900, now + 950)},
        end=End(now + 7200.5, now + 9000.5),
    )
    forecast.publish(ledger.client, {experiment.id: told}, Queue(), 60.0)
    chinese = request.model_copy(update={"text": "几点能跑完"})

    english_words = _do(ledger, request, "status", experiment.id).text
    chinese_words = _do(ledger, chinese, "status", experiment.id).text
    one = _do(ledger, request, "status", f"{experiment.id} run 2").text

    assert "approved, 0 of 2 runs done, 3rd in the queue, starts in about 12 min, about 2.0 h left" in english_words
    assert f"done at about {stamp(now + 7200.5)} (nine times in ten by {stamp(now + 9000.5)})" in english_words
    assert "排队中，2 个 run 完成 0 个，排队第 3 位，约 12 分钟后开始，还需约 2.0 小时" in chinese_words
    assert one.startswith(f"{experiment.id}/2 (resnet34 seed 0): queued, 4th in the queue, starts in about 15 min")


def test_without_a_dispatcher_nothing_is_promised(ledger: Ledger) -> None:
    """A forecast of yesterday is none."""
    request, experiment = _experiment(ledger)
    words = _do(ledger, request, "status", experiment.id).text

    assert words == f"{experiment.id} (resnet18 against resnet34 on digits): approved, 0 of 2 runs done"
