"""A conversation in a terminal tells what a thread in Slack would."""

from __future__ import annotations

import io

from rich.console import Console

from lab.ledger import Ledger
from lab.plan import Plan, Point
from lab.run import Answer, Experiment, Progress, Room, Run, RunResult, RunState
from lab.settings import Settings
from lab.store import Client
from terminal.thread import Thread, plan_card, run_words


def test_a_run_that_made_room_says_for_whom() -> None:
    """In `overnight show` and while it is followed; the progress that it had is not how far it is now."""
    room = Room(for_run="exp-9/1", reason="higher priority", ends_look=False, asked_at=1.0)
    point = Point(model="resnet50", dataset="digits", params={})
    run = Run(id="exp-1/1", experiment_id="exp-1", number=1, point=point, template="vision", queued_at=0.0, room=room)

    assert run_words(run, Progress(step=3, steps_total=9, eta_s=60)) == "queued, made room for exp-9/1"


def test_a_reused_run_says_where_it_was_run() -> None:
    """An old number must not be taken for a new one, and its log is to be found."""
    point = Point(model="resnet50", dataset="digits", params={})
    end = {"state": RunState.FINISHED, "result": RunResult(metrics={"val_acc": 0.9}), "reused_from": "exp-3/2"}
    run = Run(id="exp-5/1", experiment_id="exp-5", number=1, point=point, template="vision", queued_at=0.0, **end)  # type: ignore[arg-type]

    assert run_words(run) == "finished, val acc 0.900, from exp-3/2"


def test_the_plan_in_a_terminal_says_what_is_there_already() -> None:
    """As the card in Slack does."""
    plan = Plan(models=("resnet18",), axes={"seed": (0, 1, 2)})
    ids = {"id": "exp-5", "owner": "U1", "conversation": "terminal:1", "request_id": "req-1"}
    experiment = Experiment(plan=plan, n_runs=3, created_at=0.0, reused=("exp-3/1", "exp-3/2"), **ids)  # type: ignore[arg-type]
    console = Console(file=io.StringIO(), width=200)

    console.print(plan_card(experiment))

    assert isinstance(console.file, io.StringIO)
    assert "2 of 3 runs are there already (exp-3), 1 new" in console.file.getvalue()


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
