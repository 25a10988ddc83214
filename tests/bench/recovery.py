"""How soon a lab is itself again, and what it asks of Redis meanwhile: prints JSON.

    python -m tests.bench.recovery [--lease SECONDS] [--host-only]

A worker killed to the next attempt; a host lost to its runs going on elsewhere; cancel to the free card; enqueue to the
trainer's start on an idle card; a claim; writes and growth of Redis. Simulated cards, probe runs, real processes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from lab import hosts, store
from lab.leases import Leases
from lab.ledger import Ledger
from lab.run import Experiment, Progress, Run, RunResult, RunState, Usage
from lab.settings import GpuSettings, RunSettings, Settings
from tests.bench.turnaround import claim_seconds
from tests.workers.under_test import Lab, cards_of, until
from workers.watch import PROGRESS_EVERY_S

CARDS = 3
STARTS, KILLS, CANCELS = 20, 10, 5
GRACE_S = 5.0
SHORT_LEASE_S = 20.0
"""For the loss of a host, which takes a lease; longer than a reading's 15 s, as the default is."""
WRITES_S, IDLE_S = 30.0, 10.0
MANY, UPDATES = 64, 200
DAY_S = 86_400


def main(lease_s: float = SHORT_LEASE_S, *, host_only: bool = False) -> dict[str, Any]:
    """The figures.

    Args:
        lease_s: of the runs whose host is lost.
        host_only: whether nothing but the loss of a host is measured.
    """
    lost = {"cores": os.cpu_count(), "host_lost": _host_lost(lease_s)}
    return lost if host_only else {**lost, **_one_host(), "redis_growth": _growth()}


def _one_host() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="on-", dir="/tmp") as folder:
        settings = _settings(folder, "bench-a", RunSettings(grace_s=GRACE_S, max_attempts=100))
        with store.embedded(settings):
            client = store.connect(settings)
            claims = claim_seconds(Leases(client, 10), Ledger(client), client)
            hosts.publish_cards(client, cards_of(settings.host))
            lab = Lab(settings, client, Ledger(client))
            try:
                lab.start()
                until(lambda: any(len(host.cards) == CARDS for host in hosts.hosts(client)))
                return {
                    "claim_ms": _summary(claims, 1000),
                    "enqueue_to_trainer_start_ms": _summary([_start_s(lab) for _ in range(STARTS)], 1000),
                    "redis_writes_a_running_run_a_second": _writes(lab),
                    "worker_killed_to_next_attempt_s": _summary(_kills_s(lab)),
                    "cancel_to_free_card_s": {
                        "saves_a_checkpoint": _summary([_cancel_s(lab, _steps) for _ in range(CANCELS)]),
                        "has_none_yet": _summary([_cancel_s(lab, _has_started) for _ in range(CANCELS)]),
                        "minds_nothing": _summary([_cancel_s(lab, _hangs, fail="hang", fail_at_step=2)]),
                        "grace_s": GRACE_S,
                    },
                }
            finally:
                lab.close()


def _settings(folder: str, host: str, run: RunSettings) -> Settings:
    return Settings(data_dir=Path(folder), host=host, gpu=GpuSettings(simulate=CARDS + 1), run=run)


def _start_s(lab: Lab) -> float:
    """From approval to the spawned trainer, when nothing else is going on."""
    run = lab.ended(lab.approve(steps=1, step_s=0.0))[0]
    return (run.started_at or 0) - (lab.ledger.experiment(run.experiment_id).approved_at or 0)


def _kills_s(lab: Lab) -> list[float]:
    """Seconds from a worker's death to its run's next trainer, while every other card is taken."""
    experiment = lab.approve(seeds=CARDS, steps=100_000)
    seconds = []
    for kill in range(KILLS):
        run = _running(lab, experiment)[kill % CARDS]
        until(lambda run=run: _steps(lab, run))
        horse = psutil.Process(run.pid).parent()
        worker = horse.parent() if horse else None
        assert worker
        began = time.time()
        worker.kill()
        again = until(lambda run=run: _later(lab, run), within_s=30)
        seconds.append(again.started_at - began)
    lab.ledger.cancel(experiment.id, "bench")
    lab.ended(experiment)
    return seconds


