"""What an operator says to a host's keeper."""

from __future__ import annotations

from lab import keeperorders, leases
from lab.keeperorders import KeeperOrder, Look
from lab.store import Client


def test_the_newest_order_counts_and_the_lease_shows_a_run(store: Client) -> None:
    nothing = keeperorders.look(store, "lab-a", "GPU-3")
    keeperorders.give(store, "lab-a", KeeperOrder(verb="release", by="ann", at=5.0))
    keeperorders.give(store, "lab-a", KeeperOrder(verb="hold", by="bob", at=6.0))
    store.set(leases.key("GPU-3"), "{}")

    assert nothing == Look(None, False)
    assert keeperorders.look(store, "lab-a", "GPU-3") == Look(KeeperOrder(verb="hold", by="bob", at=6.0), True)
    assert keeperorders.given(store, "lab-b") is None


def test_the_time_a_card_was_held_outlasts_its_keeper_for_an_hour(store: Client) -> None:
    """Else every restart would begin keeper.max_hold_hours, and the cost, anew."""
    keeperorders.tell_held(store, "lab-a", "GPU-3", 7200.0)

    assert keeperorders.held_s(store, "lab-a", "GPU-3") == 7200.0
    assert keeperorders.held_s(store, "lab-a", "GPU-4") == 0.0
    assert keeperorders.held_s(store, "lab-b", "GPU-3") == 0.0
    assert 0 < store.ttl("on:keeper:lab-a:held") <= keeperorders.RESUME_S
    keeperorders.give(store, "lab-a", KeeperOrder(verb="release"))
    assert keeperorders.held_s(store, "lab-a", "GPU-3") == 7200.0
    keeperorders.give(store, "lab-a", KeeperOrder(verb="hold"))
    assert keeperorders.held_s(store, "lab-a", "GPU-3") == 0.0


def test_a_release_with_a_time_ends_by_itself() -> None:
    order = KeeperOrder(verb="release", until=100.0)

    assert order.releases(99.0)
    assert not order.releases(100.0)
    assert KeeperOrder(verb="release").releases(1e12)
    assert not KeeperOrder(verb="hold").releases(0.0)
