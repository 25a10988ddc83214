"""The process `overnight dispatch`: one leader binds the next run to each free card, and puts right what was lost."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace

from lab import events, hosts, store
from lab.card import Card, Host, HostCards
from lab.cardtable import CardUse, free, usable
from lab.errors import MoveRefused, UnknownRecord
from lab.leader import DISPATCH, LEADER_S, Leadership
from lab.ledger import Ledger
from lab.run import HOLDS_CARD, RunState
from lab.settings import Settings
from lab.store import Client
from workers.accounts import Accounts
from workers.choice import Binding, Offer, choose, why_waiting
from workers.disk import full_hosts
from workers.elsewhere import steered, waits_for_another
from workers.recover import Recovery

log = logging.getLogger(__name__)

RECOVER_EVERY_S = 2.0
READING_LAG_S = 1.0
"""A reading takes a moment, and a driver may list a process a little after its end."""


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
        self.leadership = Leadership(client, DISPATCH)
        self.recovery = Recovery(client, settings)
        self.accounts = Accounts(self.ledger)
        self.leads = False
        self._releases = Releases()
        self._recover_at = 0.0
        self._full: frozenset[str] = frozenset()
        """Hosts whose disk is full."""
        self._waiting: dict[str, str] = {}
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
        uses = self.ledger.card_uses()
        self._releases.update(uses, now)
        readings = [self._releases.corrected(host) for host in hosts.cards(self.client)]
        up, sound = hosts.hosts(self.client), self._without_quarantined(usable(readings, now))
        offers = _offers(up, readings, free(readings, uses, now, self._releases.ended()))
        self._full = full_hosts(up, self.settings, self._full)
        offers = self._startable(offers, {card.uuid for card in sound})
        holding = self.ledger.runs_in(*HOLDS_CARD)
        self.accounts.update(holding, now)
        if not any(offer.free for offer in offers):
            return []
        queued = self.ledger.runs_in(RunState.QUEUED)
        willing = [run for run in queued if run.not_before <= now and not waits_for_another(run, offers, sound)]
        usage, lengths = self.accounts.usage.at(now), self.accounts.lengths(willing)
        # Nothing acts on preemptions yet, so no run counts as one that could be preempted or lent a look.
        choice = choose(willing, offers, now=now, holding=holding, usage=usage, lengths=lengths)
        bound = [binding for binding in steered(choice.bindings, offers) if self._bound(binding)]
        self._tell_waiting({run.id: why for run in queued if (why := why_waiting(run, offers))})
        return bound

    def _without_quarantined(self, cards: Sequence[Card]) -> list[Card]:
        quarantined = self.ledger.quarantined(card.uuid for card in cards)
        return [card for card in cards if card.uuid not in quarantined]

    def _startable(self, offers: Sequence[Offer], sound: Container[str]) -> list[Offer]:
        """The offers without the cards that are not sound, and none of a host whose disk is full."""
        return [
            replace(offer, free=() if offer.host in self._full else tuple(c for c in offer.free if c.uuid in sound))
            for offer in offers
        ]

    def _bound(self, binding: Binding) -> bool:
        first = binding.cards[0]
        try:
            run = self.ledger.bind(binding.run.id, tuple(c.uuid for c in binding.cards), first.host, first.index)
        except (MoveRefused, UnknownRecord) as refusal:
            log.info("%s", refusal)
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
    dispatcher = Dispatcher(settings, client)
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda *_: dispatcher.stop())
    dispatcher.run()
    log.info("dispatch: stopped")


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
