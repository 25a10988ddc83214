"""`overnight list` and `overnight show`: what stands in Redis, what is archived, and what is not here."""

from __future__ import annotations

import time
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lab.archive import NAME
from lab.ledger import Ledger
from lab.settings import Settings
from overnight import app
from terminal.tables import show_experiment
from tests.lab.test_archive import attempt
from tests.workers.under_test import Lab


def shown(settings: Settings, ledger: Ledger, experiment_id: str) -> str:
    """What people see."""
    console = Console(file=StringIO(), width=200)
    show_experiment(settings, ledger.client, console, experiment_id)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_an_archived_experiment_is_shown_like_any_other(settings: Settings, ledger: Ledger) -> None:
    """A paper is written months after the night."""
    experiment = Lab(settings, ledger.client, ledger).approve()
    run_id = f"{experiment.id}/1"
    ledger.fail(run_id, attempt(ledger, run_id), "hang", "stuck in all_reduce")
    before = shown(settings, ledger, experiment.id)
    ledger.archive(experiment.id, settings.runs_dir, "lab-a", before=time.time() + 1)

    after = shown(settings, ledger, experiment.id)
    (settings.runs_dir / experiment.id / NAME).unlink()
    without = shown(settings, ledger, experiment.id)

    assert "stuck in all_reduce" in before
    assert after == before
    assert f"the runs of {experiment.id} are archived in" in without
    assert "stuck in all_reduce" not in without


def test_experiments_are_listed_with_their_owner(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command itself, from its settings to the table."""
    assert settings.redis_url is not None
    monkeypatch.setenv("OVERNIGHT_REDIS_URL", settings.redis_url.get_secret_value())
    monkeypatch.setenv("COLUMNS", "120")
    experiment = Lab(settings, ledger.client, ledger).approve()

    done = CliRunner().invoke(app, ["list"])

    assert done.exit_code == 0, done.exception
    line = next(line for line in done.output.splitlines() if experiment.id in line)
    assert experiment.owner in line
    assert "approved" in line
