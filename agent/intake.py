"""The queue function that answers a request: understood, checked against the hosts, and proposed, asked or refused."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from agent import commands, desk, edits, planner, preferences
from agent.desk import Desk
from agent.orders import read_order
from agent.reader import PreviousPlan, named
from agent.reader.text import is_chinese
from agent.reader.wording import say
from agent.understand import Understood, understand
from lab import beacons, habits, hosts, store
from lab.errors import OvernightError, UnknownRecord
from lab.run import Answer, Experiment, Request, RequestState

log = logging.getLogger(__name__)


def answer(request_id: str) -> None:
    """The request has its answer, whatever happens; harmless when it had one already.

    Raises:
        redis.exceptions.RedisError: the store went away; the leader puts the request into the queue again.
    """
    here = desk.current()
    request = here.ledger.request(request_id)
    if request.state is RequestState.ANSWERED:
        return
    began = time.monotonic()
    try:
        kind = _answer(here, request)
    except store.AWAY:
        raise
    except Exception as error:  # the edge of the process: the person gets a sentence, the log the traceback
        log.exception("%s: no answer could be made", request_id)
        here.ledger.answer(request_id, Answer(kind="error", text=_apology(request_id, error)))
        return
    log.info("%s: answered with a %s in %.2f s", request_id, kind, time.monotonic() - began)


def _answer(here: Desk, request: Request) -> str:
    now = time.time()
    lab = planner.Lab(hosts.hosts(here.client), hosts.cards(here.client), now)
    if request.edit is not None:
        return edits.revise(here, request, request.edit, lab)
    before = here.ledger.experiments_in(request.conversation)
    order = read_order(request.text, before[-1].id if before else None)
    if order is not None:
        done = commands.obey(order, request, here.ledger, here.settings.admins)
        here.ledger.answer(request.id, done)
        return done.kind
    present = [name for name, found in lab.datasets().items() if found.present] if lab.hosts else None
    wish = preferences.read_wish(request.text)
    if wish is not None:
        said = preferences.grant(here.client, request.user, wish, request.text, present)
        here.ledger.answer(request.id, Answer(kind="reply", text=said))
        return "reply"
    usual = preferences.usable(preferences.usual(habits.uses(here.client, request.user)), present)
    about, unknown = _about(here, request, before)
    understood = understand(
        request.text,
        previous=_previous(about) if about else None,
        requester=request.user,
        model=desk.model_door(here.settings),
        defaults=desk.defaults(here.settings, *planner.default_dataset(lab), usual),
    )
    _tell_of_model(here, understood, now)
    if unknown is not None and understood.intent != "refuse":
        text = say("no_experiment", is_chinese(request.text), id=unknown)
        here.ledger.answer(request.id, Answer(kind="question", text=text))
        return "question"
    if understood.plan is not None and understood.question is None:
        return _propose(here, request, understood, lab)
    answer = commands.carry_out(understood, request, before, here.ledger)
    here.ledger.answer(request.id, answer.model_copy(update={"note": understood.model_note}))
    return answer.kind


def _tell_of_model(here: Desk, understood: Understood, now: float) -> None:
    """The watch over the lab knows whether the language model answers; nothing is known of one that was not asked."""
    if desk.model_door(here.settings) is not None and (understood.model_note or understood.plan):
        beacons.tell(here.client, "the language model", understood.model_note, now)


def _propose(here: Desk, request: Request, understood: Understood, lab: planner.Lab) -> str:
    assert understood.plan is not None
    plan = understood.plan
    prepared = planner.prepare(plan, lab, here.ledger, here.settings.limits.max_runs)
    if prepared.question is not None:
        text = f"{prepared.question}\nNothing was started."
        here.ledger.answer(request.id, Answer(kind="question", text=text, note=understood.model_note))
        return "question"
    answer = Answer(kind="plan", text=understood.reply, note=understood.model_note)
    here.ledger.propose(request.id, prepared.plan, prepared.estimate, answer)
    return "plan"


def _about(here: Desk, request: Request, before: Sequence[Experiment]) -> tuple[Experiment | None, str | None]:
    """The experiment that a message is about: the one it names, else the last of the conversation; and the id that
    it names when there is no such experiment."""
    name = named(request.text)
    if name is None:
        return (before[-1] if before else None), None
    try:
        return here.ledger.experiment(name), None
    except UnknownRecord:
        return None, name


def _previous(experiment: Experiment) -> PreviousPlan:
    """What a follow-up in the conversation changes."""
    return PreviousPlan.of(experiment.plan, experiment.id, experiment.state)


def _apology(request_id: str, error: Exception) -> str:
    if isinstance(error, OvernightError):
        return f"That did not work: {error}"
    return f"Something went wrong here, and nothing was started ({request_id}; the agent's log tells more)."
