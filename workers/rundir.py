"""The directory of a run: the spec, one folder an attempt, and what earlier attempts left."""

from __future__ import annotations

import json
import logging
import re
import statistics
import time
from collections import deque
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from lab.files import replace_file
from lab.run import Progress, Run, RunResult, RunSpec
from workers.checkpoint import newest_whole
from workers.templates.attempt import finite, thinned

log = logging.getLogger(__name__)

USUAL_STEPS = 50
"""Steps whose median is what a step usually takes."""
LOG_TAIL_BYTES = 64 * 1024
_POSITION = frozenset({"kind", "step", "steps_total", "epoch", "epochs_total", "eta_s", "t"})
_ATTEMPT = re.compile(r"attempt-(\d+)")


class RunDir:
    """`exp-12/3/` below the folder of runs. A folder of the same id that an earlier ledger left is moved aside."""

    def __init__(self, runs: Path, run: Run) -> None:
        self.path = runs / run.id
        spec = self.spec()
        if self.path.exists() and (spec is None or spec.queued_at != run.queued_at):
            aside = self.path.with_name(f"{self.path.name}.before-{time.strftime('%Y%m%d-%H%M%S')}-{run.queued_at:.0f}")
            self.path.rename(aside)
            log.warning("%s: a directory of another run with this id was moved to %s", run.id, aside)
        self.path.mkdir(parents=True, exist_ok=True)

    def write_spec(self, spec: RunSpec) -> None:
        """spec.json is there, whole."""
        replace_file(self.path / "spec.json", spec.model_dump_json(indent=1).encode())

    def begin(self, fence: int) -> Path:
        """The folder of the attempt."""
        attempt = self.path / f"attempt-{fence}"
        attempt.mkdir(exist_ok=True)
        return attempt

    def attempts(self) -> list[Path]:
        """Folders of all attempts, the newest first."""
        found = [(int(m[1]), p) for p in self.path.glob("attempt-*") if (m := _ATTEMPT.fullmatch(p.name))]
        return [path for _, path in sorted(found, reverse=True)]

    def checkpoints(self) -> Path | None:
        """Where the newest attempt that left a whole checkpoint did so; None when none did."""
        folders = [attempt / "checkpoints" for attempt in self.attempts()]
        for folder in folders:
            if newest_whole(folder) is not None:
                return folder
            if folder.is_dir() and any(folder.iterdir()):
                log.warning("%s: no checkpoint in %s is whole; those of an earlier attempt are used", self.path, folder)
        return None

    def saved_step(self) -> int | None:
        """Step of the checkpoint from which the next attempt would go on; None when it would start anew."""
        folder = self.checkpoints()
        return newest_whole(folder) if folder else None

    def set_checkpoints_aside(self) -> None:
        """The next attempt starts anew; what was saved so far stays below other names."""
        for attempt in self.attempts():
            if (attempt / "checkpoints").is_dir():
                (attempt / "checkpoints").rename(attempt / "checkpoints-set-aside")

    def result(self) -> RunResult | None:
        """The result of an attempt that finished but could not say so (Redis was away); None without one."""
        return next((found for attempt in self.attempts() if (found := read_result(attempt))), None)

    def spec(self) -> RunSpec | None:
        """What the last attempt was given; None before the first, or where it cannot be read."""
        try:
            return RunSpec.model_validate_json((self.path / "spec.json").read_bytes())
        except (OSError, ValidationError):
            return None


def read_result(attempt: Path) -> RunResult | None:
    """What the trainer left as its result; None when it left none that can be read."""
    try:
        result = RunResult.model_validate_json((attempt / "result.json").read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        log.warning("%s: result.json cannot be used: %s", attempt, str(error).splitlines()[0])
        return None
    metrics = {name: finite(value) for name, value in result.metrics.items()}
    curves = {name: [(x, finite(y)) for x, y in thinned(curve)] for name, curve in result.curves.items()}
    return result.model_copy(update={"metrics": metrics, "curves": curves})


def read_log(attempt: Path) -> str:
    """The end of log.txt; empty when there is none."""
    try:
        with (attempt / "log.txt").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


class Metrics:
    """metrics.jsonl read as it grows: whole lines only, each once.

    Args:
        curves: whether the progress holds the metrics of all epochs so far, not only the last ones.
    """

    def __init__(self, attempt: Path, *, curves: bool = False) -> None:
        self._path = attempt / "metrics.jsonl"
        self._curves: dict[str, list[tuple[float, float | None]]] | None = {} if curves else None
        self._offset = 0
        self._latest: dict[str, Any] = {}
        self._metrics: dict[str, float | None] = {}
        self._steps: deque[float] = deque(maxlen=USUAL_STEPS)
        self._last: tuple[int, float] | None = None
        self._first_step_at: float | None = None
        self.lines = 0
        """Lines read so far."""
        self.phase: Literal["start", "train", "evaluation"] = "start"
        """What the trainer is at: `start` until its first step line."""
        self.progress = Progress()
        """How far the trainer is, by all lines read so far."""

    def read(self) -> str | None:
        """What kind of news there was since the last call: `epoch`, `step`, or None for none."""
        lines = [line for line in map(_parse, self._lines()) if line]
        self.lines += len(lines)
        for line in lines:
            self._time(line)
            self._latest |= {k: v for k, v in line.items() if k in _POSITION}
            found = {k: finite(v) for k, v in line.items() if k not in _POSITION and _is_number(v)}
            self._metrics |= found
            if self._curves is not None and line.get("kind") == "epoch" and isinstance(line.get("epoch"), int):
                for name, value in found.items():
                    self._curves.setdefault(name, []).append((line["epoch"], value))
        if not lines:
            return None
        try:
            self.progress = Progress.model_validate(
                self._latest
                | {"phase": self.phase, "metrics": self._metrics, "at": time.time()}
                | {"first_step_at": self._first_step_at}
                | {"curves": {name: thinned(curve) for name, curve in (self._curves or {}).items()}}
            )
        except ValidationError as error:
            log.debug("%s: no progress in its last line: %s", self._path, error)
        return "epoch" if any(line.get("kind") == "epoch" for line in lines) else "step"

    @property
    def step_s(self) -> float | None:
        """Median seconds of the latest steps; None before there are any."""
        return statistics.median(self._steps) if self._steps else None

    def _time(self, line: dict[str, Any]) -> None:
        kind, step, at = line.get("kind"), line.get("step"), line.get("t")
        if kind == "step" and isinstance(step, int) and isinstance(at, int | float):
            if self._last and step > self._last[0]:
                self._steps.append((at - self._last[1]) / (step - self._last[0]))
            self._last = step, at
            self._first_step_at = self._first_step_at or at
        else:
            self._last = None  # an evaluation lies between
        self.phase = "evaluation" if kind == "evaluation" else "train"

    def _lines(self) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return []
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return whole.splitlines()


def _parse(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
