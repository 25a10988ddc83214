"""Processes end with their parent, and as whole groups."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from lab.processes import die_with_parent, end_group, group_alive

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
PARENT = """
import subprocess, sys
from lab.processes import die_with_parent
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], preexec_fn=die_with_parent)
print(child.pid, flush=True)
child.wait()
"""


def test_a_child_ends_with_its_parent() -> None:
    """A killed worker must leave nothing that runs on."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    child = psutil.Process(int(parent.stdout.readline()))

    parent.kill()
    parent.wait()

    assert not psutil.wait_procs([child], timeout=5)[1]


def test_a_group_that_ignores_sigterm_is_killed() -> None:
    """SIGTERM, grace, SIGKILL, and then it is verified."""
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    assert process.stdout
    process.stdout.readline()
    began = time.monotonic()

    gone = end_group(process.pid, grace_s=0.3)

    assert gone
    assert time.monotonic() - began < 3
    assert process.wait() == -signal.SIGKILL


def test_a_zombie_is_no_longer_alive() -> None:
    """A trainer that nobody has waited for yet holds no card."""
    process = subprocess.Popen([sys.executable, "-c", "pass"], start_new_session=True)
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)

    alive = group_alive(process.pid)
    process.wait()

    assert not alive


def test_a_group_outlives_its_leader(tmp_path: Path) -> None:
    """A trainer's loading processes must be ended with it."""
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    leader = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True, text=True)
    assert leader.stdout
    child = psutil.Process(int(leader.stdout.readline()))
    leader.wait()
    alive = group_alive(leader.pid)

    gone = end_group(leader.pid, grace_s=1)

    assert alive
    assert gone
    assert not psutil.wait_procs([child], timeout=5)[1]


def test_ending_a_group_that_is_gone_is_harmless() -> None:
    """Every ending may be repeated."""
    process = subprocess.Popen(["true"], start_new_session=True)
    process.wait()

    assert end_group(process.pid, grace_s=0)


def test_the_signal_can_be_a_gentle_one() -> None:
    """The embedded server still writes its file."""
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        if os.fork() == 0:
            die_with_parent(signal.SIGTERM)
            signal.signal(signal.SIGTERM, lambda *_: os.write(writer, b"asked") and os._exit(0))
            os.write(writer, b"ready")
            time.sleep(20)
        os.read(reader, 5)
        os._exit(0)
    os.waitpid(middle, 0)

    assert os.read(reader, 5) == b"asked"
