"""A plan whose values are drawn while it runs: what of it cannot be, and what has to be said about it."""

from __future__ import annotations

from collections.abc import Iterator

from lab.estimate import gpu_hours
from lab.language import Phrasebook, is_chinese
from lab.plan import Assumed, Plan, Point, Range, Scalar, number
from lab.planwords import in_words
from lab.pruning import rungs
from lab.run import Estimate
from lab.space import combinations

WORDS = Phrasebook(
    {
        "what_varies": (
            "What shall the search vary, and over which range? For example lr 1e-5 to 1e-1.",
            "要搜索哪个参数，范围是多少？例如 lr 1e-5 到 1e-1。",
        ),
        "how_many": ("How many trials may the search take?", "搜索一共试多少次？"),
        "too_small": (
            "{axes} has only {n} different points, and the search would try {trials}. Shall I run each of the {n} "
            "once, or draw from a wider range?",
            "{axes} 只有 {n} 个不同的点，而搜索要试 {trials} 次。是把这 {n} 个各跑一次，还是换更大的范围？",
        ),
        "demanded": (
            "at full length they would take about {all} of the {budget} GPU-h",
            "全部跑完约需 {all} GPU 小时，而预算是 {budget}",
        ),
        "pruned": (
            "runs below the median of the others are stopped early; the estimate counts each at full length",
            "低于其他 run 中位数的会提前停止；估计按全部跑完计算",
        ),
        "halved": (
            "successive halving: at epochs {epochs} only the best third goes on; the estimate counts each run at full "
            "length",
            "逐次减半：在第 {epochs} 轮只保留最好的三分之一；估计按全部跑完计算",
        ),
        "too_short_to_prune": (
            "a run of {n} is too short to be stopped early, so each runs to its end",
            "{n} 太短，无法提前停止，所以每个都跑完",
        ),
    }
)


def question(plan: Plan) -> str | None:
    """What has to be answered before the search can start; None when nothing has."""
    chinese = is_chinese(plan.request_text)
    if not plan.drawn:
        return WORDS.say("what_varies", chinese)
    if plan.trials is None:
        return WORDS.say("how_many", chinese)
    points = combinations(plan.drawn)
    if points is not None and plan.trials > points:
        axes = ", ".join(in_words(plan, f"axes.{name}", chinese) for name in plan.drawn)
        return WORDS.say("too_small", chinese, axes=axes, n=points, trials=plan.trials)
    return None


def within_budget(plan: Plan, estimate: Estimate | None) -> Plan:
    """The plan, with halving where its runs at full length would take more than the budget and no rule was said."""
    budget = plan.budget.gpu_hours if plan.budget else None
    if estimate is None or budget is None or plan.prune or estimate.gpu_hours <= budget or not (plan.epochs or 0) > 2:
        return plan
    hours = {"all": gpu_hours(estimate.gpu_hours), "budget": number(budget)}
    reason = WORDS.say("demanded", is_chinese(plan.request_text), **hours)
    assumed = (*plan.assumed, Assumed(field="prune", reason=reason))
    return plan.model_copy(update={"prune": "halving", "assumed": assumed})


def settled(plan: Plan) -> Plan:
    """The plan with what people should know of its search among its notes; a rule that could stop nothing is gone."""
    chinese, notes = is_chinese(plan.request_text), list(plan.notes)
    prune = plan.prune
    if prune is not None and (plan.epochs is None or plan.epochs < 2):
        length = in_words(plan, "epochs" if plan.epochs else "max_steps", chinese)
        notes.append(WORDS.say("too_short_to_prune", chinese, n=length))
        prune = None
    elif prune == "halving":
        notes.append(WORDS.say("halved", chinese, epochs=", ".join(map(str, rungs(plan.epochs or 1)))))
    elif prune == "median":
        notes.append(WORDS.say("pruned", chinese))
    return plan.model_copy(update={"prune": prune, "notes": tuple(notes)})


def extremes(plan: Plan) -> Iterator[Point]:
    """Points between which all others lie, to be checked against what a template takes."""
    firsts = {(point.model, point.dataset): point for point in plan.points()}
    for point in firsts.values():
        yield point
        for name, axis in plan.drawn.items():
            ends: tuple[Scalar, ...] = (axis.low, axis.high) if isinstance(axis, Range) else axis
            for value in ends:
                yield point.model_copy(update={"params": {**point.params, name: _typed(value)}})


def _typed(value: Scalar) -> Scalar:
    """A whole number where it is one: a range holds both ends as floats, and a batch size is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
