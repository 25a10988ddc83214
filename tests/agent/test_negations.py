"""A negation is never read as its opposite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.reader import PreviousPlan
from agent.reader.negations import sort
from agent.understand import understand

HELD = PreviousPlan(id="exp-7", models=("resnet34",), dataset="svhn", axes={"lr": [0.1], "optimizer": ["sgd", "adam"]})
NOT = st.sampled_from(
    [
        "not {}",
        "don't use {}",
        "without {}",
        "no {}",
        "instead of {}",
        "rather than {}",
        "不要 {}",
        "别用 {}",
        "而不是 {}",
        "不用 {}",
    ]
)


@given(cue=NOT, pair=st.permutations(["cifar10", "svhn", "stl10"]))
def test_a_data_set_that_is_excluded_is_not_trained_on(cue: str, pair: list[str]) -> None:
    """Whatever the cue, the other one is meant."""
    plan = understand(f"train resnet18 on {pair[0]}, {cue.format(pair[1])}").plan

    assert plan is not None
    assert plan.datasets == (pair[0],)


@given(cue=NOT, pair=st.permutations(["sgd", "adamw", "rmsprop"]))
def test_an_optimizer_that_is_excluded_is_not_used(cue: str, pair: list[str]) -> None:
    """The same for words."""
    plan = understand(f"train resnet18 on svhn with {pair[0]}, {cue.format(pair[1])}").plan

    assert plan is not None
    assert plan.axes["optimizer"] == (pair[0],)


@pytest.mark.parametrize(
    "text",
    [
        "compare adam and sgd on resnet18; don't use adam",
        "resnet18 and vgg16 on svhn, without vgg16",
        "resnet18 on svhn, lr 0.1, 0.01, but not 0.01",
        "resnet18 用 svhn，不要 svhn",
    ],
)
def test_a_contradiction_is_asked_about(text: str) -> None:
    """In or out: only the person knows."""
    understood = understand(text)

    assert not understood.may_start
    assert understood.question


@pytest.mark.parametrize(
    "text", ["train resnet18 on svhn, don't use adam", "resnet18 on svhn, not lr 0.001", "不要 digits，训练 resnet18"]
)
def test_a_default_that_was_excluded_is_not_assumed(text: str) -> None:
    """Nor is one taken in silence that the template may have."""
    assert not understand(text).may_start


def test_values_leave_a_range() -> None:
    """A range names its values together, so that leaving one out is no contradiction."""
    plan = understand("resnet18 on svhn, seeds 0 to 4 except 3, lr from 1e-3 to 1e-1 without 1e-2").plan

    assert plan is not None
    assert plan.axes["seed"] == (0, 1, 2, 4)
    assert plan.axes["lr"] == (0.001, 0.1)


def test_besides_is_no_exclusion() -> None:
    """除了 ... 也 means `as well as`."""
    assert sort("除了 adam 也试 sgd", [(3, 7, "adam"), (11, 14, "sgd")]) == (["adam", "sgd"], [])
    assert sort("除了 adam 都可以", [(3, 7, "adam")]) == ([], ["adam"])


def test_the_last_value_of_an_axis_is_not_dropped_in_silence() -> None:
    """A run needs a learning rate."""
    understood = understand("don't use lr 0.1", HELD)

    assert not understood.may_start
    assert "instead of 0.1" in (understood.question or "")


def test_a_word_leaves_the_plan_of_the_thread() -> None:
    """The rest of it stays."""
    plan = understand("rerun it, but not with adam", HELD).plan

    assert plan is not None
    assert plan.axes["optimizer"] == ("sgd",)
    assert plan.axes["lr"] == (0.1,)
