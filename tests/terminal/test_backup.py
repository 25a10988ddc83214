"""A lab is backed up at work and restored elsewhere."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lab import forecast
from lab import store as stores
from lab.errors import OperatorError
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, RequestState, RunResult, RunState
from lab.settings import Settings
from terminal import agreement
from terminal.backup import ABOUT, RECORDS, backup, restore
from workers.recover import LEASELESS_S, UNANSWERED_S, Recovery

ROOT = Path(__file__).parents[2]
FLEETING = ("on:lease:", "on:host:", "on:forecast", "rq:")


@pytest.fixture
def elsewhere() -> Iterator[Settings]:
    """Settings on an empty data folder with an embedded Valkey of its own."""
    folder = Path(tempfile.mkdtemp(prefix="on-", dir="/tmp"))
    yield Settings(data_dir=folder / "data", host="lab-a")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def at_work(settings: Settings, ledger: Ledger) -> str:
    """An experiment with a finished run, a running one with a checkpoint and a queued one; a request waits."""
    request = ledger.submit("probe", "U1", "terminal:1", claims=["Ev1"])
    assert request is not None
    plan = Plan(template="probe", models=("probe",), axes={"seed": (0, 1, 2)})
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan", text="三个运行"))
    assert experiment is not None
    ledger.approve(experiment.id, "U1")
    leases = Leases(ledger.client, 60)
    for number in (1, 2):
        run = ledger.bind(f"{experiment.id}/{number}", (f"SIM-{number}",), "lab-a", number)
        lease = leases.claim(run.id, run.dispatches, run.cards, "lab-a.1")
        ledger.start(run.id, lease.fence, 123)
        _fill(settings.runs_dir / run.id / "attempt-1")
    forecast.publish(ledger.client, {}, forecast.Queue(), 600.0)
    ledger.finish(f"{experiment.id}/1", 1, RunResult(metrics={"val_acc": 0.9}))
    ledger.save_report(experiment.id, 1, "{}", {"curves.png": b"\x89PNG\x00\xff"})
    ledger.submit("compare", "U1", "terminal:1")
    ledger.client.set("on:host:lab-a", "{}", ex=60)
    return experiment.id


def _fill(attempt: Path) -> None:
    (attempt / "checkpoints").mkdir(parents=True)
    (attempt / "checkpoints" / "step-000000001.0123456789abcdef.json").write_text("{}")
    (attempt / "log.txt").write_text("epoch 1\n")
    (attempt / ".result.json.77.tmp").write_text("half")
    (attempt / "aside").symlink_to("/etc")


def everything(client: stores.Client) -> dict[str, Any]:
    """What has to come back, by key."""
    read = {"string": client.dump, "hash": client.hgetall, "stream": client.xrange}
    keys = [key for key in client.scan_iter("*") if not key.decode().startswith(FLEETING)]
    return {key.decode(): read.get(client.type(key).decode(), client.dump)(key) for key in keys}


def test_a_lab_comes_back_as_it_was(settings: Settings, at_work: str, elsewhere: Settings, tmp_path: Path) -> None:
    """Every record, report, figure and event, with the time that is left to it; nothing of processes that are gone."""
    before = everything(stores.connect(settings, decode=False))
    written = backup(settings, tmp_path / "lab.tar.gz")
    restored = restore(elsewhere, tmp_path / "lab.tar.gz")

    assert restored == written
    with stores.embedded(elsewhere):
        raw, ledger = stores.connect(elsewhere, decode=False), Ledger(stores.connect(elsewhere))
        assert everything(raw) == before
        assert not any(list(raw.scan_iter(f"{prefix}*")) for prefix in FLEETING)
        assert 0 < ledger.client.ttl("on:claim:Ev1") <= 90_000
        assert ledger.figure(raw, at_work, 1, "curves.png") == b"\x89PNG\x00\xff"
        assert ledger.submit("again", "U1", "terminal:1", claims=["Ev1"]) is None
        after = ledger.submit("another", "U1", "terminal:1")
        assert after is not None
        assert after.id not in {key.removeprefix("on:req:") for key in before}


def test_what_ran_or_waited_goes_on_after_a_restore(at_work: str, settings: Settings, elsewhere: Settings) -> None:
    """The archive has no queues and no leases: the leader finds out what lacks its next step."""
    path = elsewhere.data_dir.with_name("lab.tar.gz")
    backup(settings, path)
    restore(elsewhere, path)

    with stores.embedded(elsewhere):
        client, now = stores.connect(elsewhere), [1000.0]
        recovery = Recovery(client, elsewhere, clock=lambda: now[0])
        for _ in range(2):
            recovery.step()
            now[0] += max(LEASELESS_S, UNANSWERED_S) + 1
        states = [run.state for run in Ledger(client).runs(at_work)]
        (waiting,) = Ledger(client).requests(RequestState.RECEIVED)
        assert states == [RunState.FINISHED, RunState.QUEUED, RunState.QUEUED]
        assert waiting.tries == 1
        assert agreement.examine(elsewhere, client, pause=lambda _: None).found == ()


def test_a_backup_is_of_one_moment(settings: Settings, ledger: Ledger, elsewhere: Settings, tmp_path: Path) -> None:
    """Requests arrive and runs are queued while it is written; none is in it without its index or its experiment."""
    stop = threading.Event()

    def work() -> None:
        plan = Plan(template="probe", models=("probe",), axes={"seed": (0, 1, 2)})
        while not stop.is_set():
            request = ledger.submit("probe", "U1", "terminal:1")
            assert request is not None
            experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
            assert experiment is not None
            ledger.approve(experiment.id, "U1")

    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(work)
        while not ledger.client.exists("on:run:exp-20/3"):
            assert not busy.done(), busy.result()
        backup(settings, tmp_path / "lab.tar.gz")
        stop.set()
        busy.result()
    restore(elsewhere, tmp_path / "lab.tar.gz")

    with stores.embedded(elsewhere):
        restored = Ledger(stores.connect(elsewhere))
        assert agreement.examine(elsewhere, restored.client, pause=lambda _: None).found == ()
        experiments = restored.experiments()
        assert len(experiments) >= 20
        assert sum(len(restored.runs(e.id)) for e in experiments) == len(restored.runs_in(RunState.QUEUED))
        assert {len(restored.runs(e.id)) for e in experiments if e.approved_at} == {3}


@pytest.mark.parametrize("checkpoints", [False, True])
def test_checkpoints_are_in_it_only_when_asked(
    settings: Settings, at_work: str, elsewhere: Settings, tmp_path: Path, checkpoints: bool
) -> None:
    """They are most of the bytes; half-written files and links to elsewhere are never in it."""
    backup(settings, tmp_path / "lab.tar.gz", checkpoints=checkpoints)
    restore(elsewhere, tmp_path / "lab.tar.gz")
    attempt = elsewhere.runs_dir / at_work / "2" / "attempt-1"

    assert (attempt / "log.txt").read_text() == "epoch 1\n"
    assert {path.name for path in attempt.iterdir()} == {"log.txt"} | ({"checkpoints"} if checkpoints else set())
    assert [path.name for path in elsewhere.data_dir.iterdir() if "restoring" in path.name] == []


def test_an_archive_is_for_its_owner_alone(settings: Settings, at_work: str, tmp_path: Path) -> None:
    """It holds what people wrote. And it never takes the place of another one."""
    path = tmp_path / "lab.tar.gz"
    backup(settings, path)

    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(OperatorError, match="exists"):
        backup(settings, path)
    assert [p.name for p in tmp_path.iterdir() if "lab" in p.name] == ["lab.tar.gz"]


def test_an_empty_lab_has_nothing_to_back_up(elsewhere: Settings, tmp_path: Path) -> None:
    """A wrong data_dir must not look like a good backup."""
    with pytest.raises(OperatorError, match="nothing to back up"):
        backup(elsewhere, tmp_path / "lab.tar.gz")

    assert not (tmp_path / "lab.tar.gz").exists()


def test_nothing_is_restored_over_a_lab(settings: Settings, at_work: str, elsewhere: Settings, tmp_path: Path) -> None:
    """Neither into a folder with runs, nor over a ledger, nor under somebody's feet."""
    path = tmp_path / "lab.tar.gz"
    backup(settings, path)

    with pytest.raises(OperatorError, match="is not empty"):
        restore(settings, path)
    with pytest.raises(OperatorError, match="holds a ledger"):
        restore(settings.model_copy(update={"data_dir": tmp_path / "new"}), path)
    with stores.embedded(elsewhere), pytest.raises(OperatorError, match="up already"):
        restore(elsewhere, path)
    assert not list((tmp_path / "new").glob("runs*"))


