"""The table of cards in a terminal; without Redis the cards of this host are read here."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from lab import store
from lab.card import HostCards
from lab.cardtable import CardUse, owners_of, table, why_not_free
from lab.errors import StoreAwayError
from lab.ledger import Ledger
from lab.settings import Settings

NOBODY = "no host publishes its cards: is `overnight keep` (or `overnight up`) running on it?"


@dataclass(frozen=True)
class Look:
    """One look at the cards: as the hosts published them, or of this host alone where Redis does not answer."""

    hosts: list[HostCards]
    uses: dict[str, CardUse]
    alone: bool

    @property
    def readable(self) -> bool:
        """False when no host has a card that could be read."""
        return any(host.cards for host in self.hosts)

    def text(self) -> str:
        """The table for people."""
        shown = table(self.hosts, self.uses, time.time()) if self.hosts else NOBODY
        if owners := ", ".join(f"{name}: {owner}" for name, owner in owners_of(self.uses).items()):
            shown += f"\n{owners}"
        return f"{shown}\n(Redis does not answer: read on this host, its runs are not shown)" if self.alone else shown

    def document(self) -> dict[str, Any]:
        """The same for programs: hosts with their cards, each with the reason for which it is not free."""
        return {"from": "this host" if self.alone else "redis", "hosts": [self._host(host) for host in self.hosts]}

    def _host(self, host: HostCards) -> dict[str, Any]:
        now = time.time()
        cards = []
        for card in host.cards:
            reason = why_not_free(card, self.uses.get(card.uuid), now, host.keeper)
            cards.append({**card.model_dump(mode="json"), "not_free": reason})
        return {**host.model_dump(mode="json", exclude={"cards"}), "cards": cards}


def look(settings: Settings) -> Look:
    """What there is to see now."""
    client = store.connect(settings)
    try:
        store.check(client, settings)
    except StoreAwayError:
        return Look([read_here(settings)], {}, alone=True)
    ledger = Ledger(client)
    return Look(ledger.shown_cards(), ledger.card_uses(), alone=False)


def read_here(settings: Settings) -> HostCards:
    """One reading of this host's cards, kept nowhere; no heartbeat is started."""
    from keeper.main import watch

    alone = settings.model_copy(update={"keeper": settings.keeper.model_copy(update={"enabled": False})})
    looking = watch(alone, lambda _: None, open_wait_s=10.0)
    try:
        return looking.tick()
    finally:
        looking.close()
