"""One attempt, from claim to its end in the ledger."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from lab import hosts
from lab.card import Card, HostCards
from lab.cardlock import CardLock
from lab.files import replace_file
from lab.leases import Leases
from lab.run import Progress, Run, RunResult, RunSpec, RunState, Usage
from lab.settings import Settings
from tests.workers.under_test import Lab, until
from workers import job, oomkills, rundir
from workers.job import Post, run_attempt, take_post

CARD = Card(uuid="SIM-lab-a-0", index=0, name="Simulated card", host="lab-a", simulated=True)


@pytest.fixture(autouse=True)
def _post(settings: Settings) -> Iterator[None]:
    """This process is a worker of card 0."""
    take_post(Post(settings, "lab-a.0.test", CARD, threads=1))
    job.stop_asked.clear()
    yield
    job.stop_asked.clear()


def bound(lab: Lab, **params: object) -> Run:
    """A probe run that is dispatched to card 0."""
    experiment = lab.approve(**params)  # type: ignore[arg-type]
    return lab.ledger.bind(f"{experiment.id}/1", (CARD.uuid,), "lab-a", 0)


def attempt(run: Run) -> None:
    """The attempt that the run's queue entry asks for."""
    run_attempt(run.id, run.dispatches, [CARD.uuid])


def in_background(run: Run) -> threading.Thread:
    """The same beside the test."""
    thread = threading.Thread(target=attempt, args=(run,))
    thread.start()
    return thread


def test_a_finished_attempt_leaves_result_usage_progress_and_a_free_card(lab: Lab) -> None:
    """Everything that the report and the next estimate need."""
    run = bound(lab, steps=6, step_s=0.05)

    attempt(run)

    done = lab.ledger.run(run.id)
    assert done.state is RunState.FINISHED
    assert done.result
    assert done.result.metrics["val_acc"]
    assert done.result.usage.gpu_s > 0.3
    progress = lab.ledger.progress([run.id])[run.id]
    assert progress.share == 1.0
    assert progress.first_step_at
    assert done.started_at
    assert done.finished_at
    assert done.started_at < progress.first_step_at < done.finished_at
    assert Leases(lab.client, 10).held(CARD.uuid) is None


def test_the_spec_says_everything_to_the_trainer(lab: Lab) -> None:
    """It reads nothing else."""
    run = bound(lab, steps=2)

    attempt(run)

    spec = RunSpec.model_validate_json((lab.settings.runs_dir / run.id / "spec.json").read_bytes())
    assert (spec.run_id, spec.template, spec.device, spec.threads) == (run.id, "probe", "cpu", 1)
    assert spec.params == {"seed": 0, "steps": 2}
    assert spec.checkpoint_dir is None


def test_an_entry_that_comes_twice_does_nothing(lab: Lab) -> None:
    """Results are committed before RQ acknowledges, so a redelivery is only a late knock."""
    run = bound(lab, steps=2)
    attempt(run)
    done = lab.ledger.run(run.id)

    attempt(run)

    assert lab.ledger.run(run.id) == done
    assert len(list((lab.settings.runs_dir / run.id).glob("attempt-*"))) == 1


@pytest.mark.parametrize(("power_mw", "known"), [(500_000, True), (None, False)])
def test_energy_is_power_over_the_time_that_the_card_was_held(lab: Lab, power_mw: int | None, known: bool) -> None:
    """As its host published it; where the card does not tell, nothing is said."""
    card = CARD.model_copy(update={"power_mw": power_mw, "read_at": time.time()})
    hosts.publish_cards(lab.client, HostCards(host=lab.settings.host, cards=(card,), published_at=time.time()))
    run = bound(lab, steps=30, step_s=0.05)

    attempt(run)

    result = lab.ledger.run(run.id).result
    assert result
    usage = result.usage
    assert usage.energy_j == (pytest.approx(500 * usage.gpu_s, rel=0.01) if known else None)


@pytest.mark.parametrize(
    ("how", "cause", "evidence"),
    [
        ("error", "user_code", "mat1 and mat2"),
        ("exit_silently", "user_code", "without a result"),
        ("bad_args", "bad_args", "--lr-decay"),
    ],
)
def test_a_failure_has_its_cause(lab: Lab, how: str, cause: str, evidence: str) -> None:
    """A crashed process that counts as completed is the worst of them."""
    run = bound(lab, fail=how, fail_at_step=1, step_s=0.0)

    attempt(run)

    failed = lab.ledger.run(run.id)
    assert (failed.state, failed.cause) == (RunState.FAILED, cause)
    assert evidence in (failed.message or "")
    assert failed.result
    assert failed.result.usage.gpu_s > 0
    assert Leases(lab.client, 10).held(CARD.uuid) is None


