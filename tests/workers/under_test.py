"""A lab in processes: simulated cards published, a dispatcher and a supervisor started and ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.context import ForkProcess
from typing import Any

import psutil

from lab import hosts, logs
from lab.card import Card, HostCards
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Plan, Priority
from lab.run import FINAL_RUN, Answer, Experiment, Run
from lab.settings import Settings
from lab.store import Client
from workers import dispatch, supervisor

_fork = multiprocessing.get_context("fork")


def until(true: Callable[[], Any], within_s: float = 20.0) -> Any:
    """The first truthy answer; fails the test when none comes in time."""
    deadline = time.monotonic() + within_s
    while not (answer := true()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s"
        time.sleep(0.02)
    return answer


def cards_of(host: str, train: int = 3, keeper: int = 1, read_at: float | None = None) -> HostCards:
    """Simulated cards as `overnight keep` would publish them; the last ones are the keeper's."""
    now = time.time() if read_at is None else read_at
    cards = tuple(
        Card(
            uuid=f"SIM-{host}-{index}",
            index=index,
            name="Simulated card",
            host=host,
            role="train" if index < train else "keeper",
            simulated=True,
            read_at=now,
        )
        for index in range(train + keeper)
    )
    return HostCards(host=host, cards=cards, simulated=True, published_at=now)


def started(lab: Lab, run_id: str, card: str) -> Run:
    """The run runs as its next attempt on one card."""
    bound = lab.ledger.bind(run_id, (card,), "lab-a", 0)
    lease = Leases(lab.client, 60).claim(run_id, bound.dispatches, (card,), "test")
    return lab.ledger.start(run_id, lease.fence, pid=1)


@dataclass
class Lab:
    """A host's processes under test."""

    settings: Settings
    client: Client
    ledger: Ledger
    train: int = 3
    processes: dict[str, ForkProcess] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _publisher: threading.Thread | None = None

    def start(self, *names: str) -> None:
        """`dispatch` and `work` (both by default) run as processes of their own."""
        for name in names or ("dispatch", "work"):
            self.processes[name] = _fork.Process(target=_serve, args=(name, self.settings), name=name)
            self.processes[name].start()
        if self._publisher is None:
            self._publisher = threading.Thread(target=self._publish, daemon=True)
            self._publisher.start()

    def stop(self, name: str, sig: signal.Signals = signal.SIGTERM) -> None:
        """The process has ended."""
        process = self.processes.pop(name)
        assert process.pid
        os.kill(process.pid, sig)
        process.join(15)
        assert not process.is_alive(), f"{name} did not end"

    def lose(self) -> None:
        """The whole host is gone at once: nothing of it ends in order, and nobody publishes its cards any more."""
        self._ended.set()
        parts = [psutil.Process(process.pid) for process in self.processes.values()]
        for process in [child for part in parts for child in part.children(recursive=True)] + parts:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for process in self.processes.values():
            process.join(15)
        self.processes.clear()

    def close(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for name in list(self.processes):
            self.stop(name)
        self._ended.set()
        if self._publisher:
            self._publisher.join()

    def approve(self, priority: Priority = "normal", seeds: int = 1, gpus: int = 1, **params: Any) -> Experiment:
        """An approved experiment of probe runs, none of which is taken from an earlier one."""
        axes = {"seed": tuple(range(seeds))} | {name: (value,) for name, value in params.items()}
        plan = Plan(template="probe", models=("probe",), axes=axes, priority=priority, gpus_per_run=gpus, anew=True)
        return self.approve_plan(plan)

    def approve_sweep(self, **axes: Any) -> Experiment:
        """An approved experiment of probe runs; a tuple is an axis with these values."""
        every = {name: value if isinstance(value, tuple) else (value,) for name, value in axes.items()}
        return self.approve_plan(Plan(template="probe", models=("probe",), axes={"seed": (0,), **every}, anew=True))

    def approve_plan(self, plan: Plan) -> Experiment:
        """The plan as an approved experiment."""
        request = self.ledger.submit("x", "U1", "terminal:1")
        assert request
        proposed = self.ledger.propose(request.id, plan, None, Answer(kind="plan"))
        assert proposed
        return self.ledger.approve(proposed.id, "U1")

    def ended(self, experiment: Experiment, within_s: float = 20.0) -> list[Run]:
        """The runs of the experiment, when all have ended."""

        def all_ended() -> list[Run] | None:
            runs = self.ledger.runs(experiment.id)
            return runs if all(run.state in FINAL_RUN for run in runs) else None

        runs: list[Run] = until(all_ended, within_s)
        return runs

    def _publish(self) -> None:
        while not self._ended.wait(0.3):
            hosts.publish_cards(self.client, cards_of(self.settings.host, self.train))


def _serve(name: str, settings: Settings) -> None:
    logs.setup("info", name)
    if name == "dispatch":
        dispatch.main(settings)
    else:
        supervisor.main(settings, measure=False)
