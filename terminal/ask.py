"""`overnight ask`: one request from its sentence to its report, in a terminal."""

from __future__ import annotations

import contextlib
import getpass
from pathlib import Path

from rich.console import Console
from rich.prompt import Confirm, Prompt

from lab import freecards, store
from lab.errors import MoveRefused, StoreAwayError
from lab.run import Answer
from lab.settings import Settings
from terminal.thread import Thread


def run(settings: Settings, client: store.Client, console: Console, text: str, *, yes: bool, out: Path) -> int:
    """Exit status: 0 the report is there (or the question was no experiment), 1 it is not.

    Raises:
        NoAnswer: no agent is up.
    """
    thread = Thread(settings, client, console, getpass.getuser())
    answer = thread.ask(text)
    thread.show_answer(answer)
    picks = answer.kind == "designs"
    if picks:
        answer = _picked(thread, answer, console, yes)
    if answer.kind == "reply" and thread.wishes_card():
        return _wait_for_card(thread)
    if answer.kind != "plan" or answer.experiment_id is None:
        return 0 if answer.kind in ("reply", "cards") else 1
    if not (yes or picks or _agreed(console)):
        thread.ledger.cancel(answer.experiment_id, thread.user)
        console.print("not run" if console.is_terminal else "not run: give --yes to run without asking")
        return 1
    return _run(thread, answer.experiment_id, out)


def _picked(thread: Thread, answer: Answer, console: Console, yes: bool) -> Answer:
    """What became of the design that was picked: the first one with --yes, none where nobody can be asked."""
    number = "1" if yes else None
    if not yes and console.is_terminal:
        numbers = [str(n) for n in range(1, len(answer.designs) + 1)]
        with contextlib.suppress(KeyboardInterrupt, EOFError):
            number = Prompt.ask("Which one?", console=console, choices=[*numbers, "none"], default="1")
    if number is None or number == "none":
        console.print("none was started" if console.is_terminal else "none was started: give --yes to run the first")
        return answer
    picked = thread.ask(number)
    thread.show_answer(picked)
    return picked


def _is_approved(thread: Thread, experiment_id: str) -> bool:
    """True for a design, whose pick is its approval."""
    return thread.ledger.experiment(experiment_id).approved_at is not None


def _agreed(console: Console) -> bool:
    """Asks in a terminal; Ctrl-C and Ctrl-D there mean no."""
    if not console.is_terminal:
        return False
    try:
        return Confirm.ask("Run it?", console=console, default=True)
    except (KeyboardInterrupt, EOFError):
        console.print()
        return False


def _wait_for_card(thread: Thread) -> int:
    """A terminal that ends can be told nothing, so it waits, and Ctrl-C withdraws the wish."""
    try:
        thread.console.print(thread.free_card(), markup=False)
    except KeyboardInterrupt:
        thread.console.print(f"\n{freecards.withdraw(thread.client, thread.user)}", markup=False)
        return 130
    return 0


def _run(thread: Thread, experiment_id: str, out: Path) -> int:
    try:
        thread.ledger.approve(experiment_id, thread.user)
    except MoveRefused as refused:
        if not _is_approved(thread, experiment_id):  # a design is by its pick, a moment after its plan is shown
            thread.console.print(str(refused), markup=False)
            return 1
    try:
        report = thread.follow(experiment_id)
    except KeyboardInterrupt:
        thread.console.print(
            f"\n{experiment_id} goes on; `overnight show {experiment_id}` tells how it stands, `overnight cancel"
            f" {experiment_id}` stops it"
        )
        return 130
    except store.AWAY:
        raise StoreAwayError(
            f"Redis is away; {experiment_id} goes on when it is back (`overnight up`), `overnight show {experiment_id}`"
            " tells how it stands"
        ) from None
    if report is None:
        thread.console.print(f"{experiment_id} was cancelled")
        return 1
    thread.show_report(report)
    for path in thread.save_figures(report, out):
        thread.console.print(f"figure: {path}", markup=False)
    return 0 if report.n_ok else 1
