"""The attempt directory seen from inside the trainer: the spec comes in, metrics, log and result go out."""

from __future__ import annotations

import faulthandler
import json
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from pydantic import ValidationError

from lab.errors import RequestError
from lab.files import replace_file
from lab.run import RunResult, RunSpec
from workers.templates.params import TemplateParams

P = TypeVar("P", bound=TemplateParams)
Curve = list[tuple[float, float | None]]

EXIT_STOPPED = 128 + signal.SIGTERM
"""Exit status after SIGTERM: the launcher tells a stop from a failure by it."""

CURVE_POINTS = 500
"""Most points of a curve in a result."""


class Attempt:
    """One try of a run, in its own folder. Nothing is written outside that folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = RunSpec.model_validate_json((folder.parent / "spec.json").read_bytes())
        self.checkpoints = folder / "checkpoints"
        self._metrics = (folder / "metrics.jsonl").open("a", encoding="utf-8")

    @property
    def number(self) -> int:
        """N of `attempt-N`; 1 for a folder of another name."""
        tail = self.folder.name.rpartition("-")[2]
        return int(tail) if tail.isdecimal() else 1

    def params(self, kind: type[P]) -> P:
        """The spec's parameters, checked.

        Raises:
            RequestError: one is unknown or out of bounds; the message names each with its value.
        """
        try:
            return kind.model_validate(self.spec.params)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, e['loc'])) or 'parameters'} = {e['input']!r}: {e['msg']}" for e in error.errors()
            )
            raise RequestError(f"{self.spec.run_id}: {self.spec.template} cannot run with {problems}") from None

    def record(self, kind: str, **values: Any) -> None:
        """One line is in metrics.jsonl and visible to readers; numbers that are not finite are written as null."""
        line = {"kind": kind} | {k: finite(v) for k, v in values.items()} | {"t": round(time.time(), 3)}
        self._metrics.write(json.dumps(line, allow_nan=False) + "\n")
        self._metrics.flush()

    def finish(self, result: RunResult) -> None:
        """The result is there, whole: the last thing that a trainer writes, and only when it succeeded."""
        self._metrics.close()
        result = result.model_copy(update={"provenance": self.spec.provenance})
        replace_file(self.folder / "result.json", result.model_dump_json(indent=1).encode())


class StopSignal:
    """SIGTERM as a flag to be read between steps; while nothing can be saved yet it ends the process at once.

    SIGUSR1 asks for a checkpoint at the next step, and SIGUSR2 has the stacks of all threads written to the log, even
    by a process that hangs. Made in the main thread before anything slow, so that the first seconds are heard as well.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._save = False
        self._saving = False
        signal.signal(signal.SIGTERM, self._receive)
        signal.signal(signal.SIGUSR1, self._receive_save)
        faulthandler.register(signal.SIGUSR2, all_threads=True)

    def save_first(self) -> None:
        """From now on a stop waits for the caller, who looks at `asked` between steps and saves."""
        self._saving = True

    @property
    def asked(self) -> bool:
        """True once somebody wants this process to end."""
        return self._asked.is_set()

    def save_wanted(self) -> bool:
        """True once after somebody asked for a checkpoint."""
        wanted, self._save = self._save, False
        return wanted

    def wait(self, seconds: float) -> bool:
        """Sleeps, unless a stop is asked for; True if it was."""
        return self._asked.wait(seconds)

    def _receive_save(self, signum: int, frame: FrameType | None) -> None:
        self._save = True

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        self._asked.set()
        if not self._saving:
            # SystemExit could be swallowed by an import that catches everything; there is nothing to clean up.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(EXIT_STOPPED)


def log_to_stdout() -> None:
    """Log lines go to standard output, which the launcher captures as log.txt."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname).1s %(message)s", datefmt="%H:%M:%S"
    )


def finite(value: Any) -> Any:
    """`value`, or None for a float that is NaN or infinite: JSON has no word for those."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def thinned(curve: Sequence[tuple[float, float | None]], points: int = CURVE_POINTS) -> Curve:
    """At most `points` of a curve, evenly taken, its first and last among them."""
    if len(curve) <= points:
        return list(curve)
    return [curve[round(i * (len(curve) - 1) / (points - 1))] for i in range(points)]


def last_values(curves: Mapping[str, Sequence[tuple[float, float | None]]]) -> dict[str, float | None]:
    """The last value of every curve."""
    return {name: curve[-1][1] for name, curve in curves.items() if curve}
