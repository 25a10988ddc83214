"""Figures of a report as PNG: learning curves and sweeps, drawn to be read on a phone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.canvas import (
    COLOURS,
    FONT,
    GREY,
    LONGEST,
    MARKERS,
    SMALL,
    STYLES,
    canvas,
    handle,
    head,
    legend,
    png,
    shorten,
    style,
)
from agent.points import PointData, Seed
from agent.stats import mean, sd, t_interval
from lab.plan import number
from lab.report import format_pm, higher_is_better, is_share, metric_name

MOST = len(COLOURS)
"""With more points than this only the best three and the worst are coloured."""
LOG_RATIO = 50.0
"""A loss whose means span more than this factor is drawn on a log scale."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Look:
    """How a point is drawn; grey ones stand in the background and have no legend entry."""

    point: PointData
    colour: str
    style: Any
    marker: str
    grey: bool = False


def curves(points: Sequence[PointData], metric: str, title: str, unit: str = "epoch") -> bytes | None:
    """A PNG of the learning curves, a panel for the metric and one for its companion; None when there are no curves.

    Lines are means over the seeds that finished, bands run from the lowest to the highest of them, thin lines are the
    single seeds; a diverged seed is thin, ends in a cross, and is in neither. With many points the best three and the
    worst are coloured and the rest is grey.
    """
    panels = _panels(points, metric)
    if not panels:
        return None
    looks = _looks(points, metric)
    figure, axes, width = canvas(len(panels), _legend_rows(looks))
    for axis, name in zip(axes, panels, strict=True):
        for look in sorted(looks, key=lambda k: not k.grey):
            _draw(axis, look, name, len(looks))
        _dress(axis, name, [_grid(k.point, name) for k in looks], unit)
    several = any(len(p.values) > 1 for p in points)
    caption = "line: mean of seeds, band: lowest to highest" if several else ""
    if any(s.outcome != "ok" and s.curves for p in points for s in p.seeds):
        caption += f"{', ' if caption else ''}cross: a seed's end"
    if any(k.grey for k in looks):
        caption = f"best 3 and worst in colour, {sum(k.grey for k in looks)} others grey"
    head(figure, title, caption, width)
    _legend(figure, axes[-1], looks, metric)
    return png(figure)


def sweep(points: Sequence[PointData], metric: str, title: str) -> bytes | None:
    """A PNG of the final metric against the numeric axis with the most values; None where no axis has three.

    Dots are seeds, lines join means, bars are 95 % t intervals (absent for a single seed).
    """
    axis_name = sweep_axis(points)
    if axis_name is None:
        return None
    lines = _lines(points, axis_name)
    if len(lines) > MOST:
        return None
    figure, (axis,), width = canvas(1, len(lines) if len(lines) > 1 else 0, panel_px=760)
    handles = []
    for i, members in enumerate(lines.values()):
        look = _Look(members[0], COLOURS[i], STYLES[i], MARKERS[i])
        handles.append(handle(look.colour, look.style, look.marker))
        _sweep_line(axis, look, members, axis_name)
    _sweep_dress(axis, axis_name, metric, points)
    bars = any(len(p.values) > 1 for p in points)
    head(figure, title, "bars: 95 % interval of the mean, dots: seeds" if bars else "one seed each", width)
    if len(lines) > 1:
        legend(figure, axis, handles, [shorten(label) for label in lines])
    return png(figure)


def sweep_axis(points: Sequence[PointData]) -> str | None:
    """The numeric axis with the most values, three at least; None where there is none."""
    values: dict[str, set[float]] = {}
    for point in points:
        for name, value in point.params.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and point.values:
                values.setdefault(name, set()).add(float(value))
    name = max(values, key=lambda n: len(values[n])) if values else ""
    return name if len(values.get(name, ())) >= 3 else None


# Learning curves


def _panels(points: Sequence[PointData], metric: str) -> list[str]:
    """The metric first, then the loss beside an accuracy or the accuracy beside a loss; only those with curves."""
    names = dict.fromkeys(n for p in points for s in p.seeds for n, c in s.curves.items() if _has_value(c))
    companions = ("val_acc", "val_loss", "train_loss") if not higher_is_better(metric) else ("val_loss", "train_loss")
    wanted = [metric, *(c for c in (*companions, "val_acc") if c != metric)]
    return [n for n in wanted if n in names][:2] or list(names)[:2]


def _has_value(curve: Sequence[tuple[float, float | None]]) -> bool:
    return any(y is not None and math.isfinite(y) for _, y in curve)


