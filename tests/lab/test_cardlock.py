"""The lock that keeps a second tenant off a card."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from lab import cardlock
from lab.cardlock import CardLock
from lab.errors import CardError
from lab.processes import MARK


def test_a_holder_without_a_name_that_is_just_dying_is_waited_for(tmp_path: Path) -> None:
    """Its parent was killed between the trainer's spawn and its name: else the run waits for the end of its lease."""
    dying, after = CardLock(tmp_path, "card-a"), CardLock(tmp_path, "card-a")
    dying.take(0)
    threading.Timer(0.2, dying.close).start()

    cleared = after.clear(wait_s=5)

    assert cleared
    after.close()


def test_a_holder_without_a_name_that_stays_is_told_of_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's other cards are looked after by the same process."""
    monkeypatch.setattr(cardlock, "LET_GO_S", 0.1)
    stray, after = CardLock(tmp_path, "card-a"), CardLock(tmp_path, "card-a")
    stray.take(0)

    cleared = after.clear(wait_s=5)

    assert not cleared
    stray.close()
    after.close()


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
"""
"""Leaves a grandchild of another session behind, which keeps the card's lock that it inherited."""


def leave_daemon(lock: CardLock, environ: dict[str, str]) -> psutil.Process:
    """The daemon, whose parents have ended."""
    command = [sys.executable, "-c", DAEMON]
    parent = subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, **environ}, pass_fds=(lock.file,), start_new_session=True
    )
    assert parent.stdout
    daemon = psutil.Process(int(parent.stdout.readline()))
    parent.wait()
    lock.name_group(parent.pid, "attempt-1")
    return daemon


@pytest.fixture
def lock(tmp_path: Path) -> CardLock:
    """The lock of a card, taken."""
    taken = CardLock(tmp_path, "card-a")
    taken.take(0)
    return taken


def test_a_grandchild_in_a_session_of_its_own_is_ended_with_its_attempt(lock: CardLock, tmp_path: Path) -> None:
    """It kept the card for ever: its group is not the trainer's, and every next attempt was sent away."""
    daemon = leave_daemon(lock, {MARK: "attempt-1"})
    lock.close()
    after = CardLock(tmp_path, "card-a")

    cleared = after.clear(wait_s=5)

    assert cleared
    assert not psutil.wait_procs([daemon], timeout=5)[1]
    after.close()


@pytest.mark.parametrize("environ", [{}, {MARK: "attempt-2"}])
def test_what_descends_from_no_such_attempt_is_left_alone_and_named(
    environ: dict[str, str], lock: CardLock, tmp_path: Path
) -> None:
    """A stranger's process, or the next attempt's: whoever it belongs to has to end it."""
    daemon = leave_daemon(lock, environ)
    lock.close()
    after = CardLock(tmp_path, "card-a")

    cleared = after.clear(wait_s=0.2)
    holders = after.holders()

    assert not cleared
    assert daemon.is_running()
    assert f"PID {daemon.pid} (python" in holders
    with pytest.raises(CardError, match=f"PID {daemon.pid}"):
        after.take(0)
    daemon.kill()


def test_what_let_go_of_the_lock_is_ended_with_its_attempt_too(lock: CardLock, tmp_path: Path) -> None:
    """Daemons close what they inherited; the memory that they hold on the card is there all the same."""
    idle = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={MARK: "attempt-1"})
    lock.name_group(4711, "attempt-1")
    lock.close()
    after = CardLock(tmp_path, "card-a")

    cleared = after.clear(wait_s=5)

    assert cleared
    assert idle.wait(5) == -signal.SIGKILL
    after.close()


def test_a_lock_file_of_the_last_version_names_its_group(lock: CardLock) -> None:
    """A trainer may have been started before the upgrade."""
    os.ftruncate(lock.file, 0)
    os.pwrite(lock.file, b"4711", 0)

    assert lock.group() == 4711
    lock.close()


def test_a_keepers_lock_and_a_trainers_are_two(lock: CardLock, tmp_path: Path) -> None:
    """With one card both have it, one after the other; two keepers never do."""
    keeper, second = CardLock(tmp_path, "card-a", "keeper"), CardLock(tmp_path, "card-a", "keeper")

    assert keeper.take_at_once()
    assert not second.take_at_once()
    assert second.group() == os.getpid()
    for one in (lock, keeper, second):
        one.close()
