"""The duty controller against a simulated card over simulated time."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from keeper.duty import REST_S, DutyController
from keeper.platforms import platforms
from keeper.policy import Policy, policy
from keeper.proof import Proof
from lab.settings import KeeperSettings

DAY_S = 86_400


class SimulatedCard:
    """A card whose driver shows a mean over the last second, late by one, with noise; `gain` is what a duty shows as.

    No real card was measured for it: gain 1 says that utilisation is the share of time in which kernels run.
    """

    def __init__(self, gain: float = 1.0, noise_pct: float = 0.0) -> None:
        self.gain = gain
        self.others_pct = 0.0
        self._noise = random.Random(7)
        self._noise_pct = noise_pct
        self._before = 0.0

    def reading(self, duty: float) -> float:
        shown, now = self._before, min(100.0, 100 * duty * self.gain + self.others_pct)
        self._before = now
        return min(100.0, max(0.0, shown + self._noise.uniform(-self._noise_pct, self._noise_pct)))


def run(
    controller: DutyController, card: SimulatedCard, seconds: int, others: Callable[[int], bool] = lambda _: False
) -> tuple[list[float], list[float]]:
    """Duties and readings, one of each a second."""
    duties, readings, duty = [], [], 0.0
    for second in range(seconds):
        readings.append(card.reading(duty))
        duty = controller.step(float(second), readings[-1], others(second))
        duties.append(duty)
    return duties, readings


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize(
    ("gain", "target"), [(0.3, 6.0), (0.3, 20.0), (1.0, 6.0), (1.0, 15.0), (1.0, 70.0), (2.5, 6.0), (2.5, 40.0)]
)
def test_the_utilisation_is_held_at_the_target_whatever_a_duty_shows_as(gain: float, target: float) -> None:
    duties, readings = run(DutyController(target), SimulatedCard(gain, noise_pct=3.0), 600)

    assert mean(readings[120:]) == pytest.approx(target, abs=1.5)
    assert max(duties) <= 0.9


def test_it_goes_by_the_time_between_readings_however_often_it_is_stepped() -> None:
    card, controller, duty = SimulatedCard(gain=0.5), DutyController(20.0), 0.0
    for step in range(600):
        reading = card.reading(duty) if step % 10 == 0 else None
        duty = controller.step(step / 10, reading)

    assert duty == pytest.approx(0.4, abs=0.03)


def test_work_of_others_stops_it_at_once_and_it_waits_until_they_are_gone() -> None:
    duties, _ = run(DutyController(15.0), SimulatedCard(), 200, others=lambda second: 50 <= second < 100)

    assert duties[49] > 0
    assert set(duties[50 : 100 + int(REST_S) - 1]) == {0.0}
    assert duties[100 + int(REST_S)] > 0


def test_work_that_only_the_utilisation_shows_stops_it_too() -> None:
    """In a container no process of a neighbour may be seen."""
    card, controller, duty = SimulatedCard(), DutyController(15.0), 0.0
    duties = []
    for second in range(300):
        card.others_pct = 80.0 if 100 <= second < 200 else 0.0
        duty = controller.step(float(second), card.reading(duty))
        duties.append(duty)

    assert duties[99] > 0
    assert set(duties[104:200]) == {0.0}
    assert duties[-1] > 0


def test_a_card_that_shows_far_more_than_our_duty_is_not_taken_for_busy_for_ever() -> None:
    """Utilisation that goes when we rest was ours, and from then on is expected."""
    duties, readings = run(DutyController(15.0), SimulatedCard(gain=6.0), 600)

    assert 0.0 not in duties[120:]
    assert mean(readings[300:]) == pytest.approx(15.0, abs=2.0)


def test_an_unknown_reading_changes_nothing() -> None:
    controller = DutyController(20.0)

    duties = {controller.step(float(second), None) for second in range(60)}

    assert duties == {0.2}


DAYS = [
    ("pai-dsw", "duty", "verified"),
    ("pai-dsw", "touch", "ineffective"),
    ("modelarts", "duty", "verified"),
    ("modelarts", "touch", "ineffective"),
    ("tencent-ti", "touch", "ineffective"),
    ("sagemaker-studio", "touch", "ineffective"),
    ("vertex-workbench", "touch", "ineffective"),
    ("azure-ml", "touch", "ineffective"),
    ("colab", "touch", "unverified"),
    ("none", "touch", "unverified"),
]


def test_every_platform_has_its_day() -> None:
    """In each mode that it allows: duty needs a utilisation to aim at."""
    wanted = {(one.name, "touch") for one in platforms().values()}
    wanted |= {(one.name, "duty") for one in platforms().values() if one.threshold_pct is not None}

    assert {(name, mode) for name, mode, _ in DAYS} == wanted


@pytest.mark.parametrize(("name", "mode", "verdict"), DAYS)
def test_24_hours_against_each_platforms_rule(name: str, mode: str, verdict: str) -> None:
    """Who keeps stays above the rule all the time; who does not is told so within two windows."""
    chosen = policy(KeeperSettings(platform=name, mode=mode, max_hold_hours=None))  # type: ignore[arg-type]
    told_after_s, below = _day(chosen)

    assert verdict in told_after_s
    assert told_after_s[verdict] <= 2 * chosen.window_s
    assert set(told_after_s) <= {"unverified", verdict}
    assert below == 0 or verdict != "verified"


def _day(chosen: Policy) -> tuple[dict[str, float], int]:
    """When each verdict was first told in 24 simulated hours, and how many windows were not above the rule."""
    card, proof = SimulatedCard(noise_pct=2.0), Proof(chosen)
    controller = DutyController(chosen.target_pct) if chosen.mode == "duty" else None
    first: dict[str, float] = {}
    below, duty, total, read = 0, 0.0, 0.0, 0
    for now in range(0, DAY_S, 2):
        reading = card.reading(duty) if controller else 0.0
        duty = controller.step(float(now), reading) if controller else 0.0
        proof.add(float(now), reading)
        total, read = total + reading, read + 1
        if now % 60 == 0:
            first.setdefault(proof.judge(float(now)).verdict, now)
        if now and now % chosen.window_s == 0:
            below += total / read <= (chosen.threshold_pct or 0.0)
            total, read = 0.0, 0
    return first, below
