"""The order in which runs are served: tiers, and within a tier what is shortest; columns of all runs at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.lanes import Floats, remaining
from lab.plan import PRIORITIES, Priority
from workers.policy import Running, Waiting

OVER_SHARE = 1.3
"""A user is over his share when he used so many times the mean of those who want cards now. At 1.5 Jain's index over
equal users fell below 0.95; at 1.2 chance differences between them cost twice as many preemptions."""
AGE_S = 86_400.0
"""A run that waited for a day ranks like one half as long, after nine days like one a tenth as long. Squared, the
longest wait was 40 % shorter and the mean completion time 10 to 20 % longer."""
CLASS_FACTOR = 4.0
"""Between size classes: a run displaces one only for something clearly shorter. At 2 there were more
preemptions, up to twice as many, and nothing was gained."""
SMALLEST_GPU_S = 225.0
"""Remaining GPU-time below which all runs are in the first size class."""
CLASSES = 32

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_RANK: Mapping[Priority, int] = {priority: rank for rank, priority in enumerate(reversed(PRIORITIES))}


def over_share(usage: Mapping[str, float], users: Iterable[str]) -> frozenset[str]:
    """Those among the users who want cards now that used more than OVER_SHARE times the mean of them."""
    used = {user: usage.get(user, 0.0) for user in users}
    limit = OVER_SHARE * sum(used.values()) / max(1, len(used))
    return frozenset(user for user, gpu_s in used.items() if gpu_s > limit)


def remaining_p50(p50_s: Floats, p90_s: Floats, served_s: Floats) -> Floats:
    """Median of what is left of lognormal lengths when `served_s` was not enough, in seconds, at least 1."""
    return np.maximum(remaining(p50_s, p90_s, served_s, 0.5), 1.0)


@dataclass(frozen=True)
class Ranks:
    """For each run: its tier, the tier it would have without a look, what is left (p50), and all in order."""

    tier: Ints
    natural: Ints
    left_s: Floats
    order: Ints


class Table:
    """Attributes of many runs as columns, each read once: reading them is most of a decision's time."""

    def __init__(self, runs: Sequence[Waiting] | Sequence[Running]) -> None:
        self.runs = runs
        self._columns: dict[str, Floats] = {}

    def __getitem__(self, name: str) -> Floats:
        column = self._columns.get(name)
        if column is None:
            values: Iterable[Any] = map(attrgetter(name), self.runs)
            if name == "priority":
                values = map(_RANK.__getitem__, values)
            elif name == "preempted_at":
                values = (-math.inf if at is None else at for at in values)
            column = self._columns[name] = np.fromiter(values, np.float64, len(self.runs))
        return column

    @property
    def new(self) -> Bools:
        """Who may be lent a first look."""
        new: Bools = (self["can_checkpoint"] > 0) & (self["looked"] == 0)
        return new


def looks_due(table: Table, lent: int, most: float) -> Bools:
    """Which runs are due a first look: the oldest, as many as find room beside the `lent` cards; always one."""
    looks = np.zeros(len(table.runs), np.bool_)
    new = np.flatnonzero(table.new)
    if len(new):
        new = new[np.lexsort((table["number"][new], table["queued_at"][new]))]
        due = lent + np.cumsum(table["gpus"][new]) <= most
        due[0] |= lent == 0
        looks[new[due]] = True
    return looks


def rank(table: Table, over: frozenset[str], now: float, looks: Bools, served_s: Floats) -> Ranks:
    """Tiers and order of the runs, of which `looks` are due or at their first look and `over` users are over share."""
    priority = table["priority"].astype(np.int64)
    beyond = np.zeros_like(priority)
    if over:
        beyond = np.fromiter((run.user in over for run in table.runs), np.int64, len(table.runs))
    queued_at = table["queued_at"]
    left = remaining_p50(table["p50_s"], table["p90_s"], served_s)
    waited = np.maximum(now - queued_at - served_s, 0.0)
    size = np.log(left * table["gpus"] / (1.0 + waited / AGE_S) / SMALLEST_GPU_S) / math.log(CLASS_FACTOR)
    group = (priority * 2 + 1) * 2 + beyond
    natural = group * CLASSES + np.clip(np.floor(size), 0, CLASSES - 1).astype(np.int64)
    tier = np.where(looks, priority * 4 * CLASSES, natural)
    coarse = np.where(looks, priority * 4 + beyond, group)
    fine = np.where(looks, queued_at, size)
    return Ranks(tier, natural, left, np.lexsort((table["number"], queued_at, fine, coarse)))


def served(held: Table, now: float) -> Floats:
    """Seconds that each run which holds cards has been on cards in all, this stint included."""
    return held["served_s"] + now - held["since"]
