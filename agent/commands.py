"""What a request that is no plan comes to: a look into the ledger, a cancellation, or a plain reply."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence

from agent import freecard, quiet, quota
from agent.reader.wording import say
from agent.standing import experiment_words, run_words
from agent.understand import Understood
from lab import orders
from lab.errors import MoveRefused, RequestError, UnknownRecord
from lab.forecast import forecasts
from lab.language import is_chinese
from lab.ledger import Ledger
from lab.orders import Order
from lab.report import Report
from lab.run import FINAL_EXPERIMENT, Answer, Experiment, Request, Run

SUBJECT = re.compile(r"\b(exp-\d+)(?:(?:/|\s+run\s+)(\d+))?")
LATER = "I cannot do that yet; an operator can."
LISTED = 10
"""Experiments in a list of what runs."""

Command = Callable[[Understood, Request, Sequence[Experiment], Ledger], Answer]


def carry_out(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    """The answer to a request without a plan that could start; a command of a kind that is not built yet says so.

    Args:
        before: the experiments of this conversation, oldest first.
    """
    if understood.intent == "refuse":
        return Answer(kind="refusal", text=understood.reply)
    if (wish := freecard.answer(request, ledger)) is not None:
        return wish
    if understood.question is not None:
        return Answer(kind="question", text=understood.question)
    command = COMMANDS.get(understood.intent)
    if command is None:
        return Answer(kind="reply", text=understood.reply)
    try:
        return command(understood, request, before, ledger)
    except UnknownRecord as unknown:
        return Answer(kind="question", text=say("no_experiment", is_chinese(request.text), id=unknown.subject))


def obey(order: Order, request: Request, ledger: Ledger, admins: Collection[str] = ()) -> Answer:
    """The answer to an order on what exists: done as far as it could be, or refused with the reason."""
    try:
        return Answer(kind="reply", text=orders.carry_out(order, ledger, request.user, admin=request.user in admins))
    except MoveRefused as refused:
        return Answer(kind="reply", text=f"Nothing to {order.verb}: {refused.subject} is {refused.state}.")
    except RequestError as refused:
        return Answer(kind="refusal", text=f"{str(refused)[:1].upper()}{str(refused)[1:]}.")


def _cards(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    return Answer(kind="cards")


def _status(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    experiment, run = _subject(understood, before, ledger)
    if run is not None:
        return Answer(kind="reply", text=_run_words(run, request, ledger))
    if experiment is not None:
        return Answer(kind="reply", text=_experiment_words(experiment, request, ledger))
    live = [e for e in ledger.experiments() if e.state not in FINAL_EXPERIMENT and e.approved_at is not None]
    if not live:
        return Answer(kind="reply", text="Nothing is running or waiting.")
    lines = _stand(live[:LISTED], request, ledger)
    if len(live) > LISTED:
        lines.append(f"and {len(live) - LISTED} more")
    return Answer(kind="reply", text="\n".join(lines))


def _explain(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    experiment, run = _subject(understood, before, ledger)
    if run is not None:
        return Answer(kind="reply", text=_run_words(run, request, ledger))
    if experiment is None:
        return Answer(kind="question", text="Which experiment? Name it (exp-12), or ask in its thread.")
    found = ledger.report(experiment.id, experiment.report_revision)
    if found is None:
        return Answer(kind="reply", text=_experiment_words(experiment, request, ledger))
    verdict = Report.model_validate_json(found).verdict
    return Answer(kind="reply", text="\n".join([f"{experiment.id}: {verdict.headline}", *verdict.details]))


def _cancel(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    experiment, run = _subject(understood, before, ledger)
    if experiment is None:
        text = "Which experiment shall I stop? Name it (exp-12), or ask in its thread."
        return Answer(kind="question", text=text)
    if run is None and understood.target and not SUBJECT.fullmatch(understood.target.strip()):
        text = f"Shall all of {experiment.id} be stopped, or one run of it (`cancel {experiment.id}/1`)?"
        return Answer(kind="question", text=text)
    return obey(Order("cancel", run.id if run else experiment.id), request, ledger)


def _silence(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    return quiet.silence(request, before, ledger)


def _quota(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    if understood.args.get("op") != "show":
        return _later(understood, request, before, ledger)
    return quota.show(request, ledger)


def _later(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    return Answer(kind="refusal", text=LATER)


COMMANDS: dict[str, Command] = {
    "gpu_status": _cards,
    "status": _status,
    "explain": _explain,
    "cancel": _cancel,
    "quota": _quota,
    "silence": _silence,
    "schedule": _later,
}


def _subject(
    understood: Understood, before: Sequence[Experiment], ledger: Ledger
) -> tuple[Experiment | None, Run | None]:
    """The experiment, and the run of it, that a message is about: as named, else the last one of the conversation.

    Raises:
        UnknownRecord: the message names what is not there.
    """
    named = SUBJECT.search(understood.target or "")
    if named is None:
        return (before[-1] if before else None), None
    experiment = ledger.experiment(named[1])
    return experiment, ledger.run(f"{named[1]}/{int(named[2])}") if named[2] else None


def _experiment_words(experiment: Experiment, request: Request, ledger: Ledger) -> str:
    return _stand([experiment], request, ledger)[0]


def _run_words(run: Run, request: Request, ledger: Ledger) -> str:
    forecast = forecasts(ledger.client, [run.experiment_id]).get(run.experiment_id)
    return run_words(run, forecast, time.time(), is_chinese(request.text))


def _stand(experiments: Sequence[Experiment], request: Request, ledger: Ledger) -> list[str]:
    """A line an experiment: how it stands and when it is done."""
    found, chinese, now = forecasts(ledger.client, [e.id for e in experiments]), is_chinese(request.text), time.time()
    return [
        experiment_words(e, ledger.runs(e.id) if e.approved_at is not None else [], found.get(e.id), now, chinese)
        for e in experiments
    ]
