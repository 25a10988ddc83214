"""Queues carry names from a fixed list, and nothing else that stands in Redis is run."""

from __future__ import annotations

import json
import zlib

import pytest
from rq import SimpleWorker
from rq.serializers import JSONSerializer

from lab import queue as queues
from lab import store as stores
from lab.queue import ANSWER, FUNCTIONS, KnownJob, RefusedJob, open_queue, put
from lab.settings import Settings


def test_a_name_outside_the_list_is_refused(settings: Settings, store: stores.Client) -> None:
    """A job naming os.system ran in plain RQ."""
    queue = open_queue(stores.connect(settings, decode=False), "agent")
    queue.enqueue_call("os.system", args=("touch /tmp/never",), job_id="evil")
    job = KnownJob.fetch("evil", connection=queue.connection, serializer=JSONSerializer)

    with pytest.raises(RefusedJob, match=r"os\.system"):
        _ = job.func


def test_a_method_of_an_object_is_refused(settings: Settings, store: stores.Client) -> None:
    """RQ would take a pickled instance and call a listed name on it."""
    queue = open_queue(stores.connect(settings, decode=False), "agent")
    job = queue.enqueue_call(ANSWER, args=("req-1",), job_id="evil")
    data = json.dumps([ANSWER, {"an": "object"}, ["req-1"], {}]).encode()
    queue.connection.hset(job.key, "data", zlib.compress(data))

    with pytest.raises(RefusedJob):
        _ = KnownJob.fetch("evil", connection=queue.connection, serializer=JSONSerializer).func


def test_callbacks_and_webhooks_in_redis_are_dropped(settings: Settings, store: stores.Client) -> None:
    """They would run or call out beside the listed function."""
    queue = open_queue(stores.connect(settings, decode=False), "agent")
    job = queue.enqueue_call(ANSWER, args=("req-1",), job_id="evil")
    fields = {f"{when}_callback_name": "os.abort" for when in ("success", "failure", "stopped")}
    queue.connection.hset(job.key, mapping=fields)

    found = KnownJob.fetch("evil", connection=queue.connection, serializer=JSONSerializer)

    assert (found.success_callback, found.failure_callback, found.stopped_callback) == (None, None, None)
    assert not found.webhooks


def test_a_worker_runs_a_listed_name_once(
    settings: Settings, store: stores.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is what the workers look names up in, and an entry leaves nothing behind."""
    monkeypatch.setattr(queues, "FUNCTIONS", FUNCTIONS | {"time.sleep"})
    client = stores.connect(settings, decode=False)
    queue = open_queue(client, "agent")
    put(queue, "time.sleep", 0, job_id="nap")

    worker = SimpleWorker([queue], connection=client, serializer=JSONSerializer, job_class=KnownJob)
    worked = worker.work(burst=True, logging_level="WARNING")

    assert worked
    assert queue.failed_job_registry.get_job_ids(cleanup=False) == []
    assert not client.exists("rq:job:nap")


def test_an_entry_in_a_pipeline_is_written_with_it(settings: Settings, store: stores.Client) -> None:
    """A request and its entry stand together or not at all."""
    queue = open_queue(store, "agent")
    pipe = store.pipeline()
    put(queue, ANSWER, "req-1", job_id="req-1-1", pipeline=pipe)
    before = queue.count

    pipe.execute()

    assert (before, queue.count) == (0, 1)
