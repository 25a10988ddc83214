# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Ways to find a best value within a budget of GPU-hours: a grid, a Bayesian search, halving; which first, and why."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agent import grids
from lab import planwords
from lab.estimate import duration, gpu_hours
from lab.language import Phrasebook, is_chinese
from lab.ledger import Ledger
from lab.plan import Assumed, Axis, Plan, Range, Scalar, number
from lab.pruning import REDUCTION, rungs
from lab.report import Report, decimals, fixed, metric_name
from lab.run import Design, Estimate, ExperimentState

MOST_TRIALS = 50
"""More draws of one search than this gain little: the expected gap shrinks with their number."""
FEWEST_TRIALS = 5
"""Draws below which a search learns nothing, and halving has nobody to compare with."""
GRID_SEEDS = 3
MOST_EXPERIMENTS = 100
"""Earlier experiments that are looked through for what was reached."""
RISK = 1.5
"""Halving counts as so much coarser than it is: a point that starts slowly may be stopped."""

WORDS = Phrasebook(
    {
        "grid": ("grid", "网格"),
        "bayesian": ("Bayesian search", "贝叶斯搜索"),
        "halving": ("successive halving", "逐次减半"),
        "head": (
            "Within {budget} GPU-h, about {fits} full runs of {model} fit ({each} GPU-h each). Ways to use them, the first one first choice:",
            "{budget} GPU 小时内大约可以完整跑 {fits} 次 {model}（每次 {each} GPU 小时）。可选方案，推荐的在前：",
        ),
        "line": (
            "{n}. {name}: {arithmetic}, {hours} GPU-h, about {wall}: {reason}",
            "{n}. {name}：{arithmetic}，{hours} GPU 小时，约 {wall}：{reason}",
        ),
        "how": (
            "Pick one by its number; it starts at once, with the figures above.",
            "回复编号选择；选中后按上面的数字立即开始。",
        ),
        "near": (
            "the best {axis} lies within a factor of {x} of one tried",
            "最好的 {axis} 与试过的值相差不超过 {x} 倍",
        ),
        "near_by": ("the best {axis} lies within {x} of one tried", "最好的 {axis} 与试过的值相差不超过 {x}"),
        "why_grid": ("{near}; {seeds} seed{s} a value, so {tests}", "{near}；每个值 {seeds} 个种子，{tests}"),
        "tested": ("differences are tested", "差异可以检验"),
        "untested": ("no difference can be told from luck", "分不清差异和运气"),
        "why_bayesian": (
            "each run is drawn from what the others came to; on average {near}, or nearer",
            "每次根据已有结果取点；平均{near}，或更近",
        ),
        "why_halving": (
            "{trials} points for the time of {full} full runs; on average {near}, but one that starts slowly may be stopped",
            "用 {full} 次完整训练的时间试 {trials} 个点；平均{near}，但起步慢的可能被提前停止",
        ),
        "no_room": (
            "One run of {model} takes about {each} GPU-h, so {budget} GPU-h have room for {fits}, too few to find a best value. Fewer epochs, a smaller model, or more hours?",
            "{model} 跑一次约 {each} GPU 小时，{budget} GPU 小时只够跑 {fits} 次，找不到最优值。减少轮数、换小模型，还是多给些时间？",
        ),
        "picked": (
            "One of these was picked already ({id}); ask again to get new designs.",
            "已经选过了（{id}）；要新的方案请重新提问。",
        ),
        "no_offer": (
            "No design with that number is on offer here: beside its thread an offer stands for a day, to who asked, until another plan or question comes between. Pick in its thread, or ask again. If this answers a question of mine, say it in full: `3 seeds`.",
            "这里没有这个编号的方案：在线程之外，方案只对提问的人有效一天，中间有别的计划或问题就失效。请在给出方案的线程里选，或重新提问。如果是回答我的问题，请说完整，例如“3 个种子”。",
        ),
        "not_yours": ("Only {user}, who asked, can pick one of these.", "只有提问的 {user} 可以选择。"),
        "seen": (
            "What has been reached here with {model} on {dataset}: {metric} {value} ({id}); how much better these get is unknown.",
            "这里 {model} 在 {dataset} 上最好曾到 {metric} {value}（{id}）；能再提高多少未知。",
        ),
        "unseen": (
            "How good it gets is unknown: nothing like it has finished here.",
            "最终能到多好未知：这里还没有完成过类似的实验。",
        ),
    }
)
NAMES = {
    "grid": r"grid|网格",
    "bayesian": r"bayes\w*|tpe|贝叶斯",
    "halving": r"halving|asha|逐次减半|减半",
}
ORDINALS = ("first|1st|一", "second|2nd|二|两", "third|3rd|三")
PICK = re.compile(
    r"(?:please|pls|ok(?:ay)?|yes|let'?s|好的?|那|请|就)?[\s,，]*(?:(?:go|do|take|use|pick|choose|run|start|with|for|选择?|用|跑|要|来|采用)\s*)*(?:the\s+)?"
    r"(?:(?:option|design|number|no\.?|#|方案|选项|第)\s*)*"
    rf"(?:(?P<n>[1-9])|(?P<ordinal>{'|'.join(ORDINALS)})|(?P<name>{'|'.join(NAMES.values())}))"
    r"\s*(?:个|种|号|条)?\s*(?:one|option|design|search|方案|选项|搜索)?(?:\s+of\s+(?P<request>req-\d+))?\s*(?:please|pls|吧|谢谢|thanks)?[\s.!。！]*",
    re.IGNORECASE,
)


