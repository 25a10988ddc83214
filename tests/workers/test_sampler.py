"""Optuna asked for the next point, and whether a run is hopeless."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.plan import Axis, Prune, Range, Scalar, Search
from lab.trials import Curve, Trial
from workers.sampler import hopeless, propose

SPACE: dict[str, Axis] = {
    "lr": Range(low=1e-5, high=1e-1),
    "batch_size": Range(low=16, high=256, scale="log2"),
    "dropout": Range(low=0.0, high=0.5, scale="linear"),
    "optimizer": ("sgd", "adamw"),
}


def quality(values: dict[str, Scalar]) -> float:
    """Best at lr 1e-3 with adamw."""
    return -abs(math.log10(float(values["lr"])) + 3) - (values["optimizer"] == "sgd")


def search(kind: Search, trials: int, name: str = "exp-1", maximize: bool = True) -> list[Trial]:
    """The trials of a whole search, one after the other."""
    tried: list[Trial] = []
    sign = 1 if maximize else -1
    for number in range(1, trials + 1):
        values = propose(kind, SPACE, tried, trials, f"{name}/{number}", maximize)
        tried.append(Trial(number, values, "done", sign * quality(values)))
    return tried


@pytest.mark.parametrize("kind", ["random", "bayesian"])
def test_the_same_question_has_the_same_answer(kind: Search) -> None:
    """A restarted leader, or a second one, asks again and must not change the search."""
    tried = search(kind, 8)
    code = (
        "from tests.workers.test_sampler import SPACE, search\nfrom workers.sampler import propose\n"
        f"print(propose({kind!r}, SPACE, search({kind!r}, 8), 20, 'exp-1/9', True))"
    )

    here = propose(kind, SPACE, tried, 20, "exp-1/9", True)
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert elsewhere.strip() == repr(here)
    assert propose(kind, SPACE, tried, 20, "exp-2/9", True) != here


@given(
    kind=st.sampled_from(["random", "bayesian"]),
    low=st.floats(1e-7, 1e-2),
    factor=st.floats(1.001, 1e5),
    scale=st.sampled_from(["log", "linear"]),
    seed=st.text(max_size=5),
)
@settings(max_examples=60, deadline=None)
def test_every_value_lies_in_its_range(kind: Search, low: float, factor: float, scale: str, seed: str) -> None:
    """A value outside was never asked for, however it was rounded."""
    axis = Range.model_validate({"low": low, "high": low * factor, "scale": scale})
    space: dict[str, Axis] = {"lr": axis, "batch_size": SPACE["batch_size"], "optimizer": ("sgd", "adamw")}

    values = propose(kind, space, [], 10, seed, True)

    assert axis.low <= float(values["lr"]) <= axis.high
    assert values["batch_size"] in (16, 32, 64, 128, 256)
    assert type(values["batch_size"]) is int
    assert values["optimizer"] in ("sgd", "adamw")


@pytest.mark.parametrize("maximize", [True, False])
def test_tpe_learns_where_random_search_does_not(maximize: bool) -> None:
    """That it knows which way is better, and what the trials came to."""

    def later_mean(kind: Search) -> float:
        runs = [search(kind, 40, f"exp-{i}", maximize)[20:] for i in range(3)]
        return sum(quality(trial.values) for trials in runs for trial in trials) / 60

    assert later_mean("bayesian") > later_mean("random") + 0.5


def test_nothing_is_proposed_twice_while_there_is_something_left() -> None:
    """Six points, six trials: each is tried once, also those that run at the same time."""
    space: dict[str, Axis] = {"batch_size": Range(low=16, high=64, scale="log2"), "optimizer": ("sgd", "adamw")}
    tried: list[Trial] = []
    for number in range(1, 7):
        tried.append(Trial(number, propose("bayesian", space, tried, 6, f"exp-1/{number}", True), "live"))

    assert len({repr(trial.values) for trial in tried}) == 6


def test_false_and_zero_are_told_apart() -> None:
    """Python holds them equal; a template does not."""
    space: dict[str, Axis] = {"pretrained": (False, True)}
    values = propose("random", space, [], 2, "a", True)

    assert isinstance(values["pretrained"], bool)


def test_trials_of_every_ending_are_told_to_the_study() -> None:
    """One of a kind that Optuna refuses would stop the whole search."""
    ends = [
        Trial(1, {"lr": 0.1, "batch_size": 16, "dropout": 0.1, "optimizer": "sgd"}, "diverged"),
        Trial(2, {"lr": 0.01, "batch_size": 32, "dropout": 0.2, "optimizer": "sgd"}, "pruned", curve={1: 0.3, 2: 0.4}),
        Trial(3, {"lr": 0.001, "batch_size": 64, "dropout": 0.0, "optimizer": "adamw"}, "done", 0.9),
        Trial(4, {"lr": 0.002, "batch_size": 64, "dropout": 0.0, "optimizer": "adamw"}, "failed"),
        Trial(5, {"lr": 0.003, "batch_size": 64, "dropout": 0.0, "optimizer": "adamw"}, "live"),
    ]

    assert set(propose("bayesian", SPACE, ends, 8, "exp-1/6", True)) == set(SPACE)


@pytest.mark.parametrize("rule", ["median", "halving"])
def test_a_run_goes_on_or_not_by_its_place_among_those_that_got_as_far(rule: Prune) -> None:
    """The worst of many is stopped, the best never; epochs that others have not reached say nothing."""
    others: list[Curve] = [{1: 0.5, 2: 0.6, 3: v} for v in (0.5, 0.6, 0.7, 0.8, 0.9)]

    worst = hopeless(rule, {1: 0.1, 2: 0.2, 3: 0.3}, others, 9, True)
    best = hopeless(rule, {1: 0.5, 2: 0.6, 3: 0.95}, others, 9, True)
    alone = hopeless(rule, {1: 0.1, 2: 0.2, 3: 0.3}, [{1: 0.5}, {1: 0.5}], 9, True)

    assert worst is not None
    assert (worst.epoch, worst.value, worst.others) == (3, 0.3, 5)
    assert best is None
    assert alone is None


def test_a_loss_is_hopeless_where_it_is_high() -> None:
    """The metric's direction counts."""
    others: list[Curve] = [{2: v} for v in (0.5, 0.6, 0.7, 0.8)]

    assert hopeless("median", {2: 0.9}, others, 9, False) is not None
    assert hopeless("median", {2: 0.4}, others, 9, False) is None


