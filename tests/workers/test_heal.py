"""Failed attempts and what becomes of their runs: real processes that fail as real ones do."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lab import events, hosts
from lab.card import Card, Host
from lab.run import Run, RunState
from lab.settings import Settings
from tests.workers.under_test import Lab, until
from workers import disk, job
from workers.job import Post, run_attempt, take_post
from workers.recover import Recovery

CARD = Card(uuid="SIM-lab-a-0", index=0, name="Simulated card", host="lab-a", simulated=True)
AT_ONCE = {"fail_at_step": 1, "steps": 4, "step_s": 0.0}


@pytest.fixture(autouse=True)
def _post(settings: Settings) -> Iterator[None]:
    """This process is a worker of card 0."""
    serve(settings)
    job.stop_asked.clear()
    yield
    job.stop_asked.clear()


def serve(settings: Settings, **changed: Any) -> None:
    """This process' worker has these settings of `run`."""
    run = settings.run.model_copy(update=changed)
    take_post(Post(settings.model_copy(update={"run": run}), "lab-a.0.test", CARD, threads=1))


def attempt(lab: Lab, run_id: str) -> Run:
    """The queued run has had its next attempt."""
    run = lab.ledger.bind(run_id, (CARD.uuid,), "lab-a", 0)
    run_attempt(run.id, run.dispatches, [CARD.uuid])
    return lab.ledger.run(run.id)


def carried_out(lab: Lab, **params: Any) -> Run:
    """A probe run after as many attempts as it wants."""
    run = lab.ledger.run(f"{lab.approve(**(AT_ONCE | params)).id}/1")
    while run.state is RunState.QUEUED:
        run = attempt(lab, run.id)
    return run


def in_background(lab: Lab, run_id: str) -> threading.Thread:
    thread = threading.Thread(target=attempt, args=(lab, run_id))
    thread.start()
    return thread


def told(lab: Lab, kind: str) -> list[dict[str, Any]]:
    """Data of every event of the kind."""
    entries = lab.client.xrange(events.STREAM)
    return [json.loads(fields["data"]) for _, fields in entries if fields["kind"] == kind]


@pytest.mark.parametrize(
    "cause",
    [
        "import_error",
        "data_missing",
        "permission",
        "auth",
        "checkpoint_mismatch",
        "device_assert",
        "compile_error",
        "driver_mismatch",
        "arch_mismatch",
        "fork_cuda",
    ],
)
def test_what_people_must_mend_fails_at_once_with_what_to_do(lab: Lab, cause: str) -> None:
    """The deciding line and the advice are all that is read in the morning."""
    run = carried_out(lab, fail=cause)

    assert (run.state, run.cause, run.fence, run.retries) == (RunState.FAILED, cause, 1, 0)
    assert run.message
    assert run.advice


@pytest.mark.parametrize(
    ("how", "cure", "retries", "losses"),
    [
        ("oom_fragmented", "oom_gpu/segments", 1, 0),
        ("illegal_access", "illegal_access/move", 1, 0),
        ("nccl", "nccl/again", 1, 0),
        ("port_in_use", "port_in_use/again", 1, 0),
        ("network", "network/again", 1, 0),
        ("nan", "nan_loss/skip", 1, 0),
        ("hardware", "hardware/move", 0, 1),
        ("time_limit", "time_limit/resume", 0, 1),
        ("preempted", "preempted/resume", 0, 1),
    ],
)
def test_a_fault_with_a_cure_is_tried_again_and_the_run_finishes(
    lab: Lab, how: str, cure: str, retries: int, losses: int
) -> None:
    """Faults of card and host leave the run's own retries alone."""
    attempts = 100 if how in ("oom_fragmented", "nan") else 1
    run = carried_out(lab, fail=how, fail_attempts=attempts, steps=20)

    assert (run.state, run.cures, run.retries, run.losses) == (RunState.FINISHED, (cure,), retries, losses)
    assert len(run.changes) == 1


