"""Counts since the lab's first day, raised in the transaction of what they count, so that a restart loses none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from redis.client import Pipeline

from lab.run import Spent, Usage
from lab.store import PREFIX

KEY = f"{PREFIX}tally"
"""A hash; a field is the words of what is counted, `attempt failed oom_gpu`."""

Outcome = Literal["finished", "failed", "cancelled", "retried", "paused", "preempted", "lost", "given_back"]
"""How an attempt ended; retried: a fault of the run's own with a cure, preempted: stopped for another run,
given_back: stopped in order with its worker."""

MODEL_COUNTS = ("calls", "tokens_in", "tokens_out", "estimated")

WAIT_BOUNDS_S = (10, 60, 300, 900, 3_600, 14_400, 43_200, 86_400)
"""Upper bounds of the histogram of waits."""


@dataclass(frozen=True)
class Waits:
    """How long runs of one priority waited for their first attempt."""

    seconds: float
    below: tuple[int, ...]
    """Runs that waited at most each of WAIT_BOUNDS_S; the last entry counts all."""


@dataclass(frozen=True)
class Predictions:
    """How right the lengths of runs were told when these got their cards."""

    runs: int = 0
    within_p90: int = 0
    """Runs that took at most as long as nine in ten should."""
    log_error: float = 0.0
    """Sum of log(actual / p50): above 0 where runs took longer than told."""
    abs_log_error: float = 0.0


@dataclass(frozen=True)
class Tally:
    """All counts."""

    answers: dict[str, int] = field(default_factory=dict)
    """By kind: `plan`, `question`, ..."""
    attempts: dict[tuple[str, str], int] = field(default_factory=dict)
    """By outcome and cause; `none` where there is no cause."""
    waits: dict[str, Waits] = field(default_factory=dict)
    """By priority."""
    gpu_s: float = 0.0
    """Of ended attempts."""
    energy_j: float = 0.0
    """Of those ended attempts whose energy is known."""
    predictions: dict[str, Predictions] = field(default_factory=dict)
    """`known` where runs of the kind had been seen, `rough` where none had."""

    model: Spent = field(default_factory=Spent)
    """What the language model's calls took."""


def count_answer(pipe: Pipeline, kind: str) -> None:
    """One request more has an answer of this kind, when the pipeline's transaction runs; so with the others here."""
    pipe.hincrby(KEY, f"answer {kind}", 1)


def count_attempt(pipe: Pipeline, outcome: str, cause: str | None = None) -> None:
    """One attempt more has ended so.

    Args:
        outcome: one of Outcome.
        cause: one of lab/diagnose's, or `host_or_worker`.
    """
    pipe.hincrby(KEY, f"attempt {outcome} {cause or 'none'}", 1)


def count_wait(pipe: Pipeline, priority: str, seconds: float) -> None:
    """One run more has begun its first attempt, so long after it was queued (time in which it was paused included)."""
    bound = next((str(bound) for bound in WAIT_BOUNDS_S if seconds <= bound), "more")
    pipe.hincrby(KEY, f"wait {priority} {bound}", 1)
    pipe.hincrbyfloat(KEY, f"waited {priority}", round(max(0.0, seconds), 3))


def count_usage(pipe: Pipeline, usage: Usage) -> None:
    """What an ended attempt used is added up."""
    pipe.hincrbyfloat(KEY, "gpu_s", round(usage.gpu_s, 3))
    if usage.energy_j is not None:
        pipe.hincrbyfloat(KEY, "energy_j", round(usage.energy_j, 3))


def count_model(pipe: Pipeline, spent: Spent) -> None:
    """The language model's calls of a request are added up."""
    for name in MODEL_COUNTS:
        pipe.hincrby(KEY, f"model {name}", getattr(spent, name))
    if spent.money is not None:
        pipe.hincrbyfloat(KEY, "model money", round(spent.money, 8))


def count_prediction(pipe: Pipeline, log_error: float, *, within: bool, rough: bool) -> None:
    """One run more has ended whose length was told before; `within` what nine in ten take at most."""
    basis = "rough" if rough else "known"
    pipe.hincrby(KEY, f"predicted {basis} runs", 1)
    pipe.hincrby(KEY, f"predicted {basis} within_p90", int(within))
    pipe.hincrbyfloat(KEY, f"predicted {basis} log_error", round(log_error, 4))
    pipe.hincrbyfloat(KEY, f"predicted {basis} abs_log_error", round(abs(log_error), 4))


def parse(found: Mapping[str, str]) -> Tally:
    """The counts of the hash; fields of other versions are passed over."""
    words = {tuple(name.split()): value for name, value in found.items()}
    seconds = {key[1]: float(value) for key, value in words.items() if key[0] == "waited" and len(key) == 2}
    return Tally(
        answers={key[1]: int(value) for key, value in words.items() if key[0] == "answer" and len(key) == 2},
        attempts={
            (key[1], key[2]): int(value) for key, value in words.items() if key[0] == "attempt" and len(key) == 3
        },
        waits={priority: Waits(total, _below(words, priority)) for priority, total in seconds.items()},
        model=_model(words),
        gpu_s=float(found.get("gpu_s", 0)),
        energy_j=float(found.get("energy_j", 0)),
        predictions={basis: told for basis in ("known", "rough") if (told := _predictions(words, basis)).runs},
    )


def _predictions(words: Mapping[tuple[str, ...], str], basis: str) -> Predictions:
    found = {name: float(words.get(("predicted", basis, name), 0)) for name in Predictions.__dataclass_fields__}
    return Predictions(int(found["runs"]), int(found["within_p90"]), found["log_error"], found["abs_log_error"])


def _model(words: Mapping[tuple[str, ...], str]) -> Spent:
    money = words.get(("model", "money"))
    counts = {name: int(words.get(("model", name), 0)) for name in MODEL_COUNTS}
    return Spent(money=None if money is None else float(money), **counts)


def _below(words: Mapping[tuple[str, ...], str], priority: str) -> tuple[int, ...]:
    counts, total = [], 0
    for bound in (*map(str, WAIT_BOUNDS_S), "more"):
        total += int(words.get(("wait", priority, bound), 0))
        counts.append(total)
    return tuple(counts)
