"""The lab's figures for Prometheus, from what stands in Redis: nothing here touches a card or a run directory."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from lab import census, hosts, leases
from lab.card import READING_MAX_AGE_S, Card, Host, HostCards
from lab.census import Census
from lab.plan import PRIORITIES
from lab.run import Spent
from lab.store import AWAY, PREFIX, Client
from lab.tally import WAIT_BOUNDS_S, Tally

log = logging.getLogger(__name__)

CARD = ("host", "card", "index")
"""Labels of a card's figures: its UUID, and its number on its host for people."""


@dataclass(frozen=True)
class Seen:
    """One look at the lab."""

    census: Census
    cards: Sequence[HostCards] = ()
    hosts: Sequence[Host] = ()
    leased: frozenset[str] = frozenset()
    """Cards on which an attempt runs."""
    quarantined: frozenset[str] = frozenset()
    """Cards that dispatch leaves alone for a while after a fault."""
    outbox: int = 0
    outbox_oldest: float | None = None
    """Since when the first message to Slack waits; None when none does."""


def look(client: Client) -> Seen:
    """What stands in Redis now, in a few round trips. Raises one of store.AWAY while Redis is away."""
    from bot.outbox import SENDING, WAITING

    read = hosts.cards(client)
    uuids = [card.uuid for host in read for card in host.cards]
    with client.pipeline(transaction=False) as pipe:
        pipe.zcard(WAITING).zcard(SENDING).zrange(WAITING, 0, 0, withscores=True)
        for uuid in uuids:
            pipe.exists(leases.key(uuid)).exists(f"{PREFIX}quarantine:{uuid}")
        waiting, sending, first, *flags = pipe.execute()
    return Seen(
        census=census.take(client),
        cards=read,
        hosts=hosts.hosts(client),
        leased=frozenset(uuid for uuid, held in zip(uuids, flags[::2], strict=True) if held),
        quarantined=frozenset(uuid for uuid, held in zip(uuids, flags[1::2], strict=True) if held),
        outbox=waiting + sending,
        outbox_oldest=first[0][1] if first else None,
    )


class Lab(Collector):
    """Every figure anew at each scrape; while Redis is away there is only the one that says so."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry would look at the lab to find out."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The metric families of this moment."""
        try:
            seen = look(self._client)
        except AWAY as error:
            log.warning("metrics: Redis is away: %s", error)
            yield _gauge("overnight_redis_up", "1 when Redis answers.", 0)
            return
        yield _gauge("overnight_redis_up", "1 when Redis answers.", 1)
        yield from families(seen, self._clock())


def families(seen: Seen, now: float) -> Iterator[Metric]:
    """The metric families of what was seen at `now`. What is not known has no sample; it is never 0."""
    yield from _of_lab(seen, now)
    yield from _of_work(seen.census, now)
    yield from _of_hosts(seen)
    yield from _of_cards(seen, now)
    yield from _of_keepers(seen, now)


def _of_lab(seen: Seen, now: float) -> Iterator[Metric]:
    numbers = seen.census
    yield _gauge("overnight_leader_present", "1 when a dispatcher leads.", numbers.leader)
    yield _gauge("overnight_hosts_up", "Hosts whose workers are up.", len(seen.hosts))
    yield _gauge("overnight_redis_memory_used_bytes", "Memory that Redis uses.", numbers.memory_bytes)
    yield _gauge("overnight_redis_memory_limit_bytes", "Redis' maxmemory, where set.", numbers.memory_limit_bytes)
    yield _gauge("overnight_outbox_messages", "Messages to Slack that wait or are being sent.", seen.outbox)
    age = _age(seen.outbox_oldest, now)
    yield _gauge("overnight_outbox_oldest_age_seconds", "How long the first of them has waited; 0 when none does.", age)
    yield _gauge("overnight_agent_queue_entries", "Requests and reports that wait for an agent.", numbers.agent_queue)
    unread = GaugeMetricFamily(
        "overnight_events_unread", "Events that a reader has yet to deal with.", labels=["reader"]
    )
    for reader, count in numbers.unread.items():
        unread.add_metric([reader], count)
    yield unread
    alerts = GaugeMetricFamily(
        "overnight_alerts", "Alerts that are kept, by state.", labels=["rule", "severity", "state"]
    )
    for labels, count in sorted(numbers.alerts.items()):
        alerts.add_metric(labels, count)
    yield alerts


