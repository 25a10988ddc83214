"""What operators tell a host's keeper: to release its card to the runs, or to hold it; the newest word counts."""

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


@dataclass(frozen=True)
class Look:
    """What a keeper has to know besides its readings."""

    order: KeeperOrder | None = None
    in_use: bool = False
    """A run holds the card's lease."""


def give(client: Client, host: str, order: KeeperOrder) -> None:
    """The host's keeper follows this order within 2 s, or when it starts; earlier ones are forgotten."""
    client.set(_key(host), order.model_copy(update={"at": order.at or time.time()}).model_dump_json())


def given(client: Client, host: str) -> KeeperOrder | None:
    """The host's newest order; None when there never was one."""
    return _parsed(client.get(_key(host)))


def look(client: Client, host: str, card: str) -> Look:
    """The host's newest order, and whether a run has the card, at one moment."""
    order, lease = client.mget([_key(host), leases.key(card)])
    return Look(_parsed(order), lease is not None)


def _key(host: str) -> str:
    return f"{PREFIX}keeper:{host}"


def _parsed(raw: str | None) -> KeeperOrder | None:
    return KeeperOrder.model_validate_json(raw) if raw else None
