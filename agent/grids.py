"""Values that are proposed where somebody asks for the best one and gives none: data, and how a grid is made of it."""

from __future__ import annotations

from dataclasses import dataclass

from lab.plan import Axis, Range, Scalar

MOST_TUNED = 3
"""Axes tuned at once; a grid over more has too many runs to be proposed unasked."""


@dataclass(frozen=True)
class Grid:
    """What is tried of one axis.

    Attributes:
        alone: when nothing else is tuned.
        together: when other axes are, so that the grid stays small.
        reason: why these.
    """

    alone: tuple[Scalar, ...]
    together: tuple[Scalar, ...]
    reason: str


DECADES = "a grid by tens, since no values were named"
COMMON = "common values, since none were named"
GRIDS: dict[str, Grid] = {
    "lr": Grid((0.1, 0.01, 0.001, 0.0001), (0.01, 0.001, 0.0001), DECADES),
    "weight_decay": Grid((0.0, 0.0001, 0.001, 0.01), (0.0, 0.0001, 0.01), DECADES),
    "batch_size": Grid((32, 64, 128, 256), (32, 64, 128), COMMON),
    "dropout": Grid((0.0, 0.1, 0.2, 0.3, 0.5), (0.0, 0.2, 0.5), COMMON),
    "momentum": Grid((0.8, 0.9, 0.95, 0.99), (0.8, 0.9, 0.99), COMMON),
    "label_smoothing": Grid((0.0, 0.05, 0.1, 0.2), (0.0, 0.1), COMMON),
    "mixup_alpha": Grid((0.0, 0.1, 0.2, 0.4), (0.0, 0.2), COMMON),
    "optimizer": Grid(("sgd", "adam", "adamw"), ("sgd", "adamw"), COMMON),
}
RANGES: dict[str, Axis] = {
    "lr": Range(low=1e-5, high=0.1),
    "weight_decay": Range(low=1e-6, high=0.01),
    "batch_size": Range(low=16, high=256, scale="log2"),
    "dropout": Range(low=0.0, high=0.5, scale="linear"),
    "drop_path": Range(low=0.0, high=0.3, scale="linear"),
    "momentum": Range(low=0.8, high=0.99, scale="linear"),
    "label_smoothing": Range(low=0.0, high=0.2, scale="linear"),
    "mixup_alpha": Range(low=0.0, high=0.5, scale="linear"),
    "optimizer": ("sgd", "adam", "adamw"),
}
"""What a search draws from where no range is named."""
WIDE = "a usual range, since none was named"
USUAL_LR = {"sgd": 0.1, "adam": 0.001, "adamw": 0.001, "nadam": 0.001, "rmsprop": 0.001, "adagrad": 0.01, "lion": 1e-4}
"""Learning rates that the optimizers are mostly started with."""
AROUND = (3.0, 1.0, 1 / 3, 0.1)


def propose(tuned: tuple[str, ...], axes: dict[str, Axis]) -> dict[str, tuple[tuple[Scalar, ...], str]] | None:
    """Axis to proposed values and the reason; None when there is no grid for one of them, or there are too many.

    Args:
        tuned: the axes to tune; the learning rate when empty, which matters most.
        axes: what the plan has already.
    """
    names = tuned or ("lr",)
    if len(names) > MOST_TUNED or any(name not in GRIDS for name in names):
        return None
    alone = len(names) == 1
    grids = {n: (GRIDS[n].alone if alone else GRIDS[n].together, GRIDS[n].reason) for n in names}
    optimizers = axes.get("optimizer", ())
    if "lr" in grids and isinstance(optimizers, tuple) and len(optimizers) == 1 and optimizers[0] in USUAL_LR:
        grids["lr"] = _around(str(optimizers[0]), alone)
    return grids


def ranges(tuned: tuple[str, ...], axes: dict[str, Axis]) -> dict[str, tuple[Axis, str]]:
    """Axis to the range that a search draws from and the reason, for those that have no values yet.

    Args:
        tuned: the axes to tune; the learning rate when empty, which matters most.
        axes: what the plan has already.
    """
    return {name: (RANGES[name], WIDE) for name in tuned or ("lr",) if name in RANGES and name not in axes}


def _around(optimizer: str, alone: bool) -> tuple[tuple[Scalar, ...], str]:
    usual = USUAL_LR[optimizer]
    values = tuple(float(f"{usual * factor:.1g}") for factor in (AROUND if alone else AROUND[:3]))
    return values, f"around {usual:g}, which {optimizer} is usually started with"
