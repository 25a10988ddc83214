"""`overnight quarantine`: which cards dispatch leaves alone, and why; an operator puts one there or takes it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lab import hosts
from lab.ledger import Ledger
from lab.quarantine import Quarantine, which


def put(ledger: Ledger, name: str, hours: float, why: str) -> str:
    """The card gets no new run for so long; what is on it goes on. Raises RequestError when no such card is known."""
    card = which(hosts.cards(ledger.client), name)
    ledger.quarantine(card.uuid, why, hours * 3600)
    return f"{card.host}/{card.index} ({card.uuid}) gets no new run for {hours:g} h; a run on it goes on"


def lift(ledger: Ledger, name: str) -> str:
    """The card may be used again. Raises RequestError when no such card is known."""
    card = which(hosts.cards(ledger.client), name)
    if not ledger.lift_quarantine(card.uuid):
        return f"{card.host}/{card.index} ({card.uuid}) was in no quarantine"
    return f"{card.host}/{card.index} ({card.uuid}) may be used again"


def quarantined(ledger: Ledger) -> dict[str, Quarantine]:
    """By `node07/3`, the cards of all hosts that are in quarantine."""
    cards = {card.uuid: f"{card.host}/{card.index}" for host in hosts.cards(ledger.client) for card in host.cards}
    return {cards[uuid]: quarantine for uuid, quarantine in ledger.quarantines(cards).items()}


def lines(found: Mapping[str, Quarantine]) -> Iterator[str]:
    """The same for people."""
    if not found:
        yield "no card is in quarantine"
    for card, quarantine in found.items():
        yield f"{card}: {quarantine}"


def document(found: Mapping[str, Quarantine]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [{"card": card, "why": q.why, "left_s": round(q.left_s)} for card, q in found.items()]
