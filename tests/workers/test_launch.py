"""A trainer is started with what it needs and nothing else, and ends with us."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from lab.cardlock import CardLock
from workers import launch


def test_tokens_are_not_passed_on() -> None:
    """A training script could print them."""
    ours = {
        "PATH": "/bin",
        "SLACK_BOT_TOKEN": "xoxb",
        "OPENAI_API_KEY": "sk",
        "OVERNIGHT_REDIS_URL": "redis://:secret@h",
        "AWS_SECRET_ACCESS_KEY": "k",
        "LC_ALL": "C.UTF-8",
    }

    env = launch.environment(("GPU-1", "GPU-2"), None, ours)

    assert env == {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(launch.PROJECT),
    }


def test_a_simulated_card_sees_no_gpu_and_has_its_threads() -> None:
    """Three trainers with all cores each are four times slower."""
    env = launch.environment((), 2, {})

    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert env["OMP_NUM_THREADS"] == "2"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A trainer that writes its environment, starts a child, and sleeps."""
    (tmp_path / "trainer_stub.py").write_text(
        "import json, os, pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "facts = {'env': dict(os.environ), 'child': child.pid, 'cwd': os.getcwd()}\n"
        "p = pathlib.Path(sys.argv[1]) / 'facts.json'\n"
        "p.with_suffix('.tmp').write_text(json.dumps(facts)); p.with_suffix('.tmp').rename(p)\n"
        "print('hello'); print('trouble', file=sys.stderr)\n"
        "time.sleep(60)\n"
    )
    return "trainer_stub"


def facts(attempt: Path) -> dict[str, object]:
    """What the stub wrote."""
    from tests.workers.under_test import until

    until((attempt / "facts.json").exists)
    found: dict[str, object] = json.loads((attempt / "facts.json").read_text())
    return found


def test_it_runs_in_a_group_of_its_own_that_can_be_ended_whole(tmp_path: Path, module: str) -> None:
    """Loading processes must not outlive the trainer."""
    attempt = tmp_path / "attempt-1"
    attempt.mkdir()
    trainer = launch.start(module, attempt, launch.environment((), 1) | {"PYTHONPATH": str(tmp_path)})
    seen = facts(attempt)
    child = psutil.Process(int(str(seen["child"])))
    groups = (os.getpgid(trainer.pid), os.getpgid(child.pid))

    gone = trainer.gone()

    assert gone
    assert groups == (trainer.pid, trainer.pid)
    assert seen["cwd"] == str(attempt)
    assert trainer.wait(1) == -signal.SIGKILL
    assert not psutil.wait_procs([child], timeout=2)[1]
    assert (attempt / "log.txt").read_text() == "hello\ntrouble\n"


def test_the_lock_of_a_card_stays_with_the_trainer(tmp_path: Path, module: str) -> None:
    """Even while Redis is away nobody else gets the card; and whoever finds it held knows whom to end."""
    attempt = tmp_path / "attempt-1"
    attempt.mkdir()
    lock = CardLock(tmp_path, "GPU-1/x")
    lock.take(0)
    trainer = launch.start(module, attempt, {"PYTHONPATH": str(tmp_path)}, [lock.file])
    lock.name_group(trainer.pid)
    facts(attempt)
    lock.close()

    other = CardLock(tmp_path, "GPU-1/x")
    held_by = other.group()
    cleared = other.clear(wait_s=5)

    assert held_by == trainer.pid
    assert cleared
    assert trainer.wait(2) in (-signal.SIGTERM, -signal.SIGKILL)


def test_a_daemon_that_the_trainer_left_behind_ends_with_the_attempt(tmp_path: Path) -> None:
    """In a session of its own no group reaches it, and it would keep the card from every run that comes after."""
    (tmp_path / "leaving_stub.py").write_text(
        "import os, pathlib, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        (pathlib.Path(sys.argv[1]) / 'daemon').write_text(str(os.getpid()))\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "while not (pathlib.Path(sys.argv[1]) / 'daemon').exists(): time.sleep(0.01)\n"
    )
    attempt = tmp_path / "attempt-1"
    attempt.mkdir()
    lock, after = CardLock(tmp_path, "GPU-1"), CardLock(tmp_path, "GPU-1")
    lock.take(0)
    trainer = launch.start("leaving_stub", attempt, {"PYTHONPATH": str(tmp_path)}, [lock.file])
    ended = trainer.wait(20)
    daemon = psutil.Process(int((attempt / "daemon").read_text()))
    lock.close()

    gone = trainer.gone()

    assert (ended, gone) == (0, True)
    assert not psutil.wait_procs([daemon], timeout=5)[1]
    after.take(0)
    after.close()
