"""The words by which people ask to be told of a free card, and those that only sound like it."""

from __future__ import annotations

import pytest

from agent import freecard
from lab import freecards
from lab.ledger import Ledger
from lab.run import Request


def said(text: str) -> Request:
    return Request(id="req-1", text=text, user="U1", conversation="slack:T:C:1.1", created_at=0.0)


@pytest.mark.parametrize(
    "text",
    [
        "tell me when a card is free",
        "Let me know as soon as a GPU frees up please",
        "ping me when there's a free gpu",
        "could you notify me once any of the cards is available?",
        "when a gpu becomes free, tell me",
        "dm me if one of the GPUs opens up",
        "有空卡告诉我",
        "一有空闲的GPU就通知我",
        "卡空了叫我一声",
        "等有空卡了喊我",
        "显卡空闲时提醒一下我",
        "告诉我什么时候有空卡",
    ],
)
def test_a_wish_for_a_free_card_is_heard(ledger: Ledger, text: str) -> None:
    answer = freecard.answer(said(text), ledger, 100.0)

    assert answer is not None
    assert answer.kind == "reply"
    assert [(w.user, w.conversation, w.until) for w in freecards.wishes(ledger.client)] == [
        ("U1", "slack:T:C:1.1", 100.0 + freecards.LASTS_S)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "which cards are free?",
        "tell me which gpu is free",
        "tell me when exp-12 is done",
        "有空卡吗",
        "哪些卡空着",
        "告诉我 exp-3 的结果",
        "notify me when the run on gpu 3 fails",
        "free my card",
    ],
)
def test_other_words_are_none(ledger: Ledger, text: str) -> None:
    """A question about cards, or about something else to be told, has another answer."""
    assert freecard.answer(said(text), ledger) is None
    assert freecards.wishes(ledger.client) == []


@pytest.mark.parametrize(
    "text",
    [
        "don't tell me when a card is free",
        "stop pinging me when a gpu is free",
        "有空卡不用告诉我了",
        "别再通知我有空卡",
    ],
)
def test_a_wish_is_withdrawn_by_words(ledger: Ledger, text: str) -> None:
    freecard.answer(said("tell me when a card is free"), ledger)

    assert freecard.answer(said(text), ledger) is not None
    assert freecards.wishes(ledger.client) == []
