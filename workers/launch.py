"""Starting a trainer: a fresh interpreter in a process group of its own, with an environment that is spelt out."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.processes import MARK, die_with_parent, end_group, end_marked

PASSED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
)
PASSED_PREFIXES = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_",
    "LC_",
    "XDG_",
    "CUDA_HOME",
    "CUDA_PATH",
    "NVIDIA_",
    "NCCL_",
    "TORCH_",
    "PYTORCH_",
    "HF_HOME",
    "HF_HUB_",
)
"""What a trainer sees of our environment. Tokens of Slack, models and Overnight itself are not among it, and so are not
in a trainer's logs either."""

ASKING = (signal.SIGUSR1, signal.SIGUSR2)
"""What a trainer is asked with: for a checkpoint, and for the stacks of its threads."""

PROJECT = Path(__file__).resolve().parent.parent


def environment(cards: Sequence[str], threads: int | None, ours: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The trainer's whole environment.

    Args:
        cards: UUIDs of the cards it sees; empty where simulated cards train on the CPU.
        threads: threads for the CPU's libraries; None leaves their default.
    """
    passed = {k: v for k, v in ours.items() if k in PASSED or k.upper().startswith(PASSED_PREFIXES)}
    limits = {} if threads is None else {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    return (
        passed
        | limits
        | {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(cards),
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(PROJECT),
        }
    )


class Trainer:
    """A running attempt: the process that leads its group, `pid` being the group's number too.

    Args:
        mark: in the environment of all that descends from it.
    """

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self._process = process
        self.pid = process.pid
        self.mark = mark

    def wait(self, timeout_s: float) -> int | None:
        """The exit status, as soon as there is one; None when it still runs after `timeout_s`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def ask_to_stop(self) -> None:
        """SIGTERM to the group: a trainer saves and ends with 143."""
        self._signal(signal.SIGTERM)

    def ask_for_checkpoint(self) -> None:
        """SIGUSR1 to the trainer alone: it saves after its next step and goes on."""
        self._ask(signal.SIGUSR1)

    def ask_for_stacks(self) -> None:
        """SIGUSR2 to the trainer alone: the stacks of its threads go to its log."""
        self._ask(signal.SIGUSR2)

    def cpu_s(self) -> float:
        """Seconds of processor time that the living processes of the group have used."""
        import psutil

        used = 0.0
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
                if os.getpgid(process.pid) == self.pid:
                    times = process.cpu_times()
                    used += times.user + times.system
        return used

    def kill(self) -> None:
        """SIGKILL to the group."""
        self._signal(signal.SIGKILL)

    def gone(self, wait_s: float = 5.0) -> bool:
        """What is left of the group, or left it and went on by itself, is killed; True when nothing is left."""
        if self._process.poll() is None:
            self.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(wait_s)
        ended = end_group(self.pid, grace_s=0.0, wait_s=wait_s)
        return end_marked(self.mark, wait_s) and ended

    def _ask(self, sig: signal.Signals) -> None:
        if self._process.poll() is None:
            os.kill(self.pid, sig)

    def _signal(self, sig: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, sig)


def start(module: str, attempt: Path, env: Mapping[str, str], inherit: Sequence[int] = ()) -> Trainer:
    """`python -m module attempt` runs; its output goes to log.txt of the attempt, and it dies with this process.

    Args:
        inherit: file descriptors that it keeps open (the locks of its cards).

    Raises:
        OSError: the attempt's directory cannot be written.
    """
    mark = str(attempt)
    with (attempt / "log.txt").open("ab") as log:
        return Trainer(
            subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(attempt)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=attempt,
                env={**env, MARK: mark},
                start_new_session=True,
                pass_fds=tuple(inherit),
                preexec_fn=_dying_with(os.getpid()),
            ),
            mark,
        )


def _dying_with(parent: int) -> Callable[[], None]:
    def prepare() -> None:
        die_with_parent()
        for sig in ASKING:  # ignored until the trainer has handlers for them; by default they would end it
            signal.signal(sig, signal.SIG_IGN)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)

    return prepare