def wanted(plan: Plan) -> bool:
    """True where a best value is asked for within GPU-hours, and neither how nor which values are said."""
    budget = plan.budget.gpu_hours if plan.budget else None
    return plan.search == "grid" and bool(budget) and bool(_tuned(plan)) and len(plan.models) == 1


def _tuned(plan: Plan) -> tuple[str, ...]:
    """The axes whose values were proposed, those with a range first; empty where none has one."""
    names = [n for n, a in plan.axes.items() if n in grids.RANGES and _n_values(a) > 1 and plan.why(f"axes.{n}")]
    ranged = [n for n in names if isinstance(grids.RANGES[n], Range)]
    return tuple(dict.fromkeys([*ranged, *names])) if ranged else ()


def _n_values(axis: Axis) -> int:
    """How many values it has; of a range none that are known."""
    return 0 if isinstance(axis, Range) else len(axis)


def candidates(
    plan: Plan, each_h: float, most_runs: int, estimate: Callable[[Plan], Estimate | None]
) -> tuple[Design, ...]:
    """Two or three designs that fit the plan's budget, the best first; none where hardly a run fits.

    Args:
        plan: a grid of proposed values with a budget.
        each_h: GPU-hours of one full run.
        estimate: of a plan whose runs go to their end.
    """
    assert plan.budget is not None
    fits = min(int((plan.budget.gpu_hours or 0.0) / each_h), most_runs)
    made = [_grid(plan, fits), _bayesian(plan, fits), _halving(plan, fits, most_runs)]
    found = []
    for one in made:
        full = one and estimate(one.plan)
        if one and full:
            cost = {"gpu_hours": full.gpu_hours * one.share, "wall_s": full.wall_s * one.share}
            told = full.model_copy(update=cost)
            found.append((one.gap, Design(name=_say(plan, one.kind), plan=one.plan, estimate=told, reason=one.reason)))
    return tuple(design for _, design in sorted(found, key=lambda pair: pair[0]))


class _Candidate(NamedTuple):
    """A design before its estimate.

    Attributes:
        gap: how far off a tried value the best one may lie; the smaller, the better the design.
        share: part of its epochs that its runs train for.
    """

    kind: str
    plan: Plan
    gap: float
    reason: str
    share: float = 1.0


