"""A host's supervisor: workers for its cards, order after a dead one, and a clean end."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from lab import hosts
from lab.errors import OperatorError
from lab.leases import Leases
from lab.run import RunState
from tests.workers.under_test import Lab, cards_of, until
from workers import supervisor
from workers.supervisor import Supervisor


def workers_of(lab: Lab) -> list[psutil.Process]:
    """The worker processes."""
    return psutil.Process(lab.processes["work"].pid).children()


def worker_of(pid: int) -> psutil.Process:
    """The worker above a trainer: its parent is RQ's child, whose parent it is."""
    horse = psutil.Process(pid).parent()
    assert horse
    worker = horse.parent()
    assert worker
    return worker


def test_a_killed_workers_run_goes_on_and_finishes_once(lab: Lab) -> None:
    """The promise of the night: nothing lost, nothing twice, and soon."""
    experiment = lab.approve(steps=60)
    lab.start()
    run_id = f"{experiment.id}/1"
    until(lambda: (p := lab.ledger.progress([run_id])) and p[run_id].step > 25)
    first = lab.ledger.run(run_id)
    assert first.pid

    worker_of(first.pid).kill()
    until(lambda: (r := lab.ledger.run(run_id)).fence == 2 and r.state is RunState.RUNNING, within_s=15)
    done = lab.ended(experiment)[0]

    assert (done.state, done.fence, done.losses) == (RunState.FINISHED, 2, 1)
    assert lab.ledger.counts(experiment.id) == {"finished": 1}
    assert "resuming from" in (lab.settings.runs_dir / run_id / "attempt-2" / "log.txt").read_text()


def test_a_killed_childs_run_goes_on_too(lab: Lab) -> None:
    """The kernel's memory killer may take the child and leave the worker."""
    experiment = lab.approve(steps=30)
    lab.start()
    run_id = f"{experiment.id}/1"
    until(lambda: lab.ledger.progress([run_id]))
    horse = psutil.Process(lab.ledger.run(run_id).pid).parent()
    assert horse

    horse.kill()
    done = lab.ended(experiment, within_s=15)[0]

    assert (done.state, done.fence, done.losses) == (RunState.FINISHED, 2, 1)


def test_a_dead_worker_of_a_second_card_costs_the_run_on_both_nothing(lab: Lab) -> None:
    """The run's own worker lives; its trainer holds that card's lock too, and was killed by it."""
    lab.train = 2
    experiment = lab.approve(steps=60, gpus=2)
    lab.start()
    run_id = f"{experiment.id}/1"
    until(lambda: (p := lab.ledger.progress([run_id])) and p[run_id].step > 5)
    own = worker_of(lab.ledger.run(run_id).pid or 0)

    other = next(worker for worker in workers_of(lab) if worker != own)
    other.kill()
    until(lambda: len([w for w in workers_of(lab) if w.status() != psutil.STATUS_ZOMBIE]) == 2)
    (done,) = lab.ended(experiment, within_s=30)

    assert (done.state, done.fence, done.losses) == (RunState.FINISHED, 1, 0)


def test_a_cancelled_run_stops_and_its_card_takes_the_next(lab: Lab) -> None:
    """From the button to the free card."""
    lab.train = 1
    hosts.publish_cards(lab.client, cards_of("lab-a", train=1))
    long, short = lab.approve(steps=1000), lab.approve(steps=2)
    lab.start()
    until(lambda: lab.ledger.progress([f"{long.id}/1"]))

    lab.ledger.cancel(long.id, "U1")

    assert lab.ended(long)[0].state is RunState.CANCELLED
    assert lab.ended(short)[0].state is RunState.FINISHED
    assert lab.ledger.experiment(long.id).state == "cancelled"


def test_its_end_stops_the_trainers_and_gives_their_runs_back(lab: Lab) -> None:
    """A restart in the morning goes on from the checkpoints."""
    experiment = lab.approve(seeds=2, steps=1000)
    lab.start()
    until(lambda: len(lab.ledger.runs_in(RunState.RUNNING)) == 2)
    until(lambda: len(lab.ledger.progress(run.id for run in lab.ledger.runs(experiment.id))) == 2)
    pids = [run.pid for run in lab.ledger.runs(experiment.id)]
    lab.stop("dispatch")

    lab.stop("work")

    runs = lab.ledger.runs(experiment.id)
    assert [run.state for run in runs] == [RunState.QUEUED] * 2
    assert not any(pid and psutil.pid_exists(pid) for pid in pids)
    assert hosts.hosts(lab.client) == []
    assert [Leases(lab.client, 10).held(f"SIM-lab-a-{i}") for i in range(3)] == [None] * 3


def test_a_killed_supervisor_leaves_nothing_and_its_successor_releases_all(lab: Lab) -> None:
    """The kernel ends what it had started; the lease need not run out."""
    experiment = lab.approve(steps=30)
    lab.start()
    run_id = f"{experiment.id}/1"
    until(lambda: lab.ledger.progress([run_id]))
    pid = lab.ledger.run(run_id).pid
    assert pid

    lab.stop("work", signal.SIGKILL)
    until(lambda: not psutil.pid_exists(pid), within_s=5)
    lab.start("work")

    assert lab.ended(experiment)[0].state is RunState.FINISHED


def test_a_host_process_that_dies_again_and_again_fails_no_run(lab: Lab) -> None:
    """Each death of `work` was counted against all its runs, and the third failed them."""
    experiment = lab.approve(steps=40)
    run_id = f"{experiment.id}/1"
    lab.start()
    for fence in (1, 2, 3):
        until(lambda n=fence: (r := lab.ledger.run(run_id)).fence == n and r.state is RunState.RUNNING)  # type: ignore[misc]
        lab.stop("work", signal.SIGKILL)
        lab.start("work")

    (done,) = lab.ended(experiment, within_s=40)

    assert (done.state, done.fence, done.losses, done.lost_with_worker) == (RunState.FINISHED, 4, 3, 0)
    assert done.lost_with_host > 0


def test_cards_come_and_go(lab: Lab) -> None:
    """A card that is kept or gone loses its worker; a new one gets one."""
    lab.start("work")
    until(lambda: len(workers_of(lab)) == 3)
    lab.train = 1
    until(lambda: len(workers_of(lab)) == 1)
    lab.train = 2

    until(lambda: len(workers_of(lab)) == 2)

    served = until(lambda: len(cards := hosts.hosts(lab.client)[0].cards) == 2 and cards)
    assert set(served) == {"SIM-lab-a-0", "SIM-lab-a-1"}


def test_it_waits_for_cards_and_says_so(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """`overnight keep` may come up later."""
    lab.client.flushdb()
    waiting = Supervisor(lab.settings, measure=False)

    with caplog.at_level("INFO"):
        waiting.step()
        waiting.step()

    assert waiting.slots == {}
    assert sum("no cards of host lab-a are published" in record.message for record in caplog.records) == 1
    assert hosts.hosts(lab.client)[0].cards == ()


def test_two_on_one_folder_are_refused(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would fight over the cards."""
    monkeypatch.setattr(supervisor, "LOCK_WAIT_S", 0.1)
    lab.start("work")
    until(lambda: hosts.hosts(lab.client))

    with pytest.raises(OperatorError, match="runs already"):
        supervisor.main(lab.settings, measure=False)


def test_ctrl_c_in_a_terminal_reaches_only_the_supervisor(lab: Lab) -> None:
    """The workers end in order, not all at once."""
    lab.start("work")
    workers = until(lambda: len(found := workers_of(lab)) == 3 and found)

    assert all(until(lambda w=worker: os.getpgid(w.pid) == w.pid) for worker in workers)
