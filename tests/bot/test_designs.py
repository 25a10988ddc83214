"""Designs in a thread: the buttons with their figures, the pick that starts one, and picks that come too late."""

from __future__ import annotations

from agent import intake
from lab.plan import Range
from lab.run import ExperimentState, RequestState
from tests.bot.conftest import ALICE, BEN, LAB
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


def test_it_is_offered_and_picked_in_chinese_too(thread: Thread) -> None:  # noqa: F811
    """Both languages at full strength."""
    shown = thread.say("在 2 个 GPU 小时内找到 resnet18 最好的学习率，digits，9 轮")
    thread.say("第一个")

    assert "个 run" in shown
    assert thread.experiment.state is ExperimentState.APPROVED
