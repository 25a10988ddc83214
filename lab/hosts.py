"""What the hosts publish: cards with their readings from `overnight keep`, the rest from `overnight work`."""

from __future__ import annotations

import logging
from typing import TypeVar

from lab.card import Host, HostCards
from lab.store import PREFIX, Client

log = logging.getLogger(__name__)

H = TypeVar("H", Host, HostCards)

HOST_TTL_S = 60
"""A host that has not published for so long is not up."""
CARDS_TTL_S = 600
"""Readings outlive their use (15 s) so that people see how old they are, not an empty table."""


def publish_host(client: Client, host: Host) -> None:
    """The host's own statement is replaced."""
    _publish(client, "host", host.host, host.model_dump_json(), HOST_TTL_S)


def publish_cards(client: Client, cards: HostCards) -> None:
    """The host's readings are replaced."""
    _publish(client, "cards", cards.host, cards.model_dump_json(), CARDS_TTL_S)


def hosts(client: Client) -> list[Host]:
    """Every host that is up, by name."""
    return _readable(Host, _values(client, "host"))


def cards(client: Client) -> list[HostCards]:
    """The last readings of every host, by name."""
    return _readable(HostCards, _values(client, "cards"))


def cards_of(client: Client, name: str) -> HostCards | None:
    """One host's last readings; None when it has published none of late."""
    raw = client.get(f"{PREFIX}cards:{name}")
    found = _readable(HostCards, [raw] if raw else [])
    return found[0] if found else None


def withdraw_host(client: Client, name: str) -> None:
    """The host says itself that it is down."""
    client.delete(f"{PREFIX}host:{name}")


def withdraw_cards(client: Client, name: str) -> None:
    """The host's readings end with the process that took them."""
    client.delete(f"{PREFIX}cards:{name}")


def _publish(client: Client, kind: str, name: str, value: str, ttl_s: int) -> None:
    with client.pipeline() as pipe:
        pipe.set(f"{PREFIX}{kind}:{name}", value, ex=ttl_s)
        pipe.sadd(f"{PREFIX}names:{kind}", name)  # dispatch asks often, and a scan would read every key of the lab
        pipe.execute()


def _readable(cls: type[H], values: list[str]) -> list[H]:
    """What can be read; a host of another version must not stop all others."""
    found = []
    for raw in values:
        try:
            found.append(cls.model_validate_json(raw))
        except ValueError as error:
            log.debug("a host's %s cannot be read: %s", cls.__name__, str(error).splitlines()[0])
    return found


def _values(client: Client, kind: str) -> list[str]:
    names = sorted(client.smembers(f"{PREFIX}names:{kind}"))
    return [raw for raw in client.mget([f"{PREFIX}{kind}:{name}" for name in names]) if raw] if names else []
