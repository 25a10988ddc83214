"""The figure of a search: what each trial came to, in the order in which they were drawn, and the best so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.canvas import COLOURS, FONT, GREY, MARKERS, STYLES, canvas, handle, head, legend, png, shorten, style
from lab.report import higher_is_better, metric_name
from lab.trials import Trial

FEWEST = 3
"""Trials with a value below which there is nothing to see."""


def trace(studies: Mapping[str, Sequence[Trial]], metric: str, title: str) -> bytes | None:
    """A PNG of the metric by trial; None where no search has three trials with a value.

    Dots are trials that ran to their end, crosses those stopped early with the value they had, the line is the best so
    far. A search that diverged or was lost has no value and leaves a gap.

    Args:
        studies: trials by the name of their search, the model mostly; the first ones are drawn, as many as colours.
    """
    shown = {name: trials for name, trials in studies.items() if sum(t.value is not None for t in trials) >= FEWEST}
    if not shown:
        return None
    names = list(shown)[: len(COLOURS)]
    figure, (axis,), width = canvas(1, len(names) + 1, panel_px=760)
    for i, name in enumerate(names):
        _draw(axis, shown[name], COLOURS[i], STYLES[i], MARKERS[i], higher_is_better(metric))
    _dress(axis, metric)
    more = len(shown) - len(names)
    caption = "dots: trials, line: best so far"
    caption += ", crosses: stopped early" if any(t.state == "pruned" for n in names for t in shown[n]) else ""
    head(figure, title, caption + (f", {more} more searches not drawn" if more else ""), width)
    handles = [handle(COLOURS[i], STYLES[i], MARKERS[i]) for i in range(len(names))]
    legend(figure, axis, handles, [shorten(_label(name, shown[name], metric)) for name in names])
    return png(figure)


def best_so_far(trials: Sequence[Trial], higher: bool) -> list[tuple[int, float]]:
    """Number of each trial with a value, and the best value until then."""
    best: list[tuple[int, float]] = []
    for trial in trials:
        if trial.value is not None:
            so_far = best[-1][1] if best else trial.value
            best.append((trial.number, max(so_far, trial.value) if higher else min(so_far, trial.value)))
    return best


def _draw(axis: Any, trials: Sequence[Trial], colour: str, line: Any, marker: str, higher: bool) -> None:
    done = [(t.number, t.value) for t in trials if t.value is not None]
    axis.plot(*zip(*done, strict=True), marker, color=colour, markersize=9, alpha=0.75, zorder=3)
    steps = best_so_far(trials, higher)
    steps.append((max(t.number for t in trials), steps[-1][1]))
    axis.plot(*zip(*steps, strict=True), color=colour, linestyle=line, linewidth=2.6, drawstyle="steps-post", zorder=2)
    stopped = [(t.number, t.curve[max(t.curve)]) for t in trials if t.state == "pruned" and t.curve]
    if stopped:
        axis.plot(*zip(*stopped, strict=True), "x", color=GREY, markersize=9, markeredgewidth=2.5, zorder=1)


def _dress(axis: Any, metric: str) -> None:
    from matplotlib.ticker import MaxNLocator

    style(axis)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    better = "higher is better" if higher_is_better(metric) else "lower is better"
    axis.set_title(f"{metric_name(metric)} at the end ({better})", fontsize=FONT, loc="left")
    axis.set_xlabel("trial", fontsize=FONT)


def _label(name: str, trials: Sequence[Trial], metric: str) -> str:
    number, value = best_so_far(trials, higher_is_better(metric))[-1]
    first = next(t.number for t in trials if t.value == value)
    return f"{name}: {value:.3g} in trial {first} of {max(number, max(t.number for t in trials))}"
