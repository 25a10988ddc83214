"""How long a run will take, as p50 and p90: from runs like it, without any from a guess, once it steps from itself.

Lengths are taken as lognormal. What is learned is the logarithm of a length over its scale, at levels from what many
runs share to what tells this one apart; each level is pulled towards the one before it, the more the fewer runs it has
seen (normal-normal shrinkage: Gelman et al., "Bayesian Data Analysis", chapter 5).
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ROUGH_SIGMA = 1.2
"""Spread of log(actual / guess) where nothing has been learned: guesses from FLOPs are off by 3 either way."""
LIKE_SIGMA = 0.3
"""Spread among runs of one kind, until they have shown their own: other load, other data order."""
PULL = 3.0
"""A level counts like so many runs of the next one: its first three runs only half believe themselves."""
LIKE_PULL = 0.1
"""The same where runs are of one kind: they vary by a tenth, kinds by a factor, so the first one is believed."""
MEMORY = 50
"""Older runs than the newest so many of a level are forgotten: drivers, data and habits change."""
Z90 = 1.2815515655446004
"""Standard normal deviate below which 90 % lie."""
PROGRESS_SIGMA = 0.35
"""Spread of what is left, told by the first steps alone: evaluation, checkpoints and warm-up are not in them."""
LEAST_SIGMA = 0.03


@dataclass(frozen=True)
class Level:
    """Runs that one is compared with.

    Attributes:
        scale: what lengths are in proportion to among them: a guess in seconds, or a number of epochs.
        alike: they do the same work, so that one of them tells the length of the next.
    """

    name: str
    scale: float
    alike: bool = False


@dataclass(frozen=True)
class Prediction:
    """Half of such runs end within p50_s, nine in ten within p90_s: seconds on the cards, from the first attempt on."""

    p50_s: float
    p90_s: float
    basis: str
    """For people: `rough: no history yet`, `from 12 earlier runs`, `from its first 40 steps`."""
    rough: bool = True
    """True where no run of its kind has been seen, so that all runs of the kind may be off in the same way."""
    earlier: int = 0
    """Runs of its kind that it was told from."""

    def log_error(self, actual_s: float) -> float:
        """log(actual / p50): 0 is right, 0.69 took twice as long."""
        return math.log(max(actual_s, 1e-3) / self.p50_s)

    def after(self, first: Prediction) -> Prediction:
        """Both one after the other, where neither is long because the other is; known from what this one is."""
        p50_s = first.p50_s + self.p50_s
        late_s = math.hypot(first.p90_s - first.p50_s, self.p90_s - self.p50_s)
        return Prediction(p50_s, p50_s + late_s, self.basis, self.rough, self.earlier)


class History:
    """What past runs taught: for each level the logarithms of length over scale, the newest MEMORY of them."""

    def __init__(self) -> None:
        self._past: dict[str, deque[float]] = {}

    def recall(self, past: Mapping[str, Iterable[float]]) -> None:
        """These levels hold these values, oldest first, and nothing else."""
        self._past |= {name: deque(values, maxlen=MEMORY) for name, values in past.items()}

    def learn(self, levels: Sequence[Level], actual_s: float) -> dict[str, float]:
        """A run of these levels took so long; returns what was added to each of them."""
        seen = {level.name: math.log(max(actual_s, 1e-3) / level.scale) for level in levels}
        for name, value in seen.items():
            self._past.setdefault(name, deque(maxlen=MEMORY)).append(value)
        return seen

    def predict(self, levels: Sequence[Level], guess_s: float | None) -> Prediction | None:
        """The length of a run with these levels, from what most runs share to what tells it apart.

        Args:
            guess_s: from FLOPs; None where there is none, so that nothing is pulled towards it.

        Returns:
            None when there is no guess and none of the levels has been seen.
        """
        mean = None if guess_s is None else math.log(guess_s)
        variance, weight, others, earlier = ROUGH_SIGMA**2, math.inf, 0, 0
        for level in levels:
            past = self._past.get(level.name)
            if not past:
                continue
            n, here = len(past), statistics.fmean(past)
            spread = sum((x - here) ** 2 for x in past)
            here += math.log(level.scale)
            before = here if mean is None else mean
            pull = LIKE_PULL if level.alike else PULL
            weight = pull + n
            if level.alike:
                variance = (PULL * min(variance, LIKE_SIGMA**2) + spread) / (PULL + n)
                earlier = max(earlier, n)
            else:
                apart = n * pull / weight * (here - before) ** 2
                variance = (PULL * variance + spread + apart) / weight
                others = n
            mean = (pull * before + n * here) / weight
        if mean is None:
            return None
        p50, sigma = math.exp(mean), max(LEAST_SIGMA, math.sqrt(variance * (1 + 1 / weight)))
        return Prediction(p50, p50 * math.exp(Z90 * sigma), _basis(earlier, others), not earlier, earlier)


def _basis(earlier: int, others: int) -> str:
    if earlier:
        return f"from {earlier} earlier run{'' if earlier == 1 else 's'}"
    return f"rough: from {others} run{'' if others == 1 else 's'} of other kinds" if others else "rough: no history yet"


def measured(elapsed_s: float, step: int, share: float | None, left_s: float | None) -> Prediction | None:
    """The length told by the run's own steps so far, start-up included; None before they tell anything.

    Args:
        elapsed_s: since the attempt started.
        share: part of the steps that is done, in 0..1.
        left_s: what the trainer reckons is left, by the pace of its steps.
    """
    if step <= 0 or share is None or left_s is None:
        return None
    sigma = max(LEAST_SIGMA, PROGRESS_SIGMA * (1 - share))
    p90_s = elapsed_s + left_s * math.exp(Z90 * sigma)
    return Prediction(elapsed_s + left_s, p90_s, f"from its first {step} steps", rough=False)
