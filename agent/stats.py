"""Statistics over seeds: means, Welch's intervals of differences, Holm's adjustment, trends of curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import special, stats

from lab.report import Trend

ALPHA = 0.05
POWER = 0.8
MAX_SEEDS = 50
"""Beyond this many seeds a point nobody would go on: it is reported as more than 50."""

Interval = tuple[float, float]
Curve = Sequence[tuple[float, float | None]]


@dataclass(frozen=True)
class Difference:
    """The difference a - b of two means."""

    value: float
    low: float
    high: float
    p: float | None
    """Two-sided; None where no test is possible (no spread in either sample)."""
    alpha: float = ALPHA
    """The level at which it was tested: the interval covers 1 - alpha."""
    p_adjusted: float | None = None

    @property
    def significant(self) -> bool:
        """True when the test at `alpha` rejects equal means; False where no test is possible."""
        return self.p is not None and self.p < self.alpha

    def flipped(self) -> Difference:
        """The difference b - a."""
        return Difference(-self.value, -self.high, -self.low, self.p, self.alpha, self.p_adjusted)


def finite(values: Sequence[float | None]) -> list[float]:
    """The values that are finite numbers."""
    return [float(v) for v in values if v is not None and math.isfinite(v)]


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None of nothing. Exact for equal values, so that they have no spread."""
    if not values:
        return None
    return values[0] if min(values) == max(values) else math.fsum(values) / len(values)


def sd(values: Sequence[float]) -> float | None:
    """Sample standard deviation (n - 1); None below two values."""
    if len(values) < 2:
        return None
    centre = mean(values) or 0.0
    return math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1))


def t_interval(values: Sequence[float], alpha: float = ALPHA) -> Interval | None:
    """Student's t interval of the mean at level 1 - alpha; None below two values, a single point without spread."""
    spread, centre = sd(values), mean(values)
    if spread is None or centre is None:
        return None
    half = float(special.stdtrit(len(values) - 1, 1 - alpha / 2)) * spread / math.sqrt(len(values))
    return centre - half, centre + half


def welch(a: Sequence[float], b: Sequence[float], alpha: float = ALPHA) -> Difference | None:
    """Welch's t test of mean(a) - mean(b) with its interval; None when either sample has fewer than two values.

    Equal variances are not assumed; degrees of freedom after Welch and Satterthwaite (Welch, Biometrika 34, 1947).
    Where neither sample has any spread there is no test: `p` is None and the interval shrinks to the difference.
    """
    sd_a, sd_b = sd(a), sd(b)
    if sd_a is None or sd_b is None:
        return None
    value = (mean(a) or 0.0) - (mean(b) or 0.0)
    se, df = _welch_error(sd_a, len(a), sd_b, len(b))
    if se <= 1e-12 * max(abs(v) for v in (*a, *b, 1e-300)):
        return Difference(value, value, value, None, alpha)
    half = float(special.stdtrit(df, 1 - alpha / 2)) * se
    return Difference(value, value - half, value + half, float(2 * special.stdtr(df, -abs(value / se))), alpha)


