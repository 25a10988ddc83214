"""The queues that carry work between processes: RQ with JSON arguments and a fixed list of functions."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from redis.client import Pipeline
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

from lab.errors import OperatorError
from lab.store import Client

ANSWER = "agent.intake.answer"
WRITE_REPORT = "agent.reporting.write"
RUN_ATTEMPT = "workers.job.run_attempt"

FUNCTIONS = frozenset({ANSWER, WRITE_REPORT, RUN_ATTEMPT})
"""The only names a worker runs, a public interface: whatever else stands in Redis is refused, not imported."""

AGENT = "agent"
"""Queue of requests and reports."""

FAILURE_TTL_S = 86_400

QUEUES: str = Queue.redis_queues_keys
"""Redis key of RQ's set of queues."""


class RefusedJob(OperatorError):
    """A queue entry names a function outside the fixed list."""


class KnownJob(Job):
    """An RQ job that runs only the functions of the fixed list, and no callback or webhook that stands in Redis."""

    @property
    def func(self) -> Callable[..., Any]:
        name = self.func_name
        if name not in FUNCTIONS or self.instance is not None:
            raise RefusedJob(f"job {self.id} names {name!r}, which is not one of {', '.join(sorted(FUNCTIONS))}")
        module, _, function = str(name).rpartition(".")
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
        return found

    def restore(self, raw_data: Any) -> Any:
        restored = super().restore(raw_data)
        self._success_callback_name = self._failure_callback_name = self._stopped_callback_name = None
        self.webhooks = []
        return restored


def card_queue(uuid: str) -> str:
    """Name of the queue of one card; at most one entry waits in it."""
    return f"card-{uuid}"


def open_queue(client: Client, name: str) -> Queue:
    """The queue; jobs have no time limit of RQ's own (leases and limits of a run are the ledger's)."""
    return Queue(name, connection=client, serializer=JSONSerializer, job_class=KnownJob, default_timeout=-1)


def put(queue: Queue, function: str, *args: Any, job_id: str, pipeline: Pipeline | None = None) -> None:
    """One entry more in the queue, written when `pipeline` executes (at once without one).

    Args:
        job_id: letters, digits, dashes and underscores; a new one for each try, since RQ remembers old ones for a day.
    """
    queue.enqueue_call(function, args=args, job_id=job_id, result_ttl=0, failure_ttl=FAILURE_TTL_S, pipeline=pipeline)


def entries(client: Client) -> dict[str, list[str]]:
    """Ids of what waits in each queue that was ever used, next one first; for a client that decodes."""
    names = sorted(name.removeprefix(Queue.redis_queue_namespace_prefix) for name in client.smembers(QUEUES))
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.lrange(Queue.redis_queue_namespace_prefix + name, 0, -1)
        return dict(zip(names, pipe.execute(), strict=True))
