"""Old experiments move to files, and whoever asks for them notices nothing but an emptier Redis."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest

from lab.archive import NAME, NotHereError
from lab.errors import MoveRefused, UnknownRecord
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Plan
from lab.records import record_key
from lab.run import Answer, Run, RunResult, RunState, Usage
from lab.store import Client
from lab.usage import ended_since

CARD = ("SIM-lab-a-0",)
DAY_S = 86_400


def attempt(ledger: Ledger, run_id: str) -> int:
    """An attempt of the run is under way; its fence."""
    run = ledger.bind(run_id, CARD, "lab-a", 0)
    leases = Leases(ledger.client, 10)
    lease = leases.claim(run_id, run.dispatches, CARD, "lab-a.0")
    ledger.start(run_id, lease.fence, 4711)
    leases.release(lease)
    return lease.fence


@pytest.fixture
def ended(ledger: Ledger) -> str:
    """An experiment of two runs that ended just now, one of them by failing, with its report."""
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request
    plan = Plan(template="probe", models=("probe",), axes={"seed": (0, 1)})
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment
    ledger.approve(experiment.id, "U1")
    curves = {"val_acc": [(float(n), n / 500) for n in range(500)]}
    result = RunResult(metrics={"val_acc": 0.9}, curves=curves, usage=Usage(gpu_s=60))
    ledger.finish(f"{experiment.id}/1", attempt(ledger, f"{experiment.id}/1"), result)
    ledger.fail(f"{experiment.id}/2", attempt(ledger, f"{experiment.id}/2"), "hang", "stuck")
    ledger.save_report(experiment.id, 1, '{"revision": 1}', {})
    return experiment.id


def archive(ledger: Ledger, experiment_id: str, runs: Path, host: str = "lab-a") -> bool:
    """The experiment is archived as if it had ended long ago."""
    return ledger.archive(experiment_id, runs, host, before=time.time() + 1)


def test_runs_and_reports_leave_redis_and_read_the_same(
    ended: str, ledger: Ledger, store: Client, tmp_path: Path
) -> None:
    """The curves are nearly all that a ledger holds after a year."""
    runs, report = ledger.runs(ended), ledger.report(ended, 1)
    used = sorted(ended_since(store, 0.0), key=lambda run: run.run_id)

    moved = archive(ledger, ended, tmp_path)

    assert moved
    assert (tmp_path / ended / NAME).is_file()
    assert store.keys(f"on:run:{ended}/*") == []
    assert store.keys(f"on:report:{ended}") == []
    assert store.zrange("on:index:run:finished", 0, -1) == store.zrange("on:index:run:failed", 0, -1) == []
    assert ledger.runs(ended) == runs
    assert ledger.run(f"{ended}/2") == runs[1]
    assert ledger.report(ended, 1) == report
    assert sorted(ended_since(store, 0.0), key=lambda run: run.run_id) == used
    assert [e.id for e in ledger.experiments()] == [ended]
    assert ledger.counts(ended) == {"finished": 1, "failed": 1}


def test_fields_of_another_version_are_kept(ended: str, ledger: Ledger, store: Client, tmp_path: Path) -> None:
    """A downgrade and an upgrade later they mean something again."""
    store.hset(record_key(f"{ended}/1"), "of_the_future", '"kept"')

    archive(ledger, ended, tmp_path)

    document = json.loads(gzip.decompress((tmp_path / ended / NAME).read_bytes()))
    assert document["runs"][f"{ended}/1"]["of_the_future"] == '"kept"'


def test_what_failed_long_ago_can_be_retried(ended: str, ledger: Ledger, store: Client, tmp_path: Path) -> None:
    """And the new run goes into the file beside the old ones when it is old itself."""
    archive(ledger, ended, tmp_path)

    (again,) = ledger.retry(ended, "U1")
    early = archive(ledger, ended, tmp_path)
    ledger.finish(again.id, attempt(ledger, again.id), RunResult())
    ledger.save_report(ended, 2, '{"revision": 2}', {})
    states = [run.state for run in ledger.runs(ended)]
    late = archive(ledger, ended, tmp_path)

    assert (again.id, again.retry_of) == (f"{ended}/3", f"{ended}/2")
    assert (early, late) == (False, True)
    assert [run.state for run in ledger.runs(ended)] == states
    assert states == [RunState.FINISHED, RunState.FAILED, RunState.FINISHED]
    assert (ledger.report(ended, 1), ledger.report(ended, 2)) == ('{"revision": 1}', '{"revision": 2}')
    assert store.keys(f"on:run:{ended}/*") == []
    assert ledger.to_archive(time.time() + 1) == []
    with pytest.raises(MoveRefused, match="retried as"):
        ledger.retry(f"{ended}/2", "U1")


def test_what_is_young_or_runs_stays(ended: str, ledger: Ledger, tmp_path: Path) -> None:
    """Thirty days count from the end of the last run, retries included."""
    young = ledger.archive(ended, tmp_path, "lab-a", before=time.time() - 30 * DAY_S)
    ledger.retry(ended, "U1")
    runs = archive(ledger, ended, tmp_path)

    assert (young, runs) == (False, False)
    assert not (tmp_path / ended / NAME).exists()


def test_only_what_has_runs_in_redis_is_looked_at(ended: str, ledger: Ledger, tmp_path: Path) -> None:
    """A plan that was withdrawn has none, and what is archived is not archived every hour."""
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request
    proposed = ledger.propose(request.id, Plan(template="probe", models=("probe",)), None, Answer(kind="plan"))
    assert proposed
    ledger.cancel(proposed.id, "U1")
    before = ledger.to_archive(time.time() + 1)
    archive(ledger, ended, tmp_path)

    assert (before, ledger.to_archive(time.time() + 1)) == ([ended], [])
    assert ledger.to_archive(time.time() - DAY_S) == []


def test_a_file_on_another_machine_is_named(ended: str, ledger: Ledger, tmp_path: Path) -> None:
    """The experiment is not unknown, and where to look is known."""
    archive(ledger, ended, tmp_path, host="node07")
    file = tmp_path / ended / NAME
    file.rename(tmp_path / "elsewhere")

    with pytest.raises(NotHereError, match=f"archived in {file} of node07: No such file"):
        ledger.runs(ended)
    with pytest.raises(NotHereError):
        ledger.report(ended, 1)
    assert ledger.experiment(ended).plan.models == ("probe",)
    (tmp_path / "elsewhere").write_bytes(b"\x1f\x8bnothing")
    (tmp_path / "elsewhere").rename(file)
    with pytest.raises(NotHereError, match="damaged"):
        ledger.runs(ended)


def test_a_run_that_never_was_is_unknown(ended: str, ledger: Ledger, tmp_path: Path) -> None:
    """Also of an archived experiment."""
    archive(ledger, ended, tmp_path)

    for run_id in (f"{ended}/9", "exp-404/1"):
        with pytest.raises(UnknownRecord):
            ledger.run(run_id)


def test_nothing_is_deleted_when_the_file_cannot_be_written(ended: str, ledger: Ledger, tmp_path: Path) -> None:
    """A full disk is a bad day to lose results on."""
    (tmp_path / ended).write_text("in the way")
    runs: list[Run] = ledger.runs(ended)

    with pytest.raises(OSError, match="exists"):
        archive(ledger, ended, tmp_path)

    assert ledger.runs(ended) == runs
    assert ledger.experiment(ended).archive is None
