"""Redis is away: the bot says so once, acknowledges nothing it did not record, and takes it up when Redis is back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.simulator import Simulator
from lab import store
from tests.bot.conftest import ALICE, BOT, LAB, Scene, settings_for


@pytest.fixture
def nowhere() -> Iterator[Scene]:
    """A bot whose Valkey does not run, with a Slack that brings unacknowledged events again soon."""
    with (
        tempfile.TemporaryDirectory(prefix="on-") as name,
        Simulator(ack_timeout_s=1.0, redelivery_s=(0.0, 0.5, 2.0, 2.0)) as slack,
    ):
        yield Scene(slack, settings_for(slack, data_dir=Path(name)))


def test_a_message_is_left_to_slack_until_the_store_is_back(nowhere: Scene) -> None:
    """What was acknowledged is never lost, and what was not is not claimed."""
    with nowhere.bot():
        ts = nowhere.slack.say(LAB, ALICE, f"{BOT} compare ResNet50 vs EfficientNet")
        nowhere.card(ts, "I cannot take requests right now")
        nowhere.wait(lambda: sum(d.attempts for d in nowhere.slack.deliveries) >= 4, "redeliveries")
        mine = {a.event for a in nowhere.slack.acks if a.ts == ts}
        said = nowhere.slack.thread(LAB, ts)[1:]
        with store.embedded(nowhere.settings):
            nowhere.wait(lambda: nowhere.requests(ts), "the request")
            nowhere.wait(lambda: {d.state for d in nowhere.slack.deliveries if d.ts == ts} == {"acked"}, "the acks")

            assert len(nowhere.requests(ts)) == 1
    assert mine == set()
    assert len(said) == 1
    assert "Nothing was started" in nowhere.slack.shown(said[0])


def test_buttons_and_commands_say_that_the_store_is_away(nowhere: Scene) -> None:
    """`All free` would be a lie, and silence looks like a bug."""
    with nowhere.bot():
        nowhere.slack.command("/gpu-monitor", user=ALICE)
        told = nowhere.wait(lambda: nowhere.slack.ephemerals, "the answer")

    assert "I cannot say what the cards do right now" in nowhere.slack.shown(told[0])
    assert "FREE" not in nowhere.slack.shown(told[0])
