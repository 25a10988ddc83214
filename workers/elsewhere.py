"""Which of the free cards a run does not get: one that is in quarantine, on a full host, or that it should avoid."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from lab.card import Card
from lab.run import Run
from workers.choice import Binding, Offer, fits


def waits_for_another(run: Run, offers: Sequence[Offer], usable: Iterable[Card]) -> bool:
    """True when no card that is free suits the run, and some other one that is busy now would.

    Args:
        usable: the cards that can train, busy or not, those in quarantine left out.
    """
    if not run.avoid:
        return False
    if any(_suits(run, offer, offer.free) for offer in offers):
        return False
    cards = list(usable)
    return any(_suits(run, offer, [card for card in cards if card.host == offer.host]) for offer in offers)


def steered(bindings: Sequence[Binding], offers: Sequence[Offer]) -> list[Binding]:
    """The same runs, moved off the cards that they should avoid: on their host, else on another one.

    A run whose better card went to somebody else is left out: it waits for the next that is free.
    """
    taken = {card.uuid for binding in bindings for card in binding.cards}
    spare = {offer.host: [card for card in offer.free if card.uuid not in taken] for offer in offers}
    moved = [_moved(binding, offers, spare) for binding in bindings]
    return [b for b in moved if not _avoided(b) or not any(_suits(b.run, o, o.free) for o in offers)]


def _moved(binding: Binding, offers: Sequence[Offer], spare: dict[str, list[Card]]) -> Binding:
    """The binding on better cards, which are then no longer spare; as it was when there are none."""
    if not _avoided(binding):
        return binding
    run, home = binding.run, binding.cards[0].host
    spare[home] = [*binding.cards, *spare[home]]
    better = [offer for offer in offers if _suits(run, offer, spare[offer.host])]
    host = max(better, key=lambda offer: offer.host == home, default=None)
    cards = tuple(_good(run, spare[host.host])[: run.gpus]) if host else binding.cards
    for left in (home, cards[0].host):
        spare[left] = [card for card in spare[left] if card not in cards]
    return replace(binding, cards=cards)


def _avoided(binding: Binding) -> bool:
    return any(card.uuid in binding.run.avoid for card in binding.cards)


def _suits(run: Run, offer: Offer, cards: Collection[Card]) -> bool:
    return fits(run, offer) and len(_good(run, cards)) >= run.gpus


def _good(run: Run, cards: Collection[Card]) -> list[Card]:
    return [card for card in cards if card.uuid not in run.avoid]
