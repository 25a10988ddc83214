"""From a run's end to the next start on its card, and what the way there consists of: prints JSON.

    python -m tests.bench.turnaround [RUNS]

Four simulated cards, three of them training, short probe runs; a start is a spawned interpreter, and the trainer's
first step is told beside it.

`long_queue`: 10,000 waiting runs and 64 cards of 8 hosts, whose workers this script plays: one run ends every quarter
of a second. `finished_to_dispatched_ms` is the time until the card has its next run, `step_processor_ms` what the
leader's step takes of a processor, forecasts included, and `first_step_s` is the step that finds the runs approved.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

from lab import events, hosts, store
from lab.card import Host
from lab.leases import Lease, Leases
from lab.ledger import Ledger
from lab.run import Run, RunResult, RunState
from lab.settings import GpuSettings, RunSettings, Settings
from tests.workers.under_test import Lab, cards_of, until
from workers.dispatch import Dispatcher

QUEUED, HOSTS, CARDS = 10_000, 8, 8
"""Waiting runs, hosts, and cards of each."""
ENDS, EVERY_S = 60, 0.25


def main(n_runs: int) -> dict[str, Any]:
    """The figures, in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="on-", dir="/tmp") as folder:
        settings = Settings(
            data_dir=Path(folder), host="bench", gpu=GpuSettings(simulate=4), run=RunSettings(lease_s=10, renew_s=1)
        )
        with store.embedded(settings):
            client = store.connect(settings)
            claims = claim_seconds(Leases(client, 10), Ledger(client), client)
            runs, moments = _work(settings, client, n_runs)
    return {
        "runs": len(runs),
        "cores": os.cpu_count(),
        "finished_to_next_start_ms": _summary(_gaps(runs)),
        "dispatched_to_start_ms": _summary([m["running"] - m["dispatched"] for m in moments.values()]),
        "start_to_first_step_ms": _summary([m["step"] - m["running"] for m in moments.values() if "step" in m]),
        "claim_ms": _summary(claims),
        "long_queue": long_queue(),
    }


def _work(settings: Settings, client: store.Client, n_runs: int) -> tuple[list[Run], dict[str, dict[str, float]]]:
    hosts.publish_cards(client, cards_of(settings.host))
    lab = Lab(settings, client, Ledger(client))
    try:
        lab.start()
        experiment = lab.approve(seeds=n_runs, steps=10)
        runs = lab.ended(experiment, within_s=30 + 5 * n_runs)
    finally:
        lab.close()
    moments: dict[str, dict[str, float]] = defaultdict(dict)
    for entry_id, fields in client.xrange(events.STREAM):
        event = events.parse(entry_id, fields)
        moments[event.subject][event.kind.removeprefix("run.")] = event.at
    for run in runs:
        first = (settings.runs_dir / run.id / "attempt-1" / "metrics.jsonl").read_text().splitlines()[0]
        moments[run.id]["step"] = json.loads(first)["t"]
    return runs, {run.id: moments[run.id] for run in runs}


def claim_seconds(leases: Leases, ledger: Ledger, client: store.Client) -> list[float]:
    """Seconds of single claims on an idle Redis."""
    lab = Lab(Settings(host="bench"), client, ledger)
    seconds = []
    for run in ledger.runs(lab.approve(seeds=100).id):
        bound = ledger.bind(run.id, (f"SIM-claim-{run.number}",), "bench", 0)
        began = time.perf_counter()
        leases.claim(bound.id, bound.dispatches, bound.cards, "bench")
        seconds.append(time.perf_counter() - began)
    client.flushdb()
    return seconds


