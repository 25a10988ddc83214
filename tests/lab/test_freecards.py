"""Being told when a card is free: once, of a card that dispatch would give out, and not for ever."""

from __future__ import annotations

import time

from lab import freecards, hosts
from lab.card import Card, Host, HostCards
from lab.events import STREAM
from lab.freecards import LASTS_S, CardWish
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer
from lab.store import Client

NOW = time.time()


def card(index: int, **fields: object) -> Card:
    usual = {"uuid": f"GPU-{index}", "index": index, "name": "H200", "host": "node07", "read_at": NOW}
    return Card.model_validate(usual | fields)


def publish(client: Client, *cards: Card, served: int = 9) -> None:
    hosts.publish_cards(client, HostCards(host="node07", cards=cards, published_at=NOW))
    workers = tuple(c.uuid for c in cards[:served])
    hosts.publish_host(client, Host(host="node07", version="1", cards=workers, published_at=NOW))


def told(client: Client) -> list[tuple[str, str]]:
    found = [fields for _, fields in client.xrange(STREAM) if fields["kind"] == "card.free"]
    return [(fields["conversation"], freecards.told(client, fields["subject"]) or "") for fields in found]


def test_a_wish_is_told_once_whoever_tells_it(ledger: Ledger) -> None:
    """Two alarms may look at one moment."""
    publish(ledger.client, card(0, role="keeper"))
    words = freecards.ask(ledger, "U1", "slack:T:U1:", NOW)
    (wish,) = freecards.wishes(ledger.client)

    assert words == "No card is free now. You will be told once, as soon as one is, within the next 24 hours."
    assert wish.until == NOW + LASTS_S
    assert freecards.tell(ledger.client, wish, [card(2)])
    assert not freecards.tell(ledger.client, wish, [card(2)])
    assert told(ledger.client) == [("slack:T:U1:", "Free now: GPU 2 of node07 (H200).")]
    assert freecards.wishes(ledger.client) == []


def test_a_free_card_is_told_at_once_and_nothing_is_kept(ledger: Ledger) -> None:
    publish(ledger.client, *(card(index) for index in range(5)))

    assert freecards.ask(ledger, "U1", "slack:T:U1:", NOW) == (
        "Free now: GPU 0 of node07 (H200), GPU 1 of node07 (H200), GPU 2 of node07 (H200) and 2 more."
    )
    assert freecards.wishes(ledger.client) == []


def test_a_card_for_which_runs_wait_is_not_called_free(ledger: Ledger) -> None:
    """It is given out in this very moment."""
    publish(ledger.client, card(0))
    request = ledger.submit("compare", "U1", "slack:T:C:1.1")
    assert request is not None
    plan = Plan(models=("resnet18",), dataset="digits", axes={"seed": (0,)})
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment is not None
    ledger.approve(experiment.id, "U1")

    assert freecards.ask(ledger, "U1", "slack:T:U1:", NOW).startswith("No card is free")


def test_only_cards_that_dispatch_would_give_out_are_free(ledger: Ledger) -> None:
    """Not the keeper's, not a faulty or quarantined one, none without a worker, none that nobody reads."""
    ledger.quarantine("GPU-3", "Xid 31", 60)
    publish(
        ledger.client,
        card(0),
        card(1, role="keeper"),
        card(2, xid=79),
        card(3),
        card(4, read_at=NOW - 60),
        card(5),
        served=5,
    )

    assert [c.uuid for c in freecards.free_cards(ledger, NOW)] == ["GPU-0"]


def test_a_person_has_one_wish_and_may_withdraw_it(ledger: Ledger) -> None:
    client = ledger.client
    freecards.ask(ledger, "U1", "slack:T:U1:", NOW)
    (first,) = freecards.wishes(client)
    freecards.ask(ledger, "U1", "slack:T:C:1.1", NOW, chinese=True)
    (second,) = freecards.wishes(client)

    assert not freecards.tell(client, first, [card(0)])
    assert freecards.withdraw(client, "U1") == "You will not be told of free cards."
    assert freecards.withdraw(client, "U1", chinese=True) == "没有要取消的空卡通知。"
    assert not freecards.tell(client, second, [card(0)])
    assert told(client) == []


def test_the_end_of_a_wish_is_told_too(ledger: Ledger) -> None:
    """Somebody waits for a word; silence would leave them waiting."""
    client = ledger.client
    client.hset(freecards.WISHES, "U9", '{"of": "another version"}')
    freecards.ask(ledger, "U1", "slack:T:U1:", NOW, chinese=True)
    (wish,) = freecards.wishes(client)

    assert freecards.tell(client, wish, [])
    assert told(client) == [("slack:T:U1:", "24 小时内没有空卡，通知已结束；还需要的话请再说一次。")]
    assert isinstance(wish, CardWish)
