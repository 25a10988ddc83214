"""A plan in words, the same in both languages."""

from __future__ import annotations

import pytest

from lab.plan import Assumed, Budget, Plan, Range
from lab.planwords import arithmetic, assumptions, in_words, stated, title

PLAN = Plan(
    models=("resnet18", "vit_tiny"),
    dataset="digits",
    axes={"lr": (0.1, 0.01), "seed": (0, 1, 2)},
    epochs=1,
    priority="high",
    budget=Budget(gpu_hours=2.5, wall_hours=8),
    assumed=(Assumed(field="epochs", reason="default"), Assumed(field="axes.seed", reason="default")),
)
SEARCH = Plan(
    models=("resnet18",),
    axes={"lr": Range(low=1e-5, high=0.1), "seed": (0, 1)},
    search="bayesian",
    trials=20,
    prune="halving",
    epochs=9,
)


def test_it_says_how_the_number_of_runs_comes_about() -> None:
    """People check the arithmetic before they press Run."""
    assert arithmetic(PLAN) == "12 runs = 2 models x 2 learning rates x 3 seeds"
    assert arithmetic(PLAN, chinese=True) == "12 个 run = 2 个模型 x 2 个学习率 x 3 个种子"
    assert arithmetic(SEARCH) == "40 runs = 20 trials x 2 seeds"
    assert arithmetic(SEARCH, chinese=True) == "40 个 run = 20 次采样 x 2 个种子"


def test_what_was_stated_and_what_was_assumed_stand_apart() -> None:
    """A person finds his own words again, and beside them what nobody said."""
    assert stated(PLAN) == ["lr 0.1, 0.01", "at most 2.5 GPU-h, 8 h", "high priority"]
    assert stated(PLAN, chinese=True) == ["lr 0.1, 0.01", "最多 2.5 GPU 小时、8 小时", "高优先级"]
    assert assumptions(PLAN) == ["1 epoch, 3 seeds (default)"]
    assert assumptions(PLAN, chinese=True) == ["1 轮、3 个种子（默认）"]


def test_a_search_is_named_with_what_it_draws() -> None:
    """The range as it stands in the plan, and the rule that stops runs."""
    assert stated(SEARCH)[:3] == ["lr 1e-05 to 0.1 (log)", "2 seeds", "Bayesian search (TPE)"]
    assert stated(SEARCH, chinese=True)[1:] == ["2 个种子", "贝叶斯搜索", "逐次减半", "9 轮"]


@pytest.mark.parametrize(
    ("field", "english", "chinese"),
    [
        ("models", "resnet18, vit_tiny", "resnet18、vit_tiny"),
        ("dataset", "digits", "数据集 digits"),
        ("metric", "metric", "metric"),
        ("gpus_per_run", "1 card a run", "每个 run 1 张卡"),
    ],
)
def test_each_field_has_its_words(field: str, english: str, chinese: str) -> None:
    """A field without a value is named by itself."""
    assert in_words(PLAN, field) == english
    assert in_words(PLAN, field, chinese=True) == chinese


def test_many_models_are_counted_in_the_title() -> None:
    """A title of forty names is none."""
    assert title(PLAN) == "resnet18 against vit_tiny on digits"
    assert title(PLAN, chinese=True) == "resnet18 对比 vit_tiny，数据集 digits"
    assert title(PLAN.model_copy(update={"models": tuple("abcd")}), chinese=True) == "4 个模型，数据集 digits"
