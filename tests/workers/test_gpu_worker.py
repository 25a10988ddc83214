"""The worker of a card: what it runs, what it refuses, what it rides out."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from rq.serializers import JSONSerializer

from lab import store as stores
from lab.card import Card
from lab.leases import Leases
from lab.queue import RUN_ATTEMPT, KnownJob, card_queue, open_queue
from lab.run import RunState
from lab.settings import Settings
from tests.workers.under_test import Lab, until
from workers.gpu_worker import STOPS, GpuWorker, serve, worker_name

_fork = multiprocessing.get_context("fork")
CARD = Card(uuid="SIM-lab-a-0", index=0, name="Simulated card", host="lab-a", simulated=True)


@pytest.fixture
def worker(settings: Settings, lab: Lab) -> Iterator[multiprocessing.Process]:
    """A worker of card 0 in a process of its own."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    process = _fork.Process(target=serve, args=(settings, CARD, worker_name("lab-a", CARD), 1, os.getpid()))
    process.start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    yield process  # type: ignore[misc]
    process.terminate()
    process.join(10)


def test_a_foreign_job_is_refused_and_nothing_runs(
    worker: object, lab: Lab, settings: Settings, tmp_path: Path
) -> None:
    """Whoever writes to Redis must not become a shell on the host."""
    client = stores.connect(settings, decode=False)
    queue = open_queue(client, card_queue(CARD.uuid))
    for number, function in enumerate(("os.system", "subprocess.call", "workers.job.take_post")):
        queue.enqueue_call(function, args=(f"touch {tmp_path / 'ran'}",), job_id=f"evil-{number}")
    queue.enqueue_call(RUN_ATTEMPT, args=("exp-404/1", 1, [CARD.uuid]), job_id="with-callback", result_ttl=0)
    client.hset("rq:job:with-callback", "success_callback_name", "os.abort")
    client.hset("rq:job:with-callback", "failure_callback_name", "os.abort")
    failed = queue.failed_job_registry

    until(lambda: failed.get_job_count(cleanup=False) == 3 and not client.exists("rq:job:with-callback"))

    assert not (tmp_path / "ran").exists()
    assert sorted(failed.get_job_ids(cleanup=False)) == ["evil-0", "evil-1", "evil-2"]
    evil = KnownJob.fetch("evil-0", connection=client, serializer=JSONSerializer)
    assert "RefusedJob" in str(evil.latest_result().exc_string)


def test_a_worker_that_is_told_to_stop_gives_its_run_back(worker: multiprocessing.Process, lab: Lab) -> None:
    """A host goes down for an hour; the run goes on elsewhere from its checkpoint."""
    experiment = lab.approve(steps=400)
    run = lab.ledger.bind(f"{experiment.id}/1", (CARD.uuid,), "lab-a", 0)
    until(lambda: lab.ledger.progress([run.id]))

    worker.terminate()
    worker.join(10)

    back = lab.ledger.run(run.id)
    assert worker.exitcode == 0
    assert (back.state, back.losses) == (RunState.QUEUED, 0)
    assert Leases(lab.client, 10).held(CARD.uuid) is None
    assert list((lab.settings.runs_dir / run.id / "attempt-1" / "checkpoints").iterdir())


def test_a_heartbeat_that_redis_does_not_take_ends_nothing(
    settings: Settings, store: stores.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis away for 8 s made RQ's worker quit and leave its child alone (rq#1119)."""
    client = stores.connect(settings, decode=False)
    queue = open_queue(client, "card-x")
    job = queue.enqueue_call(RUN_ATTEMPT, args=("exp-1/1", 1, ["x"]), job_id="j")
    worker = GpuWorker([queue], connection=client, serializer=JSONSerializer, job_class=KnownJob)
    execution = worker.prepare_execution(job)

    def away(*_: object, **__: object) -> None:
        raise redis.exceptions.ConnectionError("away")

    monkeypatch.setattr(worker, "heartbeat", away)

    worker.maintain_heartbeats(job, execution)


def test_no_worker_has_a_name_that_another_had() -> None:
    """RQ keeps a crashed worker's name for minutes."""
    assert len({worker_name("lab a", CARD) for _ in range(100)}) == 100
    assert worker_name("lab a", CARD).startswith("lab_a.0.")
