"""What `overnight doctor` finds where ledger, leases, queues and run directories do not fit together."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable

import pytest

from lab.leases import Lease, Leases, key
from lab.ledger import Ledger
from lab.plan import Plan
from lab.queue import AGENT, card_queue, open_queue, put
from lab.records import record_key
from lab.run import Answer, RunResult
from lab.settings import Settings
from lab.store import PREFIX, Client
from terminal import agreement
from terminal.doctor import examine as doctor

LATER_S = 120.0


class Scene:
    """A lab with one experiment of four runs: finished, failed, running, queued."""

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        self.settings, self.ledger, self.client = settings, ledger, ledger.client
        self.leases = Leases(ledger.client, 60)
        self.id = self.propose(4)
        ledger.approve(self.id, "U1")
        first, second = self.start(1), self.start(2)
        ledger.finish(first.run_id, first.fence, RunResult(metrics={"val_acc": 0.9}))
        ledger.fail(second.run_id, second.fence, "user_code", "no such file")
        for lease in (first, second):
            self.leases.release(lease)
        self.running = self.start(3)

    def propose(self, n_runs: int) -> str:
        request = self.ledger.submit("probe", "U1", "terminal:1")
        assert request is not None
        plan = Plan(template="probe", models=("probe",), axes={"seed": tuple(range(n_runs))})
        experiment = self.ledger.propose(request.id, plan, None, Answer(kind="plan"))
        assert experiment is not None
        return experiment.id

    def start(self, number: int) -> Lease:
        """The run has its directory and runs on a card of its own."""
        run_id, card = f"{self.id}/{number}", f"SIM-lab-a-{number}"
        run = self.ledger.bind(run_id, (card,), "lab-a", number)
        lease = self.leases.claim(run_id, run.dispatches, (card,), f"lab-a.{number}")
        open_queue(self.client, card_queue(card)).empty()
        self.ledger.start(run_id, lease.fence, 123)
        (self.settings.runs_dir / run_id / f"attempt-{lease.fence}").mkdir(parents=True)
        return lease

    def end(self) -> None:
        """The running and the queued run end, and so does the experiment; its report is due."""
        last = self.start(4)
        for lease in (self.running, last):
            self.ledger.finish(lease.run_id, lease.fence, RunResult(metrics={"val_acc": 0.9}))
            self.leases.release(lease)


@pytest.fixture
def scene(settings: Settings, ledger: Ledger) -> Scene:
    made = Scene(settings, ledger)
    open_queue(made.client, AGENT).empty()
    return made


def found(scene: Scene, pause: Callable[[float], object] = lambda _: None, later_s: float = 0.0) -> list[str]:
    looked = agreement.examine(scene.settings, scene.client, pause=pause, now=time.time() + later_s)
    return [str(disagreement) for disagreement in looked.found]


def test_a_lab_at_work_agrees(scene: Scene) -> None:
    """Runs in every state and a queue in use are no reason for alarm."""
    put(open_queue(scene.client, card_queue("SIM-lab-a-1")), "workers.job.run_attempt", job_id=f"{scene.id}-4-d1")
    put(open_queue(scene.client, AGENT), "agent.reporting.write", job_id=f"{scene.id}-report-1-1")

    assert found(scene) == []
    looked = agreement.examine(scene.settings, scene.client)
    assert (looked.n_experiments, looked.n_runs) == (1, 4)


def test_a_directory_of_another_ledger_is_named(scene: Scene) -> None:
    """Someone emptied the store, or took another data folder's: its results would be taken for these runs'."""
    (scene.settings.runs_dir / "exp-77" / "1").mkdir(parents=True)
    (scene.settings.runs_dir / "exp-77" / "1.before-20260101-000000-5").mkdir()

    (said,) = found(scene)
    assert said.startswith("run directories of no run in this ledger: 1 (exp-77/1)")
    assert str(scene.settings.runs_dir) in said


def test_a_finished_run_without_any_result_is_named(scene: Scene) -> None:
    """Its result stands in the ledger or in its directory; with neither, the night was for nothing."""
    run_id = f"{scene.id}/1"
    scene.client.hset(record_key(run_id), "result", "null")

    assert [run_id in said for said in found(scene)] == [True]
    (scene.settings.runs_dir / run_id / "attempt-1" / "result.json").write_text("{}")
    assert found(scene) == []


def test_a_finished_run_needs_no_directory(scene: Scene) -> None:
    """Directories may be cleared away, and without a shared folder they lie elsewhere: the ledger has the result."""
    shutil.rmtree(scene.settings.runs_dir)

    assert found(scene) == []


def test_a_running_run_without_a_lease_is_named(scene: Scene) -> None:
    """Nobody works on it any more, and nobody has put it back: there is no leader."""
    scene.leases.release(scene.running)

    (said,) = found(scene)
    assert f"({scene.id}/3)" in said
    assert "overnight dispatch" in said


def test_a_lease_of_an_older_attempt_is_none(scene: Scene) -> None:
    """The fence tells whose lease it is."""
    scene.client.hset(record_key(f"{scene.id}/3"), "fence", "7")

    assert ["without a lease" in said for said in found(scene)] == [True]


def test_what_settles_between_two_looks_is_not_said(scene: Scene) -> None:
    """Records and leases are read one after the other while runs come and go."""
    scene.leases.release(scene.running)

    assert found(scene, pause=lambda _: scene.ledger.give_back(f"{scene.id}/3", scene.running.fence, "lost")) == []


@pytest.mark.parametrize("run", [1, 99])
def test_a_lease_of_an_ended_or_unknown_run_is_named(scene: Scene, run: int) -> None:
    """A card that looks held takes no run."""
    lease = {"run_id": f"{scene.id}/{run}", "fence": 1, "holder": "lab-a.1"}
    scene.client.set(key("SIM-lab-a-1"), json.dumps(lease), px=60_000)

    assert [f"SIM-lab-a-1 by {scene.id}/{run}" in said for said in found(scene)] == [True]


def test_a_request_is_named_when_it_waited_for_a_minute(scene: Scene) -> None:
    """Somebody sits before a thread without an answer."""
    request = scene.ledger.submit("compare", "U1", "terminal:1")
    assert request is not None

    assert found(scene) == []
    assert [f"({request.id})" in said for said in found(scene, later_s=LATER_S)] == [True]


def test_an_ended_experiment_without_report_is_named_after_a_minute(scene: Scene) -> None:
    """All was computed, and the thread never hears of it."""
    scene.end()

    assert found(scene) == []
    assert [f"({scene.id})" in said for said in found(scene, later_s=LATER_S)] == [True]
    scene.ledger.save_report(scene.id, 1, "{}", {})
    assert found(scene, later_s=LATER_S) == []


def test_entries_of_unknown_runs_are_named(scene: Scene) -> None:
    """They stand where a store was emptied in part; an entry in nobody's form is one too."""
    for queue, job_id in ((card_queue("SIM-lab-a-1"), "exp-88-1-d1"), (AGENT, "req-99-1"), (AGENT, "exp-12")):
        put(open_queue(scene.client, queue), "workers.job.run_attempt", job_id=job_id)

    (said,) = found(scene)
    assert said.startswith("queue entries that name nothing in the ledger: 3 (")
    assert "exp-88-1-d1 in card-SIM-lab-a-1" in said


