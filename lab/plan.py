"""What would run: a plan, the points it stands for, and why each value that nobody stated was assumed."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Scalar = bool | int | float | str
Priority = Literal["low", "normal", "high"]
PRIORITIES: tuple[Priority, ...] = ("low", "normal", "high")
Search = Literal["grid", "random", "bayesian"]
Prune = Literal["median", "halving"]

MAX_RUNS = 200
"""A plan with more runs than this is asked about, never queued (a setting may lower or raise it)."""


class Frozen(BaseModel):
    """A record of the lab: immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Range(Frozen):
    """A continuous range that a search draws from; a grid search expands it first."""

    low: float
    high: float
    scale: Literal["linear", "log", "log2"] = "log"
    num: int | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if not self.low < self.high:
            raise ValueError(f"a range runs from its smaller end to its larger one, not from {self.low} to {self.high}")
        if self.scale != "linear" and self.low <= 0:
            raise ValueError(f"a {self.scale} range starts above 0, not at {self.low}")
        return self


Axis = tuple[Scalar, ...] | Range


class Budget(Frozen):
    """What the experiment may use at most; absent means no limit was stated."""

    gpu_hours: float | None = Field(None, gt=0)
    wall_hours: float | None = Field(None, gt=0)


class Assumed(Frozen):
    """A field that the message did not state, and why it has the value it has."""

    field: str
    """`epochs`, `dataset`, `axes.seed`, ..."""
    reason: str


class Point(Frozen):
    """One run of a plan: a model on a data set with one value of each axis."""

    model: str
    dataset: str | None
    params: dict[str, Scalar]
    """One value for each axis, `seed` included."""

    def label(self, varying: tuple[str, ...] | None = None) -> str:
        """A short name for people, with the axes in `varying` (all of them when None): `resnet50 lr 0.001 seed 0`."""
        shown = [k for k in self.params if varying is None or k in varying]
        return " ".join([self.model, *(f"{k} {number(self.params[k])}" for k in shown)])


class Plan(Frozen):
    """What would run. Immutable; a change makes a new plan."""

    schema_version: int = 1
    template: str = "vision"
    models: tuple[str, ...] = ()
    dataset: str | tuple[str, ...] | None = None
    axes: dict[str, Axis] = {}
    """lr, batch_size, seed, weight_decay, ...: the values to try, each a tuple (or a range for a search)."""
    epochs: Annotated[int, Field(ge=1, le=100_000)] | None = None
    max_steps: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    gpus_per_run: Annotated[int, Field(ge=1, le=64)] = 1
    metric: str | None = None
    search: Search = "grid"
    trials: Annotated[int, Field(ge=1)] | None = None
    """Number of draws of a random or Bayesian search, for each model and data set; None for a grid."""
    prune: Prune | None = None
    """Which runs of a search are stopped early: those below the median of the others, or all but the best third at
    epochs 1, 3, 9, ... (successive halving); None lets each run to its end."""
    budget: Budget | None = None
    priority: Priority = "normal"
    deadline: str | None = None
    """As the person wrote it; never computed with."""
    schedule: dict[str, Scalar] | None = None
    mode: str | None = None
    anew: bool = False
    """True runs also what is there already from an earlier experiment."""
    assumed: tuple[Assumed, ...] = ()
    notes: tuple[str, ...] = ()
    """Things to say on the plan card: a range that became a grid, arithmetic that does not add up."""
    request_text: str = ""
    prompt: str | None = None
    """Name and hash of the prompt a model was asked with; None when no model took part."""

    @field_validator("axes")
    @classmethod
    def _no_empty_axis(cls, axes: dict[str, Axis]) -> dict[str, Axis]:
        for name, axis in axes.items():
            if isinstance(axis, tuple):
                if not axis:
                    raise ValueError(f"axis {name} has no value")
                if any(isinstance(v, float) and not math.isfinite(v) for v in axis):
                    raise ValueError(f"axis {name} has a value that is no finite number")
        return axes

    @property
    def datasets(self) -> tuple[str, ...]:
        """Every data set of the plan; empty when none is known."""
        if self.dataset is None:
            return ()
        return self.dataset if isinstance(self.dataset, tuple) else (self.dataset,)

    @property
    def varying(self) -> tuple[str, ...]:
        """Names of the axes with more than one value."""
        return tuple(k for k, v in self.axes.items() if isinstance(v, Range) or len(v) > 1)

    @property
    def drawn(self) -> dict[str, Axis]:
        """The axes whose values a search draws while it runs, run by run; empty for a grid."""
        if self.search == "grid":
            return {}
        return {k: v for k, v in self.axes.items() if k != "seed" and (isinstance(v, Range) or len(v) > 1)}

    def trial_of(self, number: int) -> int | None:
        """The trial, counted from 1, that the run of this number belongs to; None for a grid."""
        if self.search == "grid" or not self.trials:
            return None
        return (number - 1) // max(1, self.n_runs // self.trials) + 1

    @property
    def n_runs(self) -> int:
        """The number of runs, counted without making them (a grid may be too large to make)."""
        base = len(self.models) * max(1, len(self.datasets))
        if self.search != "grid":
            seeds = self.axes.get("seed", ())
            return base * (self.trials or 0) * (len(seeds) if isinstance(seeds, tuple) and seeds else 1)
        return base * math.prod(len(v) if isinstance(v, tuple) else (v.num or 0) for v in self.axes.values())

    def points(self) -> list[Point]:
        """Every run in a stable order.

        Of a grid the seeds vary slowest, so that each configuration is seen early. Of a search they vary fastest, trial
        by trial, since the next draw wants to know what the last one came to; what is drawn is not in the params yet.

        Raises:
            ValueError: a grid holds a range, whose values nobody has chosen.
        """
        fixed = {k: v for k, v in self.axes.items() if k != "seed" and k not in self.drawn}
        if any(isinstance(v, Range) for v in fixed.values()):
            raise ValueError("a grid has values, no ranges")
        seeds: tuple[Scalar | None, ...] = tuple(self.axes["seed"]) if "seed" in self.axes else (None,)  # type: ignore[arg-type]
        places = itertools.product(self.datasets or (None,), self.models, *fixed.values())
        if self.search == "grid":
            rows = [(seed, place) for seed, place in itertools.product(seeds, places)]
        else:
            rows = [(seed, place) for place, seed in itertools.product(places, seeds)] * (self.trials or 0)
        return [
            Point(
                model=model,
                dataset=dataset,
                params=dict(zip(fixed, values, strict=True)) | ({} if seed is None else {"seed": seed}),
            )
            for seed, (dataset, model, *values) in rows
        ]

    def why(self, field: str) -> str | None:
        """The reason for which `field` was assumed; None when the message stated it."""
        return next((a.reason for a in self.assumed if a.field == field), None)


FEW = 8
"""Values of a list that people are shown; the others are counted."""


def few(values: Sequence[Any]) -> list[str]:
    """The first values as people write them, and how many more there are."""
    more = len(values) - FEW
    return [*(number(v) for v in values[:FEW]), *([f"and {more} more"] if more > 0 else [])]


def number(value: Any) -> str:
    """A value as people write it: 0.001, 1e-05, 64, adam; never 0.30000000000000004."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)
