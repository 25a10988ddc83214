# ruff: noqa: E501  (a table of sentences is easier to read with a line for each)
"""Searches: what people type for them, what stands in their way, and what is said about them."""

from __future__ import annotations

from typing import Any

import pytest

from agent import searches
from agent.understand import understand
from lab.plan import Budget, Plan, Range
from lab.run import Estimate

LR = (1e-5, 0.1)

SENTENCES: list[tuple[str, str, int | None, str | None, dict[str, Any]]] = [
    ("find the best lr for resnet50 with 20 trials", "bayesian", 20, None, {"lr": LR}),
    ("random search over lr 1e-5..1e-2 and wd 1e-6..1e-3 for resnet18 on digits, 30 trials", "random", 30, None, {"lr": (1e-5, 1e-2), "weight_decay": (1e-6, 1e-3)}),
    ("贝叶斯搜索 resnet18 在 digits 上的学习率 1e-5 到 1e-2，20 次试验", "bayesian", 20, None, {"lr": (1e-5, 1e-2)}),
    ("tune lr of resnet18 on digits with optuna, 15 trials, 5 epochs", "bayesian", 15, None, {"lr": LR}),
    ("bayesian search lr from 1e-5 to 1e-1, batch size 16-256, resnet18, digits, 12 trials, prune bad ones", "bayesian", 12, "median", {"lr": LR, "batch_size": (16, 256)}),
    ("用 TPE 给 resnet18 调学习率，6 次，digits", "bayesian", 6, None, {"lr": LR}),
    ("随机搜索 lr 1e-4~1e-1 和 weight decay 1e-6~1e-2，resnet18，digits，30 组", "random", 30, None, {"lr": (1e-4, 0.1), "weight_decay": (1e-6, 1e-2)}),
    ("successive halving over lr for resnet18 on digits, 27 trials", "random", 27, "halving", {"lr": LR}),
    ("ASHA search of lr 1e-5 to 1e-1 for resnet18 on digits with 16 trials and 9 epochs", "random", 16, "halving", {"lr": LR}),
    ("search lr and weight decay of resnet18 on digits with 24 trials, stop hopeless ones early", "bayesian", 24, "median", {"lr": LR, "weight_decay": (1e-6, 1e-2)}),
    ("random search 12 runs, resnet18 on digits, lr between 1e-4 and 0.1", "random", 12, None, {"lr": (1e-4, 0.1)}),
    ("resnet18 在 digits 上随机搜 lr 和 dropout，跑 16 组，差的提前停", "random", 16, "median", {"lr": LR, "dropout": (0, 0.5)}),
    ("给 mobilenetv3_small_050 做超参搜索，20 组，digits，逐次减半，9 轮", "random", 20, "halving", {"lr": LR}),
    ("bo over dropout 0 to 0.5, resnet18, digits, n_trials=10", "bayesian", 10, None, {"dropout": (0, 0.5)}),
    ("sample 20 random configs of lr in [1e-5, 1e-2] and wd in [1e-6, 1e-3] for resnet18 digits", "random", 20, None, {"lr": (1e-5, 1e-2), "weight_decay": (1e-6, 1e-3)}),
    ("30 random samples of lr from 1e-5 to 1 (log), resnet18, digits, median pruner", "random", 30, "median", {"lr": (1e-5, 1.0)}),
    # written before they were tried
    ("resnet34 on digits: hunt for a good learning rate between 1e-5 and 0.1, 18 trials with TPE", "bayesian", 18, None, {"lr": LR}),
    ("please do a random search for vgg16 on cifar10. lr log-uniform 1e-4 to 1e-1, weight decay 1e-6 to 1e-3, 25 trials, 10 epochs each", "random", 25, None, {"lr": (1e-4, 0.1), "weight_decay": (1e-6, 1e-3)}),
    ("bayesopt the lr of vit_tiny_patch16_224 on cifar100, 1e-5–1e-2, 30 trials, kill the bad trials early", "bayesian", 30, "median", {"lr": (1e-5, 1e-2)}),
    ("hyperband, 27 trials, convnext_tiny on cifar10, lr 1e-5 to 1e-2, 27 epochs", "random", 27, "halving", {"lr": (1e-5, 1e-2)}),
    ("try 15 random learning rates from 1e-4 to 1e-1 for resnet18 on digits", "random", 15, None, {"lr": (1e-4, 0.1)}),
    ("optimise lr and momentum of resnet18 (sgd) on digits, 20 trials", "bayesian", 20, None, {"lr": LR, "momentum": (0.8, 0.99)}),
    ("tpe lr 1e-4..1e-1 resnet18 digits 12 trials 4 epochs", "bayesian", 12, None, {"lr": (1e-4, 0.1)}),
    ("i want 40 trials of random search on resnet50/cifar10: lr 1e-5 to 1e-1, batch 32 to 512", "random", 40, None, {"lr": LR, "batch_size": (32, 512)}),
    ("search the learning rate for efficientnet_b0 on digits with 10 trials, drop poor runs early", "bayesian", 10, "median", {"lr": LR}),
    ("帮我用贝叶斯优化调 resnet50 的 lr（1e-5~1e-2）和权重衰减（1e-6~1e-2），cifar10，30 次", "bayesian", 30, None, {"lr": (1e-5, 1e-2), "weight_decay": (1e-6, 1e-2)}),
    ("resnet18 digits 随机搜索学习率，范围 1e-4 到 0.1，20次试验，10轮", "random", 20, None, {"lr": (1e-4, 0.1)}),
    ("用 optuna 搜 vgg11 在 cifar10 上的 dropout 0 到 0.6，15 次，表现不好的提前终止", "bayesian", 15, "median", {"dropout": (0, 0.6)}),
    ("异步减半搜索 lr，resnet18，digits，32 次试验，9 轮", "random", 32, "halving", {"lr": LR}),
    ("找 resnet18 在 digits 上最好的学习率，试 12 次", "bayesian", 12, None, {"lr": LR}),
    ("超参搜索：resnet18，digits，lr 和 batch size，20 组，剪枝", "bayesian", 20, "median", {"lr": LR, "batch_size": (16, 256)}),
    ("random search, optimizer in {sgd, adamw}, lr 1e-4 to 1e-1, resnet18 on digits, 16 trials, 2 seeds", "random", 16, None, {"lr": (1e-4, 0.1), "optimizer": ("sgd", "adamw")}),
    ("can you search for the best weight decay for resnet18 on digits? 8 trials should do", "bayesian", 8, None, {"weight_decay": (1e-6, 1e-2)}),
    ("best lr for resnet18 on digits please, 12 trials, median stopping", "bayesian", 12, "median", {"lr": LR}),
    ("ResNet-50 CIFAR10 贝叶斯 lr 1e-5–1e-1 trials=24", "bayesian", 24, None, {"lr": LR}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "search", "trials", "prune", "space"), SENTENCES, ids=[s[0] for s in SENTENCES])
