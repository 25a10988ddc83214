"""How long a run will take."""

from __future__ import annotations

import math

import numpy as np

from lab.predict import ROUGH_SIGMA, Z90, History, measured


def test_without_history_the_guess_stands_and_is_called_rough() -> None:
    """From FLOPs, off by three either way."""
    prediction = History().predict(("vision", "resnet50"), 600.0)

    assert prediction.p50_s == 600.0
    assert math.isclose(prediction.p90_s, 600 * math.exp(ROUGH_SIGMA * Z90))
    assert prediction.rough
    assert prediction.basis == "rough: no history yet"


def test_like_runs_count_more_than_all_runs_the_more_of_them_there_are() -> None:
    """One run of a kind pulls a little, twenty decide."""
    history = History()
    for _ in range(40):
        history.learn(("vision", "other"), 100.0, 100.0)
    p50 = []
    for _ in range(20):
        history.learn(("vision", "mine"), 100.0, 400.0)
        p50.append(history.predict(("vision", "mine"), 100.0).p50_s)

    assert 100 < p50[0] < 200
    assert p50 == sorted(p50)
    assert 330 < p50[-1] < 400
    assert history.predict(("vision", "mine"), 100.0).basis == "from 20 earlier runs"
    assert history.predict(("vision", "new"), 100.0).rough


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
        covered[user].append(length <= history.predict(("all", user), guess).p90_s)
        history.learn(("all", user), guess, length)

    assert all(0.85 <= np.mean(seen[50:]) <= 0.95 for seen in covered.values())


def test_a_scale_that_is_no_guess_pulls_nothing() -> None:
    """Seconds an epoch are learned from the first run on."""
    history = History(guesses=False)
    history.learn(("vision", "resnet50"), 10, 3000.0)

    assert not history.knows(("command",))
    assert history.knows(("vision", "new"))
    assert math.isclose(history.predict(("vision", "resnet50"), 20).p50_s, 6000.0)


def test_the_first_steps_tell_the_rest() -> None:
    """Surer with each step."""
    early, late = measured(18.0, 10, 100, startup_s=8.0), measured(88.0, 80, 100, startup_s=8.0)

    assert early
    assert late
    assert early.p50_s == 108.0 == late.p50_s
    assert early.p90_s > late.p90_s > 108.0
    assert measured(5.0, 0, 100, startup_s=8.0) is None
