"""What follows from a search: the best point, how little one run says of it, and what would confirm it. No winner.

The best of many trials was chosen because its value was the best, so that value is too good: how much, only running it
again can tell. No test is made here, however many seeds a trial had: the same values chose and would judge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.importance import importance
from agent.points import PointData
from agent.stats import mean
from agent.wording import Words
from lab import planwords
from lab.language import Phrasebook
from lab.plan import Axis, Plan, Range, Scalar, number
from lab.report import Verdict, again_command, decimals, fixed, higher_is_better, metric_name

WORDS = Phrasebook(
    {
        "best": (
            "Best of {n} trials of {on}{after}: {a}, {metric} {va} ({seeds})",
            "{on} {after}共 {n} 次试验，最好的是 {a}：{metric} {va}（{seeds}）",
        ),
        "only": (
            "One trial of {on} has a result{after}: {a}, {metric} {va} ({seeds})",
            "{on} {after}只有一次试验有结果：{a}：{metric} {va}（{seeds}）",
        ),
        "none": ("None of the {n} trials of {on} has a result", "{on} 的 {n} 次试验都没有结果"),
        "on": ("{a} on {b}", "{a}（{b}）"),
        "claim": ("{where}: {metric} {va} with {a}", "{where}：{a} 的 {metric} 为 {va}"),
        "claim_none": ("{where}: no result", "{where}：没有结果"),
        "models": (
            "Each model had a search of its own; the bests of two searches are no comparison of the models: run those "
            "points with 3 seeds each for that.",
            "每个模型各自搜索；两次搜索的最好值不能用来比较模型：请把这些点各跑 3 个种子再比较。",
        ),
        "behind": ("{b} with {vb}, {d} behind", "{b} 为 {vb}，差 {d}"),
        "next": ("The next: {names}.", "其次：{names}。"),
        "luck": (
            "The best of {n} trials was picked because its value was the best, so that value is probably too good, and "
            "close ones may only have had less luck.",
            "{n} 次试验中的最好值是因为最好才被选出来的，所以很可能偏乐观；相近的点也许只是运气差一些。",
        ),
        "importance": (
            "What mattered, as shares of the variance of {metric} (fANOVA over {n} finished trials): {shares}. A hint: "
            "the fewer the trials the rougher, and chance alone gets some.",
            "影响大小，按对 {metric} 方差的贡献（对 {n} 次完成的试验做 fANOVA）：{shares}。"
            "只能当线索：试验越少越粗略，偶然也会占一部分。",
        ),
        "edge_low": (
            "The best {axis}, {value}, lies at the lower end of {range}: a smaller one may be better.",
            "最好的 {axis} {value} 在范围 {range} 的下端：更小的可能更好。",
        ),
        "edge_high": (
            "The best {axis}, {value}, lies at the upper end of {range}: a larger one may be better.",
            "最好的 {axis} {value} 在范围 {range} 的上端：更大的可能更好。",
        ),
        "pruned": (
            "Of {all} trials, {n} stopped early as hopeless: such a value is not final and not in the order.",
            "{all} 次试验中有 {n} 次因没有希望而提前停止；它们的值不是最终值，不参与排名。",
        ),
        "diverged": ("{n} of {all} trials diverged: {names}.", "{all} 次试验中有 {n} 次发散：{names}。"),
        "lost": ("{n} of {all} trials gave no result: {names}.", "{all} 次试验中有 {n} 次没有结果：{names}。"),
        "confirm": ("To confirm it with fresh seeds: {command}", "用新的种子确认：{command}"),
    }
)
NEXT = 2
"""Trials named after the best, with how far they are behind."""
CONFIRM_SEEDS = tuple(range(3))
"""Fresh runs of what is to be confirmed: the fewest that a verdict takes (agent/verdict.MIN_SEEDS)."""
EDGE = 0.05
"""Share of a range, as it is drawn from, that counts as its edge."""


def judge(plan: Plan, points: Sequence[PointData], metric: str, words: Words | None = None) -> Verdict:
    """The best of each search, model by model and data set by data set; never a winner among them."""
    words = words or Words()
    studies = {
        (p.model, p.dataset): [q for q in points if (q.model, q.dataset) == (p.model, p.dataset)] for p in points
    }
    parts = [_Study.of(plan, members, metric, words) for members in studies.values()]
    if len(parts) == 1:
        return Verdict(headline=parts[0].headline(), details=tuple(parts[0].details()))
    headline = words.say("claims_join").join(part.claim() for part in parts)
    details = [detail for part in parts for detail in (part.headline() + words.say("stop"), *part.details())]
    return Verdict(
        headline=headline, details=(WORDS.say("models", words.language == "zh"), *details) if details else ()
    )


@dataclass(frozen=True)
class _Study:
    """The trials of one model on one data set, the best first."""

    plan: Plan
    all: tuple[PointData, ...]
    ranked: tuple[PointData, ...]
    metric: str
    words: Words

    @classmethod
    def of(cls, plan: Plan, points: Sequence[PointData], metric: str, words: Words) -> _Study:
        higher = higher_is_better(metric)
        whole = [
            p for p in points if p.values and len(p.values) == len(p.seeds)
        ]  # a trial with a lost seed has no mean
        ranked = sorted(whole, key=lambda p: mean(p.values) or 0.0, reverse=higher)
        return cls(plan, tuple(points), tuple(ranked), metric, words)

    def say(self, key: str, **fields: object) -> str:
        return WORDS.say(key, self.words.language == "zh", **fields)

    def headline(self) -> str:
        if not self.ranked:
            return self.say("none", on=self._on(), n=len(self.all))
        best = self.ranked[0]
        seeds = self.words.say("seeds", n=len(best.values))
        key = "best" if len(self.ranked) > 1 else "only"
        fields = {"a": best.label, "va": self._value(best), "metric": metric_name(self.metric), "seeds": seeds}
        return self.say(key, n=len(self.ranked), on=self._on(), after=self._after(), **fields)

    def claim(self) -> str:
        """The headline in a few words, for a search of several models."""
        if not self.ranked:
            return self.say("claim_none", where=self._where())
        best = self.ranked[0]
        metric = metric_name(self.metric)
        return self.say("claim", where=self._where(), a=best.label, va=self._value(best), metric=metric)

    def details(self) -> Iterator[str]:
        """How close the next ones are, what is too good about the best, edges, trouble, and what would confirm it."""
        if len(self.ranked) > 1:
            yield self._next_ones()
            yield self.say("luck", n=len(self.ranked))
        yield from self._importance()
        if self.ranked:
            yield from self._edges()
        yield from self._trouble()
        if self.ranked:
            yield self.say("confirm", command=again_command(self._confirmation(), planwords.title(self.plan)))

    def _next_ones(self) -> str:
        best = mean(self.ranked[0].values) or 0.0
        behind = [(p, abs((mean(p.values) or 0.0) - best)) for p in self.ranked[1 : 1 + NEXT]]
        places = decimals(None, best)
        said = [self.say("behind", b=p.label, vb=self._value(p), d=fixed(d, places)) for p, d in behind]
        return self.say("next", names=self.words.say("comma").join(said))

    def _importance(self) -> Iterator[str]:
        """Shares of the axes, where two or more were drawn and enough trials finished."""
        shares = importance(self.plan.drawn, [(p.params, mean(p.values) or 0.0) for p in self.ranked])
        if shares:
            said = self.words.say("comma").join(f"{name} {share:.2f}" for name, share in shares.items())
            yield self.say("importance", metric=metric_name(self.metric), n=len(self.ranked), shares=said)

    def _edges(self) -> Iterator[str]:
        """Drawn axes whose best value lies at an end of the range: there may be better beyond."""
        for name, axis in self.plan.drawn.items():
            value = self.ranked[0].params.get(name)
            end = _edge(axis, value) if value is not None else None
            if end is not None and value is not None:
                yield self.say(f"edge_{end}", axis=name, value=number(value), range=_range(axis))

    def _trouble(self) -> Iterator[str]:
        pruned = [p for p in self.all if p.count("pruned")]
        diverged = [p for p in self.all if p.count("diverged") and not p.count("pruned")]
        lost = [p for p in self.all if p not in (*self.ranked, *pruned, *diverged)]
        for key, found in (("pruned", pruned), ("diverged", diverged), ("lost", lost)):
            if found:
                names = self.words.names([p.label for p in found], 3)
                yield self.say(key, n=len(found), all=len(self.all), names=names)

    def _confirmation(self) -> str:
        """A message that asks for the best point, and where one axis was searched the next, with fresh seeds."""
        best = self.ranked[0]
        axes: dict[str, Axis] = {k: v for k, v in self.plan.axes.items() if k != "seed"}
        axes |= {name: (value,) for name, value in best.params.items()}
        drawn = list(self.plan.drawn)
        if len(drawn) == 1 and len(self.ranked) > 1 and drawn[0] in best.params:
            axes[drawn[0]] = (best.params[drawn[0]], self.ranked[1].params[drawn[0]])
        seeds = self.plan.axes.get("seed", ())
        first = max((s for s in seeds if isinstance(s, int)), default=-1) + 1 if isinstance(seeds, tuple) else 0
        axes["seed"] = tuple(first + seed for seed in CONFIRM_SEEDS)
        plain = {"search": "grid", "trials": None, "prune": None, "budget": None, "assumed": (), "notes": ()}
        where = {"models": (best.model,), "dataset": best.dataset, "axes": axes}
        return planwords.sentence(self.plan.model_copy(update={**plain, **where}), self.words.language == "zh")

    def _value(self, point: PointData) -> str:
        value = mean(point.values) or 0.0
        return fixed(value, decimals(None, value))

    def _where(self) -> str:
        first = self.all[0]
        return first.model if len(self.plan.datasets) < 2 else f"{first.model} / {first.dataset}"

    def _on(self) -> str:
        first = self.all[0]
        return first.model if first.dataset is None else self.say("on", a=first.model, b=first.dataset)

    def _after(self) -> str:
        first = self.all[0]
        if first.epochs:
            return self.words.say("after_epochs", n=first.epochs)
        return self.words.say("after_steps", n=first.max_steps) if first.max_steps else ""


def _edge(axis: Axis, value: Scalar) -> str | None:
    """`low` or `high` where the value lies at that end of the range; None in between, and for a list of choices."""
    if not isinstance(axis, Range) or isinstance(value, bool | str):
        return None
    low, high, at = float(axis.low), float(axis.high), float(value)
    if axis.scale != "linear":
        low, high, at = math.log(low), math.log(high), math.log(at)
    place = (at - low) / (high - low)
    return "low" if place <= EDGE else "high" if place >= 1 - EDGE else None


def _range(axis: Axis) -> str:
    assert isinstance(axis, Range)
    return f"{number(axis.low)}..{number(axis.high)}"
