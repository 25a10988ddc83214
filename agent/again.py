# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Reads whether all runs shall be run again, also those whose results are there already."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lab.plan import Plan
from lab.run import Run

FLAGS = re.IGNORECASE
ALL = r"(?:all(?: (?:of )?(?:it|them|this|that|runs|the runs|of the runs))?|everything|every run|the (?:whole|entire) (?:thing|experiment|plan))"
ALL_AGAIN = re.compile(
    rf"\b(?:run|train|do|start|compute)\s+(?:it\s+)?{ALL}\s+(?:again|anew|afresh|once more|from scratch)\b"
    rf"|\b(?:re-?run|re-?train|redo|repeat)\s+{ALL}(?!\w)"
    r"|\b(?:do not|don'?t|without|no)\s+(?:the\s+)?(?:re-?us\w+|old results?)\b|\bignore (?:the )?(?:old|earlier|existing) results\b"
    r"|(?:全部|全都|所有(?:的)?(?:run|实验)?|整个(?:实验)?)\s*都?(?:重新?(?:跑|训练?|做|来)|再(?:跑|训|做)一?[次遍])"
    r"|重新?(?:跑|训练?|做)\s*(?:全部|所有|整个)|(?:不要|别|不)(?:复|重)用|不用(?:旧|以前|已有)的?结果",
    FLAGS,
)
"""Says it of all runs, whatever else the message changes."""
AGAIN = re.compile(
    r"\b(?:again|re-?run|re-?train|redo|repeat|reproduce|replicate|once more|one more time|anew|afresh)\b"
    r"|重新?(?:跑|训|做|来|试)|再(?:跑|训|做|来|试)|重复|复现|重现",
    FLAGS,
)
"""Asks for a repetition; where there is nothing else to run, that is what is meant."""


def all_again(text: str) -> bool:
    """True when the message wants no result that is there already."""
    return ALL_AGAIN.search(text) is not None


def reusable(plan: Plan, same: Mapping[int, Run]) -> tuple[Plan, Mapping[int, Run]]:
    """The plan and what of it is there already; nothing is where the message asks for a repetition and all would be."""
    if len(same) == plan.n_runs and AGAIN.search(plan.request_text):
        return plan.model_copy(update={"anew": True}), {}
    return plan, same
