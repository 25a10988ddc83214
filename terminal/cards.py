"""The table of cards in a terminal; without Redis the cards of this host are read here."""

from __future__ import annotations

import time
from typing import Any

from lab import hosts, store
from lab.card import HostCards
from lab.cardtable import CardUse, table, why_not_free
from lab.errors import StoreAwayError
from lab.ledger import Ledger
from lab.settings import Settings

NOBODY = "no host publishes its cards: is `overnight keep` (or `overnight up`) running on it?"


def text(settings: Settings) -> str:
    """The table for people, saying so where the readings were taken here."""
    published, uses, alone = _read(settings)
    shown = table(published, uses, time.time()) if published else NOBODY
    return f"{shown}\n(Redis does not answer: read on this host, its runs are not shown)" if alone else shown


def document(settings: Settings) -> dict[str, Any]:
    """The same for programs: hosts with their cards, and for each card who uses it or why it is not free."""
    published, uses, alone = _read(settings)
    now = time.time()
    return {
        "from": "this host" if alone else "redis",
        "hosts": [
            {
                **host.model_dump(mode="json", exclude={"cards"}),
                "cards": [
                    {
                        **card.model_dump(mode="json"),
                        "not_free": why_not_free(card, uses.get(card.uuid), now, host.keeper),
                    }
                    for card in host.cards
                ],
            }
            for host in published
        ],
    }


def _read(settings: Settings) -> tuple[list[HostCards], dict[str, CardUse], bool]:
    client = store.connect(settings)
    try:
        store.check(client, settings)
    except StoreAwayError:
        return [read_here(settings)], {}, True
    return hosts.cards(client), Ledger(client).card_uses(), False


def read_here(settings: Settings) -> HostCards:
    """One reading of this host's cards, kept nowhere; no heartbeat is started."""
    from keeper.main import watch

    alone = settings.model_copy(update={"keeper": settings.keeper.model_copy(update={"enabled": False})})
    looking = watch(alone, lambda _: None, open_wait_s=10.0)
    try:
        return looking.tick()
    finally:
        looking.close()