def test_a_batch_is_split_until_it_fits_and_the_next_run_knows(lab: Lab) -> None:
    """64 samples, of which 16 fit: two halvings; the second run names the first."""
    first = carried_out(lab, fail="oom_gpu", fits=16, batch_size=64)
    spec = json.loads((lab.settings.runs_dir / first.id / "spec.json").read_text())
    second = carried_out(lab, fail="oom_gpu", fits=32, batch_size=64)

    assert first.state is second.state is RunState.FINISHED
    assert first.overrides == {"grad_accum_steps": 4}
    assert spec["params"]["grad_accum_steps"] == 4
    assert spec["params"]["batch_size"] == 64
    assert first.changes[1].startswith("micro-batch halved to 16 (4 parts a step) after it did not fit the card")
    assert second.changes[0].endswith(f"; this had helped {first.id}")


def test_retries_end_and_say_so(lab: Lab) -> None:
    """Three for the run's own faults."""
    run = carried_out(lab, fail="oom_gpu", batch_size=64)

    assert (run.state, run.cause, run.retries, run.fence) == (RunState.FAILED, "oom_gpu", 3, 4)
    assert "3 retries did not help" in (run.message or "")


def test_a_sweep_of_rates_keeps_its_diverged_run_as_a_result(lab: Lab) -> None:
    """Halving lr there would answer another question."""
    experiment = lab.approve_sweep(lr=(0.1, 10.0), fail="nan", **AT_ONCE)
    run = attempt(lab, f"{experiment.id}/1")

    assert (run.state, run.cause, run.retries) == (RunState.FAILED, "nan_loss", 0)
    assert "so this is a result" in (run.message or "")


def test_a_faulty_card_is_in_quarantine(lab: Lab) -> None:
    """Dispatch leaves it alone, and whoever asks is told why."""
    run = carried_out(lab, fail="hardware", fail_attempts=1)

    why = lab.ledger.quarantined([CARD.uuid])[CARD.uuid]
    assert why.startswith(f"{run.id}: ")
    assert run.avoid == (CARD.uuid,)


def test_a_hang_is_dumped_ended_tried_once_more_elsewhere_and_then_fails(lab: Lab) -> None:
    """The stacks of all threads are in the log before the kill, and the message says where it was stuck."""
    serve(lab.settings, hang_s=1)
    run_id = f"{lab.approve(fail='hang', fail_at_step=12, steps=14).id}/1"

    first, second = attempt(lab, run_id), attempt(lab, run_id)

    log = (lab.settings.runs_dir / run_id / "attempt-1" / "log.txt").read_text()
    assert (first.state, first.cures, first.avoid) == (RunState.QUEUED, ("hang/move",), (CARD.uuid,))
    assert "most recent call first" in log
    assert "in fail" in log
    assert (second.state, second.cause) == (RunState.FAILED, "hang")
    assert "no step, no line and no computing for " in (second.message or "")
    assert "stuck in fail (probe.py:" in (second.message or "")


def test_a_pause_saves_stops_and_goes_on(lab: Lab) -> None:
    """What was done is not done again."""
    run_id = f"{lab.approve(steps=40).id}/1"
    thread = in_background(lab, run_id)
    until(lambda: (p := lab.ledger.progress([run_id])) and p[run_id].step > 10)

    lab.ledger.wish(run_id, "pause", "U1")
    thread.join(10)
    paused = lab.ledger.run(run_id)
    lab.ledger.resume(run_id, "U1")
    done = attempt(lab, run_id)

    assert (paused.state, paused.message, paused.card) == (RunState.PAUSED, "paused by U1", None)
    assert done.state is RunState.FINISHED
    assert "resuming from" in (lab.settings.runs_dir / run_id / "attempt-2" / "log.txt").read_text()


def test_a_run_resumed_while_it_pauses_goes_on(lab: Lab) -> None:
    """It was answered "nothing to resume" and stayed paused all night."""
    run_id = f"{lab.approve(steps=1000, fail='hang', fail_at_step=3).id}/1"
    thread = in_background(lab, run_id)
    until(lambda: lab.ledger.progress([run_id]))

    lab.ledger.wish(run_id, "pause", "U1")
    time.sleep(1.5)  # it is being stopped, and does not answer
    lab.ledger.resume(run_id, "U1")
    thread.join(15)

    assert (lab.ledger.run(run_id).state, lab.ledger.run(run_id).message) == (RunState.QUEUED, None)


