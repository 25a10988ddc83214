"""A request for the best value becomes a grid that says why, and never one run."""

from __future__ import annotations

import pytest

from agent import grids
from agent.reader import PreviousPlan
from agent.understand import understand


@pytest.mark.parametrize(
    "text",
    [
        "find the best learning rate for resnet18 on svhn",
        "resnet18 调参",
        "tune lr and weight decay for resnet18",
        "lr sweep for resnet18 on svhn",
        "which batch size works best for resnet18 on svhn?",
        "resnet18 在 svhn 上找最好的 dropout",
    ],
)
def test_the_best_value_is_never_sought_with_one_run(text: str) -> None:
    """Every proposed value is listed as assumed."""
    plan = understand(text).plan

    assert plan is not None
    assert plan.n_runs > 2
    assert all(plan.why(f"axes.{name}") for name in plan.varying)


def test_a_rate_is_tried_around_what_its_optimizer_likes() -> None:
    """0.1 is usual for sgd, and too much for adam."""
    sgd = understand("find the best lr for resnet18 on svhn with sgd").plan
    adam = understand("find the best lr for resnet18 on svhn with adam").plan

    assert sgd is not None
    assert adam is not None
    assert sgd.axes["lr"] == (0.3, 0.1, 0.03, 0.01)
    assert adam.axes["lr"] == (0.003, 0.001, 0.0003, 0.0001)
    assert "sgd" in str(sgd.why("axes.lr"))


def test_too_many_axes_are_asked_about() -> None:
    """Four axes of three values are 81 runs that nobody counted."""
    assert grids.propose(("lr", "weight_decay", "momentum", "dropout"), {}) is None
    assert not understand("tune lr, weight decay, momentum and dropout of resnet18 on svhn").may_start


def test_values_that_stand_unread_are_asked_about_rather_than_replaced() -> None:
    """Somebody who wrote values does not want others."""
    understood = understand("lr sweep: resnet18 on svhn, maybe 0.5 or 0.25")

    assert not understood.may_start


def test_a_thread_is_tuned_where_it_stands() -> None:
    """Everything else of the plan stays."""
    held = PreviousPlan(id="exp-7", models=("resnet34",), dataset="svhn", axes={"lr": [0.01], "seed": [0, 1]}, epochs=5)
    plan = understand("now find the best batch size", held).plan

    assert plan is not None
    assert plan.axes["lr"] == (0.01,)
    assert plan.n_runs == 2 * len(plan.axes["batch_size"])  # type: ignore[arg-type]


def test_a_try_is_one_run() -> None:
    """`try` names no search."""
    understood = understand("try resnet18 on svhn")

    assert understood.intent == "train"
    assert understood.plan is not None
    assert understood.plan.n_runs == 1
