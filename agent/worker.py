"""The process `overnight agent`: RQ workers that answer requests and write reports."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from typing import Any

from rq import Worker
from rq.exceptions import NoSuchJobError
from rq.serializers import JSONSerializer
from rq.worker_pool import WorkerData, WorkerPool

from agent import catalog, desk
from lab import names, store
from lab.processes import die_with_parent, is_process
from lab.queue import AGENT, KnownJob, open_queue
from lab.settings import Settings

log = logging.getLogger(__name__)


_pool = 0
"""Process id of the pool; 0 for a worker without one."""


class AgentWorker(Worker):
    """An RQ worker that ends with its pool and imports what it needs before the first request comes."""

    def bootstrap(self, *args: Any, **kwargs: Any) -> None:
        die_with_parent()
        if _pool and os.getppid() != _pool:  # it died before the line above
            os._exit(1)
        desk.load()
        super().bootstrap(*args, **kwargs)

    def work(self, *args: Any, **kwargs: Any) -> bool:
        """RQ's pool wants a scheduler beside each worker: nothing here needs one, and it outlives a kill."""
        return super().work(*args, **kwargs | {"with_scheduler": False})

    def setup_work_horse_signals(self) -> None:
        """In the child: it dies with the worker; RQ would let it answer on in nobody's sight, `up` ended or not."""
        super().setup_work_horse_signals()  # type: ignore[no-untyped-call]
        die_with_parent()
        if os.getppid() != self.pid:
            os._exit(1)


class AgentPool(WorkerPool):
    """RQ's pool, which also lets go of what a dead worker held; RQ would keep it for 90 s, until its heartbeat ends."""

    def __init__(self, connection: store.Client, num_workers: int) -> None:
        super().__init__(
            [AGENT],
            connection=connection,
            num_workers=num_workers,
            worker_class=AgentWorker,
            serializer=JSONSerializer,
            job_class=KnownJob,
        )
        self._dead: set[str] = set()
        """Names of workers that are dead while Redis does not know it."""

    def bury_earlier(self) -> None:
        """The workers of a pool that was killed on this machine are known to be dead. Raises one of store.AWAY."""
        for worker in AgentWorker.all(queue=open_queue(self.connection, AGENT)):
            born = worker.birth_date.timestamp() if worker.birth_date else 0.0
            if worker.hostname == socket.gethostname() and not is_process(worker.pid, born):
                bury(self.connection, worker.name)

    def handle_dead_worker(self, worker_data: WorkerData) -> None:
        super().handle_dead_worker(worker_data)
        self._dead.add(worker_data.name)

    def reap_workers(self) -> None:
        super().reap_workers()  # type: ignore[no-untyped-call]
        for name in list(self._dead):
            try:
                bury(self.connection, name)
            except store.AWAY as error:
                log.warning("agent: what worker %s held is not let go of yet: %s", name, error)
                return
            self._dead.remove(name)


def bury(client: store.Client, name: str) -> None:
    """What the dead worker held is in nobody's hands, which the leader sees: it queues that again.

    Raises one of store.AWAY. For a client that does not decode.
    """
    worker = AgentWorker.find_by_key(f"{AgentWorker.redis_worker_namespace_prefix}{name}", client)
    if worker is None or worker.death_date is not None:
        return
    for execution in worker.get_current_executions():
        log.warning("agent: PID %s died over %s, which goes back into the queue", worker.pid, execution.job_id)
        with contextlib.suppress(NoSuchJobError):
            KnownJob.fetch(execution.job_id, client, JSONSerializer).delete()
    worker.register_death()  # type: ignore[no-untyped-call]


def main(settings: Settings) -> None:
    """Serves the agent's queue until SIGTERM; a worker that dies is replaced.

    Raises:
        StoreAwayError: Redis does not answer at start.
    """
    global _pool
    _pool = os.getpid()
    desk.set_settings(settings)
    client = store.connect(settings, decode=False)
    store.check(client, settings)
    names.publish(client, catalog.trainable())
    pool = AgentPool(client, settings.agent.workers)
    pool.bury_earlier()
    log.info("agent: %d workers", settings.agent.workers)
    pool.start(logging_level="WARNING")
