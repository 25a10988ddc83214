"""What people type, and what it has to come to: tests/agent/sentences.jsonl, one sentence a line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from agent.reader import PreviousPlan
from agent.understand import asked_runs, to_case, understand

SENTENCES = [
    json.loads(line) for line in Path(__file__).with_name("sentences.jsonl").read_text(encoding="utf-8").splitlines()
]


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
    names = {"gpus": "gpus_per_run"}
    for field in ("models", "dataset", "epochs", "max_steps", "gpus", "search", "budget", "priority"):
        if field in case:
            assert same(case[field], plan.get(names.get(field, field))), (field, plan)
    for axis, values in case.get("axes", {}).items():
        assert same(values, plan.get("axes", {}).get(axis)), (axis, plan.get("axes"))
    if "runs" in case:
        assert understood.plan is not None
        assert asked_runs(understood.plan) == case["runs"]
    if case.get("asks"):
        assert not understood.may_start
        assert understood.question or understood.intent == "refuse"
    if not set(case["intent"]) & {"clarify", "refuse"} and understood.plan is not None:
        assert understood.question is None, understood.question
