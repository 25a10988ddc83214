"""Cures of real trainings: a loss that really diverges, memory that really ends, and what a cured run is worth."""

from __future__ import annotations

import json
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from agent import report as reports
from lab.card import Card
from lab.plan import Plan
from lab.report import to_markdown
from lab.run import Run, RunResult, RunSpec, RunState
from lab.settings import Settings
from tests.workers.under_test import Lab, until
from workers import job
from workers.checkpoint import save
from workers.job import Post, run_attempt, take_post
from workers.templates import vision
from workers.templates.attempt import Attempt
from workers.templates.params import VisionParams

CARD = Card(uuid="SIM-lab-a-0", index=0, name="Simulated card", host="lab-a", simulated=True)
PLAIN = {"optimizer": "sgd", "batch_size": 128, "val_share": 0.5}
"""test_vit has no batch norm: its loss really ends in NaN, and parts of a batch give exactly the batch's gradient."""


@pytest.fixture(autouse=True)
def _post(settings: Settings) -> Iterator[None]:
    """This process is a worker of card 0."""
    take_post(Post(settings, "lab-a.0.test", CARD, threads=1))
    job.stop_asked.clear()
    yield
    job.stop_asked.clear()


def approved(lab: Lab, epochs: int = 2, model: str = "test_vit", **params: Any) -> str:
    """Id of a queued vision run."""
    axes = {name: (value,) for name, value in ({"seed": 0} | PLAIN | params).items()}
    plan = Plan(template="vision", models=(model,), dataset="digits", epochs=epochs, axes=axes)
    return f"{lab.approve_plan(plan).id}/1"


def attempt(lab: Lab, run_id: str) -> Run:
    """The queued run has had its next attempt."""
    run = lab.ledger.bind(run_id, (CARD.uuid,), "lab-a", 0)
    run_attempt(run.id, run.dispatches, [CARD.uuid])
    return lab.ledger.run(run_id)


def carried_out(lab: Lab, run_id: str) -> Run:
    """The run after as many attempts as it wants."""
    run = lab.ledger.run(run_id)
    while run.state is RunState.QUEUED:
        run = attempt(lab, run_id)
    return run


class Never:
    asked = False

    def save_wanted(self) -> bool:
        return False


