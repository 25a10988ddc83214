"""Whether a trainer still lives: it hangs when it shows no sign of life at all for long, never by one sign alone."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from workers.launch import Trainer
from workers.rundir import Metrics

SLOW_STEPS = 20
"""So many of its usual steps without one: longer steps than `run.hang_s` are no hang."""
ALLOWANCE = 3.0
"""Start-up and evaluation leave no step lines and may wait for a disk or a download: they get so many times longer."""
BUSY = 0.05
"""Share of one core, and of the card, above which the trainer computes; a process that waits stays below 0.01."""
LOOKS = 5
"""Looks at processor and card within the time that makes a hang."""
DUMP_S = 3.0
"""Time for the stacks to be written."""

_FRAME = re.compile(
    r'(?P<thread>Current thread|Thread) .*\n\s+File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<name>.+)'
)


class Pulse:
    """Signs of life of a trainer: steps, log, processor time of its group, utilisation of its card.

    Args:
        utilisation: of its card in per cent, as last published; None when it is unknown, which is no sign of anything.
    """

    def __init__(
        self,
        trainer: Trainer,
        attempt: Path,
        metrics: Metrics,
        hang_s: float,
        utilisation: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trainer = trainer
        self.log = attempt / "log.txt"
        self.metrics = metrics
        self.hang_s = hang_s
        self._utilisation = utilisation
        self._clock = clock
        self._alive_at = self._looked_at = clock()
        self._seen: tuple[int, int] = (0, 0)
        self._cpu_s = 0.0

    @property
    def limit_s(self) -> float:
        """Seconds without any sign of life that make a hang, where the trainer is now."""
        step_s = self.metrics.step_s
        limit = max(self.hang_s, SLOW_STEPS * (step_s or 0.0))
        return limit if self.metrics.phase == "train" and step_s is not None else ALLOWANCE * limit

    def silent_s(self) -> float:
        """Seconds since the last sign of life."""
        now = self._clock()
        seen = (self.metrics.lines, _size(self.log))
        if seen != self._seen:
            self._seen, self._alive_at = seen, now
        waited = now - self._looked_at
        if waited >= max(0.3, min(30.0, self.hang_s / LOOKS)):
            if self._computes(waited):
                self._alive_at = now
            self._looked_at = now
        return now - self._alive_at

    def hangs(self) -> bool:
        """True when every sign has been missing for as long as makes a hang."""
        return self.silent_s() >= self.limit_s

    def dump(self) -> str:
        """The stacks of the trainer's threads stand in its log; where it is stuck, as a sentence."""
        before = _size(self.log)
        why = f"no step, no line and no computing for {self.silent_s():.0f} s"
        with self.log.open("a") as log:
            log.write(f"overnight: {why}; the stacks of its threads:\n")
        self.trainer.ask_for_stacks()
        deadline, size = time.monotonic() + DUMP_S, -1
        while time.monotonic() < deadline and (
            size != (size := _size(self.log)) or _FRAME.search(self._since(before)) is None
        ):
            time.sleep(0.2)
        return f"{why}; {where(self._since(before))}"

    def _computes(self, seconds: float) -> bool:
        used = self.trainer.cpu_s()
        busy = abs(used - self._cpu_s) > BUSY * seconds  # less than before: a process of the group has ended
        self._cpu_s = used
        utilisation = self._utilisation()
        return busy or (utilisation is not None and utilisation > 100 * BUSY)

    def _since(self, offset: int) -> str:
        try:
            with self.log.open("rb") as log:
                log.seek(offset)
                return log.read().decode(errors="replace")
        except OSError:
            return ""


def where(dump: str) -> str:
    """The innermost frame of the dump's own thread, as a phrase."""
    frames = list(_FRAME.finditer(dump))
    frame = next((f for f in frames if f["thread"] == "Current thread"), frames[-1] if frames else None)
    if frame is None:
        return "it did not even write its stacks"
    return f"stuck in {frame['name'].strip()} ({Path(frame['file']).name}:{frame['line']})"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
