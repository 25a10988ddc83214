"""What people type, and what it has to come to: tests/agent/sentences.jsonl, one sentence a line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from agent.reader import PreviousPlan
from agent.reader.intents import PLANNING
from agent.understand import asked_runs, to_case, understand

SENTENCES = [
    json.loads(line) for line in Path(__file__).with_name("sentences.jsonl").read_text(encoding="utf-8").splitlines()
]


FIELDS = ("models", "dataset", "epochs", "max_steps", "gpus", "search", "trials", "budget", "priority", "metric")
NAMES = {"gpus": "gpus_per_run"}
USUAL = {"gpus": 1, "priority": "normal", "search": "grid"}


def unsaid(case: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    """Values of the plan that neither the sentence nor its thread gives and that are not listed as assumed."""
    plan, held = answer["plan"] or {}, case.get("previous", {})
    known = {*answer["assumed"], *(f"axes.{name}" for name in (*case.get("axes", {}), *held.get("axes", {})))}
    known |= {
        NAMES.get(field, field)
        for field in (*FIELDS, "dataset", "deadline", "mode")
        if field in case or held.get(field)
    }
    found = [f"axes.{name}" for name in plan.get("axes", {}) if f"axes.{name}" not in known]
    for field in (*FIELDS, "deadline", "mode"):
        name = NAMES.get(field, field)
        if name not in known and plan.get(name) not in (None, [], USUAL.get(field)):
            found.append(name)
    return found


def same(wanted: Any, got: Any) -> bool:
    """Numbers by value, lists in any order, a bare value as a list of one."""
    if isinstance(wanted, dict):
        return isinstance(got, dict) and all(same(v, got.get(k)) for k, v in wanted.items())
    if isinstance(wanted, list) and isinstance(got, list | tuple):
        return len(wanted) == len(got) and all(any(same(w, g) for g in got) for w in wanted)
    if isinstance(wanted, bool) or isinstance(got, bool) or isinstance(wanted, str):
        return bool(wanted == got)
    return isinstance(got, int | float) and math.isclose(wanted, got, rel_tol=1e-9, abs_tol=1e-15)


@pytest.mark.parametrize("case", SENTENCES, ids=[c["id"] for c in SENTENCES])
def test_a_sentence_is_understood(case: dict[str, Any]) -> None:
    """The intent, everything that was stated, and the number of runs; what must be asked cannot start."""
    previous = PreviousPlan(**case["previous"]) if "previous" in case else None

    understood = understand(case["text"], previous)
    answer = to_case(case["id"], understood)

    assert answer["intent"] in case["intent"], answer["reply"]
    plan = answer["plan"] or {}
    for field in FIELDS:
        if field in case:
            assert same(case[field], plan.get(NAMES.get(field, field))), (field, plan)
    assert "deadline" not in case or plan.get("deadline")
    assert "target" not in case or answer["target"] == case["target"]
    for name, value in case.get("args", {}).items():
        assert same(value, answer["args"].get(name)), (name, answer["args"])
    for axis, values in case.get("axes", {}).items():
        assert same(values, plan.get("axes", {}).get(axis)), (axis, plan.get("axes"))
    if "runs" in case:
        assert understood.plan is not None
        assert asked_runs(understood.plan) == case["runs"]
    if case.get("asks"):
        assert not understood.may_start
        assert understood.question or understood.intent == "refuse"
    if case.get("whole") and set(case["intent"]) & PLANNING and not case.get("asks"):
        assert unsaid(case, answer) == []
    if not set(case["intent"]) & {"clarify", "refuse"} and not case.get("asks") and understood.plan is not None:
        assert understood.question is None, understood.question