def _running(lab: Lab, experiment: Experiment) -> list[Run]:
    """The runs of the experiment, when all of them run."""

    def all_run() -> list[Run] | None:
        runs = lab.ledger.runs(experiment.id)
        return runs if all(run.state is RunState.RUNNING for run in runs) else None

    found: list[Run] = until(all_run, within_s=30)
    return found


def _later(lab: Lab, before: Run) -> Run | None:
    """The run in a later attempt's trainer."""
    run = lab.ledger.run(before.id)
    return run if run.fence > before.fence and run.state is RunState.RUNNING else None


def _cancel_s(lab: Lab, ready: Callable[[Lab, Run], object], **params: Any) -> float:
    """Seconds from a cancel to a card that is free, the trainer gone."""
    experiment = lab.approve(**{"steps": 100_000, **params})
    run = _running(lab, experiment)[0]
    until(lambda: ready(lab, run))
    leases, began = Leases(lab.client, 10), time.monotonic()
    lab.ledger.cancel(experiment.id, "bench")
    until(lambda: lab.ledger.run(run.id).state is RunState.CANCELLED and not leases.held(str(run.card)), within_s=60)
    return time.monotonic() - began


def _has_started(lab: Lab, run: Run) -> bool:
    return True


def _steps(lab: Lab, run: Run) -> bool:
    progress = lab.ledger.progress([run.id]).get(run.id)
    return progress is not None and progress.at > (run.started_at or 0)


def _hangs(lab: Lab, run: Run) -> bool:
    return _steps(lab, run) and time.time() > (run.started_at or 0) + 2


def _writes(lab: Lab) -> dict[str, float]:
    """Write commands that Redis carries out for a running run, beside those of a lab at rest."""
    changing = {name for name, about in lab.client.command().items() if "write" in about["flags"]}
    at_rest = _rate(lab, changing, IDLE_S)
    experiment = lab.approve(seeds=CARDS, steps=100_000)
    runs = _running(lab, experiment)
    until(lambda: all(_steps(lab, run) for run in runs))
    busy = _rate(lab, changing, WRITES_S)
    lab.ledger.cancel(experiment.id, "bench")
    lab.ended(experiment)
    rates = {name: (busy[name] - at_rest.get(name, 0)) / CARDS for name in busy}
    told = {name: round(rate, 2) for name, rate in rates.items() if rate >= 0.01}
    return {"all": round(sum(rates.values()), 2), **told}


def _rate(lab: Lab, commands: set[str], seconds: float) -> dict[str, float]:
    before, began = _calls(lab, commands), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    return {name: (calls - before.get(name, 0)) / took for name, calls in _calls(lab, commands).items()}


def _calls(lab: Lab, commands: set[str]) -> dict[str, int]:
    stats = {name.removeprefix("cmdstat_"): found["calls"] for name, found in lab.client.info("commandstats").items()}
    return {name: calls for name, calls in stats.items() if name.split("|")[0] in commands}


def _host_lost(lease_s: float) -> dict[str, Any]:
    """All of a host is killed at once; another one, with a data folder of its own, takes its runs."""
    with (
        tempfile.TemporaryDirectory(prefix="on-", dir="/tmp") as first,
        tempfile.TemporaryDirectory(prefix="on-", dir="/tmp") as second,
    ):
        run = RunSettings(lease_s=lease_s, renew_s=lease_s / 6, grace_s=GRACE_S)
        settings = _settings(first, "bench-a", run)
        with store.embedded(settings):
            url = f"unix://{settings.socket_path}"
            elsewhere = Settings(data_dir=Path(second), redis_url=url, host="bench-b", gpu=settings.gpu, run=run)
            client = store.connect(settings)
            lost, other = (Lab(each, client, Ledger(client)) for each in (settings, elsewhere))
            try:
                other.start("dispatch")
                lost.start("work")
                experiment = lost.approve(seeds=CARDS, steps=100_000)
                before = _running(lost, experiment)
                assert {each.host for each in before} == {"bench-a"}
                other.start("work")
                until(lambda: any(len(h.cards) == CARDS for h in hosts.hosts(client) if h.host == "bench-b"))
                began = time.time()
                lost.lose()
                after = [until(lambda each=each: _later(other, each), within_s=lease_s + 60) for each in before]
                other.ledger.cancel(experiment.id, "bench")
                other.ended(experiment)
            finally:
                lost.close()
                other.close()
    seconds = [run.started_at - began for run in after]
    slowest = max(seconds)
    return {
        "lease_s": lease_s,
        "runs": len(after),
        "moved_to": sorted({run.host for run in after}),
        "lost_to_next_attempt_s": round(slowest, 1),
        "beyond_the_lease_s": round(slowest - lease_s, 1),
    }


