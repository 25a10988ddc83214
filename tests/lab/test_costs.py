"""What models cost."""

from __future__ import annotations

import pytest

from lab.costs import cost


def test_costs_are_near_the_published_ones() -> None:
    """resnet50: 25.6 million parameters and 4.1 billion multiply-adds at 224 pixels (He et al., 2016)."""
    known = cost("resnet50")

    assert known is not None
    assert known.parameters == pytest.approx(25.6e6, rel=0.01)
    assert known.multiply_adds == pytest.approx(4.1e9, rel=0.02)
    for name in ("efficientnet_b0", "mobilenetv3_large_100", "densenet121", "vit_base_patch16_224", "vgg16"):
        assert cost(name) is not None
    assert cost("yolov8n") is None
