"""Curves in a message: bars and numbers of what was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.curves import ASKS, BARS, METRICS, MOST_POINTS, bars


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("just the validation loss as a plot", "val_loss"),
        ("只画一下验证集 loss", "val_loss"),
        ("plot the training loss", "train_loss"),
        ("draw the training accuracy curve", "train_acc"),
        ("训练集准确率曲线", "train_acc"),
    ],
)
def test_the_metric_that_was_asked_for_is_drawn(text: str, metric: str) -> None:
    """`validation loss` is not `loss`."""
    assert ASKS.search(text)
    assert next(name for name, pattern in METRICS if pattern.search(text)) == metric


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=500))
def test_bars_rise_and_fall_with_the_values(values: list[float]) -> None:
    """Lowest and highest value have the lowest and the highest bar, and a long curve stays on a line."""
    drawn = bars(values)

    assert 1 <= len(drawn) <= MOST_POINTS + 1
    if len(values) <= MOST_POINTS and max(values) - min(values) > 1e-6:
        assert drawn[values.index(min(values))] == BARS[0]
        assert drawn[values.index(max(values))] == BARS[-1]