def _of_work(numbers: Census, now: float) -> Iterator[Metric]:
    for kind, states in numbers.states.items():
        family = GaugeMetricFamily(f"overnight_{kind}s", f"{kind.capitalize()}s by state.", labels=["state"])
        for state, count in states.items():
            family.add_metric([state], count)
        yield family
    oldest = _age(numbers.oldest_request, now)
    yield _gauge("overnight_request_oldest_wait_seconds", "How long the oldest unanswered request waits.", oldest)
    yield from _waiting(numbers, now)
    tally = numbers.tally
    answers = CounterMetricFamily("overnight_answers", "Answers to requests, by kind.", labels=["kind"])
    for kind, count in sorted(tally.answers.items()):
        answers.add_metric([kind], count)
    yield answers
    attempts = CounterMetricFamily(
        "overnight_attempts", "Attempts that ended, by how and why.", labels=["outcome", "cause"]
    )
    for labels, count in sorted(tally.attempts.items()):
        attempts.add_metric(labels, count)
    yield attempts
    yield CounterMetricFamily(
        "overnight_gpu_seconds", "Seconds for which ended attempts held cards.", value=tally.gpu_s
    )
    yield from _of_model(tally.model)
    joules = "Energy of those ended runs for which it is known."
    yield CounterMetricFamily("overnight_energy_joules", joules, value=tally.energy_j)
    yield from _of_predictions(tally)


def _of_predictions(tally: Tally) -> Iterator[Metric]:
    told = CounterMetricFamily(
        "overnight_predictions", "Runs that ended after their length had been told.", labels=["basis"]
    )
    within = CounterMetricFamily(
        "overnight_predictions_within_p90",
        "Of those, runs that took no longer than nine in ten should.",
        labels=["basis"],
    )
    error = CounterMetricFamily(
        "overnight_prediction_abs_log_error", "Sum of |log(actual / p50)| of those runs.", labels=["basis"]
    )
    bias = GaugeMetricFamily(
        "overnight_prediction_bias", "Mean of log(actual / p50): above 0 runs take longer than told.", labels=["basis"]
    )
    for basis, seen in sorted(tally.predictions.items()):
        told.add_metric([basis], seen.runs)
        within.add_metric([basis], seen.within_p90)
        error.add_metric([basis], seen.abs_log_error)
        bias.add_metric([basis], seen.log_error / seen.runs)
    yield from (told, within, error, bias)


def _of_model(spent: Spent) -> Iterator[Metric]:
    yield CounterMetricFamily("overnight_model_calls", "Calls of the language model that were answered.", spent.calls)
    tokens = CounterMetricFamily("overnight_model_tokens", "Tokens of those calls.", labels=["direction"])
    tokens.add_metric(["in"], spent.tokens_in)
    tokens.add_metric(["out"], spent.tokens_out)
    yield tokens
    told = "Tokens among them that were estimated, because the endpoint told none."
    yield CounterMetricFamily("overnight_model_tokens_estimated", told, spent.estimated)
    cost = CounterMetricFamily("overnight_model_cost", "Their cost by model.price_*, where that is set.")
    if spent.money is not None:
        cost.add_metric([], spent.money)
    yield cost


def _waiting(numbers: Census, now: float) -> Iterator[Metric]:
    runs = GaugeMetricFamily("overnight_queue_runs", "Runs that wait for a card.", labels=["priority"])
    oldest = GaugeMetricFamily(
        "overnight_queue_oldest_wait_seconds", "How long the oldest waits; 0 when none does.", labels=["priority"]
    )
    for priority in PRIORITIES:
        since = [run.since for run in numbers.waiting if run.priority == priority]
        runs.add_metric([priority], len(since))
        oldest.add_metric([priority], _age(min(since, default=None), now))
    yield from (runs, oldest)
    waits = HistogramMetricFamily(
        "overnight_queue_wait_seconds", "From the queue to the first attempt, of runs that began.", labels=["priority"]
    )
    bounds = (*map(str, WAIT_BOUNDS_S), "+Inf")
    for level, seen in sorted(numbers.tally.waits.items()):
        waits.add_metric([level], list(zip(bounds, seen.below, strict=True)), seen.seconds)
    yield waits


def _of_hosts(seen: Seen) -> Iterator[Metric]:
    up = GaugeMetricFamily("overnight_host_up", "1 when the host's workers are up.", labels=["host"])
    keep = GaugeMetricFamily("overnight_host_readable", "1 when the host's cards can be read.", labels=["host"])
    disk = GaugeMetricFamily("overnight_host_disk_free_bytes", "Free for the data folder.", labels=["host"])
    names = {host.host for host in seen.hosts}
    for name in sorted(names | {host.host for host in seen.cards}):
        up.add_metric([name], name in names)
    for host in seen.cards:
        keep.add_metric([host.host], host.problem is None)
    for host_ in seen.hosts:
        if host_.disk_free_bytes is not None:
            disk.add_metric([host_.host], host_.disk_free_bytes)
    yield from (up, keep, disk)


