"""Designs in a thread: the buttons with their figures, the pick that starts one, and picks that come too late."""

from __future__ import annotations

import pytest

from agent import designs, intake
from lab.plan import Range
from lab.run import Answer, ExperimentState, RequestState
from tests.bot.conftest import ALICE, BEN, BOT, LAB
from tests.bot.test_conversations import Thread, thread  # noqa: F401  the fixture

ASKED = "find the best learning rate for resnet18 on digits within 2 GPU hours, 9 epochs"


def pressed(thread: Thread, action: str, user: str = ALICE) -> str:  # noqa: F811
    """What the agent answers to the press, as kind."""
    thread.scene.slack.press(LAB, designs_of(thread)["ts"], action, user)
    thread.scene.wait(lambda: len(thread.scene.requests(thread.root)) > len(thread.asked), "the request of the press")
    request = thread.scene.requests(thread.root)[-1]
    thread.asked.append(request)
    intake.answer(request.id)
    answered = thread.scene.ledger.request(request.id)
    assert answered.state is RequestState.ANSWERED
    assert answered.answer is not None
    return f"{answered.answer.kind}: {answered.answer.text}"


def designs_of(thread: Thread) -> dict[str, str]:  # noqa: F811
    """The message with the designs."""
    return next(m for m in thread.scene.slack.thread(LAB, thread.root) if "1. " in thread.scene.slack.shown(m))


def test_a_press_starts_the_design_whose_figures_it_shows(thread: Thread) -> None:  # noqa: F811
    """One click from a wish to running cards: what it costs stands on the button."""
    shown = thread.say(ASKED)
    assert "[1: " in shown
    assert "GPU-h]" in shown
    assert thread.scene.ledger.experiments_in(thread.asked[0].conversation) == []

    assert pressed(thread, "pick_1").startswith("plan: ")
    experiment = thread.experiment

    assert experiment.state is ExperimentState.APPROVED
    assert experiment.approved_by == ALICE
    assert isinstance(experiment.plan.axes["lr"], Range)
    assert len(thread.scene.ledger.runs(experiment.id)) == experiment.plan.n_runs


def test_a_second_pick_starts_nothing(thread: Thread) -> None:  # noqa: F811
    """Two clicks, or a click and a word, would spend the hours twice."""
    thread.say(ASKED)
    thread.say("the second")

    assert thread.experiment.state is ExperimentState.APPROVED
    assert "picked already" in pressed(thread, "pick_1")
    assert len(thread.scene.ledger.experiments_in(thread.asked[0].conversation)) == 1


def test_a_bystander_picks_nothing(thread: Thread) -> None:  # noqa: F811
    """The hours are Alice's."""
    thread.say(ASKED)

    assert pressed(thread, "pick_1", BEN) == f"question: Only {ALICE}, who asked, can pick one of these."
    assert thread.scene.ledger.experiments_in(thread.asked[0].conversation) == []


def test_an_offer_is_gone_once_the_thread_talks_of_another_plan(thread: Thread) -> None:  # noqa: F811
    """A `2` after that means something else."""
    thread.say(ASKED)
    thread.say("train resnet18 on digits, lr 0.01, 2 epochs")
    thread.say("2")

    assert [e.state for e in thread.scene.ledger.experiments_in(thread.asked[0].conversation)] == [
        ExperimentState.PROPOSED
    ]


def beside(thread: Thread, text: str, user: str = ALICE) -> Answer:  # noqa: F811
    """The answer to a message that begins a conversation of its own in the same channel."""
    ts = thread.scene.slack.say(LAB, user, f"{BOT} {text}")
    thread.scene.wait(lambda: thread.scene.requests(ts), "the request")
    (request,) = thread.scene.requests(ts)
    intake.answer(request.id)
    answered = thread.scene.ledger.request(request.id).answer
    assert answered is not None
    return answered


def test_a_number_beside_the_thread_picks_from_the_persons_newest_offer(thread: Thread) -> None:  # noqa: F811
    """In a direct message hardly anybody opens a thread to type `2`; and it is one pick, wherever it was typed."""
    thread.say(ASKED)
    answered = beside(thread, "2")
    assert answered.experiment_id is not None
    experiment = thread.scene.ledger.experiment(answered.experiment_id)

    assert experiment.state is ExperimentState.APPROVED
    assert experiment.plan.models == ("resnet18",)
    assert "picked already" in beside(thread, "2").text
    assert "picked already" in pressed(thread, "pick_1")


@pytest.mark.parametrize(
    ("who", "between", "number"),
    [
        (BEN, None, "2"),
        (ALICE, "train resnet18 on digits, lr 0.01, 2 epochs", "2"),
        (ALICE, "compare resnet18 vs resnet5O on digits", "2"),
        (ALICE, None, "9"),
    ],
)
def test_a_number_that_may_mean_something_else_starts_nothing(
    thread: Thread,  # noqa: F811
    who: str,
    between: str | None,
    number: str,
) -> None:
    """Somebody else's, one after another plan or question, one that no design has: hours are not spent on a guess."""
    thread.say(ASKED)
    if between:
        beside(thread, between)
    answered = beside(thread, number, who)

    assert answered.experiment_id is None
    assert answered.text == designs.WORDS.say("no_offer", False)


def test_a_number_that_answers_a_question_picks_nothing(thread: Thread) -> None:  # noqa: F811
    """The question was asked before the offer, in a thread of its own."""
    asked = thread.scene.slack.say(LAB, ALICE, f"{BOT} compare resnet18 vs resnet5O on digits")
    thread.scene.wait(lambda: thread.scene.requests(asked), "the request")
    intake.answer(thread.scene.requests(asked)[0].id)
    thread.say(ASKED)
    thread.scene.slack.say(LAB, ALICE, f"{BOT} 2", asked)
    thread.scene.wait(lambda: len(thread.scene.requests(asked)) == 2, "the reply")
    reply = thread.scene.requests(asked)[1]
    intake.answer(reply.id)
    answered = thread.scene.ledger.request(reply.id).answer

    assert answered is not None
    assert answered.experiment_id is None


def test_an_offer_stands_beside_its_thread_for_a_day(thread: Thread) -> None:  # noqa: F811
    """After that its figures may be stale, and nobody remembers what `2` was."""
    thread.say(ASKED)
    (key,) = thread.scene.client.keys(f"*offer:newest:slack:T0LAB:{LAB}:{ALICE}")

    assert 86_000 < thread.scene.client.ttl(key) <= 86_400


def test_it_is_offered_and_picked_in_chinese_too(thread: Thread) -> None:  # noqa: F811
    """Both languages at full strength."""
    shown = thread.say("在 2 个 GPU 小时内找到 resnet18 最好的学习率，digits，9 轮")
    thread.say("第一个")

    assert "个 run" in shown
    assert thread.experiment.state is ExperimentState.APPROVED