def _grid(plan: Plan, fits: int) -> _Candidate | None:
    """The proposed values, with three seeds each where those fit."""
    seeds: Axis = plan.axes.get("seed", (0,))
    single = plan.n_runs // max(1, _n_values(seeds))
    n = GRID_SEEDS if single * GRID_SEEDS <= fits else 1
    if single > fits:
        return None
    axes = plan.axes | {"seed": tuple(range(n))}
    name = _tuned(plan)[0]
    gap = _grid_gap(name, plan.axes[name])
    tests = _say(plan, "tested" if n >= GRID_SEEDS else "untested")
    reason = _say(plan, "why_grid", near=_near(plan, name, gap), seeds=n, s="" if n == 1 else "s", tests=tests)
    return _Candidate("grid", plan.model_copy(update={"axes": axes, "budget": None}), gap, reason)


def _bayesian(plan: Plan, fits: int) -> _Candidate | None:
    trials = min(fits, MOST_TRIALS)
    if trials < FEWEST_TRIALS:
        return None
    searched = _searched(plan, {"search": "bayesian", "trials": trials})
    gap = _gap(plan, trials)
    return _Candidate("bayesian", searched, gap, _say(plan, "why_bayesian", near=_near(plan, _tuned(plan)[0], gap)))


def _halving(plan: Plan, fits: int, most_runs: int) -> _Candidate | None:
    """As many points as the budget has room for when two thirds stop at each rung."""
    if plan.epochs is None or plan.epochs < REDUCTION:
        return None
    share = expected_share(plan.epochs)
    trials = min(int(fits / share), most_runs, 2 * MOST_TRIALS)
    if trials < 2 * FEWEST_TRIALS:
        return None
    searched = _searched(plan, {"search": "random", "trials": trials, "prune": "halving"})
    gap = _gap(plan, trials)
    near = _near(plan, _tuned(plan)[0], gap)
    reason = _say(plan, "why_halving", trials=trials, full=math.ceil(trials * share), near=near)
    return _Candidate("halving", searched, gap * RISK, reason, share)


def expected_share(epochs: int) -> float:
    """Part of all epochs that runs of a halving search train for when a third goes on at each rung."""
    ends = [*rungs(epochs), epochs]
    spent, left, at = 0.0, 1.0, 0
    for end in ends:
        spent += left * (end - at)
        left, at = left / REDUCTION, end
    return spent / epochs


def _searched(plan: Plan, how: dict[str, object]) -> Plan:
    names = _tuned(plan)
    axes = plan.axes | {name: grids.RANGES[name] for name in names} | {"seed": (0,)}
    ranged = {f"axes.{name}" for name in names}
    assumed = tuple(Assumed(field=a.field, reason=grids.WIDE) if a.field in ranged else a for a in plan.assumed)
    return plan.model_copy(update={"axes": axes, "assumed": assumed, **how})


def _gap(plan: Plan, trials: int) -> float:
    """How far the nearest of so many draws lies of a point, on average: half the mean gap between them.

    A factor on a logarithmic scale. Of several axes each gets its share, the n-th root of the draws.
    """
    names = _tuned(plan)
    axis = grids.RANGES[names[0]]
    assert isinstance(axis, Range)
    halves = 2 * (math.pow(trials, 1 / len(names)) + 1)
    return (axis.high - axis.low) / halves if axis.scale == "linear" else math.pow(axis.high / axis.low, 1 / halves)


def _grid_gap(name: str, axis: Axis) -> float:
    """The same of a list: half the widest step between neighbours."""
    values: Sequence[Scalar] = () if isinstance(axis, Range) else axis
    linear = _is_linear(name)
    ordered = sorted(float(v) for v in values if linear or float(v) > 0)
    steps = [b - a if linear else b / a for a, b in itertools.pairwise(ordered)]
    return max(steps) / 2 if linear else math.sqrt(max(steps))


def _is_linear(name: str) -> bool:
    axis = grids.RANGES[name]
    return isinstance(axis, Range) and axis.scale == "linear"