@dataclass(frozen=True)
class Figure:
    """A figure of a card."""

    name: str
    text: str
    of: Callable[[Card], float | None]
    """None where it is not known."""


READINGS = (
    Figure(
        "overnight_card_utilization_ratio",
        "Share of time in which a kernel ran, 0 to 1.",
        lambda card: _times(card.utilization_pct, 0.01),
    ),
    Figure("overnight_card_memory_used_bytes", "Memory in use.", lambda card: card.memory_used_bytes),
    Figure("overnight_card_temperature_celsius", "Temperature.", lambda card: card.temperature_c),
    Figure("overnight_card_power_watts", "Power drawn.", lambda card: _times(card.power_mw, 0.001)),
    Figure("overnight_card_pcie_receive_bytes_per_second", "PCIe, to the card.", lambda card: card.pcie_rx_bytes_per_s),
    Figure(
        "overnight_card_pcie_transmit_bytes_per_second", "PCIe, from the card.", lambda card: card.pcie_tx_bytes_per_s
    ),
)
"""Left out while the reading is old: a card that nobody reads does not stay at its last value."""


def _of_cards(seen: Seen, now: float) -> Iterator[Metric]:
    ours = [(card, [card.host, card.uuid, str(card.index)]) for host in seen.cards for card in host.cards]
    info = GaugeMetricFamily(
        "overnight_card_info", "What the card is; always 1.", labels=[*CARD, "name", "role", "simulated"]
    )
    for card, labels in ours:
        info.add_metric([*labels, card.name, card.role, str(card.simulated).lower()], 1)
    yield info
    standing = (
        Figure("overnight_card_memory_total_bytes", "Memory of the card.", lambda card: card.memory_total_bytes),
        Figure("overnight_card_lost", "1 when the driver no longer answers for it.", lambda card: card.lost),
        Figure(
            "overnight_card_faulty",
            "1 when it reports what does not pass until a reset; dispatch leaves it alone.",
            lambda card: card.fault is not None,
        ),
        Figure("overnight_card_leased", "1 when an attempt holds it.", lambda card: card.uuid in seen.leased),
        Figure(
            "overnight_card_quarantined",
            "1 when dispatch leaves it alone after a fault.",
            lambda card: card.uuid in seen.quarantined,
        ),
        Figure("overnight_card_reading_age_seconds", "Age of its last reading.", lambda card: _age(card.read_at, now)),
    )
    for figure in standing:
        yield _card_family(figure, ours)
    fresh = [(card, labels) for card, labels in ours if not card.lost and now - card.read_at <= READING_MAX_AGE_S]
    for figure in READINGS:
        yield _card_family(figure, fresh)


def _card_family(figure: Figure, cards: Sequence[tuple[Card, list[str]]]) -> Metric:
    family = GaugeMetricFamily(figure.name, figure.text, labels=CARD)
    for card, labels in cards:
        value = figure.of(card)
        if value is not None:
            family.add_metric(labels, value)
    return family


def _of_keepers(seen: Seen, now: float) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "overnight_keeper_info",
        "How the reserved card is kept, and whether the platform is seen to notice; always 1.",
        labels=["host", "card", "mode", "state", "verdict"],
    )
    beats = CounterMetricFamily("overnight_keeper_beats", "Heartbeats of this keeper.", labels=["host", "card"])
    since = GaugeMetricFamily(
        "overnight_keeper_last_beat_age_seconds", "Time since the last heartbeat.", labels=["host", "card"]
    )
    interval = GaugeMetricFamily(
        "overnight_keeper_interval_seconds", "Time between two heartbeats.", labels=["host", "card"]
    )
    for host in seen.cards:
        keeper = host.keeper
        if keeper is None:
            continue
        labels = [host.host, keeper.card]
        info.add_metric([*labels, keeper.mode, keeper.state, keeper.verdict], 1)
        beats.add_metric(labels, keeper.beats)
        interval.add_metric(labels, keeper.interval_s)
        if keeper.last_beat_at is not None:
            since.add_metric(labels, _age(keeper.last_beat_at, now))
    yield from (info, beats, since, interval)


def _gauge(name: str, text: str, value: float | None) -> Metric:
    family = GaugeMetricFamily(name, text)
    if value is not None:
        family.add_metric([], value)
    return family


def _age(since: float | None, now: float) -> float:
    """Seconds; 0 for None, and where a host's clock is ahead of this one's."""
    return 0.0 if since is None else max(0.0, now - since)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
