"""What is to be expected: a waiting run's place in the queue and start, a running one's end, an experiment's end.

The leader of the dispatchers publishes it every few seconds, with an expiry: without a leader nothing is expected.
Times are seconds since the epoch, p50 and p90 each: half of the time it is so by then, nine times in ten.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from lab.plan import Priority
from lab.run import Record
from lab.store import PREFIX, Client

log = logging.getLogger(__name__)

KEY = f"{PREFIX}forecast"
"""A hash: a field an experiment that is not over, and QUEUE."""
QUEUE = "queue"

R = TypeVar("R", bound=Record)


class Place(NamedTuple):
    """Where a waiting run stands; 1 is next."""

    position: int
    p50: float
    """When it starts."""
    p90: float


class End(NamedTuple):
    """When something ends."""

    p50: float
    p90: float


class Forecast(Record):
    """What is expected of one experiment; runs by their number."""

    at: float = 0.0
    waiting: dict[int, Place] = {}
    running: dict[int, End] = {}
    stuck: dict[int, str] = {}
    """Waiting runs that no host could take, and why."""
    end: End | None = None
    """Of its last run that is not paused; None while a run of it is stuck."""

    @property
    def next(self) -> Place | None:
        """The place of its run that starts first; None when none waits."""
        return min(self.waiting.values(), default=None)


class Opening(Record):
    """What a run that is queued now would have to wait for."""

    priority: Priority
    gpu_s: float
    """It would take so much GPU time: short runs go first."""
    before: int
    """Waiting runs that go before it."""
    starts_at: float


class Queue(Record):
    """The whole queue."""

    at: float = 0.0
    waiting: int = 0
    openings: tuple[Opening, ...] = ()

    def opening(self, priority: Priority, gpu_s: float) -> Opening | None:
        """The one for a run of this priority and size; None where there is none."""
        ours = sorted((o for o in self.openings if o.priority == priority), key=lambda o: o.gpu_s)
        return next((o for o in ours if o.gpu_s >= gpu_s), ours[-1] if ours else None)


def publish(client: Client, forecasts: Mapping[str, Forecast], queue: Queue, hold_s: float) -> None:
    """These stand in place of all earlier ones, for `hold_s` seconds."""
    fields = {
        experiment_id: forecast.model_dump_json(exclude_defaults=True) for experiment_id, forecast in forecasts.items()
    }
    with client.pipeline() as pipe:
        pipe.delete(KEY)
        pipe.hset(KEY, mapping={**fields, QUEUE: queue.model_dump_json()})
        pipe.pexpire(KEY, round(hold_s * 1000))
        pipe.execute()


def forecasts(client: Client, experiment_ids: Iterable[str]) -> dict[str, Forecast]:
    """What is expected of these experiments, by id, as far as anything is."""
    ids = list(experiment_ids)
    values = client.hmget(KEY, ids) if ids else []
    found = {i: _parse(Forecast, raw) for i, raw in zip(ids, values, strict=True)}
    return {i: forecast for i, forecast in found.items() if forecast is not None}


def queue(client: Client) -> Queue | None:
    """The queue as last published; None without a leader."""
    return _parse(Queue, client.hget(KEY, QUEUE))


def _parse(cls: type[R], raw: str | None) -> R | None:
    if raw is None:
        return None
    try:
        return cls.model_validate_json(raw)
    except ValidationError as error:  # a leader of another version
        log.debug("a forecast cannot be read: %s", str(error).splitlines()[0])
        return None
