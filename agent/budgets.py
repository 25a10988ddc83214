"""A plan against its budget: what has to be said of it on the card, and asked where the budget is clearly too small."""

from __future__ import annotations

from collections.abc import Iterator

from lab.estimate import duration, gpu_hours
from lab.language import Phrasebook, is_chinese
from lab.plan import Plan, number
from lab.planwords import arithmetic
from lab.pruning import REDUCTION
from lab.run import Estimate

OVER = 1.2
"""An estimate that is so many times the budget is worth a word; it may be off by less."""
WORDS = Phrasebook(
    {
        "one_run": (
            "A budget keeps further runs from starting; it does not stop one that has begun. How many epochs or steps "
            "shall it be?",
            "预算只会不再启动新的 run，不会停下已经开始的。要训练多少轮或多少步？",
        ),
        "gpu_hours": (
            "{runs}: about {took} GPU-h, and the budget is {most}.",
            "{runs}：约需 {took} GPU 小时，而预算是 {most}。",
        ),
        "wall_hours": (
            "{runs}: about {took}, and the budget is {most} h.",
            "{runs}：约需 {took}，而预算是 {most} 小时。",
        ),
        "choose": ("{over} What shall it be: {ways}?", "{over}怎么办：{ways}？"),
        "or": (", or ", "，还是"),
        "fewer": ("fewer values or seeds (about {n} runs fit)", "减少取值或种子（大约够跑 {n} 个）"),
        "shorter": ("fewer epochs", "减少轮数"),
        "search": (
            "a search that stops hopeless runs early (`random search, {n} trials, successive halving`)",
            "改为搜索，提前停止没有希望的 run（“随机搜索 {n} 次，逐次减半”）",
        ),
        "more": ("a budget of {n}", "预算加到 {n}"),
        "gpu_h": ("{n} GPU-h", "{n} GPU 小时"),
        "h": ("{n} h", "{n} 小时"),
        "over_gpu_hours": (
            "It needs about {took} GPU-h of a budget of {most}.",
            "约需 {took} GPU 小时，预算是 {most}。",
        ),
        "over_wall_hours": ("It takes about {took} of a budget of {most} h.", "约需 {took}，预算是 {most} 小时。"),
        "note_gpu_hours": (
            "nothing more is started once {most} GPU-h are used; what runs then is finished",
            "用满 {most} GPU 小时后不再启动新的 run；正在跑的会跑完",
        ),
        "note_wall_hours": (
            "nothing more is started {most} h after the approval; what runs then is finished",
            "批准后满 {most} 小时不再启动新的 run；正在跑的会跑完",
        ),
    }
)


def notes(plan: Plan) -> Iterator[str]:
    """How the budget is kept."""
    for limit, most, _ in _limits(plan, None):
        yield _say(plan, f"note_{limit}", most=number(most))


def remarks(plan: Plan, estimate: Estimate) -> Iterator[str]:
    """That the estimate is clearly over the budget."""
    for limit, most, needed in _limits(plan, estimate):
        if needed > OVER * most:
            yield _say(plan, f"over_{limit}", took=_took(plan, limit, needed), most=number(most))


def question(plan: Plan, estimate: Estimate | None) -> str | None:
    """What to choose where a grid clearly does not fit; None where it does, or nothing is known of its length.

    A single run is not stopped by a budget, so its length has to be said.
    """
    if plan.budget is None:
        return None
    if plan.n_runs == 1 and plan.why("epochs") is not None:
        return _say(plan, "one_run")
    if estimate is None or plan.search != "grid":
        return None
    for limit, most, needed in _limits(plan, estimate):
        if needed > OVER * most:
            runs = arithmetic(plan, is_chinese(plan.request_text))
            over = _say(plan, limit, runs=runs, took=_took(plan, limit, needed), most=number(most))
            ways = _say(plan, "or").join(_ways(plan, limit, most, needed))
            return _say(plan, "choose", over=over, ways=ways)
    return None


def _ways(plan: Plan, limit: str, most: float, needed: float) -> Iterator[str]:
    """What would make the plan fit, and what it needs as it is."""
    fits = int(plan.n_runs * most / needed)
    if fits > 0 and plan.varying:
        yield _say(plan, "fewer", n=fits)
    if (plan.epochs or 0) > 1:
        yield _say(plan, "shorter")
    drawn = [name for name in plan.varying if name != "seed"]
    if fits > 0 and drawn and (plan.epochs or 0) >= REDUCTION:
        yield _say(plan, "search", n=max(1, plan.n_runs // max(1, len(plan.models) * len(plan.datasets))))
    unit = "gpu_h" if limit == "gpu_hours" else "h"
    yield _say(plan, "more", n=_say(plan, unit, n=gpu_hours(needed)))


def _limits(plan: Plan, estimate: Estimate | None) -> Iterator[tuple[str, float, float]]:
    """Each limit of the budget, in hours, with what the plan needs of it by the estimate."""
    if plan.budget is None:
        return
    wall_s = estimate.wall_s + (estimate.wait_s or 0.0) if estimate else 0.0
    needs = {"gpu_hours": estimate.gpu_hours if estimate else 0.0, "wall_hours": wall_s / 3600}
    for limit, most in plan.budget.model_dump().items():
        if most is not None:
            yield limit, most, needs[limit]


def _took(plan: Plan, limit: str, hours: float) -> str:
    return gpu_hours(hours) if limit == "gpu_hours" else duration(hours * 3600, is_chinese(plan.request_text))


def _say(plan: Plan, key: str, /, **fields: object) -> str:
    return WORDS.say(key, is_chinese(plan.request_text), **fields)
