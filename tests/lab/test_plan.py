"""Plans: what runs they stand for, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lab.plan import Assumed, Plan, Range, number


def test_points_are_every_combination_with_seeds_slowest() -> None:
    """After a third of the time every configuration has been seen once."""
    plan = Plan(models=("a", "b"), dataset="digits", axes={"seed": (0, 1), "lr": (0.1, 0.01)})

    points = plan.points()

    assert len(points) == plan.n_runs == 8
    assert [point.params["seed"] for point in points] == [0] * 4 + [1] * 4
    assert len({(p.model, *p.params.items()) for p in points}) == 8


@given(
    models=st.integers(1, 3), seeds=st.integers(1, 4), rates=st.integers(1, 4), datasets=st.sampled_from([None, 1, 2])
)
def test_the_count_is_the_number_of_points(models: int, seeds: int, rates: int, datasets: int | None) -> None:
    """The number on the plan card is what runs."""
    plan = Plan(
        models=tuple(f"m{i}" for i in range(models)),
        dataset=None if datasets is None else tuple(f"d{i}" for i in range(datasets)),
        axes={"seed": tuple(range(seeds)), "lr": tuple(10.0**-i for i in range(rates))},
    )

    assert plan.n_runs == len(plan.points())


@pytest.mark.parametrize(
    "fields",
    [
        {"axes": {"lr": ()}},
        {"axes": {"lr": (float("nan"),)}},
        {"axes": {"lr": {"low": 1.0, "high": 0.1}}},
        {"axes": {"lr": {"low": 0.0, "high": 0.1}}},
        {"epochs": 0},
        {"gpus_per_run": 0},
        {"unknown": 1},
        {"budget": {"gpu_hours": -1}},
    ],
)
def test_what_cannot_run_is_refused(fields: dict[str, object]) -> None:
    """A plan that exists can be run."""
    with pytest.raises(ValidationError):
        Plan.model_validate({"models": ("a",)} | fields)


def test_a_huge_grid_is_counted_without_being_made() -> None:
    """10,000 runs are asked about, not built."""
    assert Plan(models=("a",), axes={"lr": Range(low=1e-5, high=1, num=10_000), "seed": (0, 1)}).n_runs == 20_000


def test_a_range_that_nobody_made_a_grid_of_has_no_points() -> None:
    """A grid runs values that people saw."""
    with pytest.raises(ValueError, match="ranges"):
        Plan(models=("a",), axes={"lr": Range(low=1e-5, high=1)}).points()


def test_the_runs_of_a_search_are_there_without_what_is_drawn() -> None:
    """Their number is known beforehand; trial by trial, the seeds of one together."""
    axes = {"lr": Range(low=1e-5, high=1), "optimizer": ("sgd", "adamw"), "batch_size": (64,), "seed": (0, 1)}
    plan = Plan(models=("a", "b"), axes=axes, search="random", trials=2)
    points = plan.points()

    assert plan.n_runs == len(points) == 8
    assert set(plan.drawn) == {"lr", "optimizer"}
    assert [(p.model, p.params["seed"]) for p in points[:4]] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert all(set(p.params) == {"batch_size", "seed"} for p in points)
    assert [plan.trial_of(number) for number in range(1, 9)] == [1, 1, 1, 1, 2, 2, 2, 2]


def test_a_grid_draws_nothing() -> None:
    """Its values are all there."""
    plan = Plan(models=("a",), axes={"lr": (0.1, 0.01)})

    assert plan.drawn == {}
    assert plan.trial_of(1) is None


def test_it_knows_why_a_value_was_assumed() -> None:
    """A value without a reason is one that the person stated."""
    plan = Plan(models=("a", "b"), axes={"seed": (0, 1, 2)}, assumed=(Assumed(field="axes.seed", reason="3 seeds"),))

    assert plan.why("axes.seed") == "3 seeds"
    assert plan.why("epochs") is None


@pytest.mark.parametrize(
    ("value", "words"), [(0.1 + 0.2, "0.3"), (1e-5, "1e-05"), (64, "64"), ("adam", "adam"), (True, "true")]
)
def test_numbers_are_written_as_people_write_them(value: float | str, words: str) -> None:
    """0.30000000000000004 is nobody's learning rate."""
    assert number(value) == words