def long_queue() -> dict[str, Any]:
    """The figures of a long queue."""
    with tempfile.TemporaryDirectory(prefix="on-", dir="/tmp") as folder:
        settings = Settings(data_dir=Path(folder), host="bench", run=RunSettings(lease_s=3600))
        with store.embedded(settings):
            lab = _Played(settings, store.connect(settings))
            began = time.perf_counter()
            lab.approve(seeds=QUEUED // 10, value=tuple(range(10)))
            approved = time.perf_counter()
            dispatcher = Dispatcher(settings, lab.client)
            gc.freeze()  # as the process `overnight dispatch` does
            lab.publish()
            dispatcher.step()
            first_s = time.perf_counter() - approved
            lab.take()
            steps = [_step_seconds(lab, dispatcher) for _ in range(ENDS)]
            dispatcher.leadership.release()
            gaps = _gaps_of_a_process(lab)
    return {
        "queued": QUEUED,
        "cards": HOSTS * CARDS,
        "approve_s": round(approved - began, 2),
        "first_step_s": round(first_s, 2),
        "step_processor_ms": _summary(steps),
        "finished_to_dispatched_ms": _summary(gaps),
    }


def _step_seconds(lab: _Played, dispatcher: Dispatcher) -> float:
    """Processor time of the step after the end of a run."""
    lab.publish()
    lab.end()
    began = time.thread_time()
    bound = dispatcher.step()
    seconds = time.thread_time() - began
    assert len(bound) == 1
    lab.take()
    return seconds


def _gaps_of_a_process(lab: _Played) -> list[float]:
    """Seconds from a run's end to the next dispatch to its card, by a dispatcher in a process of its own."""
    processes = Lab(lab.settings, lab.client, lab.ledger)
    processes.start("dispatch")
    try:
        lab.end()
        until(lab.take, 60)  # it leads and has read the queue
        ends = []
        for _ in range(ENDS):
            lab.publish()
            ended = lab.end()
            ends.append((str(ended.card), ended.finished_at or 0.0))
            time.sleep(EVERY_S)
            lab.take()
        until(lambda: lab.take() or len(lab.running) == HOSTS * CARDS)
    finally:
        processes.close()
    dispatched: dict[str, list[float]] = defaultdict(list)
    for entry_id, fields in lab.client.xrange(events.STREAM):
        event = events.parse(entry_id, fields)
        if event.kind == "run.dispatched":
            dispatched[str(lab.ledger.run(event.subject).card)].append(event.at)
    return [min(gap for at in dispatched[card] if (gap := at - ended_at) > 0) for card, ended_at in ends]


class _Played:
    """Hosts and workers: what the ledger says is all that there is of them."""

    def __init__(self, settings: Settings, client: store.Client) -> None:
        self.settings, self.client, self.ledger = settings, client, Ledger(client)
        self.running: deque[Run] = deque()
        self._leases = Leases(client, settings.run.lease_s)

    def publish(self) -> None:
        """All hosts are up, their cards were read just now."""
        for n in range(HOSTS):
            cards = cards_of(f"host{n}", train=CARDS, keeper=0)
            hosts.publish_cards(self.client, cards)
            uuids = tuple(card.uuid for card in cards.cards)
            hosts.publish_host(self.client, Host(host=f"host{n}", version="1", templates={"probe": {}}, cards=uuids))

    def approve(self, seeds: int, **axes: Any) -> None:
        """An approved experiment of probe runs."""
        Lab(self.settings, self.client, self.ledger).approve_sweep(seed=tuple(range(seeds)), **axes)

    def take(self) -> int:
        """What was dispatched runs; gives the number of runs that do so since."""
        bound = self.ledger.runs_in(RunState.DISPATCHED)
        for run in bound:
            lease = self._leases.claim(run.id, run.dispatches, run.cards, "bench")
            self.running.append(self.ledger.start(run.id, lease.fence, os.getpid()))
        return len(bound)

    def end(self) -> Run:
        """The run that runs longest has finished."""
        run = self.running.popleft()
        lease = Lease(run_id=run.id, fence=run.fence, cards=run.cards, holder="bench")
        ended = self.ledger.finish(run.id, run.fence, RunResult())
        self._leases.release(lease)
        return ended


def _gaps(runs: list[Run]) -> list[float]:
    by_card = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.started_at or 0):
        by_card[run.card].append(run)
    pairs = [pair for card in by_card.values() for pair in itertools.pairwise(card)]
    return [(after.started_at or 0) - (before.finished_at or 0) for before, after in pairs]


def _summary(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=20)
    return {"n": len(seconds), "p50": _ms(cuts[9]), "p95": _ms(cuts[18]), "max": _ms(max(seconds))}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)))
