"""A flood: 10,000 failures over 40 experiments through a real Valkey, with a new alarm in the middle; prints JSON.

    python -P tests/bench/alerts.py

`notices` are what the courier is asked to post: one an experiment, and none again after the restart. `slack` is what
stands in the one channel of all their threads, told by a real bot to the simulator and ended in the middle. `engine`
is the engine alone, without the store; `quiet_step_ms` is one look at a lab of 8 hosts with 64 cards where nothing is
wrong; `notice_after_window_s`, by simulated time, is how long after a rule's window it is told.
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
from pydantic import SecretStr

from bot.app import Bot
from bot.courier import GROUP
from bot.outbox import Outbox
from bot.simulator import Simulator
from bot.simulator.server import ApiCall
from keeper import alerts as engine
from keeper.alarm import Alarm, failure
from keeper.alerts import Policy
from keeper.judge import Judge
from keeper.rules import Rule, Sample, load_rules
from lab import events, hosts, store
from lab.alert import Alerts, Board
from lab.card import Card, Host, HostCards
from lab.events import STREAM, Event
from lab.ledger import Ledger
from lab.plan import Plan
from lab.records import record_key
from lab.run import Answer, Run, RunState
from lab.settings import Settings, SlackSettings

EVENTS, EXPERIMENTS, HOSTS, CARDS = 10_000, 40, 8, 8
EACH = EVENTS // EXPERIMENTS
CHANNEL = "C0LAB"
INTERVAL_S = Settings().alerts.interval_s
LABELS = ("host", "card", "index", "run", "experiment", "owner", "cause", "service")
GIB = 2**30


def main() -> dict[str, Any]:
    """The figures."""
    folder = Path(tempfile.mkdtemp(prefix="on-", dir="/tmp"))
    try:
        with Simulator() as slack:
            tokens = SlackSettings(
                bot_token=SecretStr(slack.bot_token), app_token=SecretStr(slack.app_token), api_url=slack.api_url
            )
            settings = Settings(data_dir=folder, slack=tokens)
            with store.embedded(settings):
                return flood(settings, slack)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def flood(settings: Settings, slack: Simulator) -> dict[str, Any]:
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
    roots = [slack.say(CHANNEL, "U0ALICE", f"compare {n}") for n in range(EXPERIMENTS)]
    experiments = [propose(ledger, f"slack:T0LAB:{CHANNEL}:{root}") for root in roots]
    client.xgroup_create(STREAM, GROUP, id="$")  # the plan cards are another matter
    before_mb = process.memory_info().rss / 2**20
    first, now = pour(client, ledger, alarm, experiments, range(1, EACH // 2 + 1), now)
    told = notices(client)
    begun = time.monotonic()
    with Bot(settings):
        slack.wait_for(lambda: len(alert_roots(slack)) >= EXPERIMENTS // 2, 240, "half of the notices")
    alarm = Alarm(settings, client, now)
    second, now = pour(client, ledger, alarm, experiments, range(EACH // 2 + 1, EACH + 1), now)
    after = notices(client)
    posted_before = len(alert_roots(slack))
    with Bot(settings):
        slack.wait_for(lambda: not Outbox(client).waiting(), 300, "an empty outbox")
    counted = sum(a.count for a in Alerts(client).board().alerts.values())
    return {
        "events": EVENTS,
        "experiments": EXPERIMENTS,
        "events_per_s": round(EVENTS / (first + second)),
        "notices": after["alert.firing"],
        "notices_after_restart": after["alert.firing"] - told["alert.firing"],
        "edits": sum(after.values()) - after["alert.firing"],
        "failures_counted": counted,
        "slack": said(slack) | {"before_restart": posted_before, "took_s": round(time.monotonic() - begun, 1)},
        "notice_after_window_s": after_window(),
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


def alert_roots(slack: Simulator) -> list[ApiCall]:
    """The posts of alerts' own messages, those in their threads left out."""
    return [call for call in posts(slack) if "overnight_message" in str(call.args) and " 1@" in str(call.args)]


def posts(slack: Simulator) -> list[ApiCall]:
    return [call for call in slack.calls if call.method == "chat.postMessage" and call.error is None]


def said(slack: Simulator) -> dict[str, Any]:
    """How many alerts stand in Slack, each how often, and the most of them that came within a second."""
    times = sorted(call.at_s for call in alert_roots(slack))
    busiest = max(sum(at <= other < at + 1.0 for other in times) for at in times)
    marks = Counter(json.dumps(call.args.get("metadata"), sort_keys=True) for call in alert_roots(slack))
    return {"notices": len(times), "posted_twice": len(times) - len(marks), "most_within_1_s": busiest}


def after_window() -> dict[str, float]:
    """Seconds from the end of each rule's window to the moment it is told, when all its samples breach from now on."""
    found = {}
    for rule in load_rules({})[0]:
        worst = -rule.for_s
        for offset in (0.0, 1.0, 2.5, 4.0, 4.9):  # from the breach to the next look
            worst = max(worst, told_after(rule, offset) - rule.for_s)
        found[rule.name] = round(worst, 1)
    return found


def told_after(rule: Rule, offset: float) -> float:
    """From the breach to the event for the courier."""
    judge, board, now = Judge([rule], INTERVAL_S, -INTERVAL_S), Board(), -INTERVAL_S + offset
    while now < rule.for_s + 600:
        value = breach(rule, now) if now >= 0 else None if rule.op == "happens" else healthy(rule)
        samples = [] if value is None else [Sample(rule.metric, "it", value, dict.fromkeys(LABELS, "x"))]
        if rule.op == "happens" and now >= INTERVAL_S:
            samples = []
        outcome = engine.step(board, judge.judge(samples, now), Policy(), now)
        board = Board({**board.alerts, **{alert.id: alert for alert in outcome.alerts}}, {})
        if any(event.kind == "alert.firing" for event in outcome.events):
            return now
        now += INTERVAL_S
    raise AssertionError(f"{rule.name} was never told")


def breach(rule: Rule, now: float) -> float:
    """A value just beyond the limit, so that only a whole window of it breaches."""
    if rule.op == "grows":
        return 10 + 1.1 * rule.limit * now / 3600
    return rule.limit * 0.99 if rule.op == "<" else rule.limit * 1.01 + 0.01


def healthy(rule: Rule) -> float:
    if rule.op == "grows":
        return 10.0
    clear = rule.limit if rule.clear is None else rule.clear
    return 2 * clear if rule.op == "<" else min(clear, 0.0)


def propose(ledger: Ledger, conversation: str) -> str:
    plan = Plan(models=("resnet18",), dataset="digits", axes={"seed": tuple(range(EACH))})
    request = ledger.submit("compare", "U0ALICE", conversation)
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
