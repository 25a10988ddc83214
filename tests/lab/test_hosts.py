"""What hosts publish is found, and ends with them."""

from __future__ import annotations

from lab import hosts
from lab.card import Host, HostCards
from lab.store import Client


def test_hosts_are_found_by_name_until_they_withdraw(store: Client) -> None:
    """Dispatch gives no card of a host that is down."""
    for name in ("b", "a"):
        hosts.publish_host(store, Host(host=name, version="1"))
        hosts.publish_cards(store, HostCards(host=name))

    hosts.withdraw_host(store, "a")
    hosts.withdraw_cards(store, "b")

    assert [host.host for host in hosts.hosts(store)] == ["b"]
    assert [cards.host for cards in hosts.cards(store)] == ["a"]


def test_a_host_that_fell_silent_is_not_up(store: Client) -> None:
    """It cannot say so itself."""
    hosts.publish_host(store, Host(host="a", version="1"))
    store.delete("on:host:a")  # as its expiry does

    assert hosts.hosts(store) == []


def test_a_host_of_another_version_hides_no_other(store: Client) -> None:
    """Hosts are not all updated in the same second."""
    for name in ("a", "b"):
        hosts.publish_host(store, Host(host=name, version="1"))
        hosts.publish_cards(store, HostCards(host=name))
    store.set("on:host:a", '{"host": 7}')
    store.set("on:cards:a", "{")

    assert [host.host for host in hosts.hosts(store)] == ["b"]
    assert [cards.host for cards in hosts.cards(store)] == ["b"]
