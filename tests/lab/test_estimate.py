"""Estimates: from history where there is any, else from the model's work, and marked rough."""

from __future__ import annotations

import pytest

from lab.estimate import BACKWARD_FACTOR, STARTUP_S, Work, duration, estimate, kind, length
from lab.plan import Point


def point(**params: float) -> Point:
    """A run of resnet50 on digits."""
    return Point(model="resnet50", dataset="digits", params=params)


def test_history_is_spread_over_the_cards() -> None:
    """Six runs of a minute on three cards take two."""
    found = estimate([Work("k", None, None)] * 6, {"k": [50.0, 60.0, 900.0]}, None, 3)

    assert found
    assert (found.wall_s, found.gpu_hours, found.rough) == (120.0, pytest.approx(0.1), False)
    assert found.basis == "from 6 earlier runs"


def test_without_history_the_models_work_decides_and_is_called_rough() -> None:
    """The plan card must not promise what nobody has measured."""
    found = estimate([Work("k", flops=1e9, samples=1000.0)], {}, 1e11, 1)

    assert found
    assert found.rough
    assert found.wall_s == pytest.approx(STARTUP_S + BACKWARD_FACTOR * 10)


def test_an_unknown_run_leaves_the_whole_unknown() -> None:
    """No figure is better than a made-up one."""
    assert estimate([Work("k", None, None)], {}, 1e11, 1) is None
    assert estimate([Work("k", 1e9, 10.0)], {}, None, 1) is None


def test_a_run_on_several_cards_costs_each_of_them() -> None:
    """GPU-hours count cards, not runs."""
    found = estimate([Work("k", None, None, gpus=2)], {"k": [3600.0]}, None, 1)

    assert found
    assert found.gpu_hours == 2.0


def test_seeds_and_learning_rates_share_a_history_and_batch_sizes_do_not() -> None:
    """They take the same time, and history is scarce."""
    same = {kind("vision", point(seed=s, lr=lr, batch_size=64), "3e", "A100") for s in (0, 1) for lr in (0.1, 0.01)}
    other = kind("vision", point(seed=0, lr=0.1, batch_size=32), "3e", "A100")

    assert len(same) == 1
    assert other not in same


def test_a_limit_in_steps_makes_the_length() -> None:
    """It ends the run, whatever the epochs say."""
    assert (length(3, None), length(3, 500)) == ("3e", "500s")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (45, "45 s"), (240, "4 min"), (9000, "2.5 h"), (270_000, "3.1 days")]
)
def test_lengths_of_time_are_said_as_people_say_them(seconds: float, words: str) -> None:
    """A plan card is read on a phone."""
    assert duration(seconds) == words