def test_a_trainer_that_was_shot_is_started_again_and_one_out_of_memory_is_not_taken_for_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL alone tells nothing; the kernel counts its own kills."""
    run = bound(lab, fail="sigkill", fail_at_step=1, step_s=0.0)
    attempt(run)
    shot = lab.ledger.run(run.id)
    monkeypatch.setattr(oomkills, "since", lambda before: 1)
    again = lab.ledger.bind(run.id, (CARD.uuid,), CARD.host, CARD.index)
    attempt(again)
    starved = lab.ledger.run(run.id)

    assert (shot.state, shot.losses, shot.retries) == (RunState.QUEUED, 1, 0)
    assert (starved.state, starved.cause) == (RunState.FAILED, "oom_host")


def test_a_cancelled_run_stops_with_a_checkpoint(lab: Lab) -> None:
    """Somebody may want to go on from there."""
    run = bound(lab, steps=1000)
    thread = in_background(run)
    until(lambda: lab.ledger.progress([run.id]))

    lab.ledger.cancel_run(run.id, "U1")
    thread.join(10)

    ended = lab.ledger.run(run.id)
    assert (ended.state, ended.message) == (RunState.CANCELLED, "cancelled by U1")
    assert list((lab.settings.runs_dir / run.id / "attempt-1" / "checkpoints").iterdir())


def test_a_trainer_that_ignores_sigterm_is_killed_after_the_grace(lab: Lab) -> None:
    """A hanging collective answers nothing."""
    run = bound(lab, fail="hang", fail_at_step=2)
    thread = in_background(run)
    until(lambda: lab.ledger.progress([run.id]))
    time.sleep(0.3)
    lab.ledger.cancel_run(run.id, "U1")
    began = time.monotonic()

    thread.join(15)

    assert lab.ledger.run(run.id).state is RunState.CANCELLED
    assert lab.settings.run.grace_s <= time.monotonic() - began < 10


def test_a_run_cancelled_before_its_claim_is_closed_at_once(lab: Lab) -> None:
    """Nothing is started for it."""
    run = bound(lab)
    lab.ledger.cancel_run(run.id, "U1")

    attempt(run)

    assert lab.ledger.run(run.id).state is RunState.CANCELLED
    assert not (lab.settings.runs_dir / run.id).exists()


def test_a_shutdown_gives_the_run_back_and_the_next_attempt_resumes(lab: Lab) -> None:
    """Nothing of the night is lost with a restart."""
    run = bound(lab, steps=60)
    thread = in_background(run)
    until(lambda: (p := lab.ledger.progress([run.id])) and p[run.id].step > 25)
    job.stop_asked.set()
    thread.join(10)
    between = lab.ledger.run(run.id)
    job.stop_asked.clear()

    attempt(lab.ledger.bind(run.id, (CARD.uuid,), "lab-a", 0))

    done = lab.ledger.run(run.id)
    log = (lab.settings.runs_dir / run.id / "attempt-2" / "log.txt").read_text()
    assert (between.state, between.losses) == (RunState.QUEUED, 0)
    assert (done.state, done.fence) == (RunState.FINISHED, 2)
    assert "resuming from" in log


def test_a_lost_lease_ends_the_trainer(lab: Lab) -> None:
    """Somebody else may have the card by now."""
    run = bound(lab, steps=1000)
    thread = in_background(run)
    pid = until(lambda: lab.ledger.run(run.id).pid)

    lab.client.delete(f"on:lease:{CARD.uuid}")
    thread.join(10)

    assert lab.ledger.run(run.id).state is RunState.QUEUED
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_attempt_that_was_replaced_stops_and_writes_nothing(lab: Lab) -> None:
    """The newer attempt's word is the only one."""
    run = bound(lab, steps=1000)
    thread = in_background(run)
    until(lambda: lab.ledger.progress([run.id]))
    lab.client.hincrby(f"on:run:{run.id}", "fence", 1)
    before = lab.ledger.run(run.id)

    thread.join(10)

    assert not thread.is_alive()
    assert lab.ledger.run(run.id) == before


