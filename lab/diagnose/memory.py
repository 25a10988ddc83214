"""What the figures in torch's out-of-memory message say: whose memory it is, and whether it lies in fragments."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {"": 1.0, "k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40, "p": 2.0**50}
_SIZE = r"([\d.]+) ?([KMGTP]?)i?B"

SMALLER = "halve the micro-batch and double the accumulation steps, so that the effective batch stays the same."
NEVER_FITS = 8
"""A single block of so many cards' memory is a shape gone wrong, not a batch too large."""
FRAGMENTED_SHARE = 0.2
"""Share of torch's reserved memory that lies unused when fragments are to blame; a few per cent are normal."""
OTHERS_BYTES = 2**30
"""Memory beyond this that is not ours means somebody else is on the card; a bare context takes some 300 to 700 MB."""
OURS_SHARE = 0.6
"""Where the message does not say what the process holds: below this share of the card, others hold the rest."""


@dataclass(frozen=True)
class Figures:
    """The figures of one message, in bytes; 0 for what it does not say.

    Attributes:
        tried: the block that could not be had.
        total: of the card.
        free: of the card.
        ours: what this process holds, its context included.
        named: what other processes hold, where they can be seen.
        allocated: by torch.
        idle: reserved by torch and not allocated.
    """

    tried: float
    total: float
    free: float
    ours: float
    named: float
    allocated: float
    idle: float

    @classmethod
    def read(cls, line: str) -> Figures:
        """The figures of torch 1 or 2."""
        allocated = _sum(r"SIZE is allocated by PyTorch|SIZE already allocated", line)
        reserved = _sum(r"SIZE reserved in total by PyTorch", line)
        return cls(
            tried=_sum(r"tried to allocate SIZE", line),
            total=_sum(r"total capac(?:i)?ty of SIZE|SIZE total capacity", line),
            free=_sum(r"of which SIZE is free|SIZE free;", line),
            ours=_sum(r"this process has SIZE memory in use", line),
            named=_sum(r"Process \d+ has SIZE memory in use", line),
            allocated=allocated,
            idle=_sum(r"SIZE is reserved by PyTorch but unallocated", line) or max(0.0, reserved - allocated),
        )

    @property
    def hopeless(self) -> bool:
        """No batch is small enough."""
        return self.tried > NEVER_FITS * self.total > 0

    @property
    def shared(self) -> bool:
        """Another process is on the card: seen by its line or, from inside a container, by the memory that is gone."""
        if self.ours and self.total:
            return max(self.named, self.total - self.free - self.ours) > OTHERS_BYTES
        known = self.allocated and self.total
        return bool(known) and self.allocated + self.idle + self.tried < OURS_SHARE * self.total

    @property
    def fragmented(self) -> bool:
        """Torch has reserved far more than it has allocated, and the wanted piece would fit into the difference."""
        return self.idle >= self.tried > 0 and self.idle >= FRAGMENTED_SHARE * (self.idle + self.allocated)


def advice(line: str) -> tuple[str, bool] | None:
    """What to change, and whether a changed run may start by itself; None when the line holds no figures."""
    found = Figures.read(line)
    if not found.tried or not found.total:
        return None
    block = f"It asked for {_gib(found.tried)} more on a card of {_gib(found.total)}"
    if found.hopeless:
        return f"{block}: a tensor's shape is wrong, no batch is small enough; correct the code.", False
    if found.shared:
        return f"{block} and held {_gib(found.allocated)} itself: another process fills the card, move.", True
    if found.fragmented:
        spare = f"while {_gib(found.idle)} lay reserved and unused"
        return f"{block} {spare}: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True first.", True
    return f"{block}: {SMALLER}", True


def _sum(pattern: str, line: str) -> float:
    """Bytes of all sizes that the pattern finds; SIZE in it stands for one."""
    total = 0.0
    for groups in re.findall(pattern.replace("SIZE", _SIZE), line, re.IGNORECASE):
        number, unit = next(pair for pair in zip(groups[::2], groups[1::2], strict=True) if pair[0])
        total += float(number) * _UNITS[unit.lower()] if number.count(".") < 2 and number != "." else 0.0
    return total


def _gib(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"
