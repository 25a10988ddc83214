"""The process `overnight dispatch`: one leader binds the next run to each free card, and puts right what was lost."""

from __future__ import annotations

import gc
import logging
import math
import signal
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab import events, hosts, store
from lab.card import Card, Host, HostCards
from lab.cardtable import CardUse, free, usable
from lab.errors import FenceError, MoveRefused, UnknownRecord
from lab.leader import DISPATCH, LEADER_S, Leadership
from lab.ledger import Ledger
from lab.lengths import machines
from lab.run import HOLDS_CARD, Room, Run, RunState
from lab.runcache import RunCache
from lab.settings import Settings
from lab.store import Client
from workers.accounts import Accounts
from workers.budget import Budgets
from workers.choice import Binding, Offer, choose, stuck
from workers.disk import full_hosts
from workers.elsewhere import steered, waits_for_another
from workers.forecast import Forecasts
from workers.policy import Preemption, Reason, Timings
from workers.recover import Recovery
from workers.search import Searches
from workers.templates import TEMPLATES

log = logging.getLogger(__name__)

RECOVER_EVERY_S = 2.0
READING_LAG_S = 1.0
"""A reading takes a moment, and a driver may list a process a little after its end."""
LEAVING_S = 10.0
"""A card that its run has left counts as about to be free for so long: nobody else is made to leave one for it."""
LOOK_EVERY_S = 2.0
"""While no card is free, whether somebody is to make room is decided so often: it means ranking the whole queue."""
WHY: Mapping[Reason, str] = {
    "priority": "higher priority",
    "first look": "its first look",
    "fair share": "its owner has used less",
    "shorter": "clearly shorter",
}
"""Why a run goes before the one that makes room for it, for people."""


@dataclass
class Releases:
    """Which cards our runs have just left, so that an older reading of them is not taken for a stranger's doing."""

    _uses: dict[str, CardUse] = field(default_factory=dict)
    _left: dict[str, tuple[float, set[int]]] = field(default_factory=dict)

    def bound(self, binding: Binding) -> None:
        """The run holds its cards."""
        use = CardUse(run_id=binding.run.id, label=binding.run.point.model)
        self._uses |= {card.uuid: use for card in binding.cards}

    def update(self, uses: dict[str, CardUse], now: float) -> list[CardUse]:
        """Cards whose run is no longer among `uses` are left since now; gives what was left."""
        left = {card: use for card, use in self._uses.items() if card not in uses or uses[card].run_id != use.run_id}
        for card, use in left.items():
            self._left[card] = (now, {use.pid} if use.pid else set())
        self._uses = dict(uses)
        return list(left.values())

    def corrected(self, host: HostCards) -> HostCards:
        """The host's readings, without what the ended run still showed in those that are older than its end."""
        return host.model_copy(update={"cards": tuple(map(self._correct, host.cards))})

    def ended(self) -> dict[str, set[int]]:
        """Card to the process ids that ended there."""
        return {card: pids for card, (_, pids) in self._left.items()}

    def leaving(self, now: float) -> set[str]:
        """Cards that a run has left a moment ago."""
        return {card for card, (at, _) in self._left.items() if now < at + LEAVING_S}

    def _correct(self, card: Card) -> Card:
        at, _ = self._left.get(card.uuid, (0.0, set()))
        if card.read_at > at + READING_LAG_S:
            return card
        return card.model_copy(update={"processes": (), "memory_used_bytes": None})