def _looks(points: Sequence[PointData], metric: str) -> list[_Look]:
    """Colours for all points, or for the best three and the worst of many; in the order in which they are listed."""
    higher = higher_is_better(metric)
    ranked = sorted((p for p in points if p.values), key=lambda p: mean(p.values) or 0.0, reverse=higher)
    ranked += [p for p in points if not p.values]
    if len(ranked) <= MOST:
        chosen = list(range(len(ranked)))
    else:
        worst = max((i for i, p in enumerate(ranked) if p.values), default=len(ranked) - 1)
        chosen = list(dict.fromkeys([0, 1, 2, worst]))
    coloured = [_Look(ranked[r], COLOURS[i], STYLES[i], MARKERS[i]) for i, r in enumerate(chosen)]
    return coloured + [_Look(p, GREY, "-", "", True) for r, p in enumerate(ranked) if r not in chosen]


def _grid(point: PointData, name: str) -> tuple[Array, Array]:
    """Steps (n,) and values (seeds, n) of the seeds that count, NaN where a seed has no value.

    Seeds that logged at other steps are interpolated within their own range.
    """
    curves = [np.asarray([(x, np.nan if y is None else y) for x, y in c], float) for c in point.curves(name)]
    curves = [c[np.argsort(c[:, 0], kind="stable")] for c in curves]
    if not curves:
        return np.empty(0), np.empty((0, 0))
    steps = np.unique(np.concatenate([c[:, 0] for c in curves]))
    rows = [_on(steps, c) for c in curves]
    return steps, np.where(np.isfinite(rows), rows, np.nan)


def _on(steps: Array, curve: Array) -> Array:
    if np.array_equal(curve[:, 0], steps):
        return np.asarray(curve[:, 1])
    return np.interp(steps, curve[:, 0], curve[:, 1], left=np.nan, right=np.nan)


def _draw(axis: Any, look: _Look, name: str, n_points: int) -> None:
    steps, values = _grid(look.point, name)
    layer = 1 if look.grey else 3
    if len(steps):
        # A gap in one seed is a gap in the mean: averaging the others would make the line jump.
        centre = values.mean(axis=0)
        marker = look.marker if len(steps) <= 12 or _isolated(centre) else ""
        axis.plot(
            steps,
            centre,
            color=look.colour,
            linestyle=look.style,
            linewidth=1.3 if look.grey else 3.0,
            marker=marker or ("o" if look.grey and len(steps) == 1 else ""),
            markersize=9,
            zorder=layer + 1,
        )
        if len(values) > 1 and not look.grey and n_points <= MOST:
            low, high = values.min(axis=0), values.max(axis=0)
            axis.fill_between(steps, low, high, color=look.colour, alpha=0.16, linewidth=0, zorder=layer - 1)
            axis.plot(steps, values.T, color=look.colour, linewidth=0.9, alpha=0.5, zorder=layer)
    if not look.grey:
        for seed in look.point.seeds:
            _draw_lost(axis, look, seed, name)


def _isolated(values: Array) -> bool:
    """True when some value has a gap on both sides: a line alone would not show it."""
    bad = np.concatenate([[True], ~np.isfinite(values), [True]])
    return bool(np.any(~bad[1:-1] & bad[:-2] & bad[2:]))


def _draw_lost(axis: Any, look: _Look, seed: Seed, name: str) -> None:
    """A diverged or failed seed: a thin line that ends in a cross where its last value was."""
    curve = [(x, y) for x, y in seed.curves.get(name, ()) if y is not None and math.isfinite(y)]
    if seed.outcome == "ok" or not curve:
        return
    xs, ys = zip(*curve, strict=True)
    axis.plot(xs, ys, color=look.colour, linewidth=1.2, linestyle=":", zorder=2)
    axis.plot(xs[-1:], ys[-1:], color=look.colour, marker="x", markersize=13, markeredgewidth=3, zorder=5)


def _dress(axis: Any, name: str, grids: Sequence[tuple[Array, Array]], unit: str) -> None:
    """Limits, scale and names of a panel, from the seeds that count (a diverged one would flatten all others)."""
    finite = [v[np.isfinite(v)] for _, v in grids]
    values = np.concatenate(finite) if finite else np.empty(0)
    steps = np.concatenate([s for s, _ in grids]) if grids else np.empty(0)
    log = False
    if len(values):
        log = not higher_is_better(name) and values.min() > 0 and values.max() / values.min() > LOG_RATIO
        _limit(axis, name, float(values.min()), float(values.max()), log)
    style(axis)
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    if len(steps) and steps.min() == steps.max():
        axis.set_xlim(steps[0] - 1, steps[0] + 1)
        axis.set_xticks([steps[0]])
    better = "higher is better" if higher_is_better(name) else "lower is better"
    axis.set_title(f"{metric_name(name)} ({better}{', log scale' if log else ''})", fontsize=FONT, loc="left")
    axis.set_xlabel(unit, fontsize=FONT)


