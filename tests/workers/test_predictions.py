"""What the dispatcher tells of lengths, and how right it was."""

from __future__ import annotations

import logging

import pytest

from lab import tally
from lab.ledger import Ledger
from lab.lengths import Lengths, Machines
from lab.run import Progress, Run, RunResult
from tests.workers.under_test import Lab, started
from workers.predictions import Predictions

HERE = Machines({}, None, {f"c{n}": "Simulated card" for n in range(5)})


def finish(lab: Lab, run: Run, predictions: Predictions) -> None:
    """The run has its result, and the dispatcher has seen it."""
    predictions.update([run], HERE)
    lab.ledger.finish(run.id, run.fence, RunResult())
    predictions.update([], HERE)


def test_ended_runs_teach_the_length_of_the_next_and_it_is_counted_how_right_they_were_told(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    """Estimates can only be trusted by those who see how right they were."""
    experiment = lab.approve(seeds=3, steps=2)
    predictions = Predictions(lab.ledger)
    with caplog.at_level(logging.INFO):
        for number in (1, 2):
            finish(lab, started(lab, f"{experiment.id}/{number}", f"c{number}"), predictions)
    queued = lab.ledger.run(f"{experiment.id}/3")
    told = tally.parse(lab.client.hgetall(tally.KEY)).predictions

    assert predictions.lengths([queued])[queued.id].basis == "from 2 earlier runs"
    assert f"{experiment.id}/2: took" in caplog.text
    assert f"{experiment.id}/1: took" not in caplog.text  # nothing had been known to predict it from
    assert told.keys() == {"known"}
    assert told["known"].runs == 1
    assert told["known"].abs_log_error >= abs(told["known"].log_error)


def test_history_and_the_ledgers_past_are_learned_once(lab: Lab, ledger: Ledger) -> None:
    """A lab that was upgraded has runs and no history; a new leader must not count them again."""
    experiment = lab.approve(seeds=3, steps=2)
    for number in (1, 2):
        run = started(lab, f"{experiment.id}/{number}", f"c{number}")
        ledger.finish(run.id, run.fence, RunResult())
    ended = [ledger.run(f"{experiment.id}/{number}") for number in (1, 2)]
    queued = ledger.run(f"{experiment.id}/3")
    for _ in range(2):
        predictions = Predictions(ledger, ended)
        predictions.update([], HERE)

        assert predictions.lengths([queued])[queued.id].earlier == 2


def test_the_start_is_learned_apart_from_the_steps(lab: Lab, ledger: Ledger) -> None:
    """It does not grow with the epochs."""
    run = started(lab, f"{lab.approve(steps=2).id}/1", "c1")
    assert run.started_at
    predictions = Predictions(ledger)
    predictions.update([run], HERE)
    ledger.report_progress(run.id, run.fence, Progress(step=1, first_step_at=run.started_at + 0.4, at=run.started_at))
    ledger.finish(run.id, run.fence, RunResult())
    predictions.update([], HERE)
    lengths = Lengths(lab.client)

    (value,) = lab.client.lrange("on:history:startup|probe|probe|Simulated card", 0, -1)
    assert float(value) == pytest.approx(-0.916, abs=0.01)  # log(0.4)
    assert lengths.knows(predictions.known([run], {})[0].kind)


@pytest.mark.parametrize("how", ["lost", "retried"])
def test_a_run_that_did_work_twice_teaches_nothing(lab: Lab, ledger: Ledger, how: str) -> None:
    """Its length says how unlucky it was."""
    run = started(lab, f"{lab.approve(steps=2).id}/1", "c1")
    if how == "lost":
        ledger.give_back(run.id, run.fence, "its host is gone", lost=True)
    else:
        ledger.again(run.id, run.fence, "oom_gpu/halve", "batch in two parts")
    run = started(lab, run.id, "c2")
    predictions = Predictions(ledger)

    finish(lab, run, predictions)

    assert not lab.client.keys("on:history:*")


def test_a_running_run_is_told_by_its_own_steps(lab: Lab, ledger: Ledger) -> None:
    """By what its trainer reckons is left, which knows its start-up and its evaluations."""
    run = started(lab, f"{lab.approve(steps=2).id}/1", "c1")
    at = run.started_at or 0.0
    told = Progress(step=50, steps_total=100, eta_s=100.0, at=at + 108)
    ledger.report_progress(run.id, run.fence, told)
    predictions = Predictions(ledger)
    predictions.update([run], HERE)

    assert predictions.lengths([])[run.id].p50_s == pytest.approx(208.0, abs=0.1)


def test_a_run_of_a_search_is_told_by_the_values_that_were_drawn_for_it(lab: Lab) -> None:
    """Before the draw nobody knows its batch size; what was guessed then must not stand for it."""
    predictions = Predictions(lab.ledger)
    run = lab.ledger.run(f"{lab.approve(steps=2).id}/1")
    drawn = run.model_copy(update={"point": run.point.model_copy(update={"params": {"batch_size": 64}})})

    before, after = (predictions.known([one], {})[0].kind for one in (run, drawn))

    assert "batch_size=64" not in before
    assert "batch_size=64" in after
