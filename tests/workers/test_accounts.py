"""What the dispatcher knows of users: who used how much."""

from __future__ import annotations

import time

import pytest

from lab import tally
from lab.ledger import Ledger
from lab.lengths import Machines
from lab.run import RunResult, Usage
from lab.usage import ended_since
from tests.workers.under_test import Lab, started
from workers.accounts import Accounts

NOWHERE = Machines({})


def test_a_new_leader_knows_what_the_last_one_knew(lab: Lab, ledger: Ledger) -> None:
    """Usage comes from the ledger, and once."""
    experiment = lab.approve(seeds=2, steps=2)
    run = started(lab, f"{experiment.id}/1", "c1")
    ledger.finish(run.id, run.fence, RunResult(usage=Usage(gpu_s=60.0)))

    accounts = Accounts(ledger)
    accounts.open()
    accounts.open()

    assert accounts.usage.at(time.time())["U1"] == pytest.approx(60.0, abs=0.01)


def test_a_new_leader_charges_what_all_attempts_used_also_of_runs_that_wait(lab: Lab, ledger: Ledger) -> None:
    """The report, `overnight usage`, the tally and the fair share must tell the same hours."""
    experiment = lab.approve(seeds=2, steps=2)
    first = started(lab, f"{experiment.id}/1", "c1")
    ledger.give_back(first.id, first.fence, "its worker died", lost=True, usage=Usage(gpu_s=40))
    again = started(lab, first.id, "c3")
    ledger.finish(first.id, again.fence, RunResult(usage=Usage(gpu_s=60)))
    waits = started(lab, f"{experiment.id}/2", "c2")
    ledger.give_back(waits.id, waits.fence, "its worker was told to stop", usage=Usage(gpu_s=30))

    accounts = Accounts(ledger)
    accounts.open()

    assert accounts.usage.at(time.time())["U1"] == pytest.approx(130.0, abs=0.01)
    assert tally.parse(ledger.client.hgetall(tally.KEY)).gpu_s == 130.0
    assert [one.usage.gpu_s for one in ended_since(ledger.client, 0)] == [100.0]


def test_a_next_attempt_is_charged_from_its_own_start(lab: Lab, ledger: Ledger) -> None:
    """A dispatched run still shows when the attempt before it began, hours ago perhaps."""
    run = started(lab, f"{lab.approve(steps=2).id}/1", "c1")
    ledger.give_back(run.id, run.fence, "its worker was told to stop", usage=Usage(gpu_s=1))
    bound = ledger.bind(run.id, ("c1",), "lab-a", 0)
    at = (bound.started_at or 0.0) + 3600

    accounts = Accounts(ledger)
    accounts.update([bound], at, NOWHERE)
    accounts.update([bound], at + 5, NOWHERE)

    assert accounts.usage.at(at + 5) == {"U1": pytest.approx(5.0, abs=0.01)}


def test_cards_are_charged_while_they_are_held(lab: Lab, ledger: Ledger) -> None:
    """From the start of the attempt on, also for a leader that came later."""
    run = started(lab, f"{lab.approve(steps=2).id}/1", "c1")
    at = run.started_at or 0.0

    accounts = Accounts(ledger)
    accounts.update([run], at + 60, NOWHERE)
    accounts.update([run], at + 100, NOWHERE)

    assert accounts.usage.at(at + 100) == {"U1": pytest.approx(100.0, abs=0.01)}
