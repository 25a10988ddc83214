"""Slack is slow, full, broken or gone: what is to be said is said once, in order, with its last state."""

from __future__ import annotations

import logging
import time

import pytest

from bot.courier import notes_for
from lab.events import Event
from lab.run import Answer
from tests.bot.conftest import ALICE, LAB, Scene
from tests.bot.made import PNG, report


def test_a_pause_asked_for_by_slack_is_kept_and_the_last_state_arrives(alone: Scene) -> None:
    """The default client raises on 429 and the update would be lost."""
    with alone.bot():
        root, experiment, plan = alone.planned()
        alone.slack.fault("chat.update", times=2, retry_after_s=1)
        pressed_s = time.monotonic()
        alone.slack.press(LAB, plan["ts"], "run", ALICE)
        card = alone.card(root, "cancel_experiment")
        for number in (1, 2, 3, 4):
            alone.finish(f"{experiment.id}/{number}")
        alone.wait(lambda: "4 of 4 done" in alone.now(card), "the last state")
        alone.wait(lambda: "Approved by" in alone.now(plan), "the approval")

    taken = [call.at_s for call in alone.slack.calls if call.method == "chat.update"]
    assert min(taken) - pressed_s >= 2, "a pause was cut short"


def test_a_full_channel_gets_everything_in_order_a_little_later(alone: Scene) -> None:
    """Slack takes one message a second; ten answers at once must all arrive, and as they were given."""
    alone.slack.enforce_rates()
    with alone.bot():
        root, first = alone.ask()
        rest = [alone.ledger.submit("and?", ALICE, first.conversation) for _ in range(6)]
        for number, request in enumerate([first, *rest]):
            assert request is not None
            alone.ledger.answer(request.id, Answer(kind="reply", text=f"answer {number}"))
        alone.card(root, "answer 6")

    assert [alone.slack.shown(m) for m in alone.slack.thread(LAB, root)[1:]] == [f"answer {n}" for n in range(7)]


def test_an_answer_that_got_lost_on_its_way_back_is_not_posted_twice(alone: Scene) -> None:
    """The call took effect, the connection broke: the thread itself tells what stands in it."""
    with alone.bot():
        alone.slack.fault("chat.postMessage", hang_up=True, after=True)
        root, experiment, _ = alone.planned()
        alone.ledger.approve(experiment.id, ALICE)
        for number in (1, 2, 3, 4):
            alone.finish(f"{experiment.id}/{number}")
        alone.card(root, "4 of 4 done")
        alone.slack.fault("files.completeUploadExternal", hang_up=True, after=True)
        alone.ledger.save_report(experiment.id, 1, report(experiment.id).model_dump_json(), {"curves.png": PNG})
        posted = f"on:slack:posted:{experiment.id}"
        alone.wait(lambda: alone.client.hget(posted, "files:1"), "the report to be over")

    assert len(alone.slack.thread(LAB, root)) == 5, alone.slack.transcript(LAB)


def test_blocks_that_slack_refuses_go_out_as_text_with_their_buttons(
    alone: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Slack's rules change without notice; a plan must still be readable and startable."""
    with alone.bot(), caplog.at_level(logging.ERROR):
        alone.slack.fault("chat.postMessage", error="invalid_blocks")
        _, _, card = alone.planned()

    assert "4 runs = 2 models x 2 seeds" in alone.slack.shown(card)
    assert "[Run]" in alone.slack.shown(card)
    assert "Slack refuses a message" in caplog.text


def test_a_place_that_is_gone_is_given_up_and_holds_nobody_up(alone: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """A channel that was archived at night must not stop the reports of the others."""
    with alone.bot(), caplog.at_level(logging.ERROR):
        lost = alone.ledger.submit("hello", ALICE, "slack:T0LAB:C0PRIVATE:1700000000.000100")
        assert lost is not None
        alone.ledger.answer(lost.id, Answer(kind="reply", text="hello"))
        root, request = alone.ask()
        alone.ledger.answer(
            request.id, Answer(kind="refusal", text="there is no model resnet51; did you mean resnet50?")
        )
        alone.card(root, "resnet51")
        alone.wait(lambda: not alone.client.exists("on:slack:outbox", "on:slack:outbox:sending"), "an empty outbox")

    assert f"{lost.id}: its answer is given up, not_in_channel in C0PRIVATE" in caplog.text


def test_a_card_that_somebody_deleted_is_let_go(alone: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once in the log, not every three seconds for a night, and the report still comes."""
    with alone.bot(), caplog.at_level(logging.ERROR):
        root, experiment, plan = alone.planned()
        alone.slack.press(LAB, plan["ts"], "run", ALICE)
        card = alone.card(root, "cancel_experiment")
        alone.slack.delete(LAB, card["ts"])
        for number in (1, 2, 3, 4):
            alone.finish(f"{experiment.id}/{number}")
            time.sleep(0.3)
        alone.ledger.save_report(experiment.id, 1, report(experiment.id).model_dump_json(), {"curves.png": PNG})
        alone.card(root, "report.md]")

    assert caplog.text.count("message_not_found") == 1


def test_a_broken_slack_is_tried_again_and_order_is_kept(alone: Scene) -> None:
    """Errors of Slack's own pass; what was asked first is answered first."""
    with alone.bot():
        root, first = alone.ask()
        second = alone.ledger.submit("and?", ALICE, first.conversation)
        assert second is not None
        alone.slack.fault("chat.postMessage", status=503)
        alone.ledger.answer(first.id, Answer(kind="question", text="which data set?"))
        alone.ledger.answer(second.id, Answer(kind="reply", text="as I asked"))
        alone.card(root, "as I asked")

    assert [alone.slack.shown(m) for m in alone.slack.thread(LAB, root)[1:]] == [
        "which data set?\nTo answer, mention me in this thread.",
        "as I asked",
    ]


@pytest.mark.parametrize(
    ("kind", "conversation"),
    [
        ("request.answered", "terminal:alice:1"),
        ("run.finished", "slack:T1:C1"),
        ("alert.raised", "slack:T1:C1:1700000000.000100"),
        ("experiment.proposed", "slack:T1:C1:1700000000.000100"),
    ],
)
def test_events_that_are_not_the_couriers_say_nothing(kind: str, conversation: str) -> None:
    """Terminals have their own reader, and not every event is news."""
    assert notes_for(Event(kind=kind, subject="exp-1/2", conversation=conversation)) == []
