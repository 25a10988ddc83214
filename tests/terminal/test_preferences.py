"""`overnight preferences`: what is remembered of a person, and its end."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from lab import habits
from lab.ledger import Ledger
from lab.plan import Plan
from lab.settings import Settings
from overnight import app


@pytest.fixture(autouse=True)
def _remembered(settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three plans of ann's that said the data set, in the store that the command finds."""
    assert settings.redis_url is not None
    monkeypatch.setenv("OVERNIGHT_REDIS_URL", settings.redis_url.get_secret_value())
    with ledger.client.pipeline() as pipe:
        for _ in range(3):
            habits.remember(pipe, "ann", Plan(models=("resnet18",), dataset="digits", epochs=2))
        pipe.execute()


def call(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["preferences", "--person", "ann", *arguments])
    return done.exit_code, done.output


def test_they_are_listed_for_people_and_for_programs() -> None:
    """With how many plans they come from."""
    assert "- data set: digits\n- epochs: 2\n" in call()[1]
    assert json.loads(call("--json")[1]) == {"person": "ann", "plans": 3, "usual": {"dataset": "digits", "epochs": 2}}


def test_one_or_all_are_forgotten(ledger: Ledger) -> None:
    """By the name that plans have for it."""
    assert call("--forget", "dataset") == (0, "forgotten: dataset of ann\n")
    assert habits.uses(ledger.client, "ann") == [{"epochs": 2}] * 3
    assert call("--forget", "all") == (0, "forgotten: all of ann\n")
    assert call("--forget", "all") == (0, "nothing of it was remembered of ann\n")


def test_a_field_that_there_is_not_is_wrong_usage() -> None:
    """It names those that there are, and forgets nothing."""
    code, said = call("--forget", "models")

    assert code == 2
    assert "dataset" in said
    assert "epochs: 2" in call()[1]
