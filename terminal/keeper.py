"""`overnight keeper`: an operator releases a host's reserved card to the runs, holds it again, or looks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from lab import hosts, keeperorders
from lab.card import HostCards, KeeperStatus
from lab.errors import RequestError
from lab.keeperorders import KeeperOrder
from lab.settings import Settings
from lab.store import Client

Verb = Literal["release", "hold"]


def tell(client: Client, settings: Settings, verb: Verb, host: str | None, hours: float | None, by: str) -> str:
    """The order is given; returns what will happen, for people.

    Raises:
        RequestError: it is not clear which host is meant, or none publishes its cards.
    """
    name = _which(hosts.cards(client), host, settings.host)
    until = time.time() + hours * 3600 if hours is not None else None
    keeperorders.give(client, name, KeeperOrder(verb=verb, by=by, until=until))
    if verb == "hold":
        return f"{name}: the keeper takes its card back, as soon as a run on it has ended"
    end = f"for {hours:g} h" if hours is not None else f"until `overnight keeper hold --host {name}`"
    return f"{name}: the reserved card is for the runs within 2 s, {end}"


def states(client: Client) -> list[tuple[str, KeeperStatus | None]]:
    """Every host with its keeper; None where none is at work."""
    return [(host.host, host.keeper) for host in hosts.cards(client)]


def document(found: Sequence[tuple[str, KeeperStatus | None]]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [{"host": host, "keeper": keeper.model_dump(mode="json") if keeper else None} for host, keeper in found]


def lines(found: Sequence[tuple[str, KeeperStatus | None]]) -> Iterator[str]:
    """The same for people."""
    if not found:
        yield "no host publishes its cards: is `overnight keep` (or `overnight up`) running on it?"
    for host, keeper in found:
        yield f"{host}: {_line(keeper)}" if keeper else f"{host}: no keeper"


def _line(keeper: KeeperStatus) -> str:
    parts = [f"{keeper.state}, mode {keeper.mode}, on {keeper.card}"]
    if keeper.released_by:
        parts.append(f"by {keeper.released_by}")
    if keeper.state not in ("released", "away"):
        parts.append(f"{keeper.verdict}{f' ({keeper.reason})' if keeper.reason else ''}")
        most = f" of {keeper.max_hold_s / 3600:g}" if keeper.max_hold_s else ""
        parts.append(f"held {keeper.held_s / 3600:.1f}{most} h")
    if keeper.cost is not None:
        parts.append(f"cost {keeper.cost:.2f} at {keeper.price_per_hour:g} an hour")
    if keeper.problem:
        parts.append(keeper.problem)
    return "; ".join(parts)


def _which(there: Sequence[HostCards], wanted: str | None, here: str) -> str:
    names = [host.host for host in there]
    if not names:
        raise RequestError("no host publishes its cards: is `overnight keep` (or `overnight up`) running on it?")
    if wanted is None:
        wanted = names[0] if len(names) == 1 else here
    if wanted not in names:
        raise RequestError(f"no host {wanted} publishes its cards; --host takes one of {', '.join(names)}")
    return wanted
