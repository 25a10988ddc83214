"""What the lab shows at one moment, as samples for the rules. Pure; `look` reads it from Redis.

The metrics' meanings stand in keeper/rules.METRICS. What cannot be known is a sample without a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from keeper.rules import Sample
from lab import beacons, hosts
from lab.beacons import Beacon
from lab.card import READING_MAX_AGE_S, Card, Host, HostCards, KeeperStatus
from lab.estimate import duration
from lab.ledger import Ledger
from lab.records import record_key
from lab.run import HOLDS_CARD, Progress, Run, RunState, experiment_of
from lab.store import Client

START_S = 180.0
"""A run's first minutes: libraries, data and the first compilation leave the card idle."""
FORGET_S = 86_400.0
"""A host that has been silent so long is taken for one that was taken away."""
UNREAD_S = 60.0
"""Readings older than this, of a host that is up, mean that nobody takes any there."""
UNREAD = "nobody reads them: is `overnight keep` running there?"
UNHEARD = 6
"""So many times its usual pause, and whoever talks to a service counts as gone."""
BROKEN = re.compile(r"\becc\b|uncorrectable|\bxid\b|row remap", re.IGNORECASE)
"""Words of a driver about errors that do not pass."""


@dataclass(frozen=True)
class Seen:
    """Everything that the rules look at, as it stood at `now`."""

    now: float
    cards: Sequence[HostCards] = ()
    hosts: Sequence[Host] = ()
    runs: Sequence[Run] = ()
    """Those that hold a card."""
    waiting: Mapping[str, float] = field(default_factory=dict)
    """Ids of those that wait for one, with the time when they were first queued."""
    conversations: Mapping[str, str] = field(default_factory=dict)
    """Of the experiments that have waiting runs."""
    progress: Mapping[str, Progress] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)
    beacons: Sequence[Beacon] = ()
    known: Mapping[str, float] = field(default_factory=dict)
    """Hosts that were seen before, with the time of their last word."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Rules that cannot be used, with the reason."""


def look(client: Client, ledger: Ledger, known: Mapping[str, float], broken: Mapping[str, str], now: float) -> Seen:
    """What Redis holds now."""
    runs = ledger.runs_in(*HOLDS_CARD)
    cards, waiting = hosts.cards(client), ledger.waiting()
    return Seen(
        now=now,
        cards=cards,
        hosts=hosts.hosts(client),
        runs=runs,
        waiting=waiting,
        conversations=_conversations(client, waiting),
        progress=ledger.progress(run.id for run in runs if run.state is RunState.RUNNING),
        quarantined=ledger.quarantined(card.uuid for host in cards for card in host.cards),
        beacons=beacons.all_of(client),
        known=known,
        broken=broken,
    )


def _conversations(client: Client, waiting: Iterable[str]) -> dict[str, str]:
    """Where the experiments of the waiting runs are talked about; one field a record, for they may be many."""
    names = list(dict.fromkeys(map(experiment_of, waiting)))
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hget(record_key(name), "conversation")
        return {name: json.loads(text) for name, text in zip(names, pipe.execute(), strict=True) if text}


def words_of(seen: Seen) -> dict[str, float]:
    """When each host was last heard of; one that left in order, or is gone for a day, is no longer among them.

    A record that is gone before it could expire was withdrawn by its host.
    """
    heard: dict[str, float] = {}
    for name, at in (*((c.host, c.published_at) for c in seen.cards), *((h.host, h.published_at) for h in seen.hosts)):
        heard[name] = max(heard.get(name, 0.0), at)
    for host, at in seen.known.items():
        silent = seen.now - at
        if host not in heard and hosts.HOST_TTL_S / 2 < silent < FORGET_S:
            heard[host] = at
    return heard


def samples(seen: Seen) -> list[Sample]:
    """One sample of each metric for each subject that has it."""
    found = [
        *_hosts(seen),
        *_queue(seen),
        *_services(seen),
        *(Sample("rule.broken", name, 1.0, {"rule_name": name}, note=why) for name, why in seen.broken.items()),
    ]
    runs = {card: run for run in seen.runs for card in run.cards}
    for host in seen.cards:
        found += _host_cards(host, seen)
        for card in host.cards:
            found += _card(card, host, seen)
            if card.uuid in runs:
                found += _training(card, runs[card.uuid], seen)
    for run in seen.runs:
        found += _run(run, seen)
    return found


def labels_of(run: Run) -> dict[str, str]:
    """What silences and people go by."""
    return {"run": run.id, "experiment": run.experiment_id, "owner": run.owner} | (
        {"host": run.host} if run.host else {}
    )


def _fresh(card: Card, seen: Seen) -> bool:
    return not card.lost and seen.now - card.read_at <= READING_MAX_AGE_S


def _hosts(seen: Seen) -> Iterator[Sample]:
    for host, at in words_of(seen).items():
        yield Sample("host.silent_s", host, max(0.0, seen.now - at), {"host": host})
    reads = {host.host for host in seen.cards if seen.now - host.published_at <= UNREAD_S}
    for one in seen.hosts:
        if one.host not in reads and seen.now - one.published_at <= UNREAD_S:
            yield Sample("host.unreadable", one.host, 1.0, {"host": one.host}, note=UNREAD)
        free = None if one.disk_free_bytes is None else one.disk_free_bytes / 2**30
        yield Sample("host.disk_free_gb", one.host, free, {"host": one.host})


