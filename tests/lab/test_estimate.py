"""What people read of times."""

from __future__ import annotations

import pytest

from lab.estimate import duration, end_words, expected, place_words, words
from lab.forecast import End, Forecast, Place
from lab.run import Estimate

KNOWN = Estimate(
    wall_s=240, wall_p90_s=350, gpu_hours=0.2, cards=3, rough=False, basis="from 12 earlier runs", n_known=6, earlier=12
)


@pytest.mark.parametrize(
    ("seconds", "words", "chinese"),
    [
        (0.2, "1 s", "1 秒"),
        (45, "45 s", "45 秒"),
        (240, "4 min", "4 分钟"),
        (9000, "2.5 h", "2.5 小时"),
        (270_000, "3.1 days", "3.1 天"),
    ],
)
def test_lengths_of_time_are_said_as_people_say_them(seconds: float, words: str, chinese: str) -> None:
    """A plan card is read on a phone."""
    assert duration(seconds) == words
    assert duration(seconds, chinese=True) == chinese


def test_an_estimate_says_how_sure_it_is_and_from_what() -> None:
    """A time without its spread is a promise."""
    said = "about 4 min on 3 cards (nine times in ten under 6 min), 0.2 GPU-h, from 12 earlier runs"

    assert words(KNOWN) == said
    assert (
        words(KNOWN, chinese=True) == "3 张卡上约 4 分钟（九成情况下不超过 6 分钟），0.2 GPU 小时，依据 12 次以前的运行"
    )
    assert words(KNOWN.model_copy(update={"wall_p90_s": 242})) == said.replace(" (nine times in ten under 6 min)", "")


def test_a_wait_for_busy_cards_is_said_beside_it() -> None:
    """Four minutes of training that begin in an hour are an answer in an hour."""
    waits = KNOWN.model_copy(update={"wait_s": 1200.0, "before": 3})

    assert words(waits).endswith("; starts in about 20 min (3 runs before it)")
    assert words(waits, chinese=True).endswith("；约 20 分钟后开始（前面有 3 个 run）")


def test_estimates_of_earlier_versions_are_read() -> None:
    """A plan may wait for its approval while the lab upgrades."""
    old = Estimate.model_validate({"wall_s": 240, "gpu_hours": 0.2, "cards": 1, "basis": "rough: no history yet"})

    assert words(old) == "about 4 min on 1 card, 0.2 GPU-h, rough: no history yet"
    assert words(old, chinese=True) == "1 张卡上约 4 分钟，0.2 GPU 小时，粗略：还没有历史"
    assert words(None) == "how long it takes is not known yet"


def clock(at: float) -> str:
    """A clock that is easy to read in a test."""
    return f"[{at:.0f}]"


@pytest.mark.parametrize(
    ("position", "starts", "said", "chinese"),
    [
        (1, 3.0, "next, starts any moment", "排队第 1 位，马上开始"),
        (1, 120.0, "next, starts in about 2 min", "排队第 1 位，约 2 分钟后开始"),
        (3, 720.0, "3rd in the queue, starts in about 12 min", "排队第 3 位，约 12 分钟后开始"),
        (112, 7200.0, "112th in the queue, starts in about 2.0 h", "排队第 112 位，约 2.0 小时后开始"),
    ],
)
def test_a_place_in_the_queue_is_said_with_its_start(position: int, starts: float, said: str, chinese: str) -> None:
    """What one asks who waits."""
    place = Place(position, 1000 + starts, 1000 + 2 * starts)

    assert place_words(place, 1000.0) == said
    assert place_words(place, 1000.0, chinese=True) == chinese


@pytest.mark.parametrize(
    ("end", "said", "chinese"),
    [
        (
            End(1240, 1350),
            "about 4 min left (nine times in ten under 6 min)",
            "还需约 4 分钟（九成情况下不超过 6 分钟）",
        ),
        (End(1240, 1241), "about 4 min left", "还需约 4 分钟"),
        (End(990, 1000), "about 1 s left", "还需约 1 秒"),
        (
            End(3400, 8200),
            "about 40 min left, done at about [3400] (nine times in ten by [8200])",
            "还需约 40 分钟，约 [3400] 完成（九成情况下在 [8200] 之前）",
        ),
    ],
)
def test_an_end_is_said_as_what_is_left_and_on_the_clock_when_it_is_far(end: End, said: str, chinese: str) -> None:
    """Whoever goes to bed wants to know what he finds in the morning."""
    assert end_words(end, 1000.0, clock) == said
    assert end_words(end, 1000.0, clock, chinese=True) == chinese


def test_the_queue_is_spoken_of_only_while_no_run_has_a_card() -> None:
    """Later the place of the next run says nothing of the experiment."""
    waits = Forecast(waiting={2: Place(4, 1600, 1700), 1: Place(3, 1500, 1600)}, end=End(1900, 1901))
    runs = waits.model_copy(update={"running": {3: End(1100, 1200)}})
    stuck = Forecast(stuck={1: "no host has the data set x", 2: "no host has the data set x"})

    assert expected(waits, 1000.0, clock)[0] == "3rd in the queue, starts in about 8 min"
    assert expected(runs, 1000.0, clock) == ["about 15 min left, done at about [1900] (nine times in ten by [1901])"]
    assert expected(stuck, 1000.0, clock) == ["waits: no host has the data set x"]
    assert expected(None, 1000.0, clock) == []
