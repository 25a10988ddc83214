"""A log as the diagnosis reads it: lines without colours, tracebacks with their last lines, progress, losses."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

LONGEST = 2000
"""Of a longer line only the beginning is looked at, so that one line of many megabytes costs nothing."""
MOST_CHARACTERS = 400_000
"""Of a longer log only the end is looked at."""
SAME_AT_MOST = 8
"""Of lines that differ in numbers only, so many of the first are matched against the rules, and the last."""
LOSSES_IN = 400
"""The training loss is read from so many of the last lines."""

TRACEBACK = "traceback (most recent call last)"
"""Heads one; notebooks put the exception's name before it."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RANK = re.compile(r"^(?:\[[\w:,. <>-]{1,40}\]:?(?:<std\w+>:?)? ?|\(\w[\w ]{0,40}pid=\d+[^)]{0,60}\) ?|\d{1,4}: )+")
_STAMP = re.compile(
    r"^(?:\[?\d{4}[-/]\d\d[-/]\d\d[T ]?[\d:.,]*Z?\]?|\[?\d\d:\d\d:\d\d[\d.,]*\]?|[IWEF]\d{4}"
    r"|\[?(?:ERROR|CRITICAL|FATAL|stderr)\]?:?|[-:|])\s*"
)
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?=:\s|:?\s*$)")
_FRAME_LINE = re.compile(r'file "[^"\n]{1,200}", line \d+')
_BOXED = re.compile(r"│ *(?:❱ *)?\d+ (?:│|$)|--+> ?\d+ ")
"""A line of code as rich and notebooks show it."""
_FRAME = re.compile(r'File "([^"\n]{1,200})", line (\d+)')
_INSTALLED = ("site-packages", "dist-packages", "/lib/python", "<frozen", "<string>")
_DIGITS = str.maketrans("123456789", "000000000")
_CHAINED = ("during handling of the above exception", "the above exception was the direct cause")
_HARMLESS = ("exception ignored in", "exception in thread", "logging error ---", "_run_exitfuncs", "expected traceback")
_PROGRESS = re.compile(
    r"\b(?:epoch|ep|step|iter|iteration|batch|it)s?\b[^a-z0-9\n]{0,4}\d|\bloss['\"]?[^a-z\n]{0,6}\d|\d ?it/s|s/it\b"
    r"|\bacc(?:uracy)?\b['\"]?[^a-z\n]{0,4}\d|第 ?\d+|损失[^\n]{0,3}\d|\d+/\d+ \[\d"
)
_TROUBLE = re.compile(
    r"error: (?![\d.])|error\b(?!\w|_|[ =:]+[\d.]+)|exception|traceback|denied|no such|not found|missing|mismatch"
    r"|no space|invalid|refused|unreachable|assert|xid|warn|failed|killed|out of memory|timeout|timed out|nan\b"
    r"|abort|cancelled|stuck|no progress|signal|sigterm|stopped|interrupt|preempt|xid|stalled|no output"
)
_LOSS = re.compile(
    r"(?:(?<![a-z_])(?:train_?|training )?loss|损失)"
    r"['\"]?\s{0,3}[:=]?\s{0,3}(?:tensor\()?\(?([-+]?(?:nan|inf\w*|\d[\d.e+-]*))"
)
_GRAD_NAN = re.compile(r"grad_?norm['\"]?\s{0,3}[:=]\s{0,3}(?:tensor\()?(?:nan|inf)")


@dataclass
class Traceback:
    """One printed traceback.

    Attributes:
        start: index of its header.
        end: index of the exception's line.
        name: the exception's class, without its modules.
        harmless: it was printed by something that went on (a thread, a finaliser, logging).
        chained: another traceback follows that came of this one.
        place: where in the user's own code it was raised; empty when no frame is his.
    """

    start: int
    end: int
    name: str
    harmless: bool
    chained: bool
    place: str = ""


