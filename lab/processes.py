"""How our processes end: with their parent, and as whole groups."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

PR_SET_PDEATHSIG = 1  # linux/prctl.h
MARK = "OVERNIGHT_ATTEMPT"
"""Variable that all processes of an attempt have from its trainer, whatever sessions they make for themselves."""
CLOCK_TICK_S = 1.0
"""The kernel tells a process's start in ticks since boot, and the boot in whole seconds."""


def die_with_parent(sig: signal.Signals = signal.SIGKILL) -> None:
    """The kernel sends `sig` to this process when the thread that started it ends; Linux only, nothing elsewhere.

    Called in the child between fork and exec (`preexec_fn`), or right after a fork.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, sig)


def is_process(pid: int | None, born: float) -> bool:
    """True while the process lives that had this id at `born`, in seconds since the epoch; a later one is another."""
    import psutil

    try:
        process = psutil.Process(pid or 0)
        return bool(process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= born + CLOCK_TICK_S)
    except psutil.NoSuchProcess:
        return False


def group_alive(pgid: int) -> bool:
    """True while a process of the group exists that is no zombie."""
    import psutil

    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == pgid and process.info["status"] != psutil.STATUS_ZOMBIE:
                return True
    return False


def end_group(pgid: int, grace_s: float, wait_s: float = 5.0) -> bool:
    """SIGTERM to the group, SIGKILL after `grace_s`; True when nothing of it is left `wait_s` after that."""
    for sig, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, wait_s)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pgid, sig)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not group_alive(pgid):
                return True
            time.sleep(0.05)
    return not group_alive(pgid)


def end_marked(mark: str, wait_s: float = 5.0) -> bool:
    """SIGKILL to every process of this user whose environment bears the mark; True when none is left after `wait_s`.

    No mark: nothing is done. A process that emptied its environment is no longer known as the attempt's.
    """
    import psutil

    deadline = time.monotonic() + wait_s
    while mark and (found := marked(mark)):
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True


def marked(mark: str) -> list[psutil.Process]:
    """The living processes of this user, but for this one, that bear the mark."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # a zombie has no environment, a stranger's is not for us
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.append(process)
    return found