def test_a_sentence_asks_for_a_search(
    text: str, search: str, trials: int, prune: str | None, space: dict[str, Any]
) -> None:
    """Kind, number of trials, rule and what is drawn from which range; a range that nobody named is listed as such."""
    understood = understand(text)
    plan = understood.plan

    assert plan is not None
    assert understood.question is None
    assert (plan.search, plan.trials, plan.prune) == (search, trials, prune)
    drawn = {name: (a.low, a.high) if isinstance(a, Range) else a for name, a in plan.drawn.items()}
    assert drawn == space
    assert plan.n_runs == trials * len(plan.axes["seed"])  # type: ignore[arg-type]
    named = any(character.isdigit() for character in text.split("lr")[-1])
    assert named or plan.why("axes.lr") is not None


@pytest.mark.parametrize(
    ("text", "search", "n"),
    [
        ("prune resnet50 on digits to half of its weights", "grid", 1),
        ("grid search lr 0.1, 0.01, 0.001 resnet18 digits", "grid", 3),
        ("resnet18 on digits, lr from 1e-4 to 1e-1, early stopping patience 3", "grid", 4),
        ("compare resnet18 and vgg16 on digits, 3 seeds", "grid", 6),
        ("resnet18 在 digits 上跑三遍", "grid", 3),
    ],
)
def test_what_looks_like_a_search_and_is_none(text: str, search: str, n: int) -> None:
    """Weights are pruned too, and a range without trials is a grid."""
    plan = understand(text).plan

    assert plan is not None
    assert (plan.search, plan.prune, plan.n_runs) == (search, None, n)


