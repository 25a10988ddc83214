"""Runs and hosts of the ledger in the policy's terms, and its decision in theirs."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from lab.card import Card
from lab.predict import Prediction
from lab.run import Run, RunState
from workers.decision import decide
from workers.policy import UNKNOWN, USUAL, Decision, HostState, Running, Timings, Waiting


@dataclass(frozen=True)
class Offer:
    """What a host can take now.

    Attributes:
        free: its free cards, in its own order.
        capacity: cards that it could give to one run if none were busy.
        templates: names of the templates it has.
        datasets: names of the data sets it has.
        coming: cards that one of our runs has just left and that will be free in a moment.
    """

    host: str
    free: tuple[Card, ...]
    capacity: int
    templates: frozenset[str]
    datasets: frozenset[str]
    coming: int = 0


@dataclass(frozen=True)
class Binding:
    """A run and the cards of one host that it gets."""

    run: Run
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Choice:
    """A decision in the ledger's terms, and what it was made from."""

    bindings: tuple[Binding, ...]
    decision: Decision
    waiting: tuple[Waiting, ...] = ()
    running: tuple[Running, ...] = ()
    hosts: tuple[HostState, ...] = ()
    timings: Timings = USUAL


def choose(
    queued: Sequence[Run],
    offers: Sequence[Offer],
    *,
    now: float = 0.0,
    holding: Sequence[Run] = (),
    usage: Mapping[str, float] | None = None,
    lengths: Mapping[str, Prediction] | None = None,
    can_checkpoint: Callable[[Run], bool] = lambda run: False,
    looked: Callable[[Run], bool] = lambda run: run.fence > bool(run.cards),
    timings: Timings = USUAL,
) -> Choice:
    """Who starts now and who makes room.

    Args:
        holding: runs that hold cards.
        lengths: predictions by run id; a run without one counts as UNKNOWN.
        can_checkpoint: which runs may be lent a look and preempted; none of them unless somebody acts on preemptions.
        looked: which runs are due no first look, or are past it; those that had cards before, unless told otherwise.
        timings: how long runs keep their cards before they make room.
    """
    lengths = lengths or {}
    where: dict[tuple[str, str | None, int], frozenset[str]] = {}
    waiting = []
    for run in queued:
        like = _kind(run)
        if like not in where:
            where[like] = frozenset(offer.host for offer in offers if fits(run, offer))
        if where[like]:
            there = _at_home(run, where[like], now)
            waiting.append(_waiting(run, lengths.get(run.id, UNKNOWN), there, can_checkpoint(run), looked(run)))
    running = tuple(
        _running(run, now, lengths.get(run.id, UNKNOWN), can_checkpoint(run), looked(run)) for run in holding
    )
    hosts = tuple(HostState(o.host, tuple(card.uuid for card in o.free), o.capacity, o.coming) for o in offers)
    decision = decide(now, waiting, running, hosts, usage or {}, timings)
    cards = {card.uuid: card for offer in offers for card in offer.free}
    started = {start.run_id: start for start in decision.starts}
    by_id = {run.id: run for run in queued if run.id in started} if started else {}
    bindings = [Binding(by_id[run_id], tuple(cards[c] for c in start.cards)) for run_id, start in started.items()]
    return Choice(tuple(bindings), decision, tuple(waiting), running, hosts, timings)


def fits(run: Run, offer: Offer) -> bool:
    """True when the host could run it: it has the template, the data set and as many cards."""
    has_data = run.point.dataset is None or run.point.dataset in offer.datasets
    return has_data and run.template in offer.templates and run.gpus <= offer.capacity


def stuck(queued: Sequence[Run], offers: Sequence[Offer], full: Container[str] = ()) -> dict[str, str]:
    """By run id why no host takes it as things are, for those of which that is so.

    Args:
        full: hosts that start nothing for want of room on their disks.
    """
    why = {kind: why_waiting(run, offers, full) for kind, run in {_kind(run): run for run in queued}.items()}
    unfit = {kind: reason for kind, reason in why.items() if reason is not None}
    return {run.id: unfit[_kind(run)] for run in queued if _kind(run) in unfit} if unfit else {}


def why_waiting(run: Run, offers: Sequence[Offer], full: Container[str] = ()) -> str | None:
    """Why no host takes the run, as a phrase for people; None when one could. Arguments as for `stuck`."""
    could = [offer.host for offer in offers if fits(run, offer)]
    if could and all(host in full for host in could):
        return f"no room on the disk of {' or '.join(sorted(could))}, where nothing starts until there is"
    if could or not offers:
        return None
    with_template = [offer for offer in offers if run.template in offer.templates]
    if not with_template:
        return f"no host has the template {run.template}"
    with_data = [offer for offer in with_template if run.point.dataset is None or run.point.dataset in offer.datasets]
    if not with_data:
        return f"no host has the data set {run.point.dataset}"
    return f"no host has {run.gpus} usable cards"


def _kind(run: Run) -> tuple[str, str | None, int]:
    """All that it asks of a host: what one could take, it could take all of the kind."""
    return run.template, run.point.dataset, run.gpus


def _at_home(run: Run, hosts: frozenset[str], now: float) -> frozenset[str]:
    """Where the run may go: only to the host of its checkpoints, for as long as it takes to train as much elsewhere.

    Then at most twice what was best has been spent, whenever its host has a card again. That holds for a run that was
    preempted; any other one only prefers its host.
    """
    waits = run.preempted_at is not None and now < run.preempted_at + run.served_s
    return frozenset({run.host}) if waits and run.host in hosts and not run.avoid else hosts


def _waiting(run: Run, length: Prediction, hosts: frozenset[str], can_checkpoint: bool, looked: bool) -> Waiting:
    return Waiting(
        id=run.id,
        user=run.owner,
        queued_at=run.queued_at,
        p50_s=length.p50_s,
        p90_s=length.p90_s,
        gpus=run.gpus,
        priority=run.priority,
        served_s=run.served_s,
        looked=looked,
        can_checkpoint=can_checkpoint,
        preempted_at=run.preempted_at,
        hosts=hosts,
        prefers=run.host,
        number=run.number,
    )


def _running(run: Run, now: float, length: Prediction, can_checkpoint: bool, looked: bool) -> Running:
    # Before its first step a dispatched run is as good as new; `started_at` may be of an earlier attempt.
    return Running(
        id=run.id,
        user=run.owner,
        queued_at=run.queued_at,
        host=run.host or "",
        cards=run.cards,
        since=run.started_at if run.started_at is not None and run.pid is not None else now,
        p50_s=length.p50_s,
        p90_s=length.p90_s,
        priority=run.priority,
        served_s=run.served_s,
        looked=looked,
        can_checkpoint=can_checkpoint and run.state == RunState.RUNNING,
        preempted_at=run.preempted_at,
        number=run.number,
        stopping=run.state == RunState.CANCELLING or run.room is not None or run.wish == "pause",
    )