class AfterSteps(Never):
    """Asks to stop after so many steps."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    @property
    def asked(self) -> bool:  # type: ignore[override]
        self._left -= 1
        return self._left < 0


def train(folder: Path, number: int = 1, stop: Any = None, epochs: int = 2, **params: Any) -> RunResult | None:
    """One attempt of the template in this process, from the checkpoints of the one before."""
    folder.mkdir(exist_ok=True)
    earlier = str(folder / f"attempt-{number - 1}" / "checkpoints") if number > 1 else None
    spec = RunSpec(
        run_id="exp-1/1",
        template="vision",
        model="test_vit",
        dataset="digits",
        device="cpu",
        threads=1,
        epochs=epochs,
        params={"lr": 0.05} | PLAIN | params,
        checkpoint_dir=earlier,
    )
    (folder / "spec.json").write_text(spec.model_dump_json())
    (folder / f"attempt-{number}").mkdir()
    it = Attempt(folder / f"attempt-{number}")
    return vision.train(it, it.params(VisionParams), stop or Never())


def test_a_loss_that_diverges_is_cured_by_a_lower_rate(lab: Lab) -> None:
    """At lr 1 the loss is NaN at step 13 of 16, and at half of it too from step 8, whose weights are astray already:
    only from the beginning does the lower rate help."""
    run = carried_out(lab, approved(lab, lr=1.0))

    assert run.state is RunState.FINISHED
    assert run.cures[0] == "nan_loss/lower_lr"
    assert run.overrides["lr"] in (0.5, 0.25, 0.125)
    assert run.changes[0] == "lr halved to 0.5 after the loss was NaN"
    assert run.result
    assert run.result.metrics["train_loss"] is not None


def test_a_batch_in_parts_trains_as_the_whole_one(tmp_path: Path) -> None:
    """The cure of an OOM, applied half-way: the result is that of the plan up to rounding."""
    whole = train(tmp_path / "whole")
    train(tmp_path / "cured", stop=AfterSteps(5))
    cured = train(tmp_path / "cured", number=2, grad_accum_steps=4)

    assert whole
    assert cured
    assert any("resumed at step" in warning for warning in cured.warnings)
    assert cured.metrics["val_loss"] == pytest.approx(whole.metrics["val_loss"], rel=1e-4)


def test_skipped_steps_change_no_weight_wherever_the_run_was_resumed(tmp_path: Path) -> None:
    """The same steps are skipped in one go and after a stop: the runs end alike to the last digit."""
    once = train(tmp_path / "once", skip_steps="7-9,12-12")
    train(tmp_path / "resumed", stop=AfterSteps(5))
    resumed = train(tmp_path / "resumed", number=2, skip_steps="7-9,12-12")
    every = train(tmp_path / "every", skip_steps="1-16")

    assert once
    assert resumed
    assert resumed.metrics == once.metrics
    assert every  # nothing was trained: there is no training loss, and the net guesses
    assert every.metrics["train_loss"] is None
    assert (every.metrics["val_acc"] or 0) < 0.3


def test_a_paused_training_ends_as_one_that_was_not(lab: Lab, tmp_path: Path) -> None:
    """A checkpoint when asked, then a pause, then the rest: the same numbers as in one go."""
    run_id = approved(lab, epochs=12, lr=0.05)
    thread = threading.Thread(target=attempt, args=(lab, run_id))
    thread.start()
    until(lambda: lab.ledger.progress([run_id]), within_s=60)
    lab.ledger.wish(run_id, "checkpoint", "U1")
    until(lambda: lab.ledger.run(run_id).wish is None)
    lab.ledger.wish(run_id, "pause", "U1")
    thread.join(30)
    paused = lab.ledger.run(run_id)
    lab.ledger.resume(run_id, "U1")
    done = attempt(lab, run_id)
    undisturbed = train(tmp_path, epochs=12)

    assert paused.state is RunState.PAUSED
    assert done.result
    assert undisturbed
    assert done.result.metrics == undisturbed.metrics


@pytest.mark.parametrize("damage", ["cut short", "of another shape"])
def test_a_checkpoint_that_cannot_be_used_costs_only_its_own_steps(lab: Lab, damage: str) -> None:
    """Paused, the newest checkpoint spoilt, resumed: the run goes on from the one before, and the report says so."""
    run_id = approved(lab, epochs=12, lr=0.05)
    thread = threading.Thread(target=attempt, args=(lab, run_id))
    thread.start()
    until(lambda: lab.ledger.progress([run_id]), within_s=60)
    lab.ledger.wish(run_id, "checkpoint", "U1")
    until(lambda: lab.ledger.run(run_id).wish is None)
    lab.ledger.wish(run_id, "pause", "U1")
    thread.join(30)
    *_, before, newest = sorted((lab.settings.runs_dir / run_id / "attempt-1" / "checkpoints").glob("step-*"))
    if damage == "cut short":
        os.truncate(newest, newest.stat().st_size // 2)
        why = "is damaged or cut short"
    else:
        why = reshaped(newest)

    lab.ledger.resume(run_id, "U1")
    done = attempt(lab, run_id)

    report, _ = reports.build(lab.ledger.experiment(done.experiment_id), [done], 0.0)
    told = to_markdown(report).replace("\\", "")
    assert done.state is RunState.FINISHED
    assert why in told
    assert f"resumed at step {int(before.name[5:14])} from {before.name}" in told


def reshaped(path: Path) -> str:
    """One tensor of the checkpoint has another shape, under a name that is whole; returns what is wrong with it."""
    state = torch.load(path, weights_only=True)
    name = next(iter(state["model"]))
    state["model"][name] = torch.zeros(3, 3)
    path.unlink()
    save(path.parent, int(path.name[5:14]), lambda file: torch.save(state, file), suffix="pt")  # type: ignore[arg-type]
    return f"does not fit: {name} is [3, 3] in it"


def test_host_memory_that_really_ends_is_named_and_met_with_less_loading(lab: Lab) -> None:
    """The whole attempt under a limit of address space, as a cgroup would set it on memory."""
    run_id = approved(lab, model="test_resnet", lr=0.01, batch_size=898, image_size=512)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
        attempt(lab, run_id)
        os._exit(0)
    os.waitpid(child, 0)

    run = lab.ledger.run(run_id)
    assert (run.state, run.cures) == (RunState.QUEUED, ("oom_host/fewer_workers",))
    assert run.overrides == {"num_workers": 2}


def test_a_checkpoint_of_another_shape_gives_way_to_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody copied one in, or the template changed: an hour is lost, not the night."""
    train(tmp_path, stop=AfterSteps(12))
    folder = tmp_path / "attempt-1" / "checkpoints"
    why = reshaped(max(folder.glob("step-*")))

    with caplog.at_level("WARNING"):
        done = train(tmp_path, number=2)

    assert done
    assert why in caplog.text
    assert any("resumed at step 8" in warning for warning in done.warnings)


def test_the_trainer_says_which_steps_it_left_out(tmp_path: Path) -> None:
    """Whoever reads the log finds them, and the result carries them."""
    result = train(tmp_path, skip_steps="3-4")

    assert result
    assert "steps 3-4 were left out" in result.warnings
    losses = [json.loads(line) for line in (tmp_path / "attempt-1" / "metrics.jsonl").read_text().splitlines()]
    assert losses[-1]["step"] == 16
