"""What the runs of an experiment are judged by: the metric, and of a run and its retries the one that counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lab.run import Run, RunState

DIVERGED = "nan_loss"
"""The cause under which a trainer that met NaN or infinity ends."""

_ALIASES = {
    "accuracy": ("val_acc", "acc", "accuracy"),
    "acc": ("val_acc",),
    "top1": ("val_acc",),
    "loss": ("val_loss", "train_loss"),
    "throughput": ("samples_per_s",),
    "speed": ("samples_per_s",),
}
_DEFAULTS = ("val_acc", "val_loss", "train_acc", "train_loss")


def choose_metric(wanted: str | None, runs: Sequence[Run]) -> tuple[str, bool]:
    """The metric to judge by, and whether it is the wanted one (True when none was wanted).

    Without a wish, or where no run reported what was wished: val_acc, val_loss, then whatever the runs have.
    """
    reported = dict.fromkeys(name for run in runs if run.result for name in metrics(run))
    if wanted:
        key = "_".join(wanted.lower().split())
        for name in (key, f"val_{key}", *_ALIASES.get(key, ())):
            if name in reported:
                return name, True
    if not reported and wanted:
        return "_".join(wanted.lower().split()), True
    return next((m for m in (*_DEFAULTS, *reported) if m in reported), "val_acc"), not wanted


def metrics(run: Run) -> dict[str, float | None]:
    """The last value of each metric of the run, its training speed among them; empty without a result."""
    if run.result is None:
        return {}
    speed = run.result.usage.samples_per_s
    return ({} if speed is None else {"samples_per_s": speed}) | run.result.metrics


def latest(runs: Sequence[Run]) -> list[Run]:
    """The runs that count: of a run and its retries the last one that finished, else the last one."""
    by_id = {run.id: run for run in runs}
    families: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda r: r.number):
        families.setdefault(_origin(run, by_id), []).append(run)
    return [max(family, key=lambda r: (r.state is RunState.FINISHED, r.number)) for family in families.values()]


def _origin(run: Run, by_id: dict[str, Run]) -> str:
    """The run at the start of a chain of retries."""
    seen = {run.id}
    while run.retry_of and run.retry_of not in seen:
        seen.add(run.retry_of)
        if run.retry_of not in by_id:
            return run.retry_of
        run = by_id[run.retry_of]
    return run.id


def final_value(run: Run, metric: str) -> float | None:
    """The finished run's last value of the metric; None when it has none, or one that is no finite number."""
    value = metrics(run).get(metric) if run.state is RunState.FINISHED else None
    return value if value is not None and math.isfinite(value) else None