class Dispatcher:
    """Level-triggered: every step looks at what waits and what is free; events only make it look sooner."""

    def __init__(self, settings: Settings, client: Client) -> None:
        self.client = client
        self.settings = settings
        self.ledger = Ledger(client)
        self.waiting = RunCache(client)
        self.leadership = Leadership(client, DISPATCH)
        self.recovery = Recovery(client, settings)
        self.accounts = Accounts(self.ledger)
        self.budgets = Budgets(self.ledger)
        self.searches = Searches(self.ledger)
        self.forecasts = Forecasts(client)
        self.leads = False
        able = {name for name, template in TEMPLATES.items() if template.checkpoints}
        self._checkpoints = frozenset(able if settings.run.preempt else ())
        """Templates whose runs can be lent a look and make room."""
        self._releases = Releases()
        self._recover_at = 0.0
        self._full: frozenset[str] = frozenset()
        """Hosts whose disk is full."""
        self._waiting: dict[str, str] = {}
        run = settings.run
        self._timings = Timings(run.first_look_s, run.preempt_after_s, run.preempt_every_s)
        self._look_at = 0.0
        """When it is decided again who makes room, while no card is free."""
        self._stop = False

    def run(self) -> None:
        """Dispatches until `stop`; a Redis outage is waited out."""
        after, away = "0", False
        while not self._stop:
            try:
                newest = events.newest_id(self.client) if after == "0" else after
                self.step()
                after = events.wait(self.client, newest)
                away = False
            except store.AWAY as error:
                if not away:
                    log.warning("dispatch: Redis is away: %s", error)
                away, after = True, "0"
                time.sleep(0.5)
        if self.leads:
            try:
                self.leadership.release()
            except store.AWAY:
                log.warning("dispatch: Redis is away; another one leads in %.0f s", LEADER_S)

    def stop(self) -> None:
        """`run` returns within a second or so."""
        self._stop = True

    def step(self) -> list[Binding]:
        """If this one leads: lost things are put right when due, and every free card that can has its next run."""
        led, self.leads = self.leads, self.leadership.hold()
        if self.leads != led:
            log.info("dispatch: %s", "leads" if self.leads else "stands by")
        if not self.leads:
            return []
        if not led:
            self.accounts.open()
        if time.monotonic() >= self._recover_at:
            self.recovery.step()
            self._recover_at = time.monotonic() + RECOVER_EVERY_S
        return self._bind(time.time())

    def _bind(self, now: float) -> list[Binding]:
        holding = self.ledger.runs_in(*HOLDS_CARD)
        uses = self.ledger.card_uses(holding)
        self._releases.update(uses, now)
        readings = [self._releases.corrected(host) for host in hosts.cards(self.client)]
        up, sound = hosts.hosts(self.client), self._without_quarantined(usable(readings, now))
        offers = _offers(up, readings, free(readings, uses, now, self._releases.ended()))
        self._full = full_hosts(up, self.settings, self._full)
        offers = self._startable(offers, sound, self._releases.leaving(now) - uses.keys())
        self.accounts.update(holding, now, machines(up, usable(readings, now)))
        self.searches.prune(holding)
        movable = self._movable(holding, sound)
        look_due = (movable and now >= self._look_at) or self.forecasts.due()
        if not look_due and not any(offer.free for offer in offers):
            return []
        began = time.thread_time()
        queued = self.waiting.runs_in(RunState.QUEUED)
        unfit = stuck(queued, offers, self._full)
        able = [run for run in queued if run.not_before <= now and run.id not in unfit]
        willing = [run for run in able if not waits_for_another(run, offers, sound)]
        usage, lengths = self.accounts.usage.at(now), self.accounts.predictions.lengths(willing)
        choice = choose(
            willing,
            offers,
            now=now,
            holding=holding,
            usage=usage,
            lengths=lengths,
            can_checkpoint=lambda run: run.id in movable if run.cards else self._can_checkpoint(run),
            looked=self.accounts.looks.over,
            timings=self._timings,
        )
        bound = [binding for binding in steered(choice.bindings, offers) if self._bound(binding)]
        for preemption in choice.decision.preemptions:
            self._make_room(preemption, movable[preemption.run_id], now)
        self._tell_waiting(unfit)
        if self.forecasts.due():
            known = self.accounts.predictions.known([*queued, *holding], lengths)
            self.forecasts.publish(now, choice, usage, known, unfit, began)
        self._look_at = min(now + LOOK_EVERY_S, choice.decision.look_again_at or math.inf)
        return bound

    def _without_quarantined(self, cards: Sequence[Card]) -> list[Card]:
        quarantined = self.ledger.quarantined(card.uuid for card in cards)
        return [card for card in cards if card.uuid not in quarantined]

    def _startable(self, offers: Sequence[Offer], sound: Sequence[Card], leaving: Container[str]) -> list[Offer]:
        """The offers without the cards that are not sound, and none of a host whose disk is full."""
        cards = {offer.host: {c.uuid for c in sound if c.host == offer.host} for offer in offers}
        return [_only(offer, set() if offer.host in self._full else cards[offer.host], leaving) for offer in offers]

    def _can_checkpoint(self, run: Run) -> bool:
        return run.template in self._checkpoints

    def _movable(self, holding: Sequence[Run], sound: Sequence[Card]) -> dict[str, Run]:
        """The runs that could make room, by id: their cards could then be given to another."""
        cards = {card.uuid for card in sound if not card.closing and card.host not in self._full}
        return {run.id: run for run in holding if self._can_checkpoint(run) and cards.issuperset(run.cards)}

    def _make_room(self, preemption: Preemption, run: Run, now: float) -> None:
        why = WHY[preemption.reason]
        room = Room(for_run=preemption.by, reason=why, ends_look=preemption.ends_look, asked_at=now)
        try:
            self.ledger.make_room(run.id, run.fence, room)
        except (FenceError, MoveRefused, UnknownRecord) as refusal:
            log.info("%s", refusal)
            return
        log.info("%s: makes room for %s, %s", run.id, preemption.by, why)

    def _bound(self, binding: Binding) -> bool:
        first = binding.cards[0]
        try:
            if not self.budgets.allows(binding.run):
                return False
            self.searches.draw(binding.run)
            run = self.ledger.bind(binding.run.id, tuple(c.uuid for c in binding.cards), first.host, first.index)
        except (MoveRefused, UnknownRecord) as refusal:
            log.info("%s", refusal)
            self.waiting.forget(binding.run.id)
            return False
        self._releases.bound(binding)
        where = " and ".join(f"card {card.index}" for card in binding.cards)
        log.info("%s: dispatched to %s of %s (dispatch %d)", run.id, where, first.host, run.dispatches)
        return True

    def _tell_waiting(self, waiting: dict[str, str]) -> None:
        for run_id, why in waiting.items():
            if self._waiting.get(run_id) != why:
                log.warning("%s: waits, %s", run_id, why)
        self._waiting = waiting


