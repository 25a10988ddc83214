"""What people ask of experiments and runs that exist: cancel, pause, resume, retry, another priority.

One place for every face (a message, a button, the command line): who may, on what, and what is said about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from lab.errors import MoveRefused, RequestError
from lab.ledger import Ledger
from lab.plan import Priority
from lab.run import FINAL_EXPERIMENT, FINAL_RUN, Experiment, ExperimentState, Run, RunState

Verb = Literal["cancel", "pause", "resume", "retry", "priority"]

MINE = "mine"
"""Subject of an order on everything of the asker's that still waits for a card."""

DONE: dict[str, str] = {
    "queued": "waiting for a card",
    "paused": "paused",
    "cancelled": "cancelled",
    "cancelling": "stopping",
    "running": "asked to pause at its next checkpoint",
    "dispatched": "asked to pause at its next checkpoint",
}
"""What a run is after an order, by its state."""


CHANGED: dict[Verb, str] = {
    "cancel": "cancelled",
    "pause": "paused",
    "resume": "resumed",
    "retry": "retried",
    "priority": "a run of another priority",
}
"""What an order would have made of it, for a refusal."""


class NotYours(RequestError):
    """Somebody else's experiment; only its owner or an admin may change it."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(f"{experiment.id} is somebody else's: only its owner or an admin can change it")
        self.experiment = experiment


@dataclass(frozen=True)
class Order:
    """One order.

    Attributes:
        subject: `exp-12`, `exp-12/3`, or MINE.
        priority: the new one, for the verb `priority`.
    """

    verb: Verb
    subject: str
    priority: Priority | None = None


def carry_out(order: Order, ledger: Ledger, user: str, *, admin: bool = False) -> str:
    """The order is carried out as far as it can be; returns what became of it, in a sentence.

    Raises:
        UnknownRecord: there is no such experiment or run.
        NotYours: it belongs to somebody else, and the asker is no admin.
        MoveRefused: nothing of it is in a state in which this can be done; nothing was changed.
    """
    if order.subject == MINE:
        return _mine(order, ledger, user)
    experiment = ledger.experiment(order.subject.split("/")[0])
    if experiment.owner != user and not admin:
        raise NotYours(experiment)
    if order.verb == "retry":
        new = ledger.retry(order.subject, user)
        again = ", ".join(f"{run.retry_of} as {run.id}" for run in new)
        return f"Once more: {again}. A new revision of the report follows."
    if "/" in order.subject:
        return _said([_move(order, ledger, user)(ledger.run(order.subject))])
    if order.verb == "cancel":
        return _cancel(experiment, ledger, user)
    return _each(order, ledger, user, experiment, _open_runs(experiment, ledger))


def _mine(order: Order, ledger: Ledger, user: str) -> str:
    """Only what waits: what runs has to be named."""
    runs = [run for run in ledger.runs_in(RunState.QUEUED, RunState.PAUSED) if run.owner == user]
    if order.verb == "retry":
        raise RequestError("name what to retry: exp-12, or one run of it, exp-12/3")
    if not runs:
        return "Nothing of yours waits for a card."
    return _each(order, ledger, user, None, runs)


def _each(order: Order, ledger: Ledger, user: str, experiment: Experiment | None, runs: list[Run]) -> str:
    """The order on every run that can take it; refused only when none can."""
    move = _move(order, ledger, user)
    moved: list[Run] = []
    refused: MoveRefused | None = None
    for run in runs:
        try:
            moved.append(move(run))
        except MoveRefused as refusal:
            refused = refusal
    if moved:
        return _said(moved)
    if refused is not None:
        raise refused
    raise MoveRefused(
        experiment.id if experiment else order.subject, experiment.state if experiment else "", CHANGED[order.verb]
    )


def _move(order: Order, ledger: Ledger, user: str) -> Callable[[Run], Run]:
    match order.verb:
        case "cancel":
            return lambda run: ledger.cancel_run(run.id, user)
        case "pause":
            return lambda run: ledger.wish(run.id, "pause", user)
        case "resume":
            return lambda run: ledger.resume(run.id, user)
        case "priority" if order.priority is not None:
            priority = order.priority
            return lambda run: ledger.set_priority(run.id, priority, user)
    raise RequestError(f"an order to {order.verb} needs more than {order.subject}")


def _cancel(experiment: Experiment, ledger: Ledger, user: str) -> str:
    state = ledger.cancel(experiment.id, user).state
    if state in FINAL_EXPERIMENT:
        return f"{experiment.id} is {state}."
    left = sum(run.state is RunState.CANCELLING for run in ledger.runs(experiment.id))
    return f"{experiment.id} stops: {left} running {'run writes' if left == 1 else 'runs write'} a checkpoint first."


def _open_runs(experiment: Experiment, ledger: Ledger) -> list[Run]:
    if experiment.state is ExperimentState.PROPOSED:
        raise MoveRefused(experiment.id, "proposed, not started", "changed")
    return [run for run in ledger.runs(experiment.id) if run.state not in FINAL_RUN]


def _said(runs: list[Run]) -> str:
    """`exp-12/3 is paused.`, or the runs counted by what they are now."""
    if len(runs) == 1:
        return f"{runs[0].id} is {_is(runs[0])}."
    counts: dict[str, int] = {}
    for run in runs:
        counts[_is(run)] = counts.get(_is(run), 0) + 1
    experiments = sorted({run.experiment_id for run in runs})
    where = experiments[0] if len(experiments) == 1 else f"{len(experiments)} experiments"
    return f"{where}: {', '.join(f'{n} {what}' for what, n in counts.items())}."


def _is(run: Run) -> str:
    if run.wish == "pause" or run.state is RunState.PAUSED or run.state in (RunState.CANCELLED, RunState.CANCELLING):
        return DONE[run.state.value]
    return (
        f"{run.state.value}, {run.priority} priority"
        if run.priority != "normal"
        else DONE.get(run.state.value, run.state.value)
    )