def _limit(axis: Any, name: str, low: float, high: float, log: bool) -> None:
    if log:
        axis.set_yscale("log")
        axis.set_ylim(low / 1.3, high * 1.3)
        return
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    top = high + margin
    if is_share(name) and high <= 1:
        top = min(top, 1.0 + 0.02 * (1.0 - low) + 1e-6)
        top = max(top, high + 0.2 * margin)
    axis.set_ylim(low - margin, top)


def _legend_rows(looks: Sequence[_Look]) -> int:
    return sum(not k.grey for k in looks)


def _legend(figure: Any, axis: Any, looks: Sequence[_Look], metric: str) -> None:
    """Below the panels, best first: name, result, and what happened to its seeds."""
    coloured = [k for k in looks if not k.grey]
    labels = []
    for look in coloured:
        point = look.point
        result = format_pm(mean(point.values), sd(point.values)) if point.values else "no result"
        if 0 < len(point.values) < len(point.seeds):
            result += f" ({len(point.values)}/{len(point.seeds)} seeds)"
        labels.append(f"{shorten(point.label, max(20, LONGEST - len(result)))}: {result}")
    legend(figure, axis, [handle(k.colour, k.style, k.marker) for k in coloured], labels)


# Sweeps


def _lines(points: Sequence[PointData], axis_name: str) -> dict[str, list[PointData]]:
    """Points joined along the axis: one line for each combination of everything else."""
    lines: dict[str, list[PointData]] = {}
    models = {p.model for p in points}
    for point in points:
        if axis_name not in point.params or not point.values:
            continue
        words = [point.model] if len(models) > 1 else []
        words += [f"{k} {number(v)}" for k, v in point.params.items() if k != axis_name]
        lines.setdefault(" ".join(words), []).append(point)
    return lines


def _sweep_line(axis: Any, look: _Look, members: Sequence[PointData], axis_name: str) -> None:
    members = sorted(members, key=lambda p: float(p.params[axis_name]))
    xs = [float(p.params[axis_name]) for p in members]
    centres = [mean(p.values) or 0.0 for p in members]
    halves = [(i[1] - i[0]) / 2 if (i := t_interval(p.values)) else 0.0 for p in members]
    for x, point in zip(xs, members, strict=True):
        axis.plot([x] * len(point.values), point.values, ".", color=look.colour, alpha=0.55, markersize=10, zorder=2)
    axis.errorbar(
        xs,
        centres,
        yerr=halves if any(halves) else None,
        color=look.colour,
        linestyle=look.style,
        linewidth=2.6,
        marker=look.marker,
        markersize=9,
        capsize=7,
        elinewidth=2,
        zorder=3,
    )


def _sweep_dress(axis: Any, axis_name: str, metric: str, points: Sequence[PointData]) -> None:
    swept = [p for p in points if axis_name in p.params and p.values]
    xs = sorted({float(p.params[axis_name]) for p in swept})
    style(axis)
    if xs[0] > 0 and xs[-1] / xs[0] >= 20:
        axis.set_xscale("log")
    if len(xs) <= 6:
        axis.set_xticks(xs, [number(x) for x in xs], fontsize=SMALL)
        axis.minorticks_off()
    values = [v for p in swept for v in p.values]
    span = (max(values) - min(values)) or 0.1 * abs(values[0]) or 1.0
    ends = [e for p in swept if (i := t_interval(p.values)) for e in i]
    # With few seeds an interval can be many times wider than the data: the bar may leave the panel, the data not.
    low = max(min([*values, *ends]), min(values) - 0.6 * span)
    high = min(max([*values, *ends]), max(values) + 0.6 * span)
    axis.set_ylim(low - 0.05 * span, min(high, 1.0) + 0.05 * span if is_share(metric) else high + 0.05 * span)
    better = "higher is better" if higher_is_better(metric) else "lower is better"
    axis.set_title(f"{metric_name(metric)} at the end ({better})", fontsize=FONT, loc="left")
    axis.set_xlabel(f"{axis_name}{' (log scale)' if axis.get_xscale() == 'log' else ''}", fontsize=FONT)
