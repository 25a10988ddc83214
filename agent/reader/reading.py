"""What the reader understood of one message."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from agent.reader.intents import PLANNING, Intent
from lab.plan import Axis, Budget, Frozen, Plan, Priority, Prune, Range, Scalar

Search = str


class PreviousPlan(BaseModel):
    """What the thread holds already; other keys of the ledger's records are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str | None = None
    models: tuple[str, ...] = ()
    dataset: str | tuple[str, ...] | None = None
    axes: dict[str, Any] = {}
    epochs: int | None = None
    max_steps: int | None = None
    gpus_per_run: int | None = None
    metric: str | None = None
    search: str | None = None
    trials: int | None = None
    prune: Prune | None = None
    budget: Budget | None = None
    priority: str | None = None
    deadline: str | None = None
    mode: str | None = None
    n_runs: int | None = None
    state: str | None = None
    assumed: tuple[Any, ...] = ()
    """Fields that were assumed in that plan; a field named here is not held to be stated."""

    @classmethod
    def of(cls, plan: Plan, experiment_id: str | None = None, state: str | None = None) -> PreviousPlan:
        """The previous plan that a ledger's plan is."""
        fields = plan.model_dump(include=set(cls.model_fields))
        return cls(**fields, id=experiment_id, state=state, n_runs=plan.n_runs)

    @property
    def datasets(self) -> tuple[str, ...]:
        """Its data sets; empty when it has none."""
        if self.dataset is None:
            return ()
        return self.dataset if isinstance(self.dataset, tuple) else (self.dataset,)

    def assumed_reasons(self) -> dict[str, str]:
        """Field to reason of what was assumed there."""
        pairs = [(a, "") if isinstance(a, str) else (a["field"], a.get("reason", "")) for a in self.assumed]
        return dict(pairs)

    def values(self) -> dict[str, Axis]:
        """Its axes in the plan's own types: a count of seeds becomes 0, 1, 2, ..."""
        axes: dict[str, Axis] = {}
        for name, axis in self.axes.items():
            if name == "seed" and isinstance(axis, int):
                axes[name] = tuple(range(axis))
            elif isinstance(axis, Range):
                axes[name] = axis
            elif isinstance(axis, dict):
                axes[name] = Range(**axis)
            else:
                axes[name] = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
        return axes


class Reading(Frozen):
    """What one message says; a field that it does not say is empty or None."""

    intent: Intent
    sure: bool = True
    """False when no cue spoke for the intent, so that a model may know better."""
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    axes: dict[str, Axis] = {}
    epochs: int | None = None
    max_steps: int | None = None
    gpus_per_run: int | None = None
    metric: str | None = None
    search: str | None = None
    trials: int | None = None
    prune: Prune | None = None
    budget: Budget | None = None
    priority: Priority | None = None
    deadline: str | None = None
    schedule: dict[str, Scalar] | None = None
    mode: str | None = None
    tunes: tuple[str, ...] | None = None
    """Axes whose best value is asked for and whose values nobody gave; empty when it is not said which, None when
    nothing is to be tuned."""
    runs_told: int | None = None
    """The number of runs that the message counts itself."""
    denied: dict[str, tuple[Scalar, ...]] = {}
    """`models`, `dataset`, `epochs`, or an axis, to the values that the message says not to use."""
    hints: dict[str, str] = {}
    """Field to reason, for values that were concluded rather than stated: `models`, `priority`."""
    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    refusal: str | None = None
    small_talk: str | None = None
    """Key of the sentence that answers a message which asks for nothing."""
    target: str | None = None
    args: dict[str, Scalar] = {}
    chinese: bool = False
    left: str = ""
    """The message with what was read crossed out: the only place where a model may find more."""

    @property
    def plans(self) -> bool:
        """True when a plan can come of it."""
        return self.intent in PLANNING
