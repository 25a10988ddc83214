"""The trials of a search as the ledger tells them: what was drawn, and what it came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lab.objective import DIVERGED, final_value, latest
from lab.plan import Axis, Scalar
from lab.run import FINAL_RUN, Run, RunState

TrialState = Literal["live", "done", "pruned", "diverged", "failed"]
Curve = dict[int, float]
"""Epoch to the value of the metric."""


@dataclass(frozen=True)
class Trial:
    """One draw of a search, over its seeds.

    Attributes:
        number: counted from 1.
        values: what was drawn.
        state: `live` until every seed has ended.
        value: mean of the metric over the seeds that finished; None unless `done`.
        curve: by epoch, the mean over the seeds that have a value there.
    """

    number: int
    values: dict[str, Scalar]
    state: TrialState
    value: float | None = None
    curve: Curve | None = None


def trials_of(runs: Sequence[Run], space: Mapping[str, Axis], metric: str) -> list[Trial]:
    """The trials that have been drawn, in order; for the runs of one model on one data set.

    Of a run that was retried the retry counts.
    """
    members: dict[int, list[Run]] = {}
    for run in latest(runs):
        if run.trial is not None and not run.to_draw:
            members.setdefault(run.trial, []).append(run)
    return [_trial(number, seeds, space, metric) for number, seeds in sorted(members.items())]


def _trial(number: int, seeds: Sequence[Run], space: Mapping[str, Axis], metric: str) -> Trial:
    values = {name: value for name, value in seeds[0].point.params.items() if name in space}
    state = _state(seeds, metric)
    finished = [value for run in seeds if (value := final_value(run, metric)) is not None]
    mean = sum(finished) / len(finished) if state == "done" else None
    return Trial(number, values, state, mean, _mean_curve([curve_of(run, metric) for run in seeds]))


def _state(seeds: Sequence[Run], metric: str) -> TrialState:
    """A trial diverged or was pruned when one of its seeds was: its mean would be over the lucky ones."""
    if any(run.state not in FINAL_RUN for run in seeds):
        return "live"
    if any(was_pruned(run) for run in seeds):
        return "pruned"
    if any(diverged(run, metric) for run in seeds):
        return "diverged"
    return "done" if all(run.state is RunState.FINISHED for run in seeds) else "failed"


def was_pruned(run: Run) -> bool:
    """True when its search stopped it; a run that was done before the stop reached it has finished."""
    return run.state is RunState.CANCELLED and run.pruned_at is not None


def diverged(run: Run, metric: str) -> bool:
    """True when the metric became NaN or infinite: in a search that is a result, and a bad one."""
    if run.state is RunState.FAILED:
        return run.cause == DIVERGED
    return run.state is RunState.FINISHED and final_value(run, metric) is None


def curve_of(run: Run, metric: str) -> Curve:
    """The metric by epoch, as far as the run has ended or left it; empty where it did not."""
    return by_epoch(run.result.curves.get(metric, []) if run.result else [])


def by_epoch(pairs: Sequence[tuple[float, float | None]]) -> Curve:
    """The pairs of a curve that have a value."""
    return {round(epoch): value for epoch, value in pairs if value is not None}


def _mean_curve(curves: Sequence[Curve]) -> Curve:
    sums: Counter[int] = Counter()
    for curve in curves:
        sums.update(curve.keys())
    return {epoch: sum(c[epoch] for c in curves if epoch in c) / n for epoch, n in sorted(sums.items())}