def _welch_error(sd_a: float, n_a: int, sd_b: float, n_b: int) -> tuple[float, float]:
    """Standard error of a difference of means and its degrees of freedom."""
    part_a, part_b = sd_a**2 / n_a, sd_b**2 / n_b
    total = part_a + part_b
    if total == 0:
        return 0.0, float(n_a + n_b - 2)
    # Shares first: the squares of tiny variances would underflow to 0/0.
    share = part_a / total
    return math.sqrt(total), 1 / (share**2 / (n_a - 1) + (1 - share) ** 2 / (n_b - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values in the order given: at most alpha exactly where Holm's procedure rejects.

    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979: the
    chance of any false rejection stays below alpha, whichever of the hypotheses are true.
    """
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = running
    return adjusted


def holm_levels(p_values: Sequence[float], alpha: float = ALPHA) -> list[float]:
    """The level at which Holm's procedure tests each comparison, in the order given.

    A rejected one was tested at alpha / (number left at its step), the others all at alpha / (number left when it
    stopped). Intervals at these levels exclude 0 exactly where Holm rejects.
    """
    levels = [alpha] * len(p_values)
    stopped: float | None = None
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        levels[i] = stopped or alpha / (len(p_values) - rank)
        if stopped is None and not p_values[i] < levels[i]:
            stopped = levels[i]
    return levels


def compare_all(samples: Sequence[Sequence[float]], alpha: float = ALPHA) -> dict[tuple[int, int], Difference]:
    """Every pair i < j of samples compared by Welch's test, decisions and intervals adjusted after Holm.

    The interval of a pair is Welch's at the level that Holm tested it at (`holm_levels`), so interval and decision
    agree. They are no wider than Bonferroni's; joint coverage of all is guaranteed only for those of the pairs that
    were not rejected (Strassburger and Bretz, Statistics in Medicine 27, 2008). Pairs with a sample of fewer than two
    values are absent; pairs without any spread count as comparisons that are not rejected.
    """
    tested = {(i, j): welch(samples[i], samples[j]) for i, j in combinations(range(len(samples)), 2)}
    raw = {pair: d for pair, d in tested.items() if d is not None}
    p_values = [1.0 if d.p is None else d.p for d in raw.values()]
    result = {}
    for pair, level, p_adjusted in zip(raw, holm_levels(p_values, alpha), holm(p_values), strict=True):
        d = welch(samples[pair[0]], samples[pair[1]], level)
        assert d is not None
        result[pair] = Difference(d.value, d.low, d.high, d.p, level, None if d.p is None else p_adjusted)
    return result


def seeds_needed(difference: float, sd_a: float, sd_b: float, alpha: float = ALPHA) -> int | None:
    """Seeds a point with which a true difference of this size would be found with 80 % power; None above 50.

    Power of the two-sided t test from the noncentral t distribution (Cohen, Statistical Power Analysis, 1988, ch. 2)
    with Welch's error. The spreads come from few seeds, so the answer is a rough one.
    """
    if not difference or not (sd_a or sd_b):
        return None
    for n in range(2, MAX_SEEDS + 1):
        se, df = _welch_error(sd_a, n, sd_b, n)
        critical = float(special.stdtrit(df, 1 - alpha / 2))
        # Far out scipy's noncentral t loses its footing; there the power is 1 for every purpose.
        shift = abs(difference) / se
        if shift > 30 or float(stats.nct.sf(critical, df, shift)) >= POWER:
            return n
    return None


def far_off(values: Sequence[float], higher: bool) -> list[int]:
    """Positions of values that lie far on the worse side: ten scaled MADs and a quarter of the median away.

    Only told from three values on. MAD: Leys et al., Journal of Experimental Social Psychology 49, 2013; the bound is
    wide on purpose (a seed that fell to chance level, not one that did a little worse).
    """
    if len(values) < 3:
        return []
    centre = float(np.median(values))
    mad = 1.4826 * float(np.median([abs(v - centre) for v in values]))
    bound = max(10 * mad, abs(centre) / 4)
    return [i for i, v in enumerate(values) if bound > 0 and (centre - v if higher else v - centre) > bound]


def trend(curves: Sequence[Curve], higher: bool) -> tuple[Trend | None, float | None]:
    """Where the curves of a point's seeds were heading in their last third, and the improvement an epoch there.

    The rule: the last third of the points, at least three (two where a curve has no more); one slope for all seeds, a
    level for each, by least squares. The point was improving (worsening) when the slope differs from 0 in a t test at
    0.05 one-sided, the window brought at least 2 % of the curve's whole range, and its later half moved at least a
    quarter as fast as the whole. (None, None) where nothing is left to estimate noise from. Residuals of one run follow
    each other, so the test is a rule of thumb rather than an exact level.
    """
    windows = [w for c in curves if len(w := _window(c)) >= 2]
    freedom = sum(len(w) - 1 for w in windows) - 1
    if not windows or freedom < 1:
        return None, None
    slope, error = _common_slope(windows, freedom)
    gain = slope if higher else -slope
    extent = float(np.mean([np.ptp([y for _, y in c]) for c in map(_clean, curves) if c]))
    moved = abs(slope) * float(np.mean([w[-1][0] - w[0][0] for w in windows]))
    late = _common_slope([w[len(w) // 2 :] for w in windows], 1)[0] if _three(windows) else slope
    clear = abs(slope) > float(special.stdtrit(freedom, 0.95)) * error
    if clear and extent > 0 and moved >= 0.02 * extent and late / slope >= 0.25:
        return ("improving" if gain > 0 else "worsening"), gain
    return "flat", gain


def _three(windows: Sequence[Sequence[tuple[float, float]]]) -> bool:
    return all(len(w) >= 3 for w in windows)


def _clean(curve: Curve) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in curve if y is not None and math.isfinite(y)]


def _window(curve: Curve) -> list[tuple[float, float]]:
    clean = _clean(curve)
    return clean[-max(3, math.ceil(len(clean) / 3)) :]


def _common_slope(windows: Sequence[Sequence[tuple[float, float]]], freedom: int) -> tuple[float, float]:
    """Least-squares slope shared by the windows, each with a level of its own, and its standard error."""
    xs = np.concatenate([np.asarray([x for x, _ in w]) - np.mean([x for x, _ in w]) for w in windows])
    ys = np.concatenate([np.asarray([y for _, y in w]) - np.mean([y for _, y in w]) for w in windows])
    square = float(xs @ xs)
    if square == 0:
        return 0.0, 0.0
    slope = float(xs @ ys) / square
    residual = ys - slope * xs
    return slope, math.sqrt(float(residual @ residual) / freedom / square)
