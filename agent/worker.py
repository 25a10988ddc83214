"""The process `overnight agent`: RQ workers that answer requests and write reports."""

from __future__ import annotations

import logging
import os
from typing import Any

from rq import Worker
from rq.serializers import JSONSerializer
from rq.worker_pool import WorkerPool

from agent import desk
from lab import store
from lab.processes import die_with_parent
from lab.queue import AGENT, KnownJob
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
        import agent.intake
        import agent.reporting  # noqa: F401  the forked process of each job finds them imported

        super().bootstrap(*args, **kwargs)

    def setup_work_horse_signals(self) -> None:
        """In the child: it dies with the worker; RQ would let it answer on in nobody's sight, `up` ended or not."""
        super().setup_work_horse_signals()  # type: ignore[no-untyped-call]
        die_with_parent()
        if os.getppid() != self.pid:
            os._exit(1)


def main(settings: Settings) -> None:
    """Serves the agent's queue until SIGTERM; a worker that dies is replaced.

    Raises:
        StoreAwayError: Redis does not answer at start.
    """
    global _pool
    _pool = os.getpid()
    desk.lay(settings)
    client = store.connect(settings, decode=False)
    store.check(client, settings)
    log.info("agent: %d workers", settings.agent.workers)
    WorkerPool(
        [AGENT],
        connection=client,
        num_workers=settings.agent.workers,
        worker_class=AgentWorker,
        serializer=JSONSerializer,
        job_class=KnownJob,
    ).start(logging_level="WARNING")