def _near(plan: Plan, name: str, gap: float) -> str:
    return _say(plan, "near_by" if _is_linear(name) else "near", axis=name, x=f"{gap:.3g}" if gap < 2 else f"{gap:.2g}")


def text(plan: Plan, designs: Sequence[Design], each_h: float, reached: str) -> str:
    """What the person reads: what fits, the designs by number with their figures, and what is known of the outcome."""
    assert plan.budget is not None
    budget = plan.budget.gpu_hours or 0.0
    head = _say(
        plan, "head", budget=number(budget), fits=int(budget / each_h), model=plan.models[0], each=gpu_hours(each_h)
    )
    return "\n".join(
        [head, *(line(design, n) for n, design in enumerate(designs, start=1)), reached, _say(plan, "how")]
    )


def line(design: Design, n: int) -> str:
    """One design with its figures."""
    return _say(
        design.plan,
        "line",
        n=n,
        name=design.name,
        arithmetic=planwords.arithmetic(design.plan, is_chinese(design.plan.request_text)),
        hours=gpu_hours(design.estimate.gpu_hours),
        wall=duration(design.estimate.wall_s, is_chinese(design.plan.request_text)),
        reason=design.reason,
    )


def no_room(plan: Plan, each_h: float) -> str:
    """Why there is no design, with what would make room."""
    assert plan.budget is not None
    budget = plan.budget.gpu_hours or 0.0
    fits = int(budget / each_h)
    return _say(plan, "no_room", model=plan.models[0], each=gpu_hours(each_h), budget=number(budget), fits=fits)


def reached(plan: Plan, ledger: Ledger) -> str:
    """What was reached before with this model on this data set, in words; unknown where nothing like it has finished."""
    ended = ledger.experiments(ExperimentState.FINISHED)[-MOST_EXPERIMENTS:]
    best: tuple[float, str, str] | None = None
    for experiment in ended:
        if not {*plan.models} & {*experiment.plan.models} or not {*plan.datasets} & {*experiment.plan.datasets}:
            continue
        found = ledger.report(experiment.id, experiment.report_revision)
        report = Report.model_validate_json(found) if found else None
        for row in report.rows if report and (plan.metric or report.metric) == report.metric else ():
            if report and row.mean is not None and row.model in plan.models and row.dataset in plan.datasets:
                sign = 1 if report.higher_is_better else -1
                if best is None or sign * row.mean > sign * best[0]:
                    best = row.mean, report.metric, experiment.id
    if best is None:
        return _say(plan, "unseen")
    value, metric, experiment_id = best
    shown = fixed(value, decimals(None, value))
    where = {"model": plan.models[0], "dataset": ", ".join(plan.datasets)}
    return _say(plan, "seen", metric=metric_name(metric), value=shown, id=experiment_id, **where)


def choice(message: str, designs: Sequence[Design], request_id: str) -> int | None:
    """Place of the design that the message picks, from 0; None where it says something else.

    A button sends `design 2 of req-7`, and that of an older offer picks nothing.
    """
    match = PICK.fullmatch(" ".join(message.strip().strip("`").split()))
    if match is None or (match["request"] or request_id) != request_id:
        return None
    if match["n"]:
        place = int(match["n"]) - 1
    elif match["ordinal"]:
        place = next(i for i, words in enumerate(ORDINALS) if re.fullmatch(words, match["ordinal"], re.IGNORECASE))
    else:
        place = next((i for i, d in enumerate(designs) if re.fullmatch(NAMES[_kind(d.plan)], match["name"], re.I)), -1)
    return place if 0 <= place < len(designs) else None


def is_pick(message: str) -> bool:
    """True for a message that picks by number or place, whatever is on offer."""
    match = PICK.fullmatch(" ".join(message.strip().strip("`").split()))
    return match is not None and match["name"] is None


def _kind(plan: Plan) -> str:
    return "grid" if plan.search == "grid" else "halving" if plan.prune == "halving" else "bayesian"


def _say(plan: Plan, key: str, /, **fields: object) -> str:
    return WORDS.say(key, is_chinese(plan.request_text), **fields)
