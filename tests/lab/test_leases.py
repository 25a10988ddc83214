"""Leases: who holds a card, decided by one script on Redis' clock."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.errors import FenceError, LeaseRefused
from lab.leases import Lease, Leases
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, Progress, Run, RunResult
from lab.store import Client

CARD = ("card-a",)


def bound(ledger: Ledger, cards: tuple[str, ...] = CARD) -> Run:
    """A run that is dispatched to the cards."""
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request
    experiment = ledger.propose(request.id, Plan(template="probe", models=("probe",)), None, Answer(kind="plan"))
    assert experiment
    ledger.approve(experiment.id, "U1")
    return ledger.bind(f"{experiment.id}/1", cards, "lab-a", 0)


def test_a_claim_raises_the_fence_and_holds_the_card(store: Client, ledger: Ledger) -> None:
    """The fence tells the newest attempt, so it must move with the lease."""
    run, leases = bound(ledger), Leases(store, 10)

    lease = leases.claim(run.id, 1, CARD, "w1")

    assert lease.fence == ledger.run(run.id).fence == 1
    assert leases.held(CARD[0]) == {"run_id": run.id, "fence": 1, "holder": "w1"}


def test_of_many_claims_at_once_one_wins(store: Client, ledger: Ledger) -> None:
    """An entry may be delivered twice; two trainers of one run would spoil each other."""
    run, leases = bound(ledger), Leases(store, 10)

    def claim(worker: int) -> bool:
        try:
            leases.claim(run.id, 1, CARD, f"w{worker}")
        except LeaseRefused:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = sum(pool.map(claim, range(16)))

    assert won == 1
    assert ledger.run(run.id).fence == 1


def test_an_entry_of_an_earlier_dispatch_claims_nothing(store: Client, ledger: Ledger) -> None:
    """RQ can deliver an old entry a day later."""
    run, leases = bound(ledger), Leases(store, 10)
    ledger.give_back(run.id, 0, "no worker took it")
    ledger.bind(run.id, CARD, "lab-a", 0)

    with pytest.raises(LeaseRefused, match="bound anew"):
        leases.claim(run.id, 1, CARD, "w1")

    assert leases.claim(run.id, 2, CARD, "w1").fence == 1


def test_several_cards_are_leased_together_or_not_at_all(store: Client, ledger: Ledger) -> None:
    """Half a gang would hold a card for nothing."""
    leases = Leases(store, 10)
    leases.claim(bound(ledger, ("b",)).id, 1, ("b",), "w1")
    gang = bound(ledger, ("a", "b"))

    with pytest.raises(LeaseRefused, match="held"):
        leases.claim(gang.id, 1, ("a", "b"), "w2")

    assert leases.held("a") is None
    assert ledger.run(gang.id).fence == 0


def test_a_lease_ends_by_itself_unless_renewed(store: Client, ledger: Ledger) -> None:
    """A host that is gone must not keep a card."""
    run, leases = bound(ledger), Leases(store, 0.2)
    lease = leases.claim(run.id, 1, CARD, "w1")

    time.sleep(0.15)
    renewed = leases.renew(lease)
    time.sleep(0.15)
    held_after_renewal = leases.held(CARD[0])
    time.sleep(0.1)

    assert renewed
    assert held_after_renewal
    assert leases.held(CARD[0]) is None
    assert not leases.renew(lease)


def test_nobody_renews_or_releases_what_another_attempt_holds(store: Client, ledger: Ledger) -> None:
    """A late worker must not free the card of the attempt that came after it."""
    run, leases = bound(ledger), Leases(store, 10)
    old = leases.claim(run.id, 1, CARD, "w1")
    leases.release(old)
    ledger.give_back(run.id, 1, "lost", lost=True)
    ledger.bind(run.id, CARD, "lab-a", 0)
    new = leases.claim(run.id, 2, CARD, "w2")

    renewed = leases.renew(old)
    leases.release(old)

    assert not renewed
    assert leases.held(CARD[0]) == {"run_id": run.id, "fence": new.fence, "holder": "w2"}


def test_every_write_of_an_older_attempt_is_refused(store: Client, ledger: Ledger) -> None:
    """What a newer attempt has written must not be overwritten by one that was thought dead."""
    run, leases = bound(ledger), Leases(store, 10)
    leases.release(leases.claim(run.id, 1, CARD, "w1"))
    ledger.give_back(run.id, 1, "lost", lost=True)
    ledger.bind(run.id, CARD, "lab-a", 0)
    leases.claim(run.id, 2, CARD, "w2")

    for write in (
        lambda: ledger.start(run.id, 1, 7),
        lambda: ledger.finish(run.id, 1, RunResult()),
        lambda: ledger.fail(run.id, 1, "user_code", "no"),
        lambda: ledger.cancelled(run.id, 1, "no"),
        lambda: ledger.give_back(run.id, 1, "no"),
        lambda: ledger.report_progress(run.id, 1, Progress(step=1)),
    ):
        with pytest.raises(FenceError):
            write()
    assert ledger.run(run.id).state == "dispatched"


def test_a_lease_can_be_released_twice(store: Client) -> None:
    """Every call may be repeated."""
    lease = Lease(run_id="exp-1/1", fence=1, cards=CARD, holder="w1")

    Leases(store, 10).release(lease)
    Leases(store, 10).release(lease)

    assert Leases(store, 10).held(CARD[0]) is None
