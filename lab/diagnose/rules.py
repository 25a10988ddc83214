"""The form of a rule, and the causes; the rules themselves stand in resources.py, machine.py and program.py."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

Cause = Literal[
    "oom_gpu",
    "oom_host",
    "shm",
    "disk_full",
    "nan_loss",
    "nccl",
    "device_assert",
    "illegal_access",
    "hardware",
    "driver_mismatch",
    "arch_mismatch",
    "fork_cuda",
    "port_in_use",
    "import_error",
    "data_missing",
    "network",
    "auth",
    "checkpoint_mismatch",
    "permission",
    "user_code",
    "bad_args",
    "compile_error",
    "hang",
    "preempted",
    "time_limit",
    "none",
]
CAUSES: tuple[Cause, ...] = get_args(Cause)

RETRYABLE: frozenset[Cause] = frozenset(
    (
        "oom_gpu",
        "oom_host",
        "shm",
        "nan_loss",
        "nccl",
        "illegal_access",
        "hardware",
        "driver_mismatch",
        "arch_mismatch",
        "port_in_use",
        "network",
        "hang",
        "preempted",
        "time_limit",
    )
)
"""Causes after which the run may start again unless its rule says otherwise: as it was, changed, or elsewhere."""

ROOT = 40
"""Nothing else in a log explains it away."""
SPECIFIC = 30
"""Names the fault, but may itself follow from a ROOT (a file is missing because the disk was full)."""
STATUS = 25
"""What the exit status says by itself."""
GENERIC = 20
"""A traceback that no rule knows: the training code's own error."""
SYMPTOM = 10
"""What other ranks and parent processes say when somebody else died: decides only when nothing better is there."""
HINT = 5
"""A guess for logs that say no more."""


@dataclass(frozen=True)
class Rule:
    """A kind of line, and what follows from it.

    Attributes:
        cause: what such a line shows.
        weight: ROOT to HINT; of several lines in a log the heaviest decides, of equal ones the first.
        marks: the line holds one of these, in lower case; `*` stands for anything in between.
        advice: a sentence for the researcher; `{}` is what `value` finds in the line.
        retryable: None for what RETRYABLE says of the cause.
        value: its group that matched is the path, module, port, ... that the advice names.
        otherwise: stands in the advice when `value` finds nothing.
        unless: a line with one of these does not count.
        near: one of these stands in the lines around it.
        far: none of these stands in the lines around it.
        only: the line in lower case also matches this.
        shell: where it stands before a traceback, outside of any, it is some script's complaint and not the cause.
        loose: a guess from few words; addresses in the line are left out.
        stays: what runs on after such a line has not recovered from it (notices before the end, kernel messages).
    """

    cause: Cause
    weight: int
    marks: tuple[str, ...]
    advice: str
    retryable: bool | None = None
    value: str = ""
    otherwise: str = ""
    unless: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    far: tuple[str, ...] = ()
    only: str = ""
    shell: bool = False
    loose: bool = False
    stays: bool = False

    def may_retry(self) -> bool:
        return self.cause in RETRYABLE if self.retryable is None else self.retryable

    def advise(self, line: str) -> str:
        """The advice with the value that the line holds."""
        if "{}" not in self.advice:
            return self.advice
        found = re.search(self.value, line, re.IGNORECASE)
        value = next((group for group in found.groups() if group), "") if found else ""
        value = " ".join(value.split())[:120].rstrip(".,;:")
        value = value or (_said(line) if self.otherwise == LINE else self.otherwise)
        before, after = self.advice.split("{}")
        gap = " " if value and before[-1:].isalpha() else ""
        return f"{before}{gap}{value}{after}"


def any_of(text: str) -> tuple[str, ...]:
    """Marks that are written one beside the other, with `|` between them."""
    return tuple(mark for part in re.split(r"[|\n]", text) if (mark := part.strip()))


def _said(line: str) -> str:
    """What the line says after the exception's name."""
    return " ".join(line.split())[:400].rsplit("Error: ", 1)[-1][:120].rstrip(".,;:")


LINE = "@line"
"""As a rule's `otherwise`: what the line itself says."""
PATH = r"['\"`<]((?:[^'\"`<>\s]*[/.\\])[^'\"`<>]*)['\"`>]|(?<![\w/:.])(\.{0,2}/[\w./@+=-]+)"
"""Finds the path that a line names."""
RANKS = any_of(
    """
    c10d | tcpstore | gloo | processgroupnccl | torch/csrc/distributed | torch.distributed.dist | horovod
    rendezvous | btl_tcp | nccl_socket | dist.init_process_group | init_process_group(
    """
)
"""Near one of these a broken connection is one between ranks."""
