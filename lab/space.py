"""What a search can draw: the values of an axis, and how many different points there are."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lab.plan import Axis, Range, Scalar

WHOLE = frozenset(
    {"batch_size", "image_size", "patch_size", "grad_accum_steps", "warmup_epochs", "warmup_steps", "num_workers"}
    | {"lora_rank", "n_heads", "n_layers", "hidden_size", "depth", "max_length", "early_stopping_patience", "fold"}
    | {"kernel_size", "n_frames", "beam_size"}
)
"""Axes whose values are whole numbers, also where they are drawn from a range."""
DIGITS = 3
"""Significant digits of a drawn number: it can be read, typed again, and no search tells finer ones apart."""


def listed(name: str, axis: Axis) -> tuple[Scalar, ...] | None:
    """The values that can be drawn, where they can be told one by one; None for a continuous range.

    Whole numbers on a log2 scale double, on a log scale they are the nearest to nine a decade.
    """
    if not isinstance(axis, Range):
        return axis
    if name not in WHOLE:
        return None
    low, high = math.ceil(axis.low), math.floor(axis.high)
    if axis.scale == "linear":
        return tuple(range(low, high + 1))
    step = 2.0 if axis.scale == "log2" else 10 ** (1 / 9)
    values = [low * step**k for k in range(int(math.log(high / low, step) + 1e-9) + 1)]
    return tuple(dict.fromkeys(round(value) for value in values))


def combinations(space: Mapping[str, Axis]) -> int | None:
    """How many different points the space has; None when there is no end of them."""
    sizes = [listed(name, axis) for name, axis in space.items()]
    return math.prod(len(values) for values in sizes if values is not None) if None not in sizes else None


def rounded(value: float, axis: Range) -> float:
    """The value with DIGITS significant digits, within the range."""
    return min(max(float(f"{value:.{DIGITS}g}"), axis.low), axis.high)
