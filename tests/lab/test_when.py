"""Moments as people name them: a silence that ends at the wrong hour is either noise or a night unseen."""

from __future__ import annotations

from datetime import datetime

import pytest

from lab.when import clock, moment, stamp, stamped

MONDAY = datetime(2026, 11, 30, 14, 30)
LATE = datetime(2026, 11, 30, 22, 30)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("until tonight", "11-30 20:00"),
        ("silence the temperature alerts tonight", "12-01 08:00"),
        ("今天别提醒了", "12-01 00:00"),
        ("for 2 hours", "11-30 16:30"),
        ("for an hour", "11-30 15:30"),
        ("for half an hour", "11-30 15:00"),
        ("30m", "11-30 15:00"),
        ("for 2 days", "12-02 14:30"),
        ("until tomorrow", "12-01 08:00"),
        ("until tomorrow 9am", "12-01 09:00"),
        ("until 8am", "12-01 08:00"),
        ("until 9", "12-01 09:00"),
        ("until 18:30", "11-30 18:30"),
        ("from 10pm to 8am", "12-01 08:00"),
        ("until monday", "12-07 08:00"),
        ("till friday evening", "12-04 20:00"),
        ("over the weekend", "12-07 08:00"),
        ("到明天早上", "12-01 08:00"),
        ("到晚上9点", "11-30 21:00"),
        ("今晚不要告警", "12-01 08:00"),
        ("下周一之前", "12-07 08:00"),
        ("周末不要发通知", "12-07 08:00"),
        ("半小时", "11-30 15:00"),
        ("接下来两个小时", "11-30 16:30"),
    ],
)
def test_words_for_a_moment(text: str, end: str) -> None:
    """On a Monday afternoon."""
    found = moment(text, MONDAY)

    assert found is not None
    assert f"{found:%m-%d %H:%M}" == end


def test_until_tonight_said_at_night_ends_in_the_morning() -> None:
    """The evening is there already; the next thing that ends is the night."""
    assert moment("until tonight", LATE) == datetime(2026, 12, 1, 8, 0)


@pytest.mark.parametrize("text", ["别再提醒了", "mute this thread", "be quiet about it", "", "a b c", "until 99"])
def test_words_that_name_no_moment(text: str) -> None:
    """Then the one who asked is told what was taken."""
    assert moment(text, MONDAY) is None


@pytest.mark.parametrize("text", ["until tonight", "for 1h", "until 8am", "到周三", "until sunday 7pm", "24:00"])
@pytest.mark.parametrize("hour", range(24))
def test_a_moment_lies_ahead(text: str, hour: int) -> None:
    """A silence that is over before it begins would say that it holds."""
    now = MONDAY.replace(hour=hour)
    found = moment(text, now)

    assert found is not None
    assert found > now


def test_a_moment_in_a_text_is_shown_on_its_readers_clock() -> None:
    """Who writes it does not know where it is read: in Slack each person has a time zone of his own."""
    text = f"done at about {stamp(1_700_000_000.4)}, not @{{soon}}"

    assert stamped(text, lambda at: f"<{at:.0f}>") == "done at about <1700000000>, not @{soon}"


def test_a_clock_names_the_day_where_it_is_not_today() -> None:
    """Half past four of which morning?"""
    now = datetime(2026, 12, 1, 22, 0).timestamp()

    assert clock(now + 60, now) == "22:01"
    assert clock(now + 6.5 * 3600, now) == "Wed 04:30"
    assert clock(now + 30 * 86_400, now) == "2026-12-31 22:00"
