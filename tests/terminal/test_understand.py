"""`overnight understand`: what a request is understood as, and what the language model took for it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from overnight import app
from tests.agent.test_budget import Endpoint, endpoint

__all__ = ["endpoint"]
TEXT = "compare resnet18 and resnet34 on digits"


def test_json_tells_what_the_model_took(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever chooses a model compares what it costs; without one there is nothing to tell."""
    without = json.loads(CliRunner().invoke(app, ["understand", "--json", TEXT]).stdout)
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OVERNIGHT_MODEL__PRICE_IN", "2")
    monkeypatch.setenv("OVERNIGHT_MODEL__PRICE_OUT", "8")
    with_one = json.loads(CliRunner().invoke(app, ["understand", "--json", TEXT]).stdout)

    assert without["model"] is None
    assert with_one["model"]["tokens_in"] == 900
    assert with_one["model"]["tokens_out"] == 60
    assert with_one["model"]["estimated"] == 0
    assert with_one["model"]["money"] == pytest.approx((900 * 2 + 60 * 8) / 1e6)
    assert with_one["plan"] == without["plan"]
