"""Runs grouped into the points of an experiment: one configuration, its seeds, and what each seed came to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.objective import DIVERGED, latest, metrics
from lab.plan import Scalar, number
from lab.report import Outcome
from lab.run import Run, RunState
from lab.trials import was_pruned

Curves = dict[str, tuple[tuple[float, float | None], ...]]


@dataclass(frozen=True)
class Seed:
    """One run of a point, seen through the metric of the report."""

    run_id: str
    seed: Scalar | None
    value: float | None
    """None unless `outcome` is ok."""
    outcome: Outcome = "ok"
    curves: Curves = field(default_factory=dict)
    cause: str | None = None
    message: str | None = None
    advice: str | None = None
    reused_from: str | None = None
    """The run of another experiment whose result it is."""


@dataclass(frozen=True)
class PointData:
    """One configuration over its seeds."""

    label: str
    """What tells it from the other points of the experiment; the data set is left out."""
    model: str
    dataset: str | None
    params: dict[str, Scalar]
    """The axes that vary, without the seed."""
    seeds: tuple[Seed, ...]
    epochs: int | None = None
    max_steps: int | None = None

    @property
    def values(self) -> list[float]:
        """The metric of every seed that has one."""
        return [s.value for s in self.seeds if s.value is not None]

    def count(self, outcome: Outcome) -> int:
        """How many seeds ended like that."""
        return sum(s.outcome == outcome for s in self.seeds)

    def curves(self, metric: str) -> list[tuple[tuple[float, float | None], ...]]:
        """The curve of that metric of every seed that counts."""
        return [s.curves[metric] for s in self.seeds if s.outcome == "ok" and s.curves.get(metric)]


def group(runs: Sequence[Run], metric: str) -> list[PointData]:
    """The points of an experiment in the order of their first run; retried runs are replaced by their retries.

    Runs for which a search drew no values have no point.
    """
    counted = [run for run in latest(runs) if not run.to_draw]
    varying = _varying(counted)
    models = {run.point.model for run in counted}
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in counted:
        groups.setdefault(_key(run), []).append(run)
    lengths = {(run.epochs, run.max_steps) for run in counted}
    return [_point(m, metric, varying, len(models) > 1, len(lengths) > 1) for m in groups.values()]


def _varying(runs: Sequence[Run]) -> tuple[str, ...]:
    """Axes, without the seed, that take more than one value; read off the runs, since a search draws its values."""
    names = dict.fromkeys(name for run in runs for name in run.point.params if name != "seed")
    return tuple(n for n in names if len({repr(run.point.params.get(n)) for run in runs}) > 1)


def _key(run: Run) -> tuple[object, ...]:
    params = sorted((k, repr(v)) for k, v in run.point.params.items() if k != "seed")
    return run.point.model, run.point.dataset, run.epochs, run.max_steps, tuple(params)


def _point(
    runs: Sequence[Run], metric: str, varying: tuple[str, ...], name_model: bool, name_length: bool
) -> PointData:
    first = runs[0]
    params = {k: first.point.params[k] for k in varying if k in first.point.params}
    words = [first.point.model] if name_model or not params else []
    words += [f"{k} {number(v)}" for k, v in params.items()]
    if name_length and "epochs" not in params:
        words += [f"{first.epochs} epochs" if first.epochs else f"{first.max_steps} steps"]
    return PointData(
        label=" ".join(words),
        model=first.point.model,
        dataset=first.point.dataset,
        params=params,
        seeds=tuple(_seed(run, metric) for run in _one_per_seed(runs)),
        epochs=first.epochs,
        max_steps=first.max_steps,
    )


def _one_per_seed(runs: Sequence[Run]) -> list[Run]:
    """A seed that ran twice counts once, by its last finished run: the same seed again is no new evidence."""
    chosen: dict[object, Run] = {}
    for run in runs:
        key = run.point.params.get("seed", run.id)
        if key not in chosen or run.state is RunState.FINISHED or chosen[key].state is not RunState.FINISHED:
            chosen[key] = run
    return list(chosen.values())


def _seed(run: Run, metric: str) -> Seed:
    outcome, value = _outcome(run, metric)
    curves = {name: tuple(points) for name, points in run.result.curves.items()} if run.result else {}
    seed = run.point.params.get("seed")
    return Seed(run.id, seed, value, outcome, curves, run.cause, run.message, run.advice, run.reused_from)


def _outcome(run: Run, metric: str) -> tuple[Outcome, float | None]:
    """How the run ended, and its last value of the metric; NaN in that value means that it diverged."""
    if run.state is RunState.FAILED:
        return ("diverged" if run.cause == DIVERGED else "failed"), None
    if run.state is RunState.CANCELLED:
        return ("pruned" if was_pruned(run) else "cancelled"), None
    if run.state is not RunState.FINISHED:
        return "unfinished", None
    found = metrics(run)
    if metric not in found:
        return "failed", None
    value = found[metric]
    return ("ok", float(value)) if value is not None and math.isfinite(value) else ("diverged", None)
