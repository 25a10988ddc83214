"""The agent's pool lets go of what a dead worker held, so that people do not wait for RQ's heartbeat to run out."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.context import ForkProcess
from typing import Any

import psutil
import pytest
from rq.registry import StartedJobRegistry

import agent.intake
from agent import worker
from agent.worker import AgentPool, AgentWorker
from lab import store as stores
from lab.ledger import Ledger
from lab.processes import is_process
from lab.queue import AGENT
from lab.run import Answer, RequestState
from lab.settings import AgentSettings, Settings
from tests.workers.under_test import until
from workers.recover import Recovery

_fork = multiprocessing.get_context("fork")


def stuck_once(request_id: str) -> None:
    """The first try never ends, a later one answers; in place of agent.intake.answer."""
    here = agent.intake.desk.current()
    if here.client.set("test:stuck", os.getpid(), nx=True):
        time.sleep(600)
    here.ledger.answer(request_id, Answer(kind="reply", text="here I am"))


@dataclass
class Agent:
    """`overnight agent` as a process."""

    settings: Settings
    started: list[ForkProcess] = field(default_factory=list)

    def start(self) -> ForkProcess:
        process = _fork.Process(target=worker.main, args=(self.settings,))
        process.start()
        self.started.append(process)
        return process

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.join()


@pytest.fixture
def pool(settings: Settings, store: stores.Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    """One worker, whose first answer is never ready; patched here, inherited by the forks."""
    monkeypatch.setattr(agent.intake, "answer", stuck_once)
    # Valkey hands an entry to a worker of an earlier test until it has seen that the killed one hung up.
    until(lambda: store.info("clients")["blocked_clients"] == 0)
    under_test = Agent(settings.model_copy(update={"agent": AgentSettings(workers=1)}))
    yield under_test
    under_test.close()


def held(client: stores.Client) -> list[str]:
    """What RQ takes to be in a worker's hands."""
    return [entry.split(":")[0] for entry in client.zrange(StartedJobRegistry.key_template.format(AGENT), 0, -1)]


def answered(ledger: Ledger, recovery: Recovery, request_id: str) -> bool:
    """True once the request has its answer; the leader makes a round meanwhile."""
    recovery.step()
    return ledger.request(request_id).state is RequestState.ANSWERED


def stuck_worker(client: stores.Client) -> psutil.Process:
    """The worker whose child never ends."""
    child = psutil.Process(int(until(lambda: client.get("test:stuck"))))
    parent = child.parent()
    assert parent
    return parent


def test_a_request_is_answered_soon_after_its_worker_was_killed(
    pool: Agent, ledger: Ledger, store: stores.Client, settings: Settings
) -> None:
    """RQ holds the entry for the dead one for 90 s; the person would ask again, or somebody else."""
    recovery = Recovery(store, settings)
    request = ledger.submit("hi", "U1", "slack:1")
    assert request
    pool.start()

    stuck_worker(store).kill()
    until(lambda: answered(ledger, recovery, request.id))

    assert ledger.request(request.id).tries == 1
    assert f"{request.id}-1" not in held(store)


def test_what_a_killed_pool_held_is_let_go_of_by_the_next_one(
    pool: Agent, ledger: Ledger, store: stores.Client, settings: Settings
) -> None:
    """`up` starts the agent again within a second, and nobody else knows that its workers died with it."""
    recovery = Recovery(store, settings)
    request = ledger.submit("hi", "U1", "slack:1")
    assert request
    first = pool.start()
    stuck_worker(store)

    first.kill()
    first.join()
    kept = held(store)
    pool.start()
    until(lambda: answered(ledger, recovery, request.id))

    assert kept == [f"{request.id}-1"]


def test_nothing_of_a_killed_agent_is_left(pool: Agent, ledger: Ledger, store: stores.Client) -> None:
    """RQ's scheduler processes went on alone, one more with each kill, and asked an ended Valkey for work."""
    assert ledger.submit("hi", "U1", "slack:1")
    process = psutil.Process(pool.start().pid)
    child = psutil.Process(int(until(lambda: store.get("test:stuck"))))
    everything = process.children(recursive=True)

    process.kill()

    assert child in everything
    assert psutil.wait_procs(everything, timeout=10)[1] == []


def test_a_worker_of_another_machine_is_not_buried(settings: Settings, store: stores.Client) -> None:
    """Its process id says nothing here."""
    client = bytes_client(settings)
    names = {"here": socket.gethostname(), "there": "another-machine"}
    for name, host in names.items():
        one = AgentWorker([AGENT], name=name, connection=client)
        one.hostname, one.pid = host, dead_pid()
        one.register_birth()

    AgentPool(client, 1).bury_earlier()

    assert [one.name for one in AgentWorker.all(connection=client)] == ["there"]


def test_a_pool_rides_out_an_outage(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that died while Redis was away is let go of afterwards; else the pool would end with it."""
    buried = []

    def bury(client: Any, name: str) -> None:
        if not buried:
            buried.append("away")
            raise stores.AWAY[0]("gone")
        buried.append(name)

    monkeypatch.setattr(worker, "bury", bury)
    a_pool = AgentPool(bytes_client(settings), 1)
    process = _fork.Process(target=os._exit, args=(1,))
    process.start()
    process.join()
    a_pool.handle_dead_worker(worker.WorkerData("w1", process.pid or 0, process))

    a_pool.reap_workers()  # type: ignore[no-untyped-call]
    a_pool.reap_workers()  # type: ignore[no-untyped-call]
    a_pool.reap_workers()  # type: ignore[no-untyped-call]

    assert buried == ["away", "w1"]


def test_a_process_id_that_another_process_has_by_now_is_not_the_same_process() -> None:
    """In a container the ids begin anew with each start."""
    ours = psutil.Process().create_time()

    assert is_process(os.getpid(), ours)
    assert not is_process(os.getpid(), ours - 60)
    assert not is_process(dead_pid(), time.time())


def dead_pid() -> int:
    """The id of a process that has just ended."""
    process = _fork.Process(target=signal.pause)
    process.start()
    process.kill()
    process.join()
    return process.pid or 0


def bytes_client(settings: Settings) -> stores.Client:
    """A client as RQ needs it."""
    return stores.connect(settings, decode=False)