def test_a_record_that_is_gone_is_named(scene: Scene) -> None:
    """The index remembers what the store has lost."""
    scene.client.delete(record_key(f"{scene.id}/2"))

    assert [f"({scene.id}/2)" in said and "without a record" in said for said in found(scene)] == [True]


@pytest.mark.parametrize("state", ["7", "not JSON", '"dreaming"'])
def test_a_record_that_cannot_be_read_is_named(scene: Scene, state: str) -> None:
    """Every process passes over it: written by a later version, or by somebody's hand."""
    scene.client.hset(record_key(f"{scene.id}/2"), "state", state)
    scene.client.hset(record_key(scene.id), "n_runs", '"many"')

    (said,) = found(scene)
    assert said.startswith(f"records that this version cannot read: 2 ({scene.id}, {scene.id}/2)")


def test_ten_thousand_runs_take_few_round_trips(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor is asked when something is wrong; it must not hold up the store, nor whoever asks."""
    _many(scene.client, 10_000)
    trips, ask = [], scene.client.connection_pool.get_connection
    monkeypatch.setattr(scene.client.connection_pool, "get_connection", lambda *a, **k: trips.append(1) or ask(*a, **k))

    looked = agreement.examine(scene.settings, scene.client, pause=lambda _: None)

    assert looked.n_runs == 10_004
    assert looked.found == ()
    assert len(trips) < 40


def _many(client: Client, n: int) -> None:
    """So many finished runs more, each like the first one."""
    (first,) = client.zrange(f"{PREFIX}index:run:finished", 0, 0)
    ended = client.hgetall(record_key(first))
    with client.pipeline(transaction=False) as pipe:
        for number in range(1, n + 1):
            pipe.hset(record_key(f"exp-500/{number}"), mapping=ended | {"id": f'"exp-500/{number}"'})
            pipe.zadd(f"{PREFIX}index:run:finished", {f"exp-500/{number}": 1.0})
        pipe.execute()


def test_doctor_says_that_they_agree_or_do_not(scene: Scene) -> None:
    """After a crash this is the line that people look for."""
    lines = [finding.line() for finding in doctor(scene.settings) if finding.part == "ledger"]
    assert lines == ["ok      ledger: 4 runs of 1 experiments; ledger and run directories agree"]

    (scene.settings.runs_dir / "exp-77" / "1").mkdir(parents=True)
    states = {finding.state for finding in doctor(scene.settings) if finding.part == "ledger"}
    assert states == {"broken"}


def test_archived_runs_are_known_and_their_missing_file_is_told_of(
    scene: Scene,
) -> None:
    """Their directories belong to this ledger; the file is all that is left of their results."""
    scene.end()
    settings, ledger = scene.settings, scene.ledger
    assert ledger.archive(scene.id, settings.runs_dir, settings.host, before=time.time() + 1)
    whole = found(scene)
    (settings.runs_dir / scene.id / "archive.json.gz").unlink()
    (without,) = found(scene)

    assert whole == []
    assert without.startswith(f"archived experiments without their file: 1 ({scene.id})")