def test_halving_keeps_a_third_where_the_median_keeps_half() -> None:
    """The rules differ in how much they stop."""
    others: list[Curve] = [{3: v} for v in (0.1, 0.2, 0.3, 0.7, 0.8)]

    assert hopeless("median", {3: 0.5}, others, 9, True) is None
    assert hopeless("halving", {3: 0.5}, others, 9, True) is not None


@given(
    rule=st.sampled_from(["median", "halving"]),
    values=st.lists(st.floats(0, 1), min_size=4, max_size=12),
    epochs=st.integers(2, 30),
)
@settings(max_examples=60, deadline=None)
def test_the_best_run_is_never_stopped(rule: Prune, values: list[float], epochs: int) -> None:
    """Whatever the others do, the one in front goes on."""
    curves: list[Curve] = [{e: value for e in range(1, epochs)} for value in values]
    best = max(range(len(values)), key=values.__getitem__)

    for at in range(1, epochs):
        mine = {e: v for e, v in curves[best].items() if e <= at}
        assert hopeless(rule, mine, [c for i, c in enumerate(curves) if i != best], epochs, True) is None


def test_a_run_that_is_nearly_done_is_left_to_finish() -> None:
    """Stopping it saves little, and its end is worth a point in the table."""
    others: list[Curve] = [{6: v} for v in (0.5, 0.6, 0.7, 0.8)]

    assert hopeless("median", {6: 0.1}, others, 9, True) is None
