"""The RQ worker of one card: one queue, one job at a time, each in a child that dies with it."""

from __future__ import annotations

import logging
import os
import re
import signal
import uuid
from types import FrameType
from typing import Any

from redis.backoff import ExponentialBackoff
from redis.retry import Retry
from rq import Queue, Worker
from rq.executions import Execution
from rq.job import Job
from rq.serializers import JSONSerializer

from lab import store
from lab.card import Card
from lab.processes import die_with_parent
from lab.queue import KnownJob, card_queue, open_queue
from lab.settings import Settings
from workers import job as jobs

log = logging.getLogger(__name__)

WORKER_TTL_S = 60
"""RQ's pop blocks for 15 s less than this; a connection that died in silence is noticed soon after."""
HEARTBEAT_S = 10
STOPS = {signal.SIGTERM, signal.SIGINT}


class GpuWorker(Worker):
    """RQ's worker without what RQ would lose, double or kill.

    - A pop through one queue is a move to an intermediate list, so a kill in between loses nothing (rq#1716).
    - The child gets the parent-death signal: a killed worker leaves nothing that runs on.
    - A Redis outage is ridden out (rq#1119): the attempt itself keeps the lease's deadline.
    - SIGTERM is handed to the child, which stops its trainer with grace; RQ would wait for the job's end.
    - No commands over pub/sub: a stop is a record in the ledger, for which a checkpoint is written.
    """

    def subscribe(self) -> None:
        pass

    def unsubscribe(self) -> None:
        pass

    def _install_signal_handlers(self) -> None:
        super()._install_signal_handlers()  # type: ignore[no-untyped-call]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)  # blocked since the fork, see `serve`

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        """The child runs; a stop that comes meanwhile reaches it, and never with the worker's own handlers."""
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
            super().fork_work_horse(job, queue)
            if self._stop_requested:
                self.handle_warm_shutdown_request()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    def setup_work_horse_signals(self) -> None:
        """In the child: it dies with the worker, and SIGTERM asks the attempt to end in order."""
        die_with_parent()
        if os.getppid() != self.pid:
            os._exit(1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _ask_to_stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    def handle_warm_shutdown_request(self) -> None:
        if self.horse_pid:
            os.kill(self.horse_pid, signal.SIGTERM)

    def request_force_stop(self, signum: int, frame: FrameType | None) -> None:
        """A second signal changes nothing: the trainer has its grace, and the supervisor ends what outlasts it."""

    def set_shutdown_requested_date(self) -> None:
        """Nothing: a signal handler that needs Redis would fail with it."""

    def maintain_heartbeats(self, job: Job, execution: Execution) -> None:
        try:
            super().maintain_heartbeats(job, execution)
        except store.AWAY as error:
            log.warning("%s: Redis is away, the attempt goes on: %s", self.name, error)

    def handle_work_horse_killed(self, job: Job, retpid: int, ret_val: int, rusage: object) -> None:
        """The child was killed (by the kernel for want of memory, mostly): its run goes back to the queue at once."""
        log.warning("%s: the child of job %s was killed (status %s)", self.name, job.id, ret_val)
        jobs.release_after_child()


def serve(settings: Settings, card: Card, name: str, threads: int | None, parent: int) -> None:
    """Serves the card's queue until SIGTERM; for a freshly forked process with SIGTERM and SIGINT blocked.

    Args:
        name: from `worker_name`; the supervisor knows by it whether a card's holder lives.
    """
    die_with_parent()
    if os.getppid() != parent:
        return
    os.setpgid(0, 0)  # Ctrl-C in a terminal is for the supervisor, who ends us in order
    jobs.take_post(jobs.Post(settings, name, card, threads))
    client = store.connect(settings, decode=False)
    client.set_retry(Retry(ExponentialBackoff(cap=1.0, base=0.05), round(settings.run.lease_s)))
    worker = GpuWorker(
        [open_queue(client, card_queue(card.uuid))],
        name=name,
        connection=client,
        job_class=KnownJob,
        serializer=JSONSerializer,
        worker_ttl=WORKER_TTL_S,
        job_monitoring_interval=HEARTBEAT_S,
        log_job_description=False,
    )
    logging.getLogger("rq.registry").setLevel(logging.ERROR)  # it tells of entries whose end the ledger told
    worker.work(logging_level="WARNING")


def worker_name(host: str, card: Card) -> str:
    """A name that no worker had before: RQ keeps a crashed one's for a while, and a lease names its holder by it."""
    return f"{holder_prefix(host)}{card.index}.{uuid.uuid4().hex[:12]}"


def holder_prefix(host: str) -> str:
    """How the names of all workers of a host begin."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", host) + "."


def _ask_to_stop(*_: Any) -> None:
    jobs.stop_asked.set()
