"""What a request that is no plan comes to: a look into the ledger, a cancellation, or a plain reply."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence

from agent import curves, freecard, pasted, quiet, quota
from agent.orders import read_orders
from agent.reader.wording import say
from agent.standing import experiment_words, run_words
from agent.understand import Understood
from lab import orders
from lab.errors import MoveRefused, RequestError, UnknownRecord
from lab.forecast import forecasts
from lab.language import Phrasebook, is_chinese
from lab.ledger import Ledger
from lab.orders import Order, Verb
from lab.report import Report
from lab.run import FINAL_EXPERIMENT, FINAL_RUN, Answer, Experiment, ExperimentState, Request, Run

SUBJECT = re.compile(r"\b(exp-\d+)(?:(?:/|\s+run\s+)(\d+))?")
WORDS = Phrasebook(
    {
        "later": ("I cannot do that yet; an operator can.", "我还不能做这个；请找管理员。"),
        "idle": ("Nothing is running or waiting.", "没有在跑或排队的实验。"),
        "more": ("and {n} more", "另有 {n} 个"),
        "which": (
            "Which experiment? Name it (exp-12), or ask in its thread.",
            "哪个实验？请给出编号（exp-12），或在它的线程里问。",
        ),
        "which_cancel": (
            "Which experiment shall I stop? Name it (exp-12), or ask in its thread.",
            "要停哪个实验？请给出编号（exp-12），或在它的线程里说。",
        ),
        "which_pause": (
            "Which experiment shall I pause? Name it (exp-12), or ask in its thread.",
            "要暂停哪个实验？请给出编号（exp-12），或在它的线程里说。",
        ),
        "all_or_one_cancel": (
            "Shall all of {id} be stopped, or one run of it (`cancel {id}/1`)?",
            "是停掉整个 {id}，还是其中一个 run（“取消 {id}/1”）？",
        ),
        "all_or_one_pause": (
            "Shall all of {id} be paused, or one run of it (`pause {id}/1`)?",
            "是暂停整个 {id}，还是其中一个 run（“暂停 {id}/1”）？",
        ),
    }
)
LATER = WORDS.say("later", False)
QUEUED = "requester's queued runs"
"""What the reader calls everything of the asker's that waits."""
OF_MODELS = re.compile(r"exp-\d+: the runs of (?P<models>.+)")
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
    if (found := pasted.answer(request.text)) is not None and not understood.may_start:
        return Answer(kind="reply", text=found)
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
    admin, chinese = request.user in admins, is_chinese(request.text)
    try:
        said = orders.carry_out(order, ledger, request.user, admin=admin, chinese=chinese)
        return Answer(kind="reply", text=said)
    except MoveRefused as refused:
        return Answer(kind="reply", text=orders.refusal(refused, order, chinese))
    except RequestError as refused:
        return Answer(kind="refusal", text=orders.refusal(refused, order, chinese))


def obey_all(told: Sequence[Order], request: Request, ledger: Ledger, admins: Collection[str] = ()) -> Answer:
    """One answer to all orders of a message: each is done or refused by itself, and none is passed over."""
    answers = [obey(order, request, ledger, admins) for order in told]
    done = any(answer.kind == "reply" for answer in answers)
    return Answer(kind="reply" if done else "refusal", text="\n".join(answer.text for answer in answers))


def told(request: Request, before: Sequence[Experiment], ledger: Ledger) -> tuple[Order, ...]:
    """The orders that a message is; none where it gives a plan that nobody has started another priority."""
    found = read_orders(request.text, before[-1].id if before else None)
    wishes = [order for order in found if order.verb == "priority" and order.subject != orders.MINE]
    proposed = {e.id for e in ledger.experiments(ExperimentState.PROPOSED)} if wishes else set()
    return () if any(order.subject in proposed for order in wishes) else found


def _cards(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    return Answer(kind="cards")


def _status(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    experiment, run = _subject(understood, before, ledger)
    if experiment is not None and (drawn := curves.answer(request.text, experiment, run, ledger)) is not None:
        return Answer(kind="reply", text=drawn)
    if run is not None:
        return Answer(kind="reply", text=_run_words(run, request, ledger))
    if experiment is not None:
        return Answer(kind="reply", text=_experiment_words(experiment, request, ledger))
    live = [e for e in ledger.experiments() if e.state not in FINAL_EXPERIMENT and e.approved_at is not None]
    if not live:
        return Answer(kind="reply", text=WORDS.say("idle", is_chinese(request.text)))
    lines = _stand(live[:LISTED], request, ledger)
    if len(live) > LISTED:
        lines.append(WORDS.say("more", is_chinese(request.text), n=len(live) - LISTED))
    return Answer(kind="reply", text="\n".join(lines))


def _explain(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    experiment, run = _subject(understood, before, ledger)
    if run is not None:
        return Answer(kind="reply", text=_run_words(run, request, ledger))
    if experiment is None:
        return Answer(kind="question", text=WORDS.say("which", is_chinese(request.text)))
    found = ledger.report(experiment.id, experiment.report_revision)
    if found is None:
        return Answer(kind="reply", text=_experiment_words(experiment, request, ledger))
    verdict = Report.model_validate_json(found).verdict
    return Answer(kind="reply", text="\n".join([f"{experiment.id}: {verdict.headline}", *verdict.details]))


def _cancel(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    """Stops, or only pauses where that was the word."""
    verb: Verb = "pause" if understood.args.get("op") == "pause" else "cancel"
    if understood.target == QUEUED:
        return obey(Order(verb, orders.MINE), request, ledger)
    experiment, run = _subject(understood, before, ledger)
    if experiment is None:
        return Answer(kind="question", text=WORDS.say(f"which_{verb}", is_chinese(request.text)))
    if (several := _several(understood)) and run is None:
        return obey_all([Order(verb, subject) for subject in several], request, ledger)
    if run is None and (chosen := _runs_of(understood, experiment, ledger)):
        return obey_all([Order(verb, one.id) for one in chosen], request, ledger)
    if run is None and understood.target and not SUBJECT.fullmatch(understood.target.strip()):
        text = WORDS.say(f"all_or_one_{verb}", is_chinese(request.text), id=experiment.id)
        return Answer(kind="question", text=text)
    return obey(Order(verb, run.id if run else experiment.id), request, ledger)


def _silence(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    return quiet.silence(request, before, ledger)


def _quota(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    if understood.args.get("op") != "show":
        return _later(understood, request, before, ledger)
    return quota.show(request, ledger)


def _later(understood: Understood, request: Request, before: Sequence[Experiment], ledger: Ledger) -> Answer:
    return Answer(kind="refusal", text=WORDS.say("later", is_chinese(request.text)))


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


def _several(understood: Understood) -> list[str]:
    """The experiments and runs that the message names, where there is more than one."""
    named = SUBJECT.findall(understood.target or "")
    return [f"{experiment}/{int(run)}" if run else experiment for experiment, run in named] if len(named) > 1 else []


def _runs_of(understood: Understood, experiment: Experiment, ledger: Ledger) -> list[Run]:
    """The runs that have not ended of the models that the message names (`exp-32: the runs of resnet18`)."""
    named = OF_MODELS.search(understood.target or "")
    models = named["models"].split(", ") if named else []
    return [r for r in ledger.runs(experiment.id) if r.point.model in models and r.state not in FINAL_RUN]


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
