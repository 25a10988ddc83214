"""A conversation in a terminal tells what a thread in Slack would."""

from __future__ import annotations

import io

from rich.console import Console

from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer
from lab.settings import Settings
from lab.store import Client
from terminal.thread import Thread


def test_a_notice_is_told_while_the_experiment_is_followed(settings: Settings, store: Client, ledger: Ledger) -> None:
    """Runs that are held wait for a word: without the notice, the terminal would wait for ever and not say for what."""
    request = ledger.submit("x", "U1", "terminal:1")
    assert request
    experiment = ledger.propose(request.id, Plan(template="probe", models=("probe",)), None, Answer(kind="plan"))
    assert experiment
    ledger.approve(experiment.id, "U1")
    ledger.notice(experiment.id, "held:1", "exp-1/1 failed; [`resume exp-1`]")
    ledger.cancel(experiment.id, "U1")
    console = Console(file=io.StringIO(), width=200)

    Thread(settings, store, console, "U1").follow(experiment.id)

    assert isinstance(console.file, io.StringIO)
    assert "exp-1/1 failed; [`resume exp-1`]" in console.file.getvalue()
