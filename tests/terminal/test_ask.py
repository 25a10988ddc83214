"""`overnight ask` beyond a plain plan: what a terminal waits for, and designs that it lets people choose among."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from agent import desk, intake, reporting
from agent.desk import Desk
from lab import freecards, hosts
from lab.card import Card, DataSet, Host
from lab.leases import Lease, Leases
from lab.ledger import Ledger
from lab.run import FINAL_RUN, Answer, Experiment, ExperimentState, RequestState, RunResult, Usage
from lab.settings import Settings
from lab.store import Client
from terminal import ask
from tests.workers.under_test import Lab, cards_of, started
from workers.search import Searches
from workers.templates import TEMPLATES

BEST = "find the best learning rate for resnet18 on digits within 2 GPU hours, 9 epochs"


def test_who_asks_for_a_free_card_in_a_terminal_is_told_there(
    settings: Settings, store: Client, tmp_path: Path
) -> None:
    """A terminal that ended could be told nothing, so it waits."""
    ledger, out = Ledger(store), io.StringIO()

    def agent_and_alarm() -> None:
        until = time.monotonic() + 20
        while not (asked := ledger.requests(RequestState.RECEIVED)) and time.monotonic() < until:
            time.sleep(0.02)
        words = freecards.ask(ledger, asked[0].user, asked[0].conversation, time.time())
        ledger.answer(asked[0].id, Answer(kind="reply", text=words))
        time.sleep(0.5)
        (wish,) = freecards.wishes(store)
        freecards.tell(store, wish, [Card(uuid="GPU-2", index=2, name="H200", host="node07")])

    others = threading.Thread(target=agent_and_alarm)
    others.start()
    console = Console(file=out, width=200)
    status = ask.run(settings, store, console, "tell me when a card is free", yes=False, out=tmp_path)
    others.join(20)

    assert status == 0
    assert out.getvalue().splitlines() == [
        "No card is free now. You will be told once, as soon as one is, within the next 24 hours.",
        "Free now: GPU 2 of node07 (H200).",
    ]


@pytest.fixture
def night(settings: Settings, store: Client, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The agent answers, and whatever was approved runs to its end at once."""
    lab = Lab(settings, store, ledger)
    here = Desk(settings, ledger.client, ledger)
    monkeypatch.setattr(desk, "current", lambda: here)
    schemas = {name: template.schema() for name, template in TEMPLATES.items()}
    digits = DataSet(name="digits", present=True, train_samples=1437, image_size=32)
    hosts.publish_host(
        ledger.client, Host(host="a", version="0", templates=schemas, datasets=(digits,), speed_flops=1e10)
    )
    hosts.publish_cards(ledger.client, cards_of("a"))
    over = threading.Event()

    def others() -> None:
        while not over.wait(0.02):
            for request in ledger.requests(RequestState.RECEIVED):
                intake.answer(request.id)
            for experiment in ledger.experiments():
                if experiment.approved_at is not None and not experiment.report_revision:
                    run_to_the_end(lab, experiment)

    played = threading.Thread(target=others)
    played.start()
    yield
    over.set()
    played.join(20)


def run_to_the_end(lab: Lab, experiment: Experiment) -> None:
    """Every run of the experiment has finished, and its report is there."""
    for run in lab.ledger.runs(experiment.id):
        if run.state not in FINAL_RUN:
            Searches(lab.ledger).draw(run)
            fence = started(lab, run.id, "G").fence
            result = RunResult(metrics={"val_acc": 0.9 - run.number / 1000}, usage=Usage(gpu_s=1.0))
            lab.ledger.finish(run.id, fence, result)
            Leases(lab.client, 60).release(Lease(run_id=run.id, fence=fence, cards=("G",), holder="test"))
    reporting.write(experiment.id, 1)


def asked(settings: Settings, store: Client, folder: Path, typed: str | None, *, yes: bool = False) -> tuple[int, str]:
    """Exit status of `overnight ask`, and what it wrote.

    Args:
        typed: what a person types; None where the output is no terminal.
    """
    out = io.StringIO()
    console = Console(file=out, width=400, force_terminal=typed is not None, color_system=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO(typed or ""))
        return ask.run(settings, store, console, BEST, yes=yes, out=folder), out.getvalue()


@pytest.mark.parametrize(
    ("typed", "yes", "place"), [("2\n", False, 2), ("8\n2\n", False, 2), ("\n", False, 1), (None, True, 1)]
)
def test_the_design_that_is_picked_in_a_terminal_runs_to_its_report(
    settings: Settings, store: Client, tmp_path: Path, night: None, typed: str | None, yes: bool, place: int
) -> None:
    """By its number, after a slip too, the first one by Enter or --yes; and no other."""
    status, out = asked(settings, store, tmp_path, typed, yes=yes)
    ledger = Ledger(store)
    (offer,) = [r.answer for r in ledger.requests(RequestState.ANSWERED) if r.answer and r.answer.kind == "designs"]
    (experiment,) = ledger.experiments()

    assert status == 0
    assert offer.text.splitlines()[place] in out
    assert experiment.plan.search == offer.designs[place - 1].plan.search
    assert experiment.plan.trials == offer.designs[place - 1].plan.trials
    assert experiment.state is ExperimentState.FINISHED
    assert "val acc 0.899" in out
    assert [path.name for path in tmp_path.glob("*.png")]


@pytest.mark.parametrize(("typed", "said"), [("none\n", "none was started"), ("", "none was started"), (None, "--yes")])
def test_without_a_pick_no_design_is_started(
    settings: Settings, store: Client, tmp_path: Path, night: None, typed: str | None, said: str
) -> None:
    """`none`, Ctrl-D, and a script that nobody can ask: the hours are not spent."""
    status, out = asked(settings, store, tmp_path, typed)

    assert status == 1
    assert said in out
    assert Ledger(store).experiments() == []
