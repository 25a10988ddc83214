"""What an operator types about the reserved card."""

from __future__ import annotations

import time

import pytest

from lab import hosts, keeperorders
from lab.card import HostCards, KeeperStatus
from lab.errors import RequestError
from lab.settings import Settings
from lab.store import Client
from terminal.keeper import document, lines, states, tell


def test_a_release_says_how_long_it_lasts_and_names_the_operator(store: Client, settings: Settings) -> None:
    hosts.publish_cards(store, HostCards(host="lab-a"))

    said = tell(store, settings, "release", None, 2.0, "ann")
    order = keeperorders.given(store, "lab-a")

    assert said == "lab-a: the reserved card is for the runs within 2 s, for 2 h"
    assert order is not None
    assert (order.verb, order.by) == ("release", "ann")
    assert order.until == pytest.approx(time.time() + 7200, abs=60)


def test_hold_takes_it_back(store: Client, settings: Settings) -> None:
    hosts.publish_cards(store, HostCards(host="lab-a"))

    tell(store, settings, "release", None, None, "ann")
    tell(store, settings, "hold", None, None, "bob")

    order = keeperorders.given(store, "lab-a")
    assert order is not None
    assert not order.releases(time.time())


def test_a_host_that_is_not_there_is_named_with_those_that_are(store: Client, settings: Settings) -> None:
    with pytest.raises(RequestError, match="is `overnight keep`"):
        tell(store, settings, "hold", None, None, "ann")
    for name in ("n1", "n2"):
        hosts.publish_cards(store, HostCards(host=name))

    with pytest.raises(RequestError, match="no host lab-a publishes its cards; --host takes one of n1, n2"):
        tell(store, settings, "hold", None, None, "ann")
    assert tell(store, settings, "hold", "n2", None, "ann").startswith("n2: ")


def test_the_status_tells_verdict_hours_and_cost(store: Client) -> None:
    status = KeeperStatus(
        card="GPU-3",
        mode="duty",
        verdict="verified",
        reason="it read 15.0 %",
        held_s=7200,
        max_hold_s=36_000,
        price_per_hour=2.5,
        cost=5.0,
    )
    hosts.publish_cards(store, HostCards(host="lab-a", keeper=status))
    hosts.publish_cards(store, HostCards(host="lab-b"))

    found = states(store)

    assert list(lines(found)) == [
        "lab-a: holding, mode duty, on GPU-3; verified (it read 15.0 %); held 2.0 of 10 h; cost 5.00 at 2.5 an hour",
        "lab-b: no keeper",
    ]
    assert document(found)[0]["keeper"]["cost"] == 5.0
