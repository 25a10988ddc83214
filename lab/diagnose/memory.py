"""What the figures in torch's out-of-memory message advise."""

from __future__ import annotations

import re

_UNITS = {"": 1.0, "k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40, "p": 2.0**50}
_SIZE = r"([\d.]+) ?([KMGTP]?)i?B"
_TRIED = re.compile(r"tried to allocate " + _SIZE, re.IGNORECASE)
_TOTAL = re.compile(r"total capac(?:i)?ty of " + _SIZE + r"|" + _SIZE + r" total capacity", re.IGNORECASE)
_USED = re.compile(_SIZE + r" is allocated by pytorch|" + _SIZE + r" already allocated", re.IGNORECASE)
_SPARE = re.compile(_SIZE + r" is reserved by pytorch but unallocated", re.IGNORECASE)
_RESERVED = re.compile(_SIZE + r" reserved in total by pytorch", re.IGNORECASE)

SMALLER = "halve the micro-batch and double the accumulation steps, so that the effective batch stays the same."
NEVER_FITS = 8
"""A single block of so many cards' memory is a shape gone wrong, not a batch too large."""


def advice(line: str) -> tuple[str, bool] | None:
    """What to change, and whether a changed run may start by itself; None when the line holds no figures.

    Another process on the card: change nothing, move. Reserved far above allocated: defragment first. Otherwise the
    batch is too large.
    """
    tried, total, used = _bytes(_TRIED, line), _bytes(_TOTAL, line), _bytes(_USED, line)
    if tried is None or total is None:
        return None
    block = f"{tried / 2**30:.3g} GiB more on a card of {total / 2**30:.3g} GiB"
    if tried > NEVER_FITS * total:
        return f"It asked for {block}: a tensor's shape is wrong, no batch is small enough; correct the code.", False
    if used is None:
        return f"It asked for {block}: {SMALLER}", True
    reserved = _bytes(_RESERVED, line)
    spare = _bytes(_SPARE, line) or (reserved - used if reserved else 0.0)
    if used + spare + tried < 0.6 * total:
        return (
            f"It asked for {block} and held {used / 2**30:.3g} GiB itself: another process fills the card, move.",
            True,
        )
    if spare > max(tried, 0.15 * total):
        reason = f"It asked for {block} while {spare / 2**30:.3g} GiB lay reserved and unused"
        return f"{reason}: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True first.", True
    return f"It asked for {block}: {SMALLER}", True


def _bytes(pattern: re.Pattern[str], line: str) -> float | None:
    found = pattern.search(line)
    if not found:
        return None
    number, unit = next(pair for pair in zip(found.groups()[::2], found.groups()[1::2], strict=True) if pair[0])
    try:
        return float(number) * _UNITS[unit.lower()]
    except ValueError:
        return None
