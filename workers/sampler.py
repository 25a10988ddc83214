"""Optuna asked for the next point of a search, and whether a run is hopeless. Pure: the ledger's trials in, a word out.

The study is built anew for each question and seeded from what is asked about, so that whoever asks the same gets the
same answer: a restarted leader, a second one, a test. Optuna is imported inside the functions: most labs never search.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lab.plan import Axis, Prune, Scalar, Search
from lab.pruning import LEFT_ALONE, REDUCTION, rungs
from lab.space import combinations, listed, rounded
from lab.trials import Curve, Trial

if TYPE_CHECKING:
    import optuna

MOST_RANDOM = 10
"""Trials drawn at random before TPE begins to learn (Optuna's default); of few trials a quarter, two at least."""
ASKED_AGAIN = 20
"""Draws after which a point that was tried already is replaced by one that was not."""
FEWEST = 3
"""Other runs with a value at the epoch before any is called hopeless."""
WARM_UP = 0.2
"""Share of the epochs before which the median says little."""


@dataclass(frozen=True)
class Hopeless:
    """Why a run need not go on: its value at an epoch, and how many others it was compared with there."""

    rule: Prune
    epoch: int
    value: float
    others: int


def propose(
    search: Search, space: Mapping[str, Axis], tried: Sequence[Trial], trials: int, seed: str, maximize: bool
) -> dict[str, Scalar]:
    """The values of the next trial, one for each axis of the space; none that was tried already, while there is one.

    Args:
        tried: every trial that was drawn; those that still run count as no better than the rest (constant liar).
        trials: how many there will be.
        seed: what is asked about, `exp-12/resnet18/digits/3`.
    """
    study = _study(search, len(space), trials, seed, maximize)
    for trial in tried:
        study.add_trial(_frozen(trial, space))
    distributions = {name: _distribution(name, axis) for name, axis in space.items()}
    known = {_key(trial.values) for trial in tried}
    values: dict[str, Scalar] = {}
    for _ in range(ASKED_AGAIN):
        asked = study.ask(distributions)
        values = {name: _decoded(name, axis, asked.params[name]) for name, axis in space.items()}
        if _key(values) not in known:
            return values
    return _untried(space, known, seed) or values


def hopeless(rule: Prune, mine: Curve, others: Sequence[Curve], epochs: int, maximize: bool) -> Hopeless | None:
    """Why the run with the curve `mine` may be stopped; None when it goes on.

    Both rules compare with every run that got as far, whatever became of it: `median` at each epoch with the best so
    far, `halving` at epochs 1, 3, 9, ... (asynchronous successive halving, Li et al. 2020, arXiv:1810.05934).
    """
    import optuna

    at = max(mine, default=0)
    epoch = at if rule == "median" else max((r for r in rungs(epochs) if r <= at), default=0)
    warm = math.ceil(WARM_UP * epochs) if rule == "median" else 1
    if epoch < warm or at >= epochs * LEFT_ALONE or epoch not in mine:
        return None
    peers = [curve[epoch] for curve in others if epoch in curve]
    if len(peers) < FEWEST:
        return None
    keep = 50.0 if rule == "median" else 100.0 / REDUCTION
    study = optuna.create_study(
        direction=_direction(maximize), pruner=optuna.pruners.PercentilePruner(keep, n_startup_trials=0)
    )
    for value in peers:
        study.add_trial(optuna.trial.create_trial(value=value, intermediate_values={epoch: value}))
    trial = study.ask()
    for step, value in mine.items():
        if step <= epoch:
            trial.report(value, step)
    return Hopeless(rule, epoch, mine[epoch], len(peers)) if trial.should_prune() else None


def _study(search: Search, axes: int, trials: int, seed: str, maximize: bool) -> optuna.Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4])
    sampler: optuna.samplers.BaseSampler = optuna.samplers.RandomSampler(seed=number)
    if search == "bayesian":
        startup = min(MOST_RANDOM, max(2, trials // 4))
        sampler = optuna.samplers.TPESampler(
            seed=number, n_startup_trials=startup, multivariate=axes > 1, constant_liar=True
        )
    return optuna.create_study(direction=_direction(maximize), sampler=sampler)


def _direction(maximize: bool) -> Literal["maximize", "minimize"]:
    return "maximize" if maximize else "minimize"


def _frozen(trial: Trial, space: Mapping[str, Axis]) -> optuna.trial.FrozenTrial:
    """The trial in Optuna's terms: one that diverged counts like one that was stopped before its first epoch."""
    import optuna

    states = optuna.trial.TrialState
    state = {
        "live": states.RUNNING,
        "done": states.COMPLETE,
        "pruned": states.PRUNED,
        "diverged": states.PRUNED,
        "failed": states.FAIL,
    }[trial.state]
    params = {name: _encoded(name, axis, trial.values[name]) for name, axis in space.items()}
    return optuna.trial.create_trial(
        state=state,
        value=trial.value,
        params=params,
        distributions={name: _distribution(name, axis) for name, axis in space.items()},
        intermediate_values=dict(trial.curve) if trial.curve and trial.state == "pruned" else None,
    )


def _distribution(name: str, axis: Axis) -> optuna.distributions.BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(axis, tuple):
        return CategoricalDistribution(axis)
    values = listed(name, axis)
    if values is not None:  # in order, so that a place in the list says what is near what
        return IntDistribution(0, len(values) - 1)
    return FloatDistribution(axis.low, axis.high, log=axis.scale != "linear")


def _encoded(name: str, axis: Axis, value: Scalar) -> Any:
    values = None if isinstance(axis, tuple) else listed(name, axis)
    return value if values is None else values.index(value)


def _decoded(name: str, axis: Axis, value: Any) -> Scalar:
    if isinstance(axis, tuple):
        return next(v for v in axis if v == value and isinstance(v, bool) == isinstance(value, bool))
    values = listed(name, axis)
    return rounded(value, axis) if values is None else values[value]


def _untried(space: Mapping[str, Axis], known: set[tuple[str, ...]], seed: str) -> dict[str, Scalar] | None:
    """A point of a small space that was not tried yet, by lot; None when there is none, or no end of them."""
    if combinations(space) is None:
        return None
    columns = [listed(name, axis) or () for name, axis in space.items()]
    left = [p for row in itertools.product(*columns) if _key(p := dict(zip(space, row, strict=True))) not in known]
    return random.Random(seed).choice(left) if left else None


def _key(values: Mapping[str, Scalar]) -> tuple[str, ...]:
    return tuple(f"{name}={values[name]!r}" for name in sorted(values))