def main(settings: Settings) -> None:
    """Dispatches until SIGTERM or SIGINT.

    Raises:
        StoreAwayError: Redis does not answer at start.
    """
    client = store.connect(settings)
    store.check(client, settings)
    gc.freeze()  # what was imported stays: collections amid ten thousand waiting runs are half as long without it
    dispatcher = Dispatcher(settings, client)
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda *_: dispatcher.stop())
    dispatcher.run()
    log.info("dispatch: stopped")


def _only(offer: Offer, cards: set[str], leaving: Container[str]) -> Offer:
    """The offer of none but these cards, of which those being left will be free in a moment."""
    now_free = tuple(card for card in offer.free if card.uuid in cards)
    return replace(offer, free=now_free, coming=sum(c in leaving for c in cards - {card.uuid for card in now_free}))


def _offers(up: Sequence[Host], readings: Sequence[HostCards], free_cards: Iterable[Card]) -> list[Offer]:
    """What each host whose `work` is up can take: only cards that one of its workers serves."""
    ours = list(free_cards)
    known = {host.host: {card.uuid for card in host.cards} for host in readings}
    return [
        Offer(
            host=host.host,
            free=tuple(card for card in ours if card.host == host.host and card.uuid in host.cards),
            capacity=len(known.get(host.host, set()).intersection(host.cards)),
            templates=frozenset(host.templates),
            datasets=frozenset(dataset.name for dataset in host.datasets if dataset.present),
        )
        for host in up
    ]
