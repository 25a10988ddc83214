"""The heartbeat: a little memory held on one card, touched at every interval or computed with, in its own process.

Run as `python -m keeper.heartbeat` by `keeper.hold`, which listens to the JSON lines on its standard output. CUDA is
initialised in this process and no other, so that a CUDA fault ends only this one, and so that its parent can answer a
signal at once while this one is inside an import or a driver call.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from keeper.memory import CardMemory, HostMemory, cuda_memory
from keeper.stop import Stop
from lab.card import KeeperStatus
from lab.errors import CardError
from lab.processes import die_with_parent

log = logging.getLogger(__name__)

PERIOD_S = 0.1
"""From burst to burst: drivers average utilisation over 1/6 s to 1 s, so that each average holds some of them."""
TELL_S = 5.0
"""How often a computing process says that it still does."""
UNTOLD_S = 60.0
"""Without a word of its parent for so long it rests: nobody looks whether real work is there."""
RETRIES = 3
"""Tries after a failed beat before the process ends: a faulted CUDA context never recovers, a new process can."""
FIRST_RETRY_S = 1.0
CANNOT_START = 3
"""Exit status of this process when there is nothing to hold (no torch, no driver, no such card)."""
FAULTED = 4


class Heartbeat:
    """Touches a card's memory at every interval until it is asked to stop.

    Args:
        on_beat: told after every beat and every failure, from the thread that runs `run`.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        memory: CardMemory,
        card: str,
        interval_s: float,
        on_beat: Callable[[KeeperStatus], None],
        stop: Stop,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._memory = memory
        self._interval_s = interval_s
        self._on_beat = on_beat
        self._stop = stop
        self._clock = clock
        self._failures = 0
        self._held = False
        self.status = KeeperStatus(card=card, pid=os.getpid(), interval_s=interval_s)

    def run(self) -> None:
        """The stop was asked for, and the memory is free.

        Raises:
            CardError: the card failed several times in a row; the memory is free as far as the driver still answers.
        """
        try:
            while not self._stop.asked:
                self._stop.wait(self._beat())
        finally:
            self._release()

    def _beat(self) -> float:
        """One beat was tried and told; returns the seconds to wait for the next one."""
        try:
            if not self._held:
                self._memory.hold()
                self._held = True
            wait_s = self._work()
        except (RuntimeError, MemoryError) as error:
            return self._failed(error)
        self._failures = 0
        return wait_s

    def _work(self) -> float:
        """The card was touched, and that told; as in `_beat`. RuntimeError and MemoryError are retried."""
        self._memory.touch()
        self._tell_beat()
        return self._interval_s

    def _tell_beat(self, **changes: Any) -> None:
        self._tell(beats=self.status.beats + 1, last_beat_at=self._clock(), problem=None, **changes)

    def _failed(self, error: Exception) -> float:
        self._release()
        self._failures += 1
        problem = f"beat failed: {_first_line(error)}"
        self._tell(problem=problem)
        if self._failures > RETRIES:
            raise CardError(f"{self.status.card}: {problem} ({self._failures} times in a row)") from error
        return min(self._interval_s, FIRST_RETRY_S * math.pow(2, self._failures - 1))

    def _release(self) -> None:
        self._held = False
        with contextlib.suppress(RuntimeError):  # a faulted context cannot even synchronise; the process's end frees it
            self._memory.release()

    def _tell(self, **changes: Any) -> None:
        self.status = self.status.model_copy(update=changes)
        self._on_beat(self.status)


class Words:
    """What the parent says on standard input, a duty a line; heard by a thread, since a burst must not wait for it."""

    def __init__(self, lines: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._lines = lines
        self._clock = clock
        self._heard = (0.0, clock())
        threading.Thread(target=self._listen, name="words", daemon=True).start()

    def duty(self) -> float:
        """The share of time to compute; 0 while nobody says that the card is free of real work."""
        duty, at = self._heard
        return duty if self._clock() - at < UNTOLD_S else 0.0

    def _listen(self) -> None:
        for line in self._lines:
            with contextlib.suppress(ValueError):
                self._heard = (min(1.0, max(0.0, float(line))), self._clock())


class Pulse(Heartbeat):
    """Computes in short bursts for the share of time that its parent says, until it is asked to stop.

    Args:
        duty: asked before every burst.
        monotonic: seconds, for the bursts.
    """

    def __init__(
        self,
        memory: CardMemory,
        card: str,
        on_beat: Callable[[KeeperStatus], None],
        stop: Stop,
        duty: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(memory, card, TELL_S, on_beat, stop)
        self.status = self.status.model_copy(update={"mode": "duty"})
        self._duty = duty
        self._monotonic = monotonic
        self._told_at: float | None = None
        self._computed_s = 0.0

    def _work(self) -> float:
        """One burst, and rest for what is left of the period."""
        begun = self._monotonic()
        if self._told_at is None:
            self._memory.touch()
        elif (duty := self._duty()) > 0:
            self._memory.burst(duty * PERIOD_S)
        now = self._monotonic()
        self._computed_s += now - begun
        if self._told_at is None or now - self._told_at >= TELL_S:
            share = self._computed_s / (now - self._told_at) if self._told_at is not None else 0.0
            self._told_at, self._computed_s = now, 0.0
            self._tell_beat(duty=round(share, 4))
        return max(0.0, PERIOD_S - (now - begun))

    def _failed(self, error: Exception) -> float:
        self._told_at = None
        return super()._failed(error)


def main(arguments: Sequence[str] | None = None) -> int:
    """The heartbeat's process: a JSON line, a `KeeperStatus`, for every beat and failure until SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process in order
    options = _parser().parse_args(arguments)
    _end_with(options.parent)
    card = options.uuid or f"GPU {options.gpu}"
    try:
        memory = HostMemory() if options.simulate else cuda_memory(options.gpu, options.uuid)
        # Until here SIGTERM ends the process at once: nothing is held yet, and an import must not delay it.
        stop = Stop().on_signals()
        if options.mode == "duty":
            Pulse(memory, card, _print, stop, Words(sys.stdin).duty).run()
        else:
            Heartbeat(memory, card, options.interval, _print, stop).run()
    except CardError as error:
        problem = _first_line(error)
        _print(KeeperStatus(card=card, pid=os.getpid(), interval_s=options.interval, problem=problem))
        return FAULTED if isinstance(error.__cause__, RuntimeError | MemoryError) else CANNOT_START
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m keeper.heartbeat")
    parser.add_argument("--gpu", type=int)
    parser.add_argument("--uuid")
    parser.add_argument("--interval", type=float, required=True)
    parser.add_argument("--mode", choices=["touch", "duty"], default="touch")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--parent", type=int, help="end with this process")
    return parser


def _end_with(parent: int | None) -> None:
    """This process is killed when its parent ends.

    Asked for here and not between fork and exec: the watch has threads inside the driver's library then.
    """
    if parent is None:
        return
    die_with_parent()
    if os.getppid() != parent:  # it ended before the kernel was asked
        sys.exit(0)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _print(status: KeeperStatus) -> None:
    print(status.model_dump_json(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
