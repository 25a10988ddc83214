"""A budget on any plan: shown, asked about where the plan clearly does not fit, and never forgotten in silence."""

from __future__ import annotations

from typing import Any

import pytest

from agent import budgets
from lab.plan import Assumed, Budget, Plan
from lab.run import Estimate

GRID = {"lr": (1e-5, 1e-4, 1e-3, 1e-2), "seed": (0,)}


def plan(text: str = "grid", **fields: Any) -> Plan:
    base = {"models": ("resnet18",), "dataset": "digits", "axes": GRID, "epochs": 9, "budget": Budget(gpu_hours=10)}
    return Plan(request_text=text, **base | fields)


def estimate(gpu_hours: float, wall_s: float = 3600.0, **fields: Any) -> Estimate:
    return Estimate(wall_s=wall_s, gpu_hours=gpu_hours, cards=1, **fields)


@pytest.mark.parametrize("hours", [0.1, 9.9, 11.9])
def test_a_plan_that_about_fits_is_not_asked_about(hours: float) -> None:
    """An estimate is not that exact; what does not start within the budget is told later."""
    assert budgets.question(plan(), estimate(hours)) is None
    assert list(budgets.notes(plan())) == ["nothing more is started once 10 GPU-h are used; what runs then is finished"]


def test_a_grid_that_does_not_fit_asks_to_choose_with_figures() -> None:
    """Three ways out, each with its number; none is taken unasked."""
    assert budgets.question(plan(), estimate(20.0)) == (
        "4 runs = 4 learning rates: about 20 GPU-h, and the budget is 10. What shall it be: fewer values or seeds "
        "(about 2 runs fit), or fewer epochs, or a search that stops hopeless runs early (`random search, 4 trials, "
        "successive halving`), or a budget of 20 GPU-h?"
    )


def test_the_question_is_in_the_askers_language() -> None:
    """Both at full strength."""
    asked = budgets.question(plan("网格搜索，最多 10 个 GPU 小时"), estimate(20.0))

    assert asked == (
        "4 个 run = 4 个学习率：约需 20 GPU 小时，而预算是 10。怎么办：减少取值或种子（大约够跑 2 个），还是减少轮数，"
        "还是改为搜索，提前停止没有希望的 run（“随机搜索 4 次，逐次减半”），还是预算加到 20 GPU 小时？"
    )


def test_the_wait_for_a_card_counts_against_hours_on_the_clock() -> None:
    """`within 2 hours` is over after two hours, whoever had the cards until then."""
    asked = plan(budget=Budget(wall_hours=2))

    assert budgets.question(asked, estimate(20.0, wall_s=3600)) is None
    assert "about 3.0 h, and the budget is 2 h" in str(
        budgets.question(asked, estimate(20.0, wall_s=3600, wait_s=7200))
    )


def test_only_what_can_be_done_is_proposed() -> None:
    """A comparison has nothing to search, a run of one epoch none to spare, and where no run fits fewer do not help."""
    compared = plan(models=("a", "b"), axes={"seed": (0,)}, epochs=1)

    assert str(budgets.question(compared, estimate(100.0))).endswith("What shall it be: a budget of 100 GPU-h?")


def test_a_single_run_is_asked_for_its_length() -> None:
    """`for 2 hours` says how long, and nobody stops it after that: three epochs by default are no answer."""
    one = plan(axes={"lr": (0.1,), "seed": (0,)}, budget=Budget(gpu_hours=2, wall_hours=2))
    guessed = one.model_copy(update={"assumed": (Assumed(field="epochs", reason="default"),)})

    assert budgets.question(one, estimate(1.0)) is None
    assert "How many epochs or steps" in str(budgets.question(guessed, estimate(1.0)))


def test_a_search_is_not_asked_about_it_stops_its_runs_early() -> None:
    """It gets halving where it would not fit (agent/searches.within_budget)."""
    assert budgets.question(plan(search="random", trials=8), estimate(100.0)) is None
