"""Cards that dispatch leaves alone for a while: why, until when, and how that stands in the table of cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.card import Card, HostCards
from lab.errors import RequestError
from lab.estimate import duration


@dataclass(frozen=True)
class Quarantine:
    """A card's quarantine."""

    why: str
    left_s: float
    """Seconds until it ends by itself."""

    def __str__(self) -> str:
        """`in quarantine for 34 min: exp-1/2: uncorrectable ECC error`"""
        return f"in quarantine for {duration(self.left_s)}: {self.why}"


def shown(hosts: Sequence[HostCards], quarantines: Mapping[str, Quarantine]) -> list[HostCards]:
    """The readings for people: a card in quarantine says so where it would say that it is free."""
    return [
        host.model_copy(update={"cards": tuple(_shown(card, quarantines.get(card.uuid)) for card in host.cards)})
        for host in hosts
    ]


def _shown(card: Card, quarantine: Quarantine | None) -> Card:
    if quarantine is None:
        return card
    problem = "; ".join(part for part in (card.problem, str(quarantine)) if part)
    return card.model_copy(update={"problem": problem})


def which(hosts: Sequence[HostCards], name: str) -> Card:
    """The card that somebody means: by its UUID or the beginning of it, or as `node07/3`, its host and number.

    Raises:
        RequestError: none is meant, or more than one.
    """
    cards = [card for host in hosts for card in host.cards]
    meant = [card for card in cards if name in (card.uuid, f"{card.host}/{card.index}")]
    meant = meant or [card for card in cards if len(name) > 4 and card.uuid.startswith(name)]
    if len(meant) != 1:
        known = ", ".join(f"{card.host}/{card.index}" for card in meant or cards) or "none is published"
        raise RequestError(f"{name} names {len(meant) or 'no'} card{'s' if len(meant) > 1 else ''}; there are: {known}")
    return meant[0]