def _growth() -> dict[str, Any]:
    """What running runs leave in Redis: so many progress updates of many runs, and what a whole run leaves."""
    with tempfile.TemporaryDirectory(prefix="on-", dir="/tmp") as folder:
        settings = _settings(folder, "bench-a", RunSettings())
        with store.embedded(settings):
            client = store.connect(settings)
            ledger, leases = Ledger(client), Leases(client, 3600)
            empty = _bytes(client)
            lab = Lab(settings, client, ledger)
            runs = []
            for queued in ledger.runs(lab.approve(seeds=MANY).id):
                bound = ledger.bind(queued.id, (f"SIM-{queued.number}",), "bench-a", queued.number)
                lease = leases.claim(bound.id, bound.dispatches, bound.cards, "bench-a.0")
                runs.append(ledger.start(bound.id, lease.fence, 4711))
            _update(ledger, runs, range(1_000_000, 1_000_050))
            before, aof = _bytes(client), _aof(client)
            _update(ledger, runs, range(1_000_050, 1_000_050 + UPDATES))
            grown, written = _bytes(client) - before, _aof(client) - aof
            for run in runs:
                ledger.finish(run.id, run.fence, _result())
            left = _bytes(client) - empty
            a_day = DAY_S / PROGRESS_EVERY_S / UPDATES
            return {
                "running_runs": MANY,
                "progress_updates": MANY * UPDATES,
                "grown_bytes": grown,
                "mb_a_day": round(grown * a_day / 1e6, 1),
                "appended_to_its_file_mb_a_day_before_rewriting": round(written * a_day / 1e6),
                "left_by_a_finished_run_kb": round(left / MANY / 1000, 1),
            }


def _update(ledger: Ledger, runs: Sequence[Run], steps: range) -> None:
    for step in steps:
        metrics = {"train_loss": 2.3 / step, "val_acc": 1 - 1 / step, "lr": 0.001, "samples_per_s": 1234.5}
        progress = Progress(step=step, steps_total=2_000_000, epoch=3, epochs_total=90, metrics=metrics, at=time.time())
        for run in runs:
            ledger.report_progress(run.id, run.fence, progress)


def _result() -> RunResult:
    """As a training of 90 epochs leaves it."""
    epochs = [(float(epoch), 0.123456) for epoch in range(90)]
    names = ("train_loss", "train_acc", "val_loss", "val_acc")
    return RunResult(
        metrics=dict.fromkeys(names, 0.123456), curves=dict.fromkeys(names, epochs), usage=Usage(gpu_s=3600.0)
    )


def _bytes(client: store.Client) -> int:
    """What all keys take; the server's own buffers come and go."""
    return sum(client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(count=1000))


def _aof(client: store.Client) -> int:
    return int(client.info("persistence")["aof_current_size"])


def _summary(values: list[float], times: float = 1.0) -> dict[str, float]:
    ordered = sorted(value * times for value in values)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return {"n": len(ordered), "p50": round(statistics.median(ordered), 2), "p95": round(p95, 2)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--lease", type=float, default=SHORT_LEASE_S, help="seconds")
    parser.add_argument("--host-only", action="store_true")
    told = parser.parse_args()
    print(json.dumps(main(told.lease, host_only=told.host_only)))
