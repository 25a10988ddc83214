"""`overnight show` reads an archived experiment like any other, and says where its runs are when they are not here."""

from __future__ import annotations

import time
from io import StringIO

from rich.console import Console

from lab.archive import NAME
from lab.ledger import Ledger
from lab.settings import Settings
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
