"""From the log and the exit status of an attempt to the cause of its end: pure, a table read from the top."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass


@dataclass(frozen=True)
class Diagnosis:
    """Why an attempt ended.

    Attributes:
        cause: one of the closed list of causes, `none` when nothing failed.
        evidence: the deciding line, copied from the log (or what the exit status says, where no line decides).
        advice: what to do, for whoever reads it in the morning.
        retryable: the run may be started again with nobody's help, as it was, changed, or on another card.
    """

    cause: str
    evidence: str
    advice: str
    retryable: bool


@dataclass(frozen=True)
class Sign:
    """A line that decides: what it looks like and what follows from it."""

    cause: str
    pattern: re.Pattern[str]
    advice: str
    retryable: bool = False


def _sign(cause: str, pattern: str, advice: str, *, retryable: bool = False) -> Sign:
    return Sign(cause, re.compile(pattern, re.IGNORECASE), advice, retryable)


SIGNS = (
    _sign(
        "oom_gpu",
        r"CUDA out of memory|OutOfMemoryError: .*(CUDA|GPU)|CUBLAS_STATUS_ALLOC_FAILED",
        "The model did not fit the card: a smaller batch with as many more accumulation steps trains the same.",
        retryable=True,
    ),
    _sign(
        "oom_host",
        r"oom[-_ ]?kill|Out of memory: Killed process|^MemoryError|DefaultCPUAllocator: can't allocate memory"
        r"|Cannot allocate memory",
        "The host ran out of memory, not the card: fewer loading processes help, a smaller batch hardly does.",
    ),
    _sign(
        "disk_full",
        r"No space left on device|Disk quota exceeded",
        "The disk is full: make room in the data folder and retry.",
    ),
    _sign(
        "nan_loss",
        r"(loss|grad\w*|output)\b.{0,40}\b(is|are|became|=|:)\s*(nan|inf)\b|FloatingPointError: .*\bnan\b",
        "The loss stopped being a number: a lower learning rate, a warm-up or fp32 usually cures it.",
        retryable=True,
    ),
    _sign(
        "import_error",
        r"^(ModuleNotFoundError|ImportError): ",
        "A library is missing or does not fit: install it on the host.",
    ),
    _sign(
        "data_missing",
        r"^FileNotFoundError: |Dataset not found",
        "A file of the data set is missing on this host: `overnight doctor` says how to get it.",
    ),
    _sign(
        "bad_args",
        r"error: (unrecognized arguments|argument |the following arguments|invalid choice)|cannot run with \S+ = ",
        "A parameter is not one that the template takes: change the plan.",
    ),
)
"""What is looked for, in this order; of one cause the last matching line is the evidence."""

_TRACEBACK = re.compile(r"^Traceback \(most recent call last\)")
_ERROR_LINE = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning)\b.*|^[A-Za-z_][\w.]+: .+")


def diagnose(log: str, exit_code: int | None) -> Diagnosis:
    """Why the attempt with this log ended.

    Args:
        log: its output, or the tail of it.
        exit_code: as a shell or subprocess gives it (137 and -9 are SIGKILL); None when it is not known.
    """
    lines = log.splitlines()
    for sign in SIGNS:
        found = next((line.strip() for line in reversed(lines) if sign.pattern.search(line.strip())), None)
        if found and exit_code != 0:
            return Diagnosis(sign.cause, found, sign.advice, sign.retryable)
    return _by_traceback(lines) or _by_status(lines, exit_code)


def _by_traceback(lines: list[str]) -> Diagnosis | None:
    start = max((i for i, line in enumerate(lines) if _TRACEBACK.match(line)), default=None)
    if start is None:
        return None
    evidence = next((line.strip() for line in lines[start + 1 :] if _ERROR_LINE.match(line)), lines[-1].strip())
    return Diagnosis("user_code", evidence, "The training code raised this; it would again.", False)


def _by_status(lines: list[str], exit_code: int | None) -> Diagnosis:
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if exit_code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        advice = "Somebody killed it, mostly the kernel for want of host memory: look at the host's log."
        return Diagnosis("oom_host", "killed by SIGKILL", advice, False)
    if exit_code in (-signal.SIGTERM, 128 + signal.SIGTERM):
        return Diagnosis("preempted", "ended by SIGTERM", "It was told to stop from outside; it may go on.", True)
    if exit_code == 0:
        return Diagnosis("none", last, "Nothing failed.", False)
    return Diagnosis("user_code", last or f"exit status {exit_code}", "It ended with an error and said no more.", False)
