"""Whether the outside services answer: Slack as the bot last found it, the language model as the agent did."""

from __future__ import annotations

from lab.run import Record
from lab.store import PREFIX, Client

KEY = f"{PREFIX}beacons"


class Beacon(Record):
    """What was last found of one service."""

    service: str
    """`Slack`, `the language model`"""
    problem: str | None = None
    """Why it does not answer; None when it does."""
    at: float
    """Seconds since the epoch."""
    every_s: float | None = None
    """It is told so often, so that silence means something too; None for one that is told now and then."""


def tell(client: Client, service: str, problem: str | None, now: float, every_s: float | None = None) -> None:
    """The service was found so; raises what the client raises."""
    client.hset(KEY, service, Beacon(service=service, problem=problem, at=now, every_s=every_s).model_dump_json())


def forget(client: Client, service: str) -> None:
    """Nobody talks to the service any more, and that is in order."""
    client.hdel(KEY, service)


def all_of(client: Client) -> list[Beacon]:
    """Every service that was ever told of, by name; one that cannot be read is left out."""
    found = []
    for _, text in sorted(client.hgetall(KEY).items()):
        try:
            found.append(Beacon.model_validate_json(text))
        except ValueError:  # of another version
            continue
    return found
