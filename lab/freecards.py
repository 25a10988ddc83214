"""Who wants to be told when a card is free: a wish a person, kept in Redis, told once, and over after a day."""

from __future__ import annotations

from collections.abc import Sequence

from redis.client import Pipeline

from lab import events, hosts
from lab.card import Card
from lab.cardtable import free
from lab.events import Event
from lab.ledger import Ledger
from lab.run import Record
from lab.store import PREFIX, Client

WISHES = f"{PREFIX}cardwishes"
LASTS_S = 86_400.0
TOLD_S = 7 * 86_400
"""For so long it is known what was told."""
NAMED = 3
"""Cards that are named; the others are counted."""


class CardWish(Record):
    """One person's wish."""

    id: str
    """`cw-3`"""
    user: str
    conversation: str
    """Where it is told."""
    until: float
    chinese: bool = False


def ask(ledger: Ledger, user: str, conversation: str, now: float, *, chinese: bool = False) -> str:
    """The person will be told, or is told at once where a card is free that nobody waits for; the words for that.

    A person has one wish; an earlier one gives way to it.
    """
    found = [] if ledger.waiting() else free_cards(ledger, now)
    if found:
        return free_words(found, chinese)
    client = ledger.client
    wish = CardWish(
        id=f"cw-{client.incr(f'{PREFIX}seq:cw')}",
        user=user,
        conversation=conversation,
        until=now + LASTS_S,
        chinese=chinese,
    )
    client.hset(WISHES, user, wish.model_dump_json())
    if chinese:
        return "现在没有空卡。24 小时内一有空卡就通知你，只通知一次。"
    return "No card is free now. You will be told once, as soon as one is, within the next 24 hours."


def withdraw(client: Client, user: str, *, chinese: bool = False) -> str:
    """The person will not be told; the words for that."""
    if client.hdel(WISHES, user):
        return "好的，有空卡也不再通知。" if chinese else "You will not be told of free cards."
    return "没有要取消的空卡通知。" if chinese else "You had not asked to be told of free cards."


def wishes(client: Client) -> list[CardWish]:
    """Every wish that is still to be told; one that cannot be read is left out."""
    found = []
    for text in client.hvals(WISHES):
        try:
            found.append(CardWish.model_validate_json(text))
        except ValueError:  # of another version
            continue
    return found


def free_cards(ledger: Ledger, now: float) -> list[Card]:
    """The cards that dispatch would give out now: free, in no quarantine, on a host whose workers are up."""
    served = {card for host in hosts.hosts(ledger.client) for card in host.cards}
    found = [c for c in free(hosts.cards(ledger.client), ledger.card_uses(), now) if c.uuid in served]
    quarantined = ledger.quarantined(card.uuid for card in found)
    return [card for card in found if card.uuid not in quarantined]


def tell(client: Client, wish: CardWish, cards: Sequence[Card]) -> bool:
    """The wish is used up, and its person is told: of these cards, or that its time is over where there are none.

    Once, whoever tells; False when it was told or withdrawn already.
    """
    text = free_words(cards, wish.chinese) if cards else _over_words(wish.chinese)

    def write(pipe: Pipeline) -> bool:
        there = pipe.hget(WISHES, wish.user)
        if there is None or CardWish.model_validate_json(there).id != wish.id:
            return False
        pipe.multi()
        pipe.hdel(WISHES, wish.user)
        pipe.set(_told_key(wish.id), text, ex=TOLD_S)
        events.write(pipe, Event(kind="card.free", subject=wish.id, conversation=wish.conversation))
        return True

    done: bool = client.transaction(write, WISHES, value_from_callable=True)
    return done


def told(client: Client, wish_id: str) -> str | None:
    """What was told of the wish; None when it waits, was withdrawn, or that is long ago."""
    found: str | None = client.get(_told_key(wish_id))
    return found


def free_words(cards: Sequence[Card], chinese: bool) -> str:
    """`GPU 2 of node07 (NVIDIA H200) is free.`"""
    rest = len(cards) - NAMED
    if chinese:
        named = "、".join(f"{card.host} 的 GPU {card.index}（{card.name}）" for card in cards[:NAMED])
        return f"有空卡：{named}{f'，另有 {rest} 张' if rest > 0 else ''}。"
    named = ", ".join(f"GPU {card.index} of {card.host} ({card.name})" for card in cards[:NAMED])
    return f"Free now: {named}{f' and {rest} more' if rest > 0 else ''}."


def _over_words(chinese: bool) -> str:
    if chinese:
        return "24 小时内没有空卡，通知已结束；还需要的话请再说一次。"
    return "No card was free within 24 hours, and you will not be told of later ones; ask again if you want to be."


def _told_key(wish_id: str) -> str:
    return f"{PREFIX}notice:{wish_id}"
