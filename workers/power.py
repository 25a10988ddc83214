"""What an attempt's cards draw, from the readings that their host publishes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lab.card import READING_MAX_AGE_S, Card

KNOWN_SHARE = 0.5
"""With less of the samples known, the mean of the others says nothing about the whole time."""


class Power:
    """The mean power of all the cards together, of samples taken at equal intervals.

    Args:
        cards: UUIDs of the attempt's cards.
    """

    def __init__(self, cards: Collection[str]) -> None:
        self._cards = frozenset(cards)
        self._samples = 0
        self._watts: list[float] = []

    def sample(self, readings: Iterable[Card], now: float) -> None:
        """One sample more; unknown unless every one of the cards has a recent reading with its power."""
        self._samples += 1
        drawn = [
            card.power_mw / 1000
            for card in readings
            if card.uuid in self._cards and card.power_mw is not None and now - card.read_at < READING_MAX_AGE_S
        ]
        if len(drawn) == len(self._cards):
            self._watts.append(sum(drawn))

    def energy_j(self, seconds: float) -> float | None:
        """Joules drawn in so many seconds; None where too little is known, as on simulated cards."""
        if not self._watts or len(self._watts) < KNOWN_SHARE * self._samples:
            return None
        return round(sum(self._watts) / len(self._watts) * seconds, 1)
