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


def test_a_release_with_a_time_ends_by_itself() -> None:
    order = KeeperOrder(verb="release", until=100.0)

    assert order.releases(99.0)
    assert not order.releases(100.0)
    assert KeeperOrder(verb="release").releases(1e12)
    assert not KeeperOrder(verb="hold").releases(0.0)
