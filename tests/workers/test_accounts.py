"""What the dispatcher knows of users: who used how much."""

from __future__ import annotations

import time

import pytest

from lab.ledger import Ledger
from lab.lengths import Machines
from lab.run import RunResult, Usage
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


def test_cards_are_charged_while_they_are_held(lab: Lab, ledger: Ledger) -> None:
    """From the start of the attempt on, also for a leader that came later."""
    run = started(lab, f"{lab.approve(steps=2).id}/1", "c1")
    at = run.started_at or 0.0

    accounts = Accounts(ledger)
    accounts.update([run], at + 60, NOWHERE)
    accounts.update([run], at + 100, NOWHERE)

    assert accounts.usage.at(at + 100) == {"U1": pytest.approx(100.0, abs=0.01)}
