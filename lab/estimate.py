"""How long a plan takes: from past runs of its kind, else from the model's work and the host's measured speed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.plan import Point, number
from lab.run import Estimate

BACKWARD_FACTOR = 3.0
"""Forward and backward pass over the forward pass alone (Kaplan et al. 2020, arXiv:2001.08361, section 2.1)."""

STARTUP_S = 8.0
"""Spawning an interpreter and importing torch, timm and torchvision; 4 to 9 s were measured."""


@dataclass(frozen=True)
class Work:
    """One run's share of a plan.

    Attributes:
        kind: key of its history, as `kind` makes it.
        flops: forward floating point operations for one sample; None when the model is not in the catalogue.
        samples: samples the run trains on over all epochs; None when the data set's size is unknown.
    """

    kind: str
    flops: float | None
    samples: float | None
    gpus: int = 1


def kind(template: str, point: Point, length: str, card: str) -> str:
    """Key under which durations of like runs are kept: all but the seed and the learning rate tells them apart."""
    params = [f"{k}={number(v)}" for k, v in sorted(point.params.items()) if k not in ("seed", "lr")]
    return "|".join((template, point.model, point.dataset or "", length, *params, card))


def length(epochs: int | None, max_steps: int | None) -> str:
    """The part of a kind that tells long runs from short ones: `3e`, `500s`; a limit in steps wins."""
    return f"{epochs}e" if max_steps is None else f"{max_steps}s"


def estimate(
    works: Sequence[Work], history: Mapping[str, Sequence[float]], speed_flops: float | None, cards: int
) -> Estimate | None:
    """Wall time and GPU-hours of the runs on `cards` cards, longest first; None when one of them is unknown.

    Args:
        history: durations in seconds by `Work.kind`.
        speed_flops: floating point operations a second of one card, measured on the host.
    """
    seconds: list[float] = []
    known = 0
    for work in works:
        past = history.get(work.kind)
        if past:
            known += 1
            seconds.append(statistics.median(past))
        elif work.flops and work.samples and speed_flops:
            seconds.append(STARTUP_S + BACKWARD_FACTOR * work.flops * work.samples / speed_flops)
        else:
            return None
    lanes = [0.0] * max(1, cards)
    for length in sorted(seconds, reverse=True):
        lanes.sort()
        lanes[0] += length
    gpu_s = sum(s * w.gpus for s, w in zip(seconds, works, strict=True))
    basis = f"from {known} earlier run{'' if known == 1 else 's'}" if known == len(works) else "rough: no history yet"
    if 0 < known < len(works):
        basis = f"rough: history for {known} of {len(works)} runs"
    return Estimate(
        wall_s=max(lanes), gpu_hours=gpu_s / 3600, cards=max(1, cards), rough=known < len(works), basis=basis
    )


def words(estimate: Estimate | None) -> str:
    """`about 4 min on 3 cards, 0.20 GPU-h (rough: no history yet)`, or that nothing is known."""
    if estimate is None:
        return "no estimate yet"
    cards = f"{estimate.cards} card{'' if estimate.cards == 1 else 's'}"
    return f"about {duration(estimate.wall_s)} on {cards}, {_gpu_hours(estimate.gpu_hours)} GPU-h ({estimate.basis})"


def _gpu_hours(hours: float) -> str:
    return f"{hours:.0f}" if hours >= 10 else f"{hours:.2g}"


def duration(seconds: float) -> str:
    """A length of time for people: `45 s`, `4 min`, `2.5 h`, `3.1 days`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
