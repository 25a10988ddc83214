"""Which run starts next, and where: pure, from what waits and what is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.card import Card
from lab.plan import PRIORITIES
from lab.run import Run


@dataclass(frozen=True)
class Offer:
    """What a host can take now.

    Attributes:
        free: its free cards, in its own order.
        capacity: cards that it could give to one run if none were busy.
        templates: names of the templates it has.
        datasets: names of the data sets it has.
    """

    host: str
    free: tuple[Card, ...]
    capacity: int
    templates: frozenset[str]
    datasets: frozenset[str]


@dataclass(frozen=True)
class Binding:
    """A run and the cards of one host that it gets."""

    run: Run
    cards: tuple[Card, ...]


def choose(queued: Sequence[Run], offers: Sequence[Offer]) -> list[Binding]:
    """Who starts now: priority, then age, then number; a run of several cards gets all of them on one host, or waits.

    A run that waits for several cards keeps back the free cards of the host that has most of them, so that runs of
    one card cannot starve it.
    """
    free = {offer.host: list(offer.free) for offer in offers}
    bindings = []
    for run in sorted(queued, key=order):
        if not any(free.values()):
            break
        fitting = [offer for offer in offers if fits(run, offer)]
        if not fitting:
            continue
        best = max(
            fitting, key=lambda offer: (_enough(run, free[offer.host]), offer.host == run.host, len(free[offer.host]))
        )
        cards = free[best.host]
        if len(cards) >= run.gpus:
            bindings.append(Binding(run, tuple(cards[: run.gpus])))
            del cards[: run.gpus]
        elif run.gpus > 1:
            cards.clear()
    return bindings


def order(run: Run) -> tuple[int, float, str, int]:
    """Sort key: whoever comes first starts first."""
    return -PRIORITIES.index(run.priority), run.queued_at, run.experiment_id, run.number


def fits(run: Run, offer: Offer) -> bool:
    """True when the host could run it: it has the template, the data set and as many cards."""
    has_data = run.point.dataset is None or run.point.dataset in offer.datasets
    return has_data and run.template in offer.templates and run.gpus <= offer.capacity


def why_waiting(run: Run, offers: Sequence[Offer]) -> str | None:
    """Why no host could ever take the run, as a phrase for people; None when one could."""
    if not offers or any(fits(run, offer) for offer in offers):
        return None
    with_template = [offer for offer in offers if run.template in offer.templates]
    if not with_template:
        return f"no host has the template {run.template}"
    with_data = [offer for offer in with_template if run.point.dataset is None or run.point.dataset in offer.datasets]
    if not with_data:
        return f"no host has the data set {run.point.dataset}"
    return f"no host has {run.gpus} usable cards"


def _enough(run: Run, cards: Sequence[Card]) -> bool:
    return len(cards) >= run.gpus
