"""Tokens and money of the language model: by day and by person, and when a budget is used up."""

from __future__ import annotations

import pytest

from lab import meter, tally
from lab.meter import LAB, Budget
from lab.run import Spent
from lab.settings import ModelSettings
from lab.store import Client

NOON = 1_800_000_000.0 - 1_800_000_000 % 86_400 + 43_200
DAY = 86_400
CALL = Spent(calls=1, tokens_in=900, tokens_out=60, money=0.5)


def test_calls_add_up_by_day_for_the_lab_and_each_person(store: Client) -> None:
    """A day is UTC's, so that agents in two places count on the same one."""
    for person, at in (("U1", NOON), ("U1", NOON + 11 * 3600), ("U2", NOON), ("U1", NOON + DAY)):
        meter.count(store, person, CALL, at)

    assert meter.spent(store, NOON, NOON) == {LAB: CALL + CALL + CALL, "U1": CALL + CALL, "U2": CALL}
    assert meter.spent(store, NOON, NOON + DAY)["U1"] == CALL + CALL + CALL
    assert meter.spent(store, NOON + 2 * DAY, NOON + 3 * DAY) == {}


def test_unknown_money_stays_unknown_and_estimates_stay_marked(store: Client) -> None:
    """0 would say that it was free."""
    meter.count(store, "U1", Spent(calls=1, tokens_in=10, tokens_out=2, estimated=12), NOON)

    found = meter.spent(store, NOON, NOON)["U1"]
    assert (found.money, found.estimated) == (None, 12)
    assert meter.words(found) == "1 call, 12 tokens (12 of them estimated)"
    assert meter.words(CALL + CALL) == "2 calls, 1,920 tokens, 1 in the lab's money"


def test_a_request_without_a_call_leaves_no_trace(store: Client) -> None:
    """Most are read without the model."""
    meter.count(store, "U1", Spent(), NOON)

    assert store.keys("on:meter:*") == []


@pytest.mark.parametrize(
    ("limits", "used", "over"),
    [
        ({}, 10**9, None),
        ({"daily_tokens": 961}, 960, None),
        ({"daily_tokens": 960}, 960, Budget("lab", 960)),
        ({"daily_tokens_person": 960}, 960, Budget("person", 960)),
        ({"daily_tokens": 900, "daily_tokens_person": 900}, 960, Budget("lab", 900)),
        ({"daily_tokens": 0}, 0, Budget("lab", 0)),
    ],
)
def test_a_budget_is_used_up_when_its_tokens_are(
    store: Client, limits: dict[str, int], used: int, over: Budget | None
) -> None:
    """0 switches the model off; no limit never ends."""
    if used:
        meter.count(store, "U1", Spent(calls=1, tokens_in=used), NOON)

    assert meter.used_up(store, "U1", ModelSettings(**limits), NOON) == over  # type: ignore[arg-type]
    assert limits.get("daily_tokens") == 0 or meter.used_up(store, "U1", ModelSettings(**limits), NOON + DAY) is None  # type: ignore[arg-type]


def test_the_use_of_one_person_is_not_anothers(store: Client) -> None:
    """Only the lab's budget is shared."""
    meter.count(store, "U1", CALL, NOON)
    own = ModelSettings(daily_tokens_person=100)

    assert meter.used_up(store, "U2", own, NOON) is None
    assert meter.used_up(store, "U1", own, NOON) == Budget("person", 100)


def test_it_is_said_once_a_day_to_each(store: Client) -> None:
    """A note under every answer would be read by nobody."""
    assert [meter.first_word(store, who, NOON) for who in ("U1", "U1", "U2")] == [True, False, True]
    assert meter.first_word(store, "U1", NOON + DAY)


def test_the_tally_counts_them_for_ever(store: Client) -> None:
    """For Prometheus, whose counters never go down."""
    meter.count(store, "U1", CALL, NOON)
    meter.count(store, "U2", CALL, NOON + 500 * DAY)

    assert tally.parse(store.hgetall(tally.KEY)).model == CALL + CALL
    assert tally.parse({}).model == Spent()
