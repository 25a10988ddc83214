"""The trials of a search as the ledger tells them."""

from __future__ import annotations

from typing import Any

import pytest

from lab.plan import Axis, Point, Range, Scalar
from lab.run import Run, RunResult, RunState
from lab.trials import trials_of

SPACE: dict[str, Axis] = {"lr": Range(low=1e-5, high=1e-1)}


def run(number: int, trial: int, lr: float, acc: float | None = None, **fields: Any) -> Run:
    """A run of a trial: finished where it has an accuracy, else as the fields say."""
    curve = [] if acc is None else [(1.0, acc / 2), (2.0, acc)]
    result = None if acc is None else RunResult(metrics={"val_acc": acc}, curves={"val_acc": curve})
    params: dict[str, Scalar] = {"lr": lr, "batch_size": 64, "seed": fields.pop("seed", 0)}
    state = RunState.QUEUED if acc is None else RunState.FINISHED
    return Run(
        **{
            "id": f"exp-1/{number}",
            "experiment_id": "exp-1",
            "number": number,
            "point": Point(model="resnet18", dataset="digits", params=params),
            "template": "vision",
            "queued_at": 0,
            "trial": trial,
            "state": state,
            "result": result,
        }
        | fields
    )


def test_a_trial_is_what_was_drawn_and_its_mean_over_the_seeds() -> None:
    """The sampler learns from the configuration, not from one lucky seed."""
    (trial,) = trials_of([run(1, 1, 0.1, 0.8), run(2, 1, 0.1, 0.9, seed=1)], SPACE, "val_acc")

    assert (trial.number, trial.values, trial.state) == (1, {"lr": 0.1}, "done")
    assert trial.value == pytest.approx(0.85)
    assert trial.curve == {1: pytest.approx(0.425), 2: pytest.approx(0.85)}


def test_a_trial_lives_until_its_last_seed_has_ended() -> None:
    """A mean over half of the seeds would change under the sampler."""
    (trial,) = trials_of([run(1, 1, 0.1, 0.8), run(2, 1, 0.1, seed=1)], SPACE, "val_acc")

    assert (trial.state, trial.value) == ("live", None)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"state": RunState.FAILED, "cause": "oom_gpu"}, "failed"),
        ({"state": RunState.FAILED, "cause": "nan_loss"}, "diverged"),
        ({"state": RunState.CANCELLED}, "failed"),
        ({"state": RunState.CANCELLED, "pruned_at": 2}, "pruned"),
        ({"state": RunState.FINISHED, "result": RunResult(metrics={"val_acc": None})}, "diverged"),
        ({"state": RunState.RUNNING, "pruned_at": 2}, "live"),
    ],
)
def test_how_a_run_ended_is_how_its_trial_ended(fields: dict[str, Any], state: str) -> None:
    """Divergence says something about the values, a lost card or a person's cancel does not."""
    (trial,) = trials_of([run(1, 1, 0.1, **fields)], SPACE, "val_acc")

    assert (trial.state, trial.value) == (state, None)


def test_a_retry_stands_for_the_run_that_failed() -> None:
    """One trial, once; else the study would hold the same point twice."""
    failed = run(1, 1, 0.1, state=RunState.FAILED, cause="network")
    (trial,) = trials_of([failed, run(21, 1, 0.1, 0.9, retry_of=failed.id)], SPACE, "val_acc")

    assert (trial.state, trial.value) == ("done", 0.9)


def test_runs_whose_values_are_not_drawn_are_no_trials_yet() -> None:
    """They have no point to learn from."""
    assert trials_of([run(1, 1, 0.1, to_draw=True)], SPACE, "val_acc") == []
