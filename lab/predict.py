"""How long a run will take, as p50 and p90: from like runs, before those from a guess, once it has started from itself.

Lengths are taken as lognormal. What is learned is the logarithm of actual over guessed length, at levels from what all
runs share to this person's runs of this kind; each level is pulled towards the one before it, the more the fewer runs
it has seen (normal-normal shrinkage: Gelman et al., "Bayesian Data Analysis", chapter 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

ROUGH_SIGMA = 1.2
"""Spread of log(actual / guess) where nothing has been learned: guesses from FLOPs are off by 3 either way."""
PULL = 3.0
"""A level counts like so many runs of the next one: its first three runs only half believe themselves."""
MEMORY = 50.0
"""Older runs than about so many fade: drivers, data and habits change."""
Z90 = 1.2815515655446004
"""Standard normal deviate below which 90 % lie."""
PROGRESS_SIGMA = 0.35
"""Spread of a length told by the first steps alone: evaluation, checkpoints and warm-up are not in them."""
LEAST_SIGMA = 0.03


@dataclass(frozen=True)
class Prediction:
    """Half of such runs end within p50_s, nine in ten within p90_s: seconds on the cards, from the first attempt on."""

    p50_s: float
    p90_s: float
    basis: str
    """For people: `rough: no history yet`, `from 12 earlier runs`, `from its first 40 steps`."""
    rough: bool = True

    def log_error(self, actual_s: float) -> float:
        """log(actual / p50): 0 is right, 0.69 took twice as long."""
        return math.log(max(actual_s, 1e-3) / self.p50_s)


@dataclass
class _Level:
    n: float = 0.0
    mean: float = 0.0
    spread: float = 0.0
    """Sum of squared deviations, faded like n."""
    seen: int = 0

    def add(self, x: float) -> None:
        fade = min(1.0, (MEMORY - 1) / max(self.n, 1.0))
        self.n, self.spread = self.n * fade + 1, self.spread * fade
        step = x - self.mean
        self.mean += step / self.n
        self.spread += step * (x - self.mean)
        self.seen += 1


@dataclass
class History:
    """What past runs taught; not shared between processes: whoever predicts learns from the ledger at its start.

    Attributes:
        guesses: True where `guess_s` is a guess at the length; False where it only scales (seconds if a step took 1 s),
            so that nothing is pulled towards it.
    """

    guesses: bool = True
    _levels: dict[str, _Level] = field(default_factory=dict)

    def knows(self, levels: Sequence[str]) -> bool:
        """True when a run of one of these levels has been learned from."""
        return any(name in self._levels for name in levels)

    def learn(self, levels: Sequence[str], guess_s: float, actual_s: float) -> None:
        """A run that was guessed at `guess_s` took `actual_s`.

        Args:
            levels: names of what it belongs to, from what most runs share to what tells it apart.
        """
        error = math.log(max(actual_s, 1e-3) / guess_s)
        for name in levels:
            self._levels.setdefault(name, _Level()).add(error)

    def predict(self, levels: Sequence[str], guess_s: float) -> Prediction:
        """The length of a run with these levels; `guess_s` comes from FLOPs, or is any constant of its kind."""
        mean, variance, weight, seen = 0.0, ROUGH_SIGMA**2, 0.0, 0
        for name in levels:
            level = self._levels.get(name)
            if level is None:
                continue
            mean = mean if seen or self.guesses else level.mean
            weight, seen = PULL + level.n, level.seen
            apart = level.n * PULL / weight * (level.mean - mean) ** 2
            variance = (PULL * variance + level.spread + apart) / weight
            mean = (PULL * mean + level.n * level.mean) / weight
        sigma = math.sqrt(variance * (1 + 1 / weight) if weight else variance)
        p50 = guess_s * math.exp(mean)
        own = bool(levels) and levels[-1] in self._levels
        basis = f"from {seen} earlier run{'' if seen == 1 else 's'}" if seen else "rough: no history yet"
        return Prediction(p50, p50 * math.exp(Z90 * max(sigma, LEAST_SIGMA)), basis, rough=not own)


def measured(elapsed_s: float, step: int, steps_total: int, startup_s: float) -> Prediction | None:
    """The length told by the run's own steps so far; None before it has done any.

    Args:
        elapsed_s: since the attempt started, of which `startup_s` passed before its first step.
    """
    if step <= 0 or steps_total <= 0 or elapsed_s <= startup_s:
        return None
    share = min(1.0, step / steps_total)
    p50 = startup_s + (elapsed_s - startup_s) / share
    sigma = max(LEAST_SIGMA, PROGRESS_SIGMA * (1 - share))
    return Prediction(p50, p50 * math.exp(Z90 * sigma), f"from its first {step} steps", rough=False)
