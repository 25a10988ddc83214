"""Runs on cards, many times over."""

from __future__ import annotations

import numpy as np
import pytest

from lab.lanes import SAMPLES, Job, estimate, list_schedule, p50_p90, sample
from lab.predict import Prediction


def job(p50_s: float, p90_s: float | None = None, **fields: object) -> Job:
    """A run whose length is known nearly exactly, unless its p90 says otherwise."""
    rough, earlier = bool(fields.pop("rough", False)), int(str(fields.pop("earlier", 12)))
    length = Prediction(p50_s, p90_s or p50_s * 1.001, f"from {earlier} earlier runs", rough, 0 if rough else earlier)
    return Job(length, **fields)  # type: ignore[arg-type]


def test_a_plan_is_spread_over_the_cards_longest_run_first() -> None:
    """Six runs of a minute on three cards take two; five short ones fit beside a long one."""
    assert estimate([job(60)] * 6, 3).wall_s == pytest.approx(120, rel=0.01)
    assert estimate([*[job(20)] * 5, job(100)], 2).wall_s == pytest.approx(100, rel=0.01)


def test_gpu_hours_count_cards_and_not_runs() -> None:
    """A run on two cards costs each of them."""
    found = estimate([job(3600, gpus=2)], 2)

    assert found.gpu_hours == pytest.approx(2.0, rel=0.01)
    assert found.wall_s == pytest.approx(3600, rel=0.01)


def test_p90_of_a_plan_is_less_wide_than_that_of_a_run_when_errors_are_each_their_own() -> None:
    """Some runs are longer and some shorter; a wrong guess makes all of them longer."""
    own = estimate([job(100, 200)] * 16, 1)
    shared = estimate([job(100, 200, rough=True, kind="k")] * 16, 1)

    assert own.wall_p90_s
    assert shared.wall_p90_s
    assert own.wall_p90_s / own.wall_s < 1.35
    assert shared.wall_p90_s / shared.wall_s == pytest.approx(2.0, rel=0.25)


def test_the_estimate_says_from_what_it_is() -> None:
    """From the kind that was seen least; rough as soon as one was not."""
    known, rough = job(10, earlier=3), job(10, rough=True)

    assert estimate([known, job(10)], 1).basis == "from 3 earlier runs"
    assert not estimate([known], 1).rough
    assert estimate([known, rough], 1).basis == "rough: history for 1 of 2 runs"
    assert estimate([known, rough], 1).rough


def test_a_run_waits_for_the_card_that_is_free_first_and_a_gang_for_all_of_its() -> None:
    """As the dispatcher gives them out."""
    free = np.tile([30.0, 10.0, 20.0], (SAMPLES, 1))
    lengths = np.tile([100.0, 5.0, 1.0], (SAMPLES, 1))
    starts = list_schedule(free, lengths, [1, 2, 1])

    assert starts[0].tolist() == [10.0, 30.0, 35.0]
    assert sorted(free[0].tolist()) == [35.0, 36.0, 110.0]


def test_what_is_left_of_a_run_is_told_given_that_it_did_not_end_yet() -> None:
    """A run of about 100 s that has gone on for 300 does not end 200 s ago."""
    fresh = p50_p90(sample([job(100, 200)])[:, 0])
    late = p50_p90(sample([job(100, 200, served_s=300.0)])[:, 0])

    assert fresh[0] == pytest.approx(100, rel=0.15)
    assert fresh[1] == pytest.approx(200, rel=0.25)
    assert 10 < late[0] < 150
    assert late[1] > late[0]


def test_the_same_lab_gives_the_same_figures() -> None:
    """A card that is edited every few seconds must not flicker."""
    assert (sample([job(100, 200)] * 3) == sample([job(100, 200)] * 3)).all()
