"""What one image costs the common models, from costs.json (written by agent/catalog_generate): no torch is loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NATIVE_SIZE = 224
"""Side in pixels of the image."""


@dataclass(frozen=True)
class Cost:
    """What one image of NATIVE_SIZE costs a model."""

    parameters: int
    multiply_adds: int


@cache
def _costs() -> dict[str, Cost]:
    listed = json.loads(Path(__file__).with_name("costs.json").read_text(encoding="utf-8"))
    return {name: Cost(*values) for name, values in listed.items()}


def cost(model: str) -> Cost | None:
    """Parameters and multiply-adds by the model's name; None when they were not measured."""
    return _costs().get(model)
