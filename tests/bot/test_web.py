"""Slack's limits on calls, counted without waiting for them."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient

from bot.conversation import Conversation
from bot.render.message import plain
from bot.web import Bucket, Later, Web


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_lets_a_burst_through_and_then_one_at_a_time() -> None:
    """One message a second a channel, a few at once after a silence."""
    clock = Clock()
    bucket = Bucket(1.0, 3, clock)
    for _ in range(3):
        assert bucket.wait_s() == 0
        bucket.take()
    assert bucket.wait_s() == pytest.approx(1.0)
    clock.now = 1.0

    assert bucket.wait_s() == 0


def test_what_matters_less_leaves_calls_to_what_matters_more() -> None:
    """Many progress cards must not keep a plan card's buttons alive."""
    bucket = Bucket(1.0, 3, Clock())
    bucket.take()

    assert bucket.wait_s(keep=3) == pytest.approx(2.0)
    assert bucket.wait_s() == 0


def test_alerts_come_one_a_second_and_leave_the_burst_to_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A channel that reads forty alerts at once is a channel that mutes them."""
    monkeypatch.setattr("bot.web.POSTS_PER_S", 1.0)
    clock, sent = Clock(), []
    client = WebClient("xoxb-1")
    monkeypatch.setattr(client, "chat_postMessage", lambda **_: sent.append(clock.now) or {"ts": "1.1"})
    web, place = Web(client, clock), Conversation("T", "C", "")
    web.post(place, plain("an alert"), steady=True)
    with pytest.raises(Later) as second:
        web.post(place, plain("another"), steady=True)
    web.post(place, plain("an answer"))
    clock.now = 1.0
    web.post(place, plain("another"), steady=True)

    assert second.value.wait_s == pytest.approx(1.0)
    assert sent == [0.0, 0.0, 1.0]


def test_a_pause_closes_the_bucket_however_full_it_is() -> None:
    """Retry-After is an order."""
    clock = Clock()
    bucket = Bucket(1.0, 3, clock)
    bucket.close(30)
    clock.now = 10.0

    assert bucket.wait_s() == pytest.approx(20.0)
