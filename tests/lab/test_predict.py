"""How long a run will take."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lab.predict import LIKE_SIGMA, ROUGH_SIGMA, Z90, History, Level, Prediction, measured


def test_without_history_the_guess_stands_and_is_called_rough() -> None:
    """From FLOPs, off by three either way."""
    prediction = History().predict([Level("resnet50", 600.0)], 600.0)

    assert prediction
    assert prediction.p50_s == pytest.approx(600.0)
    assert math.isclose(prediction.p90_s, 600 * math.exp(ROUGH_SIGMA * Z90))
    assert prediction.rough
    assert prediction.basis == "rough: no history yet"


def test_without_history_and_guess_nothing_is_said() -> None:
    """No figure is better than a made-up one."""
    assert History().predict([Level("resnet50", 20)], None) is None


def test_other_kinds_correct_the_guess_the_more_of_them_there_are() -> None:
    """One run of the model pulls a little, twenty decide."""
    history = History()
    for _ in range(40):
        history.learn([Level("vision", 100.0), Level("other", 100.0)], 100.0)
    p50 = []
    for _ in range(20):
        history.learn([Level("vision", 100.0), Level("mine", 100.0)], 400.0)
        found = history.predict([Level("vision", 100.0), Level("mine", 100.0)], 100.0)
        assert found
        p50.append(found.p50_s)

    assert 100 < p50[0] < 200
    assert p50 == sorted(p50)
    assert 330 < p50[-1] < 400
    assert found.rough
    assert found.basis == "rough: from 20 runs of other kinds"


def test_the_first_run_of_a_kind_tells_the_next_whatever_was_guessed() -> None:
    """People run the same again; a guess from FLOPs that was off by ten must not outweigh what was measured."""
    history = History()
    history.learn([Level("resnet18 on digits", 2, alike=True)], 200.0)
    prediction = history.predict([Level("resnet18 on digits", 2, alike=True)], 20.0)

    assert prediction
    assert 150 < prediction.p50_s <= 200
    assert 1.1 < prediction.p90_s / prediction.p50_s < 2
    assert not prediction.rough
    assert prediction.basis == "from 1 earlier run"


@pytest.mark.parametrize("epochs", [1, 20, 300])
def test_a_kind_is_told_at_another_length(epochs: int) -> None:
    """Twenty epochs take ten times as long as two."""
    history = History()
    for seconds in (19.0, 20.0, 21.0, 20.0, 20.0):
        history.learn([Level("k", 2, alike=True)], seconds)
    prediction = history.predict([Level("k", epochs, alike=True)], None)

    assert prediction
    assert prediction.p50_s == pytest.approx(10.0 * epochs, rel=0.02)
    assert prediction.p90_s < 10.0 * epochs * math.exp(Z90 * LIKE_SIGMA)


def test_p90_covers_nine_in_ten_for_each_user_once_learned() -> None:
    """One guesses at half, one at twice the length, and not equally well."""
    rng, history = np.random.default_rng(1), History()
    users = {"a": (0.7, 0.4), "b": (-0.7, 1.2)}
    covered: dict[str, list[bool]] = {"a": [], "b": []}
    for n in range(600):
        user = "ab"[n % 2]
        bias, sigma = users[user]
        length = rng.lognormal(8, 2)
        guess = length * math.exp(-bias + rng.normal(0, sigma))
        levels = [Level("all", guess), Level(user, guess)]
        prediction = history.predict(levels, guess)
        assert prediction
        covered[user].append(length <= prediction.p90_s)
        history.learn(levels, length)

    assert all(0.85 <= np.mean(seen[50:]) <= 0.95 for seen in covered.values())


@pytest.mark.parametrize(("n", "least"), [(1, 0.8), (3, 0.85), (12, 0.85)])
def test_p90_covers_nine_in_ten_from_few_runs_of_a_kind(n: int, least: float) -> None:
    """Kinds that vary by a fifth from run to run, and a guess that is off by three: p90 holds from the first run on,
    and is no excuse to promise three times as long."""
    rng, covered, wide = np.random.default_rng(2), [], []
    for _ in range(400):
        history, typical = History(), 100 * math.exp(rng.normal(0, 1.1))
        levels = [Level("vision", 100.0), Level("k", 3, alike=True)]
        for _ in range(n):
            history.learn(levels, typical * math.exp(rng.normal(0, 0.2)))
        prediction = history.predict(levels, 100.0)
        assert prediction
        covered.append(typical * math.exp(rng.normal(0, 0.2)) <= prediction.p90_s)
        wide.append(prediction.p90_s / typical)

    assert np.mean(covered) >= least
    assert np.median(wide) < 1.8


def test_start_up_and_work_are_added_and_seldom_late_together() -> None:
    """p90 of a sum is less than the sum of two p90."""
    work = Prediction(100.0, 140.0, "from 3 earlier runs", rough=False, earlier=3)
    whole = work.after(Prediction(10.0, 40.0, "rough"))

    assert (whole.p50_s, whole.p90_s) == (110.0, 160.0)
    assert (whole.basis, whole.rough, whole.earlier) == ("from 3 earlier runs", False, 3)


def test_only_the_newest_runs_count() -> None:
    """A new driver is learned, however long the old one was used."""
    history = History()
    for seconds in [100.0] * 200 + [50.0] * 50:
        history.learn([Level("k", 1, alike=True)], seconds)
    prediction = history.predict([Level("k", 1, alike=True)], None)

    assert prediction
    assert prediction.p50_s == pytest.approx(50.0)


def test_the_first_steps_tell_the_rest() -> None:
    """Surer with each step."""
    early, late = measured(18.0, 10, 0.1, 90.0), measured(88.0, 80, 0.8, 20.0)

    assert early
    assert late
    assert early.p50_s == 108.0 == late.p50_s
    assert early.p90_s > late.p90_s > 108.0
    assert measured(5.0, 0, 0.0, None) is None
    assert measured(5.0, 3, None, None) is None