def _host_cards(host: HostCards, seen: Seen) -> Iterator[Sample]:
    labels = {"host": host.host}
    speaks = seen.now - host.published_at <= READING_MAX_AGE_S
    if speaks:
        yield Sample("host.unreadable", host.host, float(host.problem is not None), labels, note=host.problem or "")
    if host.keeper is not None:
        yield from _keeper(host.keeper, labels, seen.now if speaks else None)


def _keeper(keeper: KeeperStatus, labels: Mapping[str, str], now: float | None) -> Iterator[Sample]:
    """`now` is None where the host does not speak, so that nothing is known."""
    labels = {**labels, "card": keeper.card}
    at_work = keeper.state in ("holding", "failing")
    late = None
    if now is not None and at_work and keeper.last_beat_at is not None:
        late = (now - keeper.last_beat_at) / keeper.interval_s
    yield Sample("keeper.late", keeper.card, late if at_work else 0.0, labels)
    problem = keeper.problem or (keeper.reason if keeper.verdict == "ineffective" else None)
    known = None if now is None else float(problem is not None and keeper.state not in ("released", "away"))
    yield Sample("keeper.problem", keeper.card, known, labels, note=problem or "")


def _card(card: Card, host: HostCards, seen: Seen) -> Iterator[Sample]:
    labels = {"host": card.host, "card": card.uuid, "index": str(card.index)}
    speaks = seen.now - host.published_at <= READING_MAX_AGE_S
    why = card.problem or ""
    yield Sample("card.lost", card.uuid, float(card.lost) if speaks else None, labels, note=why or "no answer")
    broken = _broken(card) or seen.quarantined.get(card.uuid, "")
    yield Sample("card.broken", card.uuid, float(bool(broken)) if speaks else None, labels, note=broken)
    hot = card.temperature_c if _fresh(card, seen) else None
    yield Sample("card.temperature_c", card.uuid, hot, labels)
    slowed = None if card.throttled is None or not _fresh(card, seen) else float(bool(card.throttled))
    yield Sample("card.throttled", card.uuid, slowed, labels, note=card.throttled or "")


def _broken(card: Card) -> str:
    """What the card reports that does not pass; empty when it reports nothing."""
    told = card.problem or "" if not card.lost and BROKEN.search(card.problem or "") else ""
    return card.fault or told


def _training(card: Card, run: Run, seen: Seen) -> Iterator[Sample]:
    """Of a card that trains: what it does outside of its run's first minutes and evaluations."""
    labels = {**labels_of(run), "host": card.host, "card": card.uuid, "index": str(card.index)}
    progress = seen.progress.get(run.id)
    warm = run.state is RunState.RUNNING and run.started_at is not None and seen.now - run.started_at > START_S
    trains = warm and card.role != "keeper" and progress is not None and progress.phase in (None, "train")
    used = card.utilization_pct if trains and _fresh(card, seen) else None
    yield Sample("card.utilization_pct", f"{run.id} {card.uuid}", used, labels, run.conversation)
    share = None
    if warm and _fresh(card, seen) and card.memory_total_bytes and card.memory_used_bytes is not None:
        share = 100 * card.memory_used_bytes / card.memory_total_bytes
    yield Sample("card.memory_pct", f"{run.id} {card.uuid}", share, labels, run.conversation)


def _run(run: Run, seen: Seen) -> Iterator[Sample]:
    if run.state is not RunState.RUNNING:
        return
    progress = seen.progress.get(run.id)
    begun = run.started_at or run.queued_at
    idle = seen.now - max(begun, progress.at if progress else 0.0)
    yield Sample("run.idle_s", run.id, idle, labels_of(run), run.conversation)
    if progress is not None:
        yield Sample(
            "run.fragmentation_pct", run.id, _fragmented(run, progress, seen), labels_of(run), run.conversation
        )


def _fragmented(run: Run, progress: Progress, seen: Seen) -> float | None:
    """Unusable splits among the reserved memory, in per cent; None where less than half the card is reserved."""
    reserved, split = (progress.metrics.get(key) for key in ("reserved_bytes", "inactive_split_bytes"))
    card = next((card for host in seen.cards for card in host.cards if card.uuid == run.card), None)
    if not reserved or split is None or card is None or not card.memory_total_bytes:
        return None
    return 100 * split / reserved if reserved >= card.memory_total_bytes / 2 else 0.0


def _queue(seen: Seen) -> Iterator[Sample]:
    waiting: dict[str, list[float]] = {}
    for run_id, queued_at in seen.waiting.items():
        waiting.setdefault(experiment_of(run_id), []).append(queued_at)
    for experiment, times in waiting.items():
        labels, place = {"experiment": experiment}, seen.conversations.get(experiment, "")
        waits_s = seen.now - min(times)
        yield Sample("experiment.wait_s", experiment, waits_s, labels, place, count=float(len(times)))


def _services(seen: Seen) -> Iterator[Sample]:
    for beacon in seen.beacons:
        problem, age = beacon.problem, seen.now - beacon.at
        if beacon.every_s is not None and age > UNHEARD * beacon.every_s:
            problem = f"nobody who talks to it was heard of for {duration(age)}"
        labels = {"service": beacon.service}
        yield Sample("service.away", beacon.service, float(problem is not None), labels, note=problem or "")