def test_a_result_that_could_not_be_told_is_told_by_the_next_attempt(lab: Lab) -> None:
    """Redis was away when the trainer ended; an hour of training is not repeated for that."""
    run = bound(lab, steps=1000)
    left = rundir.RunDir(lab.settings.runs_dir, run)
    left.write_spec(RunSpec(run_id=run.id, queued_at=run.queued_at, template="probe", model="probe", dataset=None))
    result = RunResult(metrics={"val_acc": 0.5}, usage=Usage(gpu_s=3600))
    replace_file(left.begin(1) / "result.json", result.model_dump_json().encode())

    attempt(run)

    assert lab.ledger.run(run.id).result == result


def test_a_directory_of_an_earlier_ledger_is_not_taken_for_the_runs_own(lab: Lab) -> None:
    """Redis was emptied and exp-1 begins anew: old results under its name would be made up."""
    run = bound(lab, steps=2)
    old = lab.settings.runs_dir / run.id
    replace_file(old / "attempt-1" / "result.json", RunResult(metrics={"val_acc": 0.1}).model_dump_json().encode())
    spec = RunSpec(run_id=run.id, queued_at=1.0, template="probe", model="probe", dataset=None)
    replace_file(old / "spec.json", spec.model_dump_json().encode())

    attempt(run)

    done = lab.ledger.run(run.id)
    assert done.result
    assert done.result.metrics["val_acc"] != 0.1
    assert len(list(old.parent.glob("1.before-*"))) == 1


def test_a_folder_that_cannot_be_written_fails_the_run(lab: Lab) -> None:
    """The run fails with the cause, and the card is free for the next."""
    run = bound(lab)
    lab.settings.runs_dir.parent.mkdir(exist_ok=True)
    lab.settings.runs_dir.write_text("a file where a folder should be")

    attempt(run)

    assert lab.ledger.run(run.id).cause == "permission"
    assert Leases(lab.client, 10).held(CARD.uuid) is None


def test_a_card_that_a_stray_process_holds_is_left_alone_for_a_while(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its run comes back to it again and again, and the experiment never ends."""
    monkeypatch.setattr(job, "HELD_WAIT_S", 0.1)
    run = bound(lab, steps=2)
    stray = CardLock(lab.settings.data_dir, CARD.uuid)
    stray.take(0)

    attempt(run)
    stray.close()

    assert lab.ledger.run(run.id).state is RunState.QUEUED
    assert "still held" in lab.ledger.quarantined([CARD.uuid])[CARD.uuid]


def test_metrics_are_read_line_by_whole_line(lab: Lab) -> None:
    """The trainer may be in the middle of one."""
    folder = lab.settings.data_dir / "a"
    folder.mkdir(parents=True)
    path = folder / "metrics.jsonl"
    metrics = rundir.Metrics(folder)
    line = json.dumps({"kind": "epoch", "step": 5, "steps_total": 10, "epoch": 1, "val_acc": 0.5, "train_loss": None})
    nothing = metrics.read()
    path.write_text(line[:20])
    half = metrics.read()
    path.write_text(line + "\nno json\n[1]\n")

    whole = metrics.read()

    assert (nothing, half, whole) == (None, None, "epoch")
    expected = Progress(step=5, steps_total=10, epoch=1, metrics={"val_acc": 0.5, "train_loss": None}, phase="train")
    assert metrics.progress.model_copy(update={"at": 0.0}) == expected
    assert metrics.read() is None


def test_long_curves_are_thinned(lab: Lab) -> None:
    """Redis and the report carry 500 points, not a million."""
    folder = lab.settings.data_dir / "a"
    curve = [(float(i), i / 10_000) for i in range(10_000)]
    replace_file(folder / "result.json", RunResult(curves={"loss": curve}).model_dump_json().encode())

    result = rundir.read_result(folder)

    assert result
    assert len(result.curves["loss"]) == 500
    assert (result.curves["loss"][0], result.curves["loss"][-1]) == (curve[0], curve[-1])


def test_a_trainer_dies_with_its_worker(lab: Lab) -> None:
    """A worker killed with SIGKILL can end nothing itself."""
    run = bound(lab, steps=1000)
    worker = os.fork()
    if worker == 0:
        attempt(run)
        os._exit(0)
    pid = until(lambda: lab.ledger.run(run.id).pid)

    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)

    def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    until(gone, within_s=5)
