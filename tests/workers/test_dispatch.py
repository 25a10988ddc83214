"""Dispatch, worker and trainer together: a run's way from queued to its end."""

from __future__ import annotations

from tests.workers.under_test import Lab, until


def test_runs_go_three_at_a_time_to_the_training_cards_and_never_to_the_kept_one(lab: Lab) -> None:
    """The point of the lab: N-1 cards train, the keeper's card is not given out."""
    experiment = lab.approve(seeds=6, steps=15)
    lab.start()
    most = 0

    def watch() -> bool:
        nonlocal most
        most = max(most, len({run.card for run in lab.ledger.runs_in("running")}))
        return lab.ledger.counts(experiment.id).get("finished") == 6

    until(watch)
    runs = lab.ended(experiment)

    assert most == 3
    assert {run.card for run in runs} == {f"SIM-lab-a-{index}" for index in range(3)}
    assert all(run.result and run.result.metrics["val_acc"] for run in runs)