def _repacked(path: Path, members: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    """An archive with these files and symbolic links."""
    with tarfile.open(path, "w:gz") as archive:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


ABOUT_TEXT = json.dumps({"made_at": 1.0, "keys": 0, "files": 0, "checkpoints": False}).encode()
WHOLE = {RECORDS: b"", ABOUT: ABOUT_TEXT}
FOREIGN = json.dumps({"key": "rq:job:evil", "ttl_ms": 0, "value": ""}).encode()
GARBLED = json.dumps({"key": "on:run:exp-1/1", "ttl_ms": 0, "value": "AAAA"}).encode()


@pytest.mark.parametrize(
    ("members", "links"),
    [
        (WHOLE | {"runs/../../out.txt": b"x"}, {}),
        (WHOLE | {"runs/link/out.txt": b"x"}, {"runs/link": "/tmp"}),
        ({RECORDS: FOREIGN, ABOUT: ABOUT_TEXT}, {}),
        ({RECORDS: GARBLED, ABOUT: ABOUT_TEXT}, {}),
        ({RECORDS: b""}, {}),
        ({ABOUT: ABOUT_TEXT}, {}),
        ({RECORDS: b"", ABOUT: b"{}"}, {}),
    ],
    ids=["path upwards", "link elsewhere", "foreign key", "garbled value", "cut short", "no records", "no version"],
)
def test_an_archive_that_is_not_ours_changes_nothing(
    elsewhere: Settings, members: dict[str, bytes], links: dict[str, str]
) -> None:
    """Archives are passed around; one that reaches for other files or keys is refused as a whole."""
    path = _repacked(elsewhere.data_dir.with_name("evil.tar.gz"), members, links)

    with pytest.raises(OperatorError):
        restore(elsewhere, path)
    assert [folder.name for folder in elsewhere.data_dir.iterdir()] == ["valkey"]
    assert not elsewhere.data_dir.with_name("out.txt").exists()
    with stores.embedded(elsewhere):
        assert stores.connect(elsewhere).dbsize() == 0


@pytest.mark.parametrize("share", [0.3, 0.95])
def test_an_archive_that_was_cut_short_is_refused(
    settings: Settings, at_work: str, elsewhere: Settings, tmp_path: Path, share: float
) -> None:
    """The copy to the other disk stopped half way."""
    backup(settings, tmp_path / "lab.tar.gz")
    data = (tmp_path / "lab.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(data[: int(len(data) * share)])

    with pytest.raises(OperatorError, match=r"cut\.tar\.gz"):
        restore(elsewhere, tmp_path / "cut.tar.gz")
    assert not elsewhere.runs_dir.exists()


def test_the_commands_of_the_readme_work(settings: Settings, at_work: str, elsewhere: Settings) -> None:
    """As a person types them; the restored lab lists what the old one had."""
    home = elsewhere.data_dir.parent
    block = next(b for b in re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S) if "restore" in b)
    assert settings.redis_url is not None
    environ = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), "OVERNIGHT_DATA_DIR": str(settings.data_dir)}

    def type_in(line: str, **more: str) -> str:
        command = line.replace(".venv/bin/overnight", f"'{sys.executable}' -m overnight")
        done = subprocess.run(
            ["bash", "-ec", command], cwd=home, env=environ | more, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    write, put_back = block.strip().splitlines()
    assert "lab.tar.gz" in type_in(write, OVERNIGHT_REDIS_URL=settings.redis_url.get_secret_value())
    assert "restored" in type_in(put_back)
    with stores.embedded(elsewhere.model_copy(update={"data_dir": home / "restored"})):
        listed = json.loads(type_in(".venv/bin/overnight list --json", OVERNIGHT_DATA_DIR=str(home / "restored")))
    assert [experiment["id"] for experiment in listed] == [at_work]


def test_an_archived_experiment_comes_back_and_is_found_in_its_new_place(
    settings: Settings, ledger: Ledger, elsewhere: Settings, tmp_path: Path
) -> None:
    """Its file lies among the run directories; the record names the folder where it was."""
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request is not None
    experiment = ledger.propose(request.id, Plan(template="probe", models=("probe",)), None, Answer(kind="plan"))
    assert experiment is not None
    ledger.approve(experiment.id, "U1")
    ledger.cancel(experiment.id, "U1")
    runs = ledger.runs(experiment.id)
    assert ledger.archive(experiment.id, settings.runs_dir, "lab-a", before=time.time() + 1)
    backup(settings, tmp_path / "lab.tar.gz")
    shutil.rmtree(settings.runs_dir)

    restore(elsewhere, tmp_path / "lab.tar.gz")

    with stores.embedded(elsewhere):
        assert Ledger(stores.connect(elsewhere)).runs(experiment.id) == runs
