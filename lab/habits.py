"""What people said in plans that were approved, by person: the ground of their preferences.

Written with the approval, the newest KEPT plans a person. It is not rebuilt from the ledger: what somebody wanted
forgotten stays forgotten.
"""

from __future__ import annotations

import json
from typing import Any

from redis.client import Pipeline

from lab.plan import Plan
from lab.store import PREFIX, Client

KEPT = 20
FIELDS = ("dataset", "axes.seed", "epochs", "metric", "axes.batch_size", "axes.lr", "axes.optimizer", "axes.precision")
"""Fields of a plan that can become a habit: settings of every day, not what an experiment is about."""

Value = bool | int | float | str | tuple[str, ...]
"""The one value of a field; of seeds their number."""


def stated(plan: Plan) -> dict[str, Value]:
    """What the person said of these fields, where it was one value; what was assumed or varied is left out."""
    found = {field: _value(plan, field) for field in FIELDS if plan.why(field) is None}
    return {field: value for field, value in found.items() if value is not None}


def _value(plan: Plan, field: str) -> Value | None:
    name = field.removeprefix("axes.")
    if name == field:
        value: Value | None = getattr(plan, name)
        return value
    axis = plan.axes.get(name)
    if not isinstance(axis, tuple):
        return None
    if name == "seed":
        return len(axis) if axis == tuple(range(len(axis))) else None
    return axis[0] if len(axis) == 1 else None


def remember(pipe: Pipeline, person: str, plan: Plan) -> None:
    """One approved plan more, when the pipeline's transaction runs; one that says nothing of this leaves no trace."""
    said = stated(plan)
    if said:
        pipe.lpush(_key(person), json.dumps(said, ensure_ascii=False))
        pipe.ltrim(_key(person), 0, KEPT - 1)


def uses(client: Client, person: str) -> list[dict[str, Value]]:
    """What the person said in each of those plans, the newest first."""
    return [_read(entry) for entry in client.lrange(_key(person), 0, -1)]


def forget(client: Client, person: str, field: str | None = None) -> bool:
    """The field, or everything, is not remembered any more; False when nothing of it was."""

    def write(pipe: Pipeline) -> bool:
        entries = [json.loads(entry) for entry in pipe.lrange(_key(person), 0, -1)]
        kept = [{k: v for k, v in entry.items() if k != field} for entry in entries] if field else []
        kept = [entry for entry in kept if entry]
        pipe.multi()
        pipe.delete(_key(person))
        if kept:
            pipe.rpush(_key(person), *(json.dumps(entry, ensure_ascii=False) for entry in kept))
        return kept != entries

    done: bool = client.transaction(write, _key(person), value_from_callable=True)
    return done


def _read(entry: str) -> dict[str, Value]:
    """JSON knows no tuples; several data sets were one."""
    found: dict[str, Any] = json.loads(entry)
    return {field: tuple(value) if isinstance(value, list) else value for field, value in found.items()}


def _key(person: str) -> str:
    return f"{PREFIX}habits:{person}"
