"""Checks what a model proposes: a value counts only where the message says it and the reader left it unread."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agent import catalog
from agent.model import Proposal, ProposedAxis
from agent.reader import Reading
from agent.reader import axes as axis_table
from agent.reader.choices import WORDS
from agent.reader.intents import PLANNING, Intent
from agent.reader.numbers import written
from agent.reader.page import CROSSED
from lab.plan import Axis, Budget, Range, Scalar

REASON = "the language model's reading of your words; say if it is wrong"
HARMLESS: frozenset[Intent] = frozenset({"status", "explain", "gpu_status", "quota", "help", "chitchat"})
"""Intents that change nothing, so that a model may choose them where the reader found no cue."""
COUNTS = ("epochs", "max_steps", "gpus_per_run", "trials")
UNITS = {
    "epochs": re.compile(
        r"epoch|époque|época|эпох|エポック|에폭|\bep\b|passes|rounds?\b|times\b|轮|回合|遍", re.IGNORECASE
    ),
    "max_steps": re.compile(r"step|iter|update|schritt|paso|步|迭代", re.IGNORECASE),
    "gpus_per_run": re.compile(r"gpu|card|device|karte|卡", re.IGNORECASE),
    "trials": re.compile(r"trial|sample|draw|config|attempt|次|组", re.IGNORECASE),
}
"""A count needs its unit in the words that the reader left: the 一 of 一下 is nobody's number of epochs."""


@dataclass(frozen=True)
class Grounded:
    """The reading with what the model could add to it."""

    reading: Reading
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    """What the model proposed and nobody said, or the reader read otherwise."""


def ground(proposal: Proposal, reading: Reading) -> Grounded:
    """The reader's values stand; the model fills gaps with what is in the part of the message that the reader left."""
    if reading.refusal or reading.intent == "modify":
        return Grounded(reading, dropped=tuple(_disagreements(proposal, reading)))
    if reading.intent not in PLANNING:
        return Grounded(_intent(proposal, reading), dropped=tuple(_disagreements(proposal, reading)))
    added: dict[str, Any] = {}
    hints: dict[str, str] = {}
    for field, value in _fills(proposal, reading):
        added[field] = value
        hints |= {f"axes.{name}": REASON for name in value} if field == "axes" else {_public(field): REASON}
    axes = {**added.pop("axes", {}), **reading.axes}
    filled = reading.model_copy(update={**added, "axes": axes, "hints": {**hints, **reading.hints}})
    dropped = tuple(d for d in _disagreements(proposal, filled))
    return Grounded(filled, tuple(hints), dropped)


def _public(field: str) -> str:
    return "dataset" if field == "datasets" else field


def _intent(proposal: Proposal, reading: Reading) -> Reading:
    """A model may know a question in a language that the reader does not read; it never turns one into a plan."""
    foreign = re.search(r"[^\W\d_a-zA-Z\u4e00-\u9fff]", reading.left)
    if reading.sure or not foreign or proposal.intent not in HARMLESS:
        return reading
    return reading.model_copy(update={"intent": proposal.intent, "questions": ()})


def _fills(proposal: Proposal, reading: Reading) -> Iterator[tuple[str, Any]]:
    left = reading.left.replace(CROSSED, " ")
    numbers = written(left)
    if not reading.datasets:
        names = tuple(d for d in proposal.datasets if _said(d, left) and not _plain_word(d))
        if names:
            yield "datasets", tuple(catalog.dataset(n) or n for n in names)
    for field in COUNTS:
        number = getattr(proposal, field)
        if getattr(reading, field) is None and number is not None and number >= 1 and _among(number, numbers):
            if not UNITS[field].search(left):
                continue
            if field in ("epochs", "max_steps") and (reading.epochs or reading.max_steps):
                continue
            yield field, number
    if reading.budget is None and proposal.gpu_hours and _among(proposal.gpu_hours, numbers):
        yield "budget", Budget(gpu_hours=proposal.gpu_hours)
    for field in ("metric", "deadline"):
        words = getattr(proposal, field)
        if getattr(reading, field) is None and words and _said(words, left):
            yield field, words
    axes = {a.name: values for a in proposal.axes if a.name not in reading.axes and (values := _axis(a, left, numbers))}
    if axes:
        yield "axes", axes


def _axis(proposed: ProposedAxis, left: str, numbers: list[float]) -> Axis | None:
    """The proposed values of a known axis, if every one of them is in the part that is left."""
    if proposed.name in WORDS:
        words = tuple(str(v) for v in proposed.values)
        return words if words and all(w in WORDS[proposed.name] and _said(w, left) for w in words) else None
    axis = axis_table.BY_NAME.get(proposed.name)
    values = [v for v in proposed.values if isinstance(v, int | float) and not isinstance(v, bool)]
    if axis is None or not values or len(values) != len(proposed.values):
        return None
    if not all(axis.allows(v) and _among(v, numbers) for v in values) or not axis.key.search(left):
        return None
    typed: tuple[Scalar, ...] = tuple(axis_table.typed(axis, v) for v in values)
    return typed


def _among(number: float, numbers: list[float]) -> bool:
    return any(math.isclose(number, n, rel_tol=1e-9) for n in numbers)


def _said(words: str, left: str) -> bool:
    return bool(words.strip()) and catalog.squash(words) in catalog.squash(left)


def _plain_word(name: str) -> bool:
    """True for a name that is an ordinary word, which a data set's name in the message hardly is."""
    return not re.search(r"[\d_/\-]", name) and catalog.dataset(name) is None


def _disagreements(proposal: Proposal, reading: Reading) -> Iterator[str]:
    """Proposed values that the reading does not have, for the log and the tests."""
    known = {catalog.model(m) or m for m in reading.models}
    yield from (f"models {m}" for m in proposal.models if (catalog.model(m) or m) not in known)
    sets = {catalog.dataset(d) or d for d in reading.datasets}
    yield from (f"dataset {d}" for d in proposal.datasets if (catalog.dataset(d) or d) not in sets)
    for field in (*COUNTS, "metric", "search", "priority", "deadline"):
        value = getattr(proposal, field)
        if value is not None and value != getattr(reading, field):
            yield f"{field} {value}"
    for axis in proposal.axes:
        held = reading.axes.get(axis.name)
        values = set(held) if isinstance(held, tuple) else set()
        if isinstance(held, Range) and not axis.values:
            continue
        if held is None or not set(axis.values) <= values:
            yield f"axes.{axis.name} {', '.join(str(v) for v in axis.values)}"