def test_a_run_cancelled_while_it_pauses_is_cancelled(lab: Lab) -> None:
    """The later word counts, and the run is not left hanging between."""
    run_id = f"{lab.approve(steps=1000, fail='hang', fail_at_step=3).id}/1"
    thread = in_background(lab, run_id)
    until(lambda: lab.ledger.progress([run_id]))

    lab.ledger.wish(run_id, "pause", "U1")
    time.sleep(1.5)  # it is being stopped, and does not answer
    lab.ledger.cancel_run(run_id, "U2")
    thread.join(15)

    assert (lab.ledger.run(run_id).state, lab.ledger.run(run_id).message) == (RunState.CANCELLED, "cancelled by U2")


def test_a_checkpoint_is_written_when_asked_and_acknowledged(lab: Lab) -> None:
    """The run goes on meanwhile."""
    run_id = f"{lab.approve(steps=2000, step_s=0.02).id}/1"
    thread = in_background(lab, run_id)
    until(lambda: lab.ledger.run(run_id).state is RunState.RUNNING)

    lab.ledger.wish(run_id, "checkpoint", "U1")
    until(lambda: lab.ledger.run(run_id).wish is None)
    state = lab.ledger.run(run_id).state
    lab.ledger.cancel_run(run_id, "U1")
    thread.join(10)

    assert state is RunState.RUNNING
    assert told(lab, "run.checkpointed")[0]["progress"].startswith("step ")


def test_a_directory_deleted_under_a_run_fails_that_run(lab: Lab) -> None:
    """With its cause; the trainer would go on writing into nothing, or make the folder anew."""
    run_id = f"{lab.approve(steps=1000).id}/1"
    thread = in_background(lab, run_id)
    until(lambda: lab.ledger.progress([run_id]))

    shutil.rmtree(lab.settings.runs_dir / run_id)
    thread.join(10)

    run = lab.ledger.run(run_id)
    assert (run.state, run.cause) == (RunState.FAILED, "data_missing")
    assert "was deleted while it ran" in (run.message or "")


def test_a_full_disk_pauses_the_run_until_there_is_room(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """One notice; recovery resumes it, and not before there is some room to spare."""
    monkeypatch.setattr("workers.watch.DISK_EVERY_S", 0.2)
    serve(lab.settings, disk_low_gb=1e6)
    recovery = Recovery(lab.client, lab.settings)
    run_id = f"{lab.approve(steps=35).id}/1"
    paused = attempt(lab, run_id)
    states = []
    for gib in (1.9, 2.2, 3.0):
        hosts.publish_host(lab.client, Host(host="lab-a", version="1", disk_free_bytes=round(gib * 2**30)))
        recovery.step()
        states.append(lab.ledger.run(run_id).state)

    assert (paused.state, paused.message) == (RunState.PAUSED, "the disk of lab-a is full")
    assert states == [RunState.PAUSED, RunState.PAUSED, RunState.QUEUED]
    assert len(told(lab, "experiment.notice")) == 1
    serve(lab.settings)
    assert attempt(lab, run_id).state is RunState.FINISHED


def test_a_run_that_met_the_full_disk_first_pauses_too(lab: Lab) -> None:
    """Its checkpoint did not fit any more; the one before is whole."""
    serve(lab.settings, disk_low_gb=1e6)
    run = carried_out(lab, fail="disk_full", fail_attempts=1)

    assert (run.state, run.message) == (RunState.PAUSED, disk.message("lab-a"))


def test_a_full_quota_with_room_on_the_disk_fails(lab: Lab) -> None:
    """Waiting would not help: nobody knows when somebody else's quota has room."""
    run = carried_out(lab, fail="disk_full")

    assert (run.state, run.cause) == (RunState.FAILED, "disk_full")


def test_a_moved_run_gets_another_card_from_the_dispatcher(lab: Lab) -> None:
    """All of it in processes: fault, quarantine, dispatch elsewhere."""
    lab.start()
    run = lab.ended(lab.approve(fail="hardware", fail_attempts=1, **AT_ONCE))[0]

    assert run.state is RunState.FINISHED
    assert run.avoid
    assert run.card not in run.avoid
