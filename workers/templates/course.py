"""The course of a training: how long it is, which samples each step sees, changed how, and at what learning rate.

Everything follows from the spec and the place in it, so that no draw depends on how a run got there.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lab.run import RunSpec
from workers.templates.data import Data
from workers.templates.params import VisionParams

DEFAULT_EPOCHS = 3
STEP_DROPS = (0.6, 0.85)
"""Shares of the run after which the step schedule divides the rate by 10."""


@dataclass(frozen=True)
class Length:
    """How long a run is, in steps and epochs."""

    steps_per_epoch: int
    steps: int
    epochs: int


def length_of(spec: RunSpec, samples: int, batch_size: int) -> Length:
    """Steps and epochs of the run; the plan's epochs and steps both hold, whichever ends first."""
    steps_per_epoch = len(sizes(samples, batch_size))
    steps = spec.max_steps or (spec.epochs or DEFAULT_EPOCHS) * steps_per_epoch
    if spec.epochs:
        steps = min(steps, spec.epochs * steps_per_epoch)
    return Length(steps_per_epoch, steps, math.ceil(steps / steps_per_epoch))


def sizes(samples: int, batch_size: int) -> list[int]:
    """Sizes of an epoch's batches. A last batch of one sample is left out: batch norm could not train on it."""
    whole, tail = divmod(samples, batch_size)
    return [batch_size] * whole + ([tail] if tail > 1 or not whole else [])


def epoch_batches(samples: int, params: VisionParams, epoch: int) -> list[Tensor]:
    """Indices of each batch of an epoch; the order follows from (seed, epoch), whatever the model drew before."""
    order = torch.randperm(samples, generator=generator_for(params.seed, epoch, 0))
    batches = sizes(samples, params.batch_size)
    return list(torch.split(order[: sum(batches)], batches))


def generator_for(seed: int, epoch: int, batch: int) -> torch.Generator:
    """A generator of its own for each (seed, epoch, batch), so that no draw depends on how a run got there."""
    mixed = np.random.SeedSequence((seed, epoch, batch)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(mixed >> np.uint64(1)))


@dataclass(frozen=True)
class Mix:
    """Mixup (Zhang et al. 2018): each sample with a partner, by one weight for the batch."""

    share: float
    partner: Tensor  # int64 (batch,)

    def apply(self, values: Tensor) -> Tensor:
        """Images or one-hot targets, mixed; the same shape."""
        return self.share * values + (1 - self.share) * values[self.partner.to(values.device)]


def draw(data: Data, params: VisionParams, epoch: int, batch: int, samples: int) -> tuple[Tensor | None, Mix | None]:
    """Augmentation and mixup of a batch of so many samples; None for what the plan does not want."""
    if data.augment == "none" and not params.mixup_alpha:
        return None, None
    generator = generator_for(params.seed, epoch, 1 + batch)
    changes = data.random_changes(samples, generator)
    if not params.mixup_alpha:
        return changes, None
    numbers = random.Random(int(torch.randint(2**62, (), generator=generator)))
    share = numbers.betavariate(params.mixup_alpha, params.mixup_alpha)
    return changes, Mix(share, torch.randperm(samples, generator=generator))


def lr_at(step: int, steps: int, params: VisionParams) -> float:
    """The learning rate of a step, counted from 0."""
    warm = round(params.warmup * steps)
    if step < warm:
        return params.lr * (step + 1) / warm
    share = (step - warm) / max(1, steps - warm)
    match params.schedule:
        case "constant":
            return params.lr
        case "step":
            return params.lr * 0.1 ** sum(step / steps >= drop for drop in STEP_DROPS)
        case "cosine":
            return params.lr * 0.5 * (1 + math.cos(math.pi * share))
