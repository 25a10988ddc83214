"""What ended runs used, by whom: read for a window of time, without their curves where these are not needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.archive import archived_since
from lab.records import index_key, record_key
from lab.run import FINAL_RUN, Run, RunResult, Usage, experiment_of
from lab.store import Client

FIELDS = ("owner", "experiment_id", "started_at", "finished_at", "gpus", "card", "earlier", "lost_gpu_s")
CHUNK = 500
"""Runs asked for at once: a result with its curves may have 100 kB."""


@dataclass(frozen=True)
class Used:
    """One ended run that had a card."""

    run_id: str
    experiment_id: str
    owner: str
    finished_at: float
    usage: Usage
    """Of all its attempts."""
    lost_gpu_s: float = 0.0
    """The part of that which went to attempts lost with their card, worker or host."""

    @property
    def simulated(self) -> bool:
        """True where the CPU trained in a card's place."""
        return self.usage.memory_kind == "host"


def ended_since(client: Client, since: float) -> Iterator[Used]:
    """Every run that ended at `since` or later and had a card, in no order. Runs that go on are not among them.

    Raises NotHereError where an experiment of that time is archived on another machine.
    """
    ids = [run_id for state in sorted(FINAL_RUN) for run_id in client.zrange(index_key("run", state), 0, -1)]
    for start in range(0, len(ids), CHUNK):
        yield from _chunk(client, ids[start : start + CHUNK], since)
    for run in archived_since(client, since):
        if run.started_at:
            yield Used(run.id, run.experiment_id, run.owner, run.finished_at or 0.0, run.used, run.lost_gpu_s)


def _chunk(client: Client, ids: list[str], since: float) -> Iterator[Used]:
    with client.pipeline(transaction=False) as pipe:
        for run_id in ids:
            pipe.hmget(record_key(run_id), FIELDS)
        replies = pipe.execute()
    found: dict[str, list[Any]] = {
        run_id: [json.loads(value) if value else None for value in values]
        for run_id, values in zip(ids, replies, strict=True)
    }
    # The third and the fourth: started_at, finished_at; never started means that no card was held.
    within = {run_id: values for run_id, values in found.items() if values[2] and values[3] and values[3] >= since}
    with client.pipeline(transaction=False) as pipe:
        for run_id in within:
            pipe.hget(record_key(run_id), "result")
        results = pipe.execute()
    for (run_id, values), raw in zip(within.items(), results, strict=True):
        yield _used(run_id, dict(zip(FIELDS, values, strict=True)), raw)


def _used(run_id: str, found: dict[str, Any], raw: str | None) -> Used:
    earlier = Usage.model_validate(found["earlier"]) if found["earlier"] else None
    held = {name: found[name] for name in ("started_at", "finished_at", "card")} | {"gpus": found["gpus"] or 1}
    run = Run.model_construct(**held, earlier=earlier, result=_result(raw))
    experiment_id = found["experiment_id"] or experiment_of(run_id)
    return Used(run_id, experiment_id, found["owner"] or "", found["finished_at"], run.used, found["lost_gpu_s"] or 0.0)


def _result(raw: str | None) -> RunResult | None:
    """The result, but only its usage; None without one, or where it cannot be read."""
    try:
        result = json.loads(raw or "null")
        return RunResult.model_validate({"usage": result.get("usage", {})}) if result else None
    except ValueError:
        return None
