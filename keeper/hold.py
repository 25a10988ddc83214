"""Holding one card: the heartbeat's process, listened to, restarted with back-off, and ended within a second."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from pydantic import ValidationError

from keeper.heartbeat import CANNOT_START, TELL_S
from lab.card import KeeperStatus

log = logging.getLogger(__name__)

MAX_INTERVAL_S = 86_400.0
GRACE_S = 0.6
"""From SIGTERM to SIGKILL; leaves room to be gone within a second. The driver frees a killed process's memory."""
SILENT_S = 120.0
"""A beat may come so much late (importing torch on a busy host, a slow driver) before the process counts as hung."""
FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 60.0


class Hold:
    """Keeps a card by a child process; all methods belong to one thread, which must outlive the child (PDEATHSIG).

    Args:
        card: the card's UUID, or a word for it where only its index is known.
        which: how the child finds it: `["--uuid", ...]` or `["--gpu", "3"]`.
        mode: `touch`, or `duty` for a child that computes as `say` tells it.
        command: what to run instead of the heartbeat, for tests.
        clock: monotonic seconds.

    Raises:
        ValueError: the interval is not between 0.1 s and a day.
    """

    def __init__(
        self,
        card: str,
        which: Sequence[str],
        interval_s: float,
        *,
        mode: str = "touch",
        simulate: bool = False,
        command: Sequence[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0.1 <= interval_s <= MAX_INTERVAL_S:
            raise ValueError(f"an interval of {interval_s:g} s: between 0.1 and {MAX_INTERVAL_S:.0f} s is wanted")
        self.card = card
        self.cannot: str | None = None
        """Why the card could not be held at all; set when the child said so and no child ever beat."""
        self.status: KeeperStatus | None = None
        """What the child last said, None before the first start; beats are counted over all children."""
        self._command = [*(command or (sys.executable, "-P", "-m", "keeper.heartbeat")), *which]
        self._command += ["--interval", str(interval_s), "--parent", str(os.getpid())]
        self._command += ["--mode", mode] if mode != "touch" else []
        self._command += ["--simulate"] if simulate else []
        self._mode = mode
        self._interval_s = interval_s if mode == "touch" else TELL_S
        self._clock = clock
        self._child: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._child_problem: str | None = None
        self._beats_before = 0
        self._failures = 0
        self._due = clock()
        self._heard = clock()

    def step(self) -> None:
        """The child is started if due, heard, and buried if it died; never blocks."""
        if self._child is None:
            if self._clock() >= self._due:
                self._start()
            return
        code = self._child.poll()
        self._listen(self._child)
        if code is not None:
            self._died(f"ended with status {code}", code)
        elif self._clock() - self._heard > self._interval_s + SILENT_S:
            self._end(grace_s=0.0)
            self._died(f"was silent for {self._interval_s + SILENT_S:.0f} s and was killed", None)

    def say(self, duty: float) -> None:
        """The child computes for this share of the time; nothing waits for a child that does not listen."""
        if self._child is not None and self._child.stdin is not None:
            with contextlib.suppress(OSError):  # it just died, or has not read for very long: both show otherwise
                os.write(self._child.stdin.fileno(), b"%.4f\n" % duty)

    def stop(self) -> None:
        """The child is gone, and with it all it held on the card; takes less than a second."""
        self._end(GRACE_S)
        self._child = None
        if self.status is not None:
            self.status = self.status.model_copy(update={"pid": None})

    def let_go(self) -> None:
        """The child was told to end, and nothing else was done; fits into a signal handler."""
        if self._child is not None:
            self._child.terminate()

    def _start(self) -> None:
        # A process group of its own: Ctrl-C in a terminal is for us, and we end the child in order.
        stdin = subprocess.PIPE if self._mode == "duty" else subprocess.DEVNULL
        self._child = subprocess.Popen(self._command, stdin=stdin, stdout=subprocess.PIPE, process_group=0)
        assert self._child.stdout is not None
        if self._child.stdin is not None:
            os.set_blocking(self._child.stdin.fileno(), False)
        os.set_blocking(self._child.stdout.fileno(), False)
        self._unread = b""
        self._child_problem = None
        self._heard = self._clock()
        self._beats_before = self.status.beats if self.status else 0
        before = self.status or KeeperStatus(card=self.card, mode=self._mode, interval_s=self._interval_s)
        self.status = before.model_copy(update={"pid": self._child.pid})

    def _listen(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        data = child.stdout.read()
        *lines, self._unread = (self._unread + (data or b"")).split(b"\n")
        for line in lines:
            try:
                self._said(KeeperStatus.model_validate_json(line))
            except ValidationError:
                log.warning("%s: the heartbeat's process printed %r", self.card, line[:200])

    def _said(self, said: KeeperStatus) -> None:
        self._heard = self._clock()
        self._child_problem = said.problem
        if said.beats > 0 and said.problem is None:
            self._failures = 0
        last_beat_at = said.last_beat_at or (self.status.last_beat_at if self.status else None)
        beats = self._beats_before + said.beats
        self._tell(said.model_copy(update={"card": self.card, "beats": beats, "last_beat_at": last_beat_at}))

    def _died(self, how: str, code: int | None) -> None:
        child, self._child = self._child, None
        assert child is not None
        assert child.stdout is not None
        assert self.status is not None
        child.stdout.close()
        if child.stdin is not None:
            child.stdin.close()
        why = self._child_problem
        if code == CANNOT_START and self.status.beats == 0:
            self.cannot = why
        wait_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        self._due = self._clock() + wait_s
        if why is None or code != CANNOT_START:
            why = f"the heartbeat's process {how}" + (f" ({why})" if why else "")
        self._tell(self.status.model_copy(update={"problem": why, "pid": None}))
        if self.cannot is None:
            log.warning("%s: next try in %g s", self.card, wait_s)

    def _tell(self, status: KeeperStatus) -> None:
        """The status is kept; problems, and their end, are logged once."""
        before, self.status = self.status, status
        if status.problem and (before is None or before.problem != status.problem):
            log.warning("%s: %s", self.card, status.problem)
        elif status.problem is None and status.beats > 0 and (before is None or before.problem or before.beats == 0):
            log.info("%s: held by PID %s, beat %d", self.card, status.pid, status.beats)

    def _end(self, grace_s: float) -> None:
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
