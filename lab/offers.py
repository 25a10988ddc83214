"""Designs that a conversation was offered, until one of them is picked: by the next message, or by a button."""

from __future__ import annotations

from lab.run import Design, Record
from lab.store import PREFIX, Client

OFFER_S = 7 * 86_400
"""An offer that nobody took is forgotten after so long; its figures would be stale."""


class Offer(Record):
    """What was offered in a conversation last."""

    request_id: str
    user: str
    """Who asked, and may pick."""
    designs: tuple[Design, ...]


def offer(client: Client, conversation: str, made: Offer) -> None:
    """These designs can be picked in the conversation, and no earlier ones any more."""
    with client.pipeline() as pipe:
        pipe.delete(_key(conversation))
        pipe.hset(_key(conversation), "offer", made.model_dump_json())
        pipe.expire(_key(conversation), OFFER_S)
        pipe.execute()


def offered(client: Client, conversation: str) -> Offer | None:
    """What can be picked in the conversation, or was; None where nothing was offered of late."""
    found = client.hget(_key(conversation), "offer")
    return Offer.model_validate_json(found) if found else None


def pick(client: Client, conversation: str, by_request: str) -> str:
    """The request that picks, the first one for ever: another one that comes later is told of it."""
    client.hsetnx(_key(conversation), "picked_by", by_request)
    return str(client.hget(_key(conversation), "picked_by"))


def withdraw(client: Client, conversation: str) -> None:
    """Nothing is on offer in the conversation: it talks of something else now."""
    client.delete(_key(conversation))


def _key(conversation: str) -> str:
    return f"{PREFIX}offer:{conversation}"
