"""A flood: 10,000 failures over 40 experiments through a real Valkey, with a new alarm in the middle; prints JSON.

    python -P tests/bench/alerts.py

`notices` are what the courier is asked to post: one an experiment, and none again after the restart. `engine` is the
engine alone, without the store; `quiet_step_ms` is one look at a lab of 8 hosts with 64 cards where nothing is wrong.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from keeper import alerts as engine
from keeper.alarm import Alarm, failure
from keeper.alerts import Policy
from keeper.judge import Judge
from keeper.rules import load_rules
from lab import events, hosts, store
from lab.alert import Alerts, Board
from lab.card import Card, Host, HostCards
from lab.events import STREAM, Event
from lab.ledger import Ledger
from lab.plan import Plan
from lab.records import record_key
from lab.run import Answer, Run, RunState
from lab.settings import Settings

EVENTS, EXPERIMENTS, HOSTS, CARDS = 10_000, 40, 8, 8
EACH = EVENTS // EXPERIMENTS
GIB = 2**30


def main() -> dict[str, Any]:
    """The figures."""
    folder = Path(tempfile.mkdtemp(prefix="on-", dir="/tmp"))
    try:
        settings = Settings(data_dir=folder)
        with store.embedded(settings):
            return flood(settings)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def flood(settings: Settings) -> dict[str, Any]:
    client = store.connect(settings)
    ledger = Ledger(client)
    process = psutil.Process()
    now = time.time()
    publish(client, now)
    alarm = Alarm(settings, client, now)
    alarm.step(now)
    quiet_ms = []
    for _ in range(40):
        now += settings.alerts.interval_s
        publish(client, now)
        begin = time.perf_counter()
        alarm.step(now)
        quiet_ms.append((time.perf_counter() - begin) * 1000)
    experiments = [propose(ledger) for _ in range(EXPERIMENTS)]
    before_mb = process.memory_info().rss / 2**20
    first, now = pour(client, ledger, alarm, experiments, range(1, EACH // 2 + 1), now)
    told = notices(client)
    alarm = Alarm(settings, client, now)
    second, now = pour(client, ledger, alarm, experiments, range(EACH // 2 + 1, EACH + 1), now)
    after = notices(client)
    counted = sum(a.count for a in Alerts(client).board().alerts.values())
    return {
        "events": EVENTS,
        "experiments": EXPERIMENTS,
        "events_per_s": round(EVENTS / (first + second)),
        "notices": after["alert.firing"],
        "notices_after_restart": after["alert.firing"] - told["alert.firing"],
        "edits": sum(after.values()) - after["alert.firing"],
        "failures_counted": counted,
        "engine": alone(experiments),
        "quiet_step_ms": {"p50": percentile(quiet_ms, 50), "p95": percentile(quiet_ms, 95)},
        "memory_mb": round(process.memory_info().rss / 2**20, 1),
        "memory_growth_mb": round(process.memory_info().rss / 2**20 - before_mb, 1),
    }


def pour(
    client: store.Client, ledger: Ledger, alarm: Alarm, experiments: list[str], numbers: range, now: float
) -> tuple[float, float]:
    """These runs of every experiment fail, and the alarm looks until it has seen it all; seconds that took, and now."""
    for number in numbers:
        with client.pipeline() as pipe:
            for experiment in experiments:
                run_id = f"{experiment}/{number}"
                ended = {"state": RunState.FAILED, "cause": "oom", "message": "CUDA out of memory", "finished_at": now}
                pipe.hset(record_key(run_id), mapping={k: json.dumps(v) for k, v in ended.items()})
                pipe.zrem("on:index:run:queued", run_id)
                events.write(pipe, Event(kind="run.failed", subject=run_id))
            pipe.execute()
    begin = time.perf_counter()
    while alarm.step(now):
        pass
    took = time.perf_counter() - begin
    for _ in range(4):
        now += alarm.interval_s
        publish(client, now)
        alarm.step(now)
    return took, now


def alone(experiments: list[str]) -> dict[str, Any]:
    """The engine without a store: judging and deciding."""
    rules, _ = load_rules({})
    judge, board, now = Judge(rules, 5.0, 0.0), Board(), 0.0
    plan = Plan(models=("resnet18",), dataset="digits", axes={"seed": (0,)})
    run = Run(
        id="exp-1/1", experiment_id="exp-1", number=1, point=next(iter(plan.points())), template="vision", queued_at=0
    )
    failed = [run.model_copy(update={"experiment_id": name, "id": f"{name}/1", "cause": "oom"}) for name in experiments]
    begin = time.perf_counter()
    for _ in range(EVENTS // 1000):
        now += 5.0
        found = judge.judge([failure(failed[n % len(failed)]) for n in range(1000)], now)
        outcome = engine.step(board, found, Policy(), now)
        board = Board({**board.alerts, **{alert.id: alert for alert in outcome.alerts}}, {})
    took = time.perf_counter() - begin
    return {"events_per_s": round(EVENTS / took), "alerts": len(board.alerts)}


def propose(ledger: Ledger) -> str:
    plan = Plan(models=("resnet18",), dataset="digits", axes={"seed": tuple(range(EACH))})
    request = ledger.submit("compare", "U1", "slack:T:C:1.1")
    assert request is not None
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment is not None
    return ledger.approve(experiment.id, "U1").id


def publish(client: store.Client, now: float) -> None:
    """Hosts and cards in good order."""
    for n in range(HOSTS):
        name = f"node{n:02}"
        cards = tuple(
            Card(
                uuid=f"GPU-{name}-{i}",
                index=i,
                name="X",
                host=name,
                memory_total_bytes=80 * GIB,
                memory_used_bytes=GIB,
                utilization_pct=90.0,
                temperature_c=60.0,
                read_at=now,
            )
            for i in range(CARDS)
        )
        hosts.publish_cards(client, HostCards(host=name, cards=cards, published_at=now))
        hosts.publish_host(client, Host(host=name, version="1", disk_free_bytes=500 * GIB, published_at=now))


def notices(client: store.Client) -> Counter[str]:
    """Events for the courier, by kind."""
    kinds = (fields["kind"] for _, fields in client.xrange(STREAM))
    return Counter(kind for kind in kinds if kind.startswith("alert."))


def percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 2)


if __name__ == "__main__":
    json.dump(main(), sys.stdout, indent=2)
    print()