def test_trials_beside_a_list_of_values_are_said_not_to_be_used() -> None:
    """The list is a grid; a number that went lost would be noticed in the morning."""
    plan = understand("resnet18 digits lr 0.1/0.01, 5 trials").plan

    assert plan is not None
    assert plan.n_runs == 2
    assert plan.notes == ("not used: trials 5",)


def search(**fields: Any) -> Plan:
    axes = fields.pop("axes", {"lr": Range(low=1e-5, high=0.1), "seed": (0,)})
    return Plan(**{"models": ("resnet18",), "axes": axes, "search": "random", "trials": 8, "epochs": 9} | fields)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (search(axes={"lr": (0.1,)}), ["What shall the search vary"]),
        (search(trials=None), ["How many trials"]),
        (search(axes={"optimizer": ("sgd", "adamw")}, trials=3), ["optimizer sgd, adamw", "only 2", "try 3"]),
        (search(axes={"lr": (0.1,)}, request_text="随机搜索，八次"), ["要搜索哪个参数"]),
    ],
)
def test_a_search_that_cannot_be_is_asked_about(plan: Plan, words: list[str]) -> None:
    """In the asker's language, with the figures."""
    question = searches.question(plan)

    assert question is not None
    for word in words:
        assert word in question


def test_as_many_trials_as_points_are_no_question() -> None:
    """The search is then a grid in an order of its own."""
    assert searches.question(search(axes={"optimizer": ("sgd", "adamw")}, trials=2)) is None


def test_the_card_says_when_runs_are_stopped() -> None:
    """People must not wonder at runs that did not finish."""
    notes = searches.settled(search(prune="halving", epochs=27)).notes

    assert notes == (
        "successive halving: at epochs 1, 3, 9 only the best third goes on; the estimate counts each run at full length",
    )
    assert searches.settled(search(prune="median", request_text="随机搜索 8 次")).notes == (
        "低于其他 run 中位数的会提前停止；估计按全部跑完计算",
    )


def test_a_run_of_one_epoch_is_not_stopped_early_and_the_card_says_so() -> None:
    """The person asked for it, so the plan does not drop it in silence."""
    plan = searches.settled(search(prune="halving", epochs=1))

    assert plan.prune is None
    assert plan.notes == ("a run of 1 epoch is too short to be stopped early, so each runs to its end",)


@pytest.mark.parametrize(("hours", "prune"), [(9.0, None), (11.0, "halving")])
def test_runs_are_stopped_early_where_the_budget_demands_it_and_the_card_says_why(hours: float, prune: str) -> None:
    """More trials than fit are not cut in silence: halving makes room, as an assumption that one click corrects."""
    plan = search(budget=Budget(gpu_hours=10))
    made = searches.within_budget(plan, Estimate(wall_s=60, gpu_hours=hours, cards=1))

    assert made.prune == prune
    assert made.why("prune") == ("at full length they would take about 11 of the 10 GPU-h" if prune else None)
    assert searches.within_budget(plan, None) == plan


def test_the_ends_of_what_is_drawn_are_checked_against_the_template() -> None:
    """A range that leaves what the template takes would fail at some trial in the night."""
    axes = {"lr": Range(low=1e-5, high=0.1), "batch_size": Range(low=16, high=64, scale="log2"), "seed": (0,)}
    tried = list(searches.extremes(search(axes=axes)))

    assert [p.params for p in tried] == [
        {"seed": 0},
        {"seed": 0, "lr": 1e-5},
        {"seed": 0, "lr": 0.1},
        {"seed": 0, "batch_size": 16},
        {"seed": 0, "batch_size": 64},
    ]
