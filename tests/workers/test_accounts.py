"""What the dispatcher knows of users and lengths."""

from __future__ import annotations

import logging
import time

import pytest

from lab.leases import Leases
from lab.ledger import Ledger
from lab.run import Progress, Run, RunResult
from tests.workers.under_test import Lab
from workers.accounts import Accounts


def started(lab: Lab, run_id: str, card: str) -> Run:
    """The run runs as its first attempt on one card."""
    ledger = lab.ledger
    bound = ledger.bind(run_id, (card,), "lab-a", 0)
    lease = Leases(lab.client, 60).claim(run_id, bound.dispatches, (card,), "test")
    assert lease
    return ledger.start(run_id, lease.fence, pid=1)


def test_ended_runs_teach_the_length_of_the_next_and_the_error_is_logged(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    """Estimates can only be trusted by those who see how right they were."""
    experiment = lab.approve(seeds=3, steps=2)
    accounts, now = Accounts(lab.ledger), time.time()
    for number in (1, 2):
        run = started(lab, f"{experiment.id}/{number}", f"c{number}")
        accounts.update([run], now)
        lab.ledger.finish(run.id, run.fence, RunResult())
        with caplog.at_level(logging.INFO):
            accounts.update([], now)
    queued = lab.ledger.run(f"{experiment.id}/3")

    prediction = accounts.lengths([queued])[queued.id]

    assert prediction.basis == "from 2 earlier runs"
    assert f"{experiment.id}/2: took" in caplog.text
    assert f"{experiment.id}/1: took" not in caplog.text  # nothing had been known to predict it from


def test_a_new_leader_knows_what_the_last_one_knew(lab: Lab, ledger: Ledger) -> None:
    """Both lengths and usage come from the ledger."""
    experiment = lab.approve(seeds=2, steps=2)
    run = started(lab, f"{experiment.id}/1", "c1")
    time.sleep(0.05)
    ledger.finish(run.id, run.fence, RunResult())

    accounts = Accounts(ledger)
    accounts.open()
    accounts.open()

    assert 0.04 < accounts.usage.at(time.time())["U1"] < 5
    assert accounts.lengths([ledger.run(f"{experiment.id}/2")])


def test_cards_are_charged_while_they_are_held_and_steps_tell_the_length(lab: Lab, ledger: Ledger) -> None:
    """From the start of the attempt on, also for a leader that came later."""
    experiment = lab.approve(steps=2)
    run = started(lab, f"{experiment.id}/1", "c1")
    at = run.started_at or 0.0
    ledger.report_progress(run.id, run.fence, Progress(step=50, steps_total=100, at=at + 108))

    accounts = Accounts(ledger)
    accounts.update([run], at + 60)
    accounts.update([run], at + 100)

    assert accounts.usage.at(at + 100) == {"U1": pytest.approx(100.0, abs=0.01)}
    assert accounts.lengths([])[run.id].p50_s == pytest.approx(208.0, abs=0.1)