@dataclass
class Log:
    """The lines of a log.

    Attributes:
        lines: those that are not blank, as they stand in the log, stripped.
        low: for matching: lower case, without colours, cut to LONGEST.
        steps: for each line, whether it tells of a step that was taken.
        text: what the rules are matched against: neither steps nor code nor the bulk of a flood stand in it.
        starts: where the lines of `text` begin.
        index: which lines these are.
    """

    lines: list[str]
    low: list[str]
    steps: list[bool]
    text: str
    starts: list[int]
    index: list[int]

    @classmethod
    def read(cls, log: str) -> Log:
        lines = [line for line in log[-MOST_CHARACTERS:].splitlines() if line and not line.isspace()]
        low = [_ANSI.sub("", line[:LONGEST]).lower() if "\x1b" in line else line[:LONGEST].lower() for line in lines]
        quoted = _quoted(low)
        shapes = ["" if code else line.translate(_DIGITS) for line, code in zip(low, quoted, strict=True)]
        told = {shape: is_progress(shape) for shape in set(shapes)}
        steps = [told[shape] for shape in shapes]
        index = _telling(shapes, steps)
        starts, at = [], 0
        for i in index:
            starts.append(at)
            at += len(low[i]) + 1
        return cls([line.strip() for line in lines], low, steps, "\n".join(low[i] for i in index), starts, index)

    def __len__(self) -> int:
        return len(self.lines)

    def last(self) -> str:
        """The last line; empty when there is none."""
        return self.lines[-1] if self.lines else ""

    def tail(self, length: int) -> int:
        """Index of the first of the last lines."""
        return max(0, len(self) - length)

    def with_mark(self, mark: str) -> Iterator[int]:
        """Indices of the lines that hold the mark; `*` in it stands for anything."""
        parts = mark.split("*")
        needle = max(parts, key=len)
        at = self.text.find(needle)
        while at >= 0:
            row = bisect_right(self.starts, at) - 1
            index = self.index[row]
            if len(parts) == 1 or holds(self.low[index], mark):
                yield index
            if row + 1 >= len(self.starts):
                return
            at = self.text.find(needle, self.starts[row + 1])

    def around(self, index: int, before: int = 14, after: int = 3) -> str:
        return "\n".join(self.low[max(0, index - before) : index + after + 1])

    @cached_property
    def steps_after(self) -> list[int]:
        """For every line, how many lines after it tell of steps."""
        counts, seen = [0] * len(self), 0
        for index in range(len(self) - 1, -1, -1):
            counts[index] = seen
            seen += self.steps[index]
        return counts

    def tracebacks(self) -> list[Traceback]:
        """All tracebacks whose exception can be found, in the log's order."""
        found = []
        for start in self.with_mark(TRACEBACK):
            end = self._exception(start)
            if end is None:
                continue
            match = _EXCEPTION.match(_bare(self.lines[end]))
            name = match.group().rsplit(".", 1)[-1] if match else ""
            before = " ".join(self.low[max(0, start - 2) : start])
            after = " ".join(self.low[end + 1 : end + 5])
            found.append(
                Traceback(
                    start,
                    end,
                    name,
                    any(word in before for word in _HARMLESS),
                    any(word in after for word in _CHAINED),
                    _place(self.lines[start:end]),
                )
            )
        return found

    def _exception(self, start: int) -> int | None:
        for index in range(start + 1, min(len(self.low), start + 400)):
            line = _RANK.sub("", _ANSI.sub("", self.low[index]))
            if not line.strip() or line[0].isspace():
                continue
            if "traceback (most recent" in line:
                return None
            if _EXCEPTION.match(_bare(line)):
                return index
        return None

    def losses(self) -> list[float]:
        """The last values of the training loss, in order."""
        lines = (line for line in self.low[-LOSSES_IN:] if "loss" in line or "损失" in line)
        matches = (match for line in lines if (match := _LOSS.search(line)))
        return [value for match in matches if (value := _number(match.group(1))) is not None]

    def first_nan_loss(self) -> int | None:
        """Index of the line in which the training loss first is no number."""
        for index, line in enumerate(self.low):
            if ("loss" in line or "损失" in line) and ("nan" in line or "inf" in line):
                match = _LOSS.search(line)
                value = _number(match.group(1)) if match else None
                if value is not None and no_number(value):
                    return index
        return None

    def nan_gradients(self) -> list[int]:
        """Indices of the lines that report a gradient norm that is no number."""
        return [index for index, line in enumerate(self.low) if "grad" in line and _GRAD_NAN.search(line)]


def _place(frames: list[str]) -> str:
    """The innermost frame outside of installed packages, as `train.py line 12`."""
    for line in reversed(frames):
        match = _FRAME.search(line[:LONGEST])
        if match and not any(part in match.group(1) for part in _INSTALLED):
            return f"{match.group(1)} line {match.group(2)}"
    return ""


def _quoted(low: list[str]) -> list[bool]:
    """For every line, whether a traceback quotes it from a source file: code tells of what may happen, not what did."""
    quoted, deepest = [], math.inf
    for line in low:
        inner = _RANK.sub("", line)
        indent = len(inner) - len(inner.lstrip())
        frame = _FRAME_LINE.match(inner.lstrip())
        quoted.append(not frame and (indent > deepest or bool(_BOXED.match(inner))))
        if frame:
            deepest = indent
        elif not quoted[-1]:
            deepest = math.inf
    return quoted


def _telling(shapes: list[str], steps: list[bool]) -> list[int]:
    """Indices of the lines that are matched against the rules; a shape is a line with its digits made equal."""
    kept: dict[str, list[int]] = {}
    for index, shape in enumerate(shapes):
        if shape and not steps[index]:
            kept.setdefault(shape, []).append(index)
    return sorted({i for same in kept.values() for i in (*same[:SAME_AT_MOST], same[-1])})


def holds(line: str, mark: str) -> bool:
    """Whether the parts of the mark stand in the line, in their order."""
    at = 0
    for part in mark.split("*"):
        found = line.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def is_progress(line: str) -> bool:
    """Whether a line in lower case tells of a step that was taken, and of no trouble."""
    return bool(_PROGRESS.search(line)) and not _TROUBLE.search(line)


def no_number(value: float) -> bool:
    return not math.isfinite(value)


def _bare(line: str) -> str:
    """The line without ranks, times and levels before it."""
    line = _ANSI.sub("", line[:LONGEST]).strip()
    for _ in range(4):
        shorter = _STAMP.sub("", _RANK.sub("", line))
        if shorter == line:
            break
        line = shorter
    return line


def _number(text: str) -> float | None:
    try:
        return float(text.rstrip(".,e+-"))
    except ValueError:
        return None
