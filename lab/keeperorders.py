"""What operators tell a host's keeper, to release its card or to hold it, and for how long it has held it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from lab import leases
from lab.run import Record
from lab.store import PREFIX, Client


class KeeperOrder(Record):
    """The last word to one host's keeper."""

    verb: Literal["release", "hold"]
    by: str = ""
    at: float = 0.0
    until: float | None = None
    """Seconds since the epoch when a release is over; None: when `hold` is said."""

    def releases(self, now: float) -> bool:
        """True while the card is for the runs."""
        return self.verb == "release" and (self.until is None or now < self.until)


RESUME_S = 3600
"""A keeper that is back within this time goes on counting; after it the hold begins anew."""


class Held(Record):
    """For how long a card has been held, told now and then by its keeper."""

    card: str
    held_s: float


@dataclass(frozen=True)
class Look:
    """What a keeper has to know besides its readings."""

    order: KeeperOrder | None = None
    in_use: bool = False
    """A run holds the card's lease."""


def give(client: Client, host: str, order: KeeperOrder) -> None:
    """The host's keeper follows this order within 2 s, or when it starts; earlier ones are forgotten.

    An order to hold begins the hold anew, with its hours and its cost.
    """
    with client.pipeline() as pipe:
        pipe.set(_key(host), order.model_copy(update={"at": order.at or time.time()}).model_dump_json())
        if order.verb == "hold":
            pipe.delete(_held_key(host))
        pipe.execute()


def given(client: Client, host: str) -> KeeperOrder | None:
    """The host's newest order; None when there never was one."""
    return _parsed(client.get(_key(host)))


def look(client: Client, host: str, card: str) -> Look:
    """The host's newest order, and whether a run has the card, at one moment."""
    order, lease = client.mget([_key(host), leases.key(card)])
    return Look(_parsed(order), lease is not None)


def tell_held(client: Client, host: str, card: str, held_s: float) -> None:
    """The host's card has been held for so long: the next keeper knows, if it comes within RESUME_S."""
    client.set(_held_key(host), Held(card=card, held_s=held_s).model_dump_json(), ex=RESUME_S)


def held_s(client: Client, host: str, card: str) -> float:
    """For how long the card had been held when it was last told; 0 for another card, and when that is long ago."""
    raw = client.get(_held_key(host))
    held = Held.model_validate_json(raw) if raw else None
    return held.held_s if held is not None and held.card == card else 0.0


def _held_key(host: str) -> str:
    return f"{PREFIX}keeper:{host}:held"


def _key(host: str) -> str:
    return f"{PREFIX}keeper:{host}"


def _parsed(raw: str | None) -> KeeperOrder | None:
    return KeeperOrder.model_validate_json(raw) if raw else None
