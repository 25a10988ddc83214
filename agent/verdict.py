"""What follows from the numbers: a winner only where enough seeds and the statistics allow one, in plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.points import PointData
from agent.stats import Difference, compare_all, far_off, mean, sd, seeds_needed, t_interval, trend
from agent.wording import Words
from lab.plan import number
from lab.report import Trend, Verdict, decimals, fixed, format_interval, higher_is_better, is_share, metric_name

MIN_SEEDS = 3
"""Finished seeds that each of the two best points needs before either is called better."""


@dataclass(frozen=True)
class _Part:
    """The verdict on one data set."""

    headline: str
    claim: str
    """The headline in four words, for an experiment on several data sets."""
    details: tuple[str, ...] = ()
    winner: str | None = None


def judge(points: Sequence[PointData], metric: str, words: Words | None = None) -> Verdict:
    """The verdict on the points of an experiment, data set by data set.

    A winner is named on a data set only when it and the next best have three finished seeds each, when Welch's test,
    adjusted after Holm over all pairs of points of that data set, tells it from every other point that has two seeds
    or more, and when no larger share of its seeds diverged than of the points it beats.
    """
    words = words or Words()
    parts = {
        dataset or "": _judge_one([p for p in points if p.dataset == dataset], metric, words)
        for dataset in dict.fromkeys(p.dataset for p in points)
    }
    winners = {dataset: part.winner for dataset, part in parts.items() if part.winner}
    if not parts:
        return Verdict(headline=words.say("none", on="", how=words.say("nobody")))
    if len(parts) == 1:
        part = next(iter(parts.values()))
        return Verdict(headline=part.headline, details=part.details, winners=winners)
    details = []
    for dataset, part in parts.items():
        details += [part.headline + words.say("stop")]
        details += [words.say("dataset_claim", dataset=dataset, claim=d) for d in part.details]
    return Verdict(headline=_across(parts, words), details=tuple(details), winners=winners)


def _across(parts: dict[str, _Part], words: Words) -> str:
    """One headline for several data sets."""
    winners = {part.winner for part in parts.values()}
    if len(winners) == 1 and (name := winners.pop()):
        return words.say("claim_everywhere", a=name, n=len(parts))
    claims = [words.say("dataset_claim", dataset=d, claim=part.claim) for d, part in parts.items()]
    return words.say("claims_join").join(claims)


def _judge_one(points: Sequence[PointData], metric: str, words: Words) -> _Part:
    contest = _Contest.of(points, metric, words)
    if not contest.ranked:
        outcomes = Counter(s.outcome for p in points for s in p.seeds)
        how = words.say("comma").join(words.say(f"out_{what}", n=n) for what, n in outcomes.items())
        return _Part(words.say("none", on=contest.on, how=how), words.say("claim_no_result"))
    if len(contest.ranked) == 1:
        return contest.described(len(points) == 1)
    return contest.decided()


@dataclass(frozen=True)
class _Contest:
    """The points of one data set, the best first, with every test between them."""

    ranked: tuple[PointData, ...]
    """Points with at least one value."""
    empty: tuple[PointData, ...]
    tests: dict[tuple[int, int], Difference]
    """For ranks i < j the advantage of i over j: positive is better, whatever the metric's direction."""
    trends: tuple[Trend | None, ...]
    metric: str
    higher: bool
    words: Words

    @classmethod
    def of(cls, points: Sequence[PointData], metric: str, words: Words) -> _Contest:
        higher = higher_is_better(metric)
        ranked = sorted((p for p in points if p.values), key=lambda p: mean(p.values) or 0.0, reverse=higher)
        tests = compare_all([p.values for p in ranked])
        return cls(
            ranked=tuple(ranked),
            empty=tuple(p for p in points if not p.values),
            tests=tests if higher else {pair: d.flipped() for pair, d in tests.items()},
            trends=tuple(trend(p.curves(metric), higher)[0] for p in ranked),
            metric=metric,
            higher=higher,
            words=words,
        )

    # One point

    def described(self, alone: bool) -> _Part:
        """What the only point with a result came to."""
        point = self.ranked[0]
        interval = t_interval(point.values)
        spread = [self.interval(*interval)] if interval else []
        spread.append(self.words.say("seeds", n=len(point.values)))
        headline = self.words.say(
            "one_point" if alone else "only_one_left",
            a=point.label,
            va=self.value(point),
            spread=self.words.say("comma").join(spread),
            **self.common,
        )
        details = (*self.trouble(), *self.worsening())
        return _Part(headline + self.rising(), self.words.say("claim_none"), details)

    # Two points or more

    def decided(self) -> _Part:
        """The winner, or why there is none."""
        rivals = [j for j in range(1, len(self.ranked)) if (0, j) in self.tests]
        close = [j for j in rivals if not self.tests[0, j].significant]
        unsteady = [j for j in rivals if self.diverged_share(0) > self.diverged_share(j)]
        if min(len(p.values) for p in self.ranked[:2]) < MIN_SEEDS:
            return self.part("few_seeds", 1, self.words.say("settle_three"))
        if self.tests[0, 1].p is None:
            return self.part("no_spread" if self.tests[0, 1].value else "same", 1, self.words.say("no_seed_effect"))
        if close:
            return self.part("no_winner", close[0], *self.beaten(rivals, close), self.settle(close[0]), close=close)
        if unsteady:
            return self.part("survivors", unsteady[0], self.words.say("survivors_why", a=self.ranked[0].label))
        return self.part("win_two" if len(self.ranked) == 2 else "win_many", 1, *self.steadier(rivals))

    def part(self, kind: str, rival: int, *first: str, close: Sequence[int] = ()) -> _Part:
        """The verdict of that kind, its headline comparing the best with the point of rank `rival`."""
        best, other, words = self.ranked[0], self.ranked[rival], self.words
        winner = best.label if kind.startswith("win") else None
        headline = words.say(
            kind,
            a=best.label,
            b=other.label,
            va=self.value(best, other),
            vb=self.value(other, best),
            of=words.say("of", b=other.label) if len(close) > 1 else "",
            names=words.names([self.ranked[j].label for j in close]),
            k=len(self.ranked),
            d=self.advantage(rival),
            interval=self.difference_interval(rival),
            seeds=self.seed_counts(best, other),
            n=best.count("diverged"),
            all=len(best.seeds),
            **self.common,
        )
        details = (*first, *self.more_epochs(), *self.worsening(), *self.trouble(), *self.landscape())
        if kind in ("no_winner", "survivors", "win_two", "win_many"):
            details += tuple(self.method())
        claim = words.say("claim_best", a=winner) if winner else words.say("claim_none")
        return _Part(headline + self.rising(), claim, details, winner)

    def diverged_share(self, rank: int) -> float:
        """Part of the point's seeds that diverged."""
        return self.ranked[rank].count("diverged") / len(self.ranked[rank].seeds)

    def beaten(self, rivals: Sequence[int], close: Sequence[int]) -> Iterator[str]:
        """Whom the best is told from, when it is not told from everybody."""
        if names := [self.ranked[j].label for j in rivals if j not in close]:
            yield self.words.say("beats", a=self.ranked[0].label, names=self.words.names(names))

    def settle(self, rival: int) -> str:
        """How many seeds would tell the best from that point."""
        best, other, test = self.ranked[0], self.ranked[rival], self.tests[0, rival]
        needed = seeds_needed(test.value, sd(best.values) or 0.0, sd(other.values) or 0.0, test.alpha)
        if needed is None:
            return self.words.say("settle_many", n=50)
        enough = max(needed, len(best.values) + 1, len(other.values) + 1)
        return self.words.say("settle", n=enough, d=self.advantage(rival))

    def steadier(self, rivals: Sequence[int]) -> Iterator[str]:
        """Rivals of a winner that lost seeds which the winner did not lose."""
        for j in rivals:
            if self.diverged_share(j) > self.diverged_share(0):
                point = self.ranked[j]
                n = point.count("diverged")
                yield self.words.say("one_sided", b=point.label, n=n, all=len(point.seeds))

    # Numbers

    @property
    def common(self) -> dict[str, str]:
        """What most headlines mention: where, after how long, which metric."""
        lower = "" if self.higher else self.words.say("lower")
        return {"on": self.on, "after": self.after, "metric": metric_name(self.metric) + lower}

    @property
    def on(self) -> str:
        dataset = next((p.dataset for p in (*self.ranked, *self.empty) if p.dataset), None)
        return self.words.say("on", dataset=dataset) if dataset else ""

    @property
    def after(self) -> str:
        """The length of training, where all points share it."""
        lengths = {(p.epochs, p.max_steps) for p in self.ranked}
        epochs, steps = lengths.pop() if len(lengths) == 1 else (None, None)
        if epochs:
            return self.words.say("after_epochs", n=epochs)
        return self.words.say("after_steps", n=steps) if steps else ""

    def value(self, point: PointData, other: PointData | None = None) -> str:
        """The point's mean, with as many digits as its spread and that of the point beside it support."""
        centre = mean(point.values) or 0.0
        return fixed(centre, self.places(point, other or point))

    def places(self, *points: PointData) -> int:
        spreads = [s for p in points if (s := sd(p.values))]
        pooled = (sum(s * s for s in spreads) / len(spreads)) ** 0.5 if spreads else None
        return decimals(pooled, max(abs(mean(p.values) or 0.0) for p in points))

    def advantage(self, rival: int) -> str:
        best, other = self.ranked[0], self.ranked[rival]
        return fixed(abs((mean(best.values) or 0.0) - (mean(other.values) or 0.0)), self.places(best, other))

    def difference_interval(self, rival: int) -> str:
        test = self.tests.get((0, rival))
        if test is None:
            return ""
        adjusted = self.words.say("holm", m=len(self.tests)) if len(self.tests) > 1 else ""
        low, high = test.low, test.high
        if is_share(self.metric):
            low, high = max(-1.0, low), min(1.0, high)
        return self.interval(low, high, share=False) + adjusted

    def interval(self, low: float, high: float, share: bool | None = None) -> str:
        text = format_interval(low, high, share=is_share(self.metric) if share is None else share, to="\0")
        shown_low, shown_high = text.split("\0")
        return self.words.say("interval", low=shown_low, high=shown_high)

    def seed_counts(self, a: PointData, b: PointData) -> str:
        n_a, n_b = len(a.values), len(b.values)
        if n_a != n_b:
            return self.words.say("seeds_both", a=n_a, b=n_b)
        return self.words.say("seeds_each", n=n_a, s="" if n_a == 1 else "s")

    # Details

    def rising(self) -> str:
        """The tail of a headline: which curves were still improving."""
        names = [p.label for p, t in zip(self.ranked, self.trends, strict=True) if t == "improving"]
        k = len(self.ranked)
        if not names:
            return ""
        if len(names) == k:
            return self.words.say("rise_it" if k == 1 else "rise_both" if k == 2 else "rise_all", k=k)
        return self.words.say("rise_some", names=self.words.names(names), were="was" if len(names) == 1 else "were")

    def more_epochs(self) -> Iterator[str]:
        if "improving" not in self.trends:
            return
        lengths = {p.epochs for p in self.ranked}
        now = lengths.pop() if len(lengths) == 1 else None
        yield self.words.say("more_epochs", n=2 * now, now=now) if now else self.words.say("more_training")

    def worsening(self) -> Iterator[str]:
        names = [p.label for p, t in zip(self.ranked, self.trends, strict=True) if t == "worsening"]
        if names:
            were = "was" if len(names) == 1 else "were"
            yield self.words.say("worsening", names=self.words.names(names), were=were)

    def trouble(self) -> Iterator[str]:
        """Seeds that diverged, gave nothing or ended far off, and points that could not be compared."""
        for point in (*self.ranked, *self.empty):
            diverged = [s for s in point.seeds if s.outcome == "diverged"]
            lost = [s for s in point.seeds if s.outcome not in ("ok", "diverged")]
            for key, seeds in (("diverged", diverged), ("lost", lost)):
                if seeds:
                    names = self.words.names([_seed_name(s.seed, s.run_id) for s in seeds], 5)
                    are, n = "is" if len(seeds) == 1 else "are", len(seeds)
                    yield self.words.say(key, a=point.label, n=n, all=len(point.seeds), seeds=names, are=are)
            yield from self.far_seeds(point)
        alone = [p.label for p in (*self.ranked, *self.empty) if len(p.values) < 2]
        if alone and len(self.tests):
            yield self.words.say("not_compared", names=self.words.names(alone))

    def far_seeds(self, point: PointData) -> Iterator[str]:
        """Seeds that ended far off: they happened, so they count, and the reader sees the mean without each."""
        kept = [s for s in point.seeds if s.value is not None]
        values = point.values
        for i in far_off(values, self.higher):
            rest = values[:i] + values[i + 1 :]
            places = decimals(None, mean(values) or values[i])
            yield self.words.say(
                "far_off",
                seed=_seed_name(kept[i].seed, kept[i].run_id),
                a=point.label,
                value=fixed(values[i], places),
                without=fixed(mean(rest), places),
                mean=fixed(mean(values), places),
            )

    def landscape(self) -> Iterator[str]:
        """The best of each model in a sweep, and axes whose best value lies at the edge of the grid."""
        best, everyone = self.ranked[0], (*self.ranked, *self.empty)
        models = list(dict.fromkeys(p.model for p in self.ranked))
        if best.params and 1 < len(models) <= 5:
            for model in models:
                top = next(p for p in self.ranked if p.model == model)
                yield self.words.say(
                    "best_of_model", model=model, a=top.label, va=self.value(top), metric=metric_name(self.metric)
                )
        for axis, value in best.params.items():
            tried = {p.params[axis] for p in everyone if axis in p.params}
            if len(tried) >= 3 and all(isinstance(v, int | float) and not isinstance(v, bool) for v in tried):
                ordered = sorted(float(v) for v in tried)
                if float(value) in (ordered[0], ordered[-1]):
                    key = "edge_low" if float(value) == ordered[0] else "edge_high"
                    yield self.words.say(key, axis=axis, value=number(value))

    def method(self) -> Iterator[str]:
        if not self.tests:
            return
        compared = len({rank for pair in self.tests for rank in pair})
        several = self.words.say("test_holm", m=len(self.tests), k=compared) if len(self.tests) > 1 else ""
        yield self.words.say("test", holm=several)


def _seed_name(seed: object, run_id: str) -> str:
    return run_id if seed is None else number(seed)
