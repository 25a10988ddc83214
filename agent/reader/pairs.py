# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Settings that belong to one name each: `resnet18 lr 0.1 vs vit_tiny lr 1e-3`, `adam@1e-3 against sgd@0.1`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.reader import axes as axis_table
from agent.reader.choices import PATTERNS
from agent.reader.names import Names
from agent.reader.numbers import FLAGS, NUMBER, value
from agent.reader.page import Page

PAIRED = ("lr", "batch_size", "weight_decay")
OWN = {
    name: re.compile(
        rf"\s*(?:[(,:]|\bwith\b|\bat\b|\busing\b|w/|用|配|取)?\s*(?:a\s+)?(?:(?<![A-Za-z])(?:{axis_table.BY_NAME[name].keys})\s*(?:of|=|:|用|取|为)?\s*{'|@ ?' if name == 'lr' else ''})(?P<value>{NUMBER})",
        FLAGS,
    )
    for name in PAIRED
}


@dataclass(frozen=True)
class Pairs:
    """One axis whose value differs from name to name.

    Attributes:
        axis: the axis.
        values: name to its own value, in the message's order.
    """

    axis: str
    values: dict[str, float | int]


def read(page: Page, names: Names) -> Pairs | None:
    """The axis of which two names have different values of their own; None when there is none."""
    spans = [*names.spans, *((*m.span(), str(m.lastgroup)) for m in PATTERNS["optimizer"].finditer(page.text))]
    for axis, pattern in OWN.items():
        own = {n: value(m["value"]) for _, end, n in sorted(spans) if (m := pattern.match(page.text, end))}
        if len(set(own.values())) > 1:
            return Pairs(axis, own)
    return None
