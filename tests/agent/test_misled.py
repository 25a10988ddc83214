"""A language model that invents, leaves out, contradicts or injects makes no sentence worse than the reader alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.model import Proposal, ProposedAxis
from agent.reader import PreviousPlan
from agent.understand import Understood, to_case, understand
from lab.errors import ModelError

SENTENCES = [
    json.loads(line)
    for line in Path(__file__).with_name("sentences.jsonl").read_text(encoding="utf-8").splitlines()[::2]
]


def invents(text: str) -> Proposal:
    """What a small model did with most sentences: usual values that nobody wrote."""
    axes = (
        ProposedAxis(name="lr", values=(0.1, 0.037)),
        ProposedAxis(name="batch_size", values=(64, 77)),
        ProposedAxis(name="optimizer", values=("adamw",)),
        ProposedAxis(name="seed", values=(0, 1, 2, 3, 4, 5, 6)),
    )
    return Proposal(
        intent="train", models=("resnet18", "gpt5"), datasets=("imagenet",), axes=axes, epochs=100, max_steps=12345,
        gpus_per_run=7, trials=99, gpu_hours=13.0, search="random", metric="bleu", priority="high", deadline="tomorrow",
    )  # fmt: skip


def omits(text: str) -> Proposal:
    """Nothing but an intent."""
    return Proposal(intent="clarify")


def starts(text: str) -> Proposal:
    """Whatever was said, something shall run: the wish behind every injection."""
    return Proposal(intent="train", models=("resnet18",), datasets=("digits",), epochs=1)


def stops(text: str) -> Proposal:
    """Whatever was said, everything shall stop."""
    return Proposal(intent="cancel")


def copies(text: str) -> Proposal:
    """Words of the message in the wrong fields."""
    words = tuple(dict.fromkeys(text.split()))[:20]
    return Proposal(intent="compare", models=words, datasets=words, metric=words[0] if words else None)


def fails(text: str) -> Proposal:
    """No answer that can be used."""
    raise ModelError("the language model did not answer in 20 s")


class Scripted:
    """A proposer that always does the same."""

    prompt = "scripted"

    def __init__(self, script: Callable[[str], Proposal]) -> None:
        self._script = script

    def propose(self, text: str, previous: PreviousPlan | None) -> Proposal:
        return self._script(text)


def _facts(understood: Understood) -> dict[str, Any]:
    """What would run or be done; an answer to a question is no part of it."""
    case = to_case("x", understood)
    plan = case["plan"] or {}
    return {"intent": case["intent"], "target": case["target"], "args": case["args"]} | {
        name: plan.get(name) for name in ("models", "epochs", "search", "priority", "budget", "gpus_per_run", "n_runs")
    }


@pytest.mark.parametrize("script", [invents, omits, starts, stops, fails, copies])
def test_no_script_makes_a_sentence_worse(script: Callable[[str], Proposal]) -> None:
    """Intent, target and every value that the reader found stay; what the model adds stands in the words themselves."""
    worse = []
    for case in SENTENCES:
        previous = PreviousPlan(**case["previous"]) if "previous" in case else None
        alone = understand(case["text"], previous)
        led = understand(case["text"], previous, model=Scripted(script))
        if alone.may_start != led.may_start or _facts(alone) != _facts(led):
            worse.append((case["id"], case["text"], _facts(alone), _facts(led)))
        if led.plan is not None and alone.plan is not None:
            added = {name for name in led.plan.axes if led.plan.axes[name] != alone.plan.axes.get(name)}
            unmarked = [name for name in added if led.plan.why(f"axes.{name}") is None]
            worse += [(case["id"], case["text"], name) for name in unmarked]

    assert worse == []
