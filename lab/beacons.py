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


def tell(client: Client, service: str, problem: str | None, now: float) -> None:
    """The service was found so; raises what the client raises."""
    client.hset(KEY, service, Beacon(service=service, problem=problem, at=now).model_dump_json())


def all_of(client: Client) -> list[Beacon]:
    """Every service that was ever told of, by name; one that cannot be read is left out."""
    found = []
    for _, text in sorted(client.hgetall(KEY).items()):
        try:
            found.append(Beacon.model_validate_json(text))
        except ValueError:  # of another version
            continue
    return found
