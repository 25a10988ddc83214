"""When runs start and end, from how long each may take: a Monte Carlo simulation of list scheduling. Pure.

Each sample has a length for every run and gives the runs, in their order, the cards that are free first (Graham 1969,
"Bounds on multiprocessing timing anomalies"). What half of the samples show, and nine in ten of them, is p50 and p90,
also of what no formula gives: the last end of many runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from lab.predict import Z90, Prediction
from lab.run import Estimate

Floats = npt.NDArray[np.float64]

SAMPLES = 100
"""Of so many, p90 is off by 3 % of them; 200 runs on 64 cards take 10 ms."""
_SEED = 12
"""The same lab gives the same figures, or they would flicker."""


@dataclass(frozen=True)
class Job:
    """A run as it is scheduled.

    Attributes:
        served_s: what it has had of its length already.
        kind: runs of one kind are too long or too short together where their prediction is rough; the error of one
            guess is the error of all.
    """

    length: Prediction
    gpus: int = 1
    served_s: float = 0.0
    kind: Hashable = None


def sample(jobs: Sequence[Job], seed: int = _SEED) -> Floats:
    """Seconds that each job needs yet: (SAMPLES, jobs), of lognormal lengths given that `served_s` was not enough."""
    if not jobs:
        return np.zeros((SAMPLES, 0))
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((SAMPLES, len(jobs)))
    shared: dict[Hashable, Floats] = {}
    for i, job in enumerate(jobs):
        if job.length.rough and job.kind is not None:
            z[:, i] = shared.setdefault(job.kind, z[:, i].copy())
    p50, p90, served = (
        np.array(v) for v in zip(*((j.length.p50_s, j.length.p90_s, j.served_s) for j in jobs), strict=True)
    )
    return np.maximum(remaining(p50, p90, served, ndtr(-z)), 0.1)


def remaining(p50_s: Floats, p90_s: Floats, served_s: Floats, tail: Floats | float) -> Floats:
    """What is left of lognormal lengths when `served_s` was not enough, in seconds.

    Args:
        tail: the probability, 0 to 1, that more than this is left; 0.5 gives the median.
    """
    mu = np.log(np.maximum(p50_s, 1e-3))
    sigma = np.maximum(np.log(np.maximum(p90_s, 1e-3)) - mu, 0.01) / Z90
    # Beyond 30 deviations the tail is 0 in double precision; such a run has long outlived its prediction.
    z = np.minimum((np.log(np.maximum(served_s, 1e-3)) - mu) / sigma, 30.0)
    return np.asarray(np.exp(mu - sigma * ndtri(tail * ndtr(-z))) - served_s, dtype=np.float64)


def list_schedule(free: Floats, lengths: Floats, gpus: Sequence[int]) -> Floats:
    """Start of each run: (SAMPLES, runs). They go in their order to the cards that are free first.

    Args:
        free: seconds from now until each card is free, (SAMPLES, cards) and changed to when the last run leaves it.
        lengths: (SAMPLES, runs).
    """
    rows = np.arange(len(free))
    starts = np.empty_like(lengths)
    for i, wanted in enumerate(gpus):
        if wanted == 1:
            card = free.argmin(axis=1)
            starts[:, i] = free[rows, card]
            free[rows, card] += lengths[:, i]
            continue
        cards = np.argpartition(free, min(wanted, free.shape[1]) - 1, axis=1)[:, :wanted]
        at = np.take_along_axis(free, cards, axis=1).max(axis=1)
        starts[:, i] = at
        np.put_along_axis(free, cards, (at + lengths[:, i])[:, None], axis=1)
    return starts


def p50_p90(times: Floats) -> tuple[float, float]:
    """The time that half of the samples are within, and nine in ten."""
    ordered = np.sort(times)  # numpy's quantile takes a hundred times as long for so few
    return float(ordered[len(ordered) // 2]), float(ordered[len(ordered) * 9 // 10])


def estimate(jobs: Sequence[Job], cards: int) -> Estimate:
    """Wall time and GPU-hours of the runs on `cards` cards that are free, longest first.

    Args:
        jobs: one a run, at least one.
    """
    ordered = sorted(jobs, key=lambda job: -job.length.p50_s)
    lengths, gpus = sample(ordered), [min(job.gpus, cards) for job in ordered]
    wall_p50, wall_p90 = p50_p90((list_schedule(np.zeros((SAMPLES, cards)), lengths, gpus) + lengths).max(axis=1))
    gpu_s, _ = p50_p90((lengths * [job.gpus for job in ordered]).sum(axis=1))
    known = [job.length for job in jobs if not job.length.rough]
    return Estimate(
        wall_s=wall_p50,
        wall_p90_s=wall_p90,
        gpu_hours=gpu_s / 3600,
        cards=cards,
        rough=len(known) < len(jobs),
        basis=_basis(jobs),
        n_known=len(known),
        earlier=min((length.earlier for length in known), default=0),
    )


def _basis(jobs: Sequence[Job]) -> str:
    known = [job.length for job in jobs if not job.length.rough]
    if 0 < len(known) < len(jobs):
        return f"rough: history for {len(known)} of {len(jobs)} runs"
    return min((job.length for job in jobs), key=lambda length: length.earlier).basis
