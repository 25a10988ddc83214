"""Designs that a conversation was offered, until one of them is picked: by the next message, or by a button."""

from __future__ import annotations

from lab.run import Design, Record
from lab.store import PREFIX, Client

OFFER_S = 7 * 86_400
"""An offer that nobody took is forgotten after so long; its figures would be stale."""
ELSEWHERE_S = 86_400
"""So long a person may pick from another conversation of the same place: a `2` typed beside the thread."""


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
        pipe.set(_newest(conversation, made.user), conversation, ex=ELSEWHERE_S)
        pipe.execute()


def offered(client: Client, conversation: str) -> Offer | None:
    """What can be picked in the conversation, or was; None where nothing was offered of late."""
    found = client.hget(_key(conversation), "offer")
    return Offer.model_validate_json(found) if found else None


def beside(client: Client, conversation: str, user: str) -> str | None:
    """The conversation of the person's newest offer in the same place; None where this one is about something else.

    In a direct message each line that is no reply begins a conversation, and people type `2` there.
    """
    if client.exists(_about(conversation)):
        return None
    found = client.get(_newest(conversation, user))
    return str(found) if found else None


def moved_on(client: Client, conversation: str, user: str) -> None:
    """The person talks of something else in this place: a number in it is no pick from elsewhere any more."""
    with client.pipeline() as pipe:
        pipe.set(_about(conversation), user, ex=ELSEWHERE_S)
        pipe.delete(_newest(conversation, user))
        pipe.execute()


def pick(client: Client, conversation: str, by_request: str) -> str:
    """The request that picks, the first one for ever: another one that comes later is told of it."""
    client.hsetnx(_key(conversation), "picked_by", by_request)
    return str(client.hget(_key(conversation), "picked_by"))


def withdraw(client: Client, conversation: str) -> None:
    """Nothing is on offer in the conversation: it talks of something else now."""
    client.delete(_key(conversation))


def _key(conversation: str) -> str:
    return f"{PREFIX}offer:{conversation}"


def _about(conversation: str) -> str:
    """Exists while the conversation is known to be about something else."""
    return f"{PREFIX}offer:about:{conversation}"


def _newest(conversation: str, user: str) -> str:
    """The place is what the conversation's name has before its last part, by which a face tells threads apart."""
    return f"{PREFIX}offer:newest:{conversation.rpartition(':')[0]}:{user}"
