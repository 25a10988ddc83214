"""Measures how fast this host computes what trainers compute: `python -m workers.speed cpu|<card>` prints JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

CHANNELS = 64
SIDE = 32
BUDGET_S = 1.0
"""Long enough for a steady figure, short enough that nobody waits for it."""


def measure(device: str) -> float:
    """Floating point operations a second of 3x3 convolutions, two for a multiply-add."""
    import torch

    on_card = device != "cpu"
    batch = 256 if on_card else 16
    dtype = torch.bfloat16 if on_card else torch.float32
    where = "cuda" if on_card else "cpu"
    layer = torch.nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False).to(where, dtype)
    images = torch.randn(batch, CHANNELS, SIDE, SIDE, device=where, dtype=dtype)  # (batch, channels, height, width)
    flops = 2.0 * batch * SIDE * SIDE * CHANNELS * CHANNELS * 9
    wait: Callable[[], object] = torch.cuda.synchronize if on_card else lambda: None
    with torch.inference_mode():
        for _ in range(3):
            layer(images)
        wait()
        began, rounds = time.perf_counter(), 0
        while time.perf_counter() - began < BUDGET_S:
            for _ in range(4):
                layer(images)
            wait()
            rounds += 4
        return rounds * flops / (time.perf_counter() - began)


if __name__ == "__main__":
    print(json.dumps({"flops": measure(sys.argv[1])}))
