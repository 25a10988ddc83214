"""One card being kept, with the hold's process in the test's hands."""

from __future__ import annotations

import logging

import pytest

from keeper.hold import Hold
from keeper.keeping import BACK_S, Keeping
from keeper.platforms import platform
from keeper.policy import Policy
from lab.card import Card, CardProcess, KeeperStatus

HOUR_S = 3600.0
DSW = Policy(platform=platform("pai-dsw"), threshold_pct=10.0, window_s=600.0)


class Holding(Hold):
    """A hold without a process: beats once a step, and remembers what it was told."""

    def __init__(self) -> None:
        super().__init__("GPU-1", [], 300.0)
        self.said: list[float] = []
        self.there = False
        self.problem: str | None = None

    def step(self) -> None:
        beats = self.status.beats if self.status else 0
        self.there = True
        self.status = KeeperStatus(card="GPU-1", pid=7, beats=beats + 1, problem=self.problem)

    def say(self, duty: float) -> None:
        self.said.append(duty)

    def stop(self) -> None:
        self.there = False
        if self.status:
            self.status = self.status.model_copy(update={"pid": None})


class Bench:
    """A card being kept, stepped through time."""

    def __init__(self, policy: Policy) -> None:
        self.now = 1000.0
        self.hold = Holding()
        self.keeping = Keeping(self.card(), policy, lambda *_: self.hold, clock=lambda: self.now)

    def card(self, utilization_pct: float | None = 0.0, **fields: object) -> Card:
        usual: dict[str, object] = {"uuid": "GPU-1", "index": 1, "name": "L20X", "host": "n", "read_at": self.now}
        return Card.model_validate({**usual, "utilization_pct": utilization_pct, **fields})

    def step(self, seconds: float = 2.0, utilization_pct: float | None = 0.0, *, in_use: bool = False) -> KeeperStatus:
        self.now += seconds
        self.keeping.step(self.card(utilization_pct), in_use)
        return self.keeping.status


def test_a_touch_that_the_platform_cannot_see_is_called_ineffective_after_one_window(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(DSW)
    for _ in range(300):
        status = bench.step()

    assert (status.state, status.verdict, status.utilization_pct) == ("holding", "ineffective", 0.0)
    assert (status.platform, status.threshold_pct, status.window_s) == ("pai-dsw", 10.0, 600.0)
    assert len([line for line in caplog.records if "the keeper is ineffective" in line.message]) == 1
    assert next(r for r in caplog.records if "ineffective" in r.message).levelno == logging.WARNING


def test_the_hours_are_counted_and_priced_and_end(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Policy(max_hold_s=2 * HOUR_S, price_per_hour=3.0))

    half = bench.step(HOUR_S)
    bench.step(HOUR_S)
    over = bench.step(2.0)

    assert (half.held_s, half.cost, half.max_hold_s) == (HOUR_S, 3.0, 2 * HOUR_S)
    assert (over.state, over.pid, over.cost) == ("expired", None, 6.0)
    assert over.problem == "let go after 2 h (keeper.max_hold_hours); `overnight keeper hold` begins anew"
    assert not bench.hold.there
    bench.keeping.renew()
    assert bench.step(2.0).state == "holding"
    assert bench.hold.there


def test_where_the_terms_forbid_it_nothing_is_started() -> None:
    bench = Bench(Policy(platform=platform("colab")))

    status = bench.step()

    assert status.state == "refused"
    assert "terms of Google Colab forbid" in (status.problem or "")
    assert (bench.hold.there, status.held_s) == (False, 0.0)


def test_a_run_on_the_shared_card_sends_it_away_and_the_next_run_finds_it_away() -> None:
    bench = Bench(Policy(price_per_hour=1.0))
    bench.step()

    away = bench.step(in_use=True)
    between = bench.step(BACK_S - 1)
    back = bench.step(2.0)

    assert (away.state, away.pid, away.problem) == ("away", None, None)
    assert between.state == "away"
    assert back.state == "holding"
    assert back.held_s == 4.0  # what the run had is not the keeper's


def test_a_cuda_error_shows_until_it_is_over() -> None:
    bench = Bench(Policy())
    bench.hold.problem = "beat failed: CUDA error"
    failing = bench.step()
    bench.hold.problem = None
    after = bench.step()

    assert (failing.state, failing.problem) == ("failing", "beat failed: CUDA error")
    assert (after.state, after.problem) == ("holding", None)


def test_duty_is_said_to_the_process_and_is_0_while_a_stranger_works_there() -> None:
    bench = Bench(Policy(mode="duty", threshold_pct=10.0, margin_pct=5.0))
    bench.step(utilization_pct=0.0)
    alone = bench.hold.said[-1]

    bench.now += 2.0
    ours, theirs = CardProcess(pid=7, name="python"), CardProcess(pid=99, name="blender")
    bench.keeping.step(bench.card(15.0, processes=(ours, theirs)))
    resting = bench.keeping.status

    assert alone == pytest.approx(0.15)
    assert bench.hold.said[-1] == 0.0
    assert resting.state == "yielding"


def test_a_reading_counts_once_however_often_it_is_seen() -> None:
    """A card that hangs keeps its last reading; that proves nothing about now."""
    bench = Bench(DSW)
    old = bench.card(50.0)
    for _ in range(300):
        bench.now += 2.0
        bench.keeping.step(old)

    assert bench.keeping.status.verdict == "unverified"


def test_the_end_says_what_it_cost(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Policy(price_per_hour=3.0))
    with caplog.at_level(logging.INFO):
        bench.step(HOUR_S)
        bench.keeping.stop()

    assert "GPU-1: held for 1.00 h, which cost 3.00" in caplog.text
