"""The queue function that answers a request: understood, checked against the hosts, and proposed, asked or refused."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from typing import Literal

from agent import commands, designs, desk, edits, obstacles, planner, preferences
from agent.desk import Desk
from agent.reader import PreviousPlan, named
from agent.reader.wording import say
from agent.understand import Defaults, Understood, understand
from lab import beacons, forecast, habits, hosts, meter, offers, store
from lab.errors import OvernightError, UnknownRecord
from lab.language import is_chinese
from lab.plan import Plan
from lab.run import Answer, Design, Experiment, Request, RequestState

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
        here.ledger.answer(request_id, Answer(kind="error", text=_apology(request, error)))
        return
    log.info("%s: answered with a %s in %.2f s", request_id, kind, time.monotonic() - began)


def _answer(here: Desk, request: Request) -> str:
    now = time.time()
    lab = planner.Lab(hosts.hosts(here.client), hosts.cards(here.client), now, forecast.queue(here.client))
    if request.edit is not None:
        return edits.revise(here, request, request.edit, lab)
    before = here.ledger.experiments_in(request.conversation)
    if picked := _picked(here, request, before):
        return _pick(here, request, *picked, lab)
    kind = _new(here, request, before, lab, now)
    if kind in ("plan", "question"):
        offers.moved_on(here.client, request.conversation, request.user)
    return kind


def _new(here: Desk, request: Request, before: Sequence[Experiment], lab: planner.Lab, now: float) -> str:
    """The request, which picks nothing, is answered; returns the answer's kind."""
    if told := commands.told(request, before, here.ledger):
        done = commands.obey_all(told, request, here.ledger, here.settings.admins)
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
    understood = _understood(
        here,
        request,
        _previous(about) if about else None,
        desk.defaults(here.settings, *planner.default_dataset(lab), usual),
        now,
    )
    if unknown is not None and understood.intent != "refuse":
        text = say("no_experiment", is_chinese(request.text), id=unknown)
        here.ledger.answer(request.id, _with_model(Answer(kind="question", text=text), understood))
        return "question"
    if understood.plan is not None and understood.question is None:
        return _propose(here, request, understood, lab)
    if understood.intent == "chitchat" and designs.is_pick(request.text):
        spoken = before[-1].plan.request_text if before and request.text.strip().isdigit() else request.text
        text = designs.WORDS.say("no_offer", is_chinese(spoken))
        here.ledger.answer(request.id, _with_model(Answer(kind="reply", text=text), understood))
        return "reply"
    answer = commands.carry_out(understood, request, before, here.ledger)
    here.ledger.answer(request.id, _with_model(answer, understood))
    return answer.kind


def _picked(here: Desk, request: Request, before: Sequence[Experiment]) -> tuple[str, offers.Offer, int] | None:
    """The design that the message picks, with the conversation that offered it; None where it picks none.

    A conversation that begins with a number means the person's newest offer beside it.
    """
    where: str | None = request.conversation
    offer = offers.offered(here.client, request.conversation)
    if offer is None and not before:
        where = offers.beside(here.client, request.conversation, request.user)
        offer = offers.offered(here.client, where) if where else None
    place = designs.choice(request.text, offer.designs, offer.request_id) if offer else None
    return None if where is None or offer is None or place is None else (where, offer, place)


def _understood(
    here: Desk, request: Request, previous: PreviousPlan | None, defaults: Defaults, now: float
) -> Understood:
    """What the request comes to, with the language model where there is one and its budget is not used up.

    What it took is on the meter; the watch over the lab knows whether it answers.
    """
    door = desk.model_door(here.settings, here.client)
    over = meter.used_up(here.client, request.user, here.settings.model, now) if door else None
    model = None if over else door
    understood = understand(request.text, previous=previous, requester=request.user, model=model, defaults=defaults)
    if over is not None and meter.first_word(here.client, request.user, now):
        note = say(f"budget_{over.whose}", is_chinese(request.text), tokens=f"{over.tokens:,}")
        return understood.model_copy(update={"model_note": note})
    if model is None or not model.asked:
        return understood
    meter.count(here.client, request.user, model.spent, now)
    desk.remember_form(here.client, model)
    beacons.tell(here.client, "the language model", understood.model_note, now)
    return understood.model_copy(update={"spent": model.spent})


def _with_model(answer: Answer, understood: Understood) -> Answer:
    """The answer with what is to be said of the language model, and what that took."""
    return answer.model_copy(update={"note": understood.model_note, "spent": understood.spent})


def _propose(here: Desk, request: Request, understood: Understood, lab: planner.Lab) -> str:
    assert understood.plan is not None
    plan = understood.plan
    if designs.wanted(plan) and (kind := _offer(here, request, understood, plan, lab)):
        return kind
    offers.withdraw(here.client, request.conversation)
    prepared = planner.prepare(plan, lab, here.ledger, here.settings.limits.max_runs, request.user)
    if prepared.question is not None:
        text = obstacles.say(plan, "not_started", question=prepared.question)
        here.ledger.answer(request.id, _with_model(Answer(kind="question", text=text), understood))
        return "question"
    answer = _with_model(Answer(kind="plan", text=understood.reply), understood)
    here.ledger.propose(request.id, prepared.plan, prepared.estimate, answer, prepared.reused)
    return "plan"


def _offer(here: Desk, request: Request, understood: Understood, plan: Plan, lab: planner.Lab) -> str | None:
    """The request is answered with designs to choose among; None where a run's length is not known."""

    def prepare(design: Plan) -> planner.Prepared:
        return planner.prepare(design, lab, here.ledger, here.settings.limits.max_runs, request.user)

    whole = prepare(plan.model_copy(update={"budget": None, "anew": True}))
    if whole.question is None and whole.estimate is None:
        return None
    made: tuple[Design, ...] = ()
    text = obstacles.say(plan, "not_started", question=whole.question)
    if whole.estimate is not None:
        each_h = whole.estimate.gpu_hours / plan.n_runs
        most = here.settings.limits.max_runs
        made = designs.candidates(plan, each_h, most, lambda design: prepare(design).estimate)
        known = designs.reached(plan, here.ledger)
        text = designs.text(plan, made, each_h, known) if made else designs.no_room(plan, each_h)
    kind: Literal["designs", "question"] = "designs" if made else "question"
    if made:
        offer = offers.Offer(request_id=request.id, user=request.user, designs=made)
        offers.offer(here.client, request.conversation, offer)
    here.ledger.answer(request.id, _with_model(Answer(kind=kind, text=text, designs=made), understood))
    return kind


def _pick(here: Desk, request: Request, where: str, offer: offers.Offer, place: int, lab: planner.Lab) -> str:
    """The design is checked once more, proposed, and approved: its figures stood where it was picked.

    Args:
        where: the conversation that offered it.
    """
    plan = offer.designs[place].plan
    if request.user != offer.user and request.user not in here.settings.admins:
        return _say_only(here, request, designs.WORDS.say("not_yours", is_chinese(plan.request_text), user=offer.user))
    prepared = planner.prepare(plan, lab, here.ledger, here.settings.limits.max_runs, offer.user)
    if prepared.question is not None:
        return _say_only(here, request, obstacles.say(plan, "not_started", question=prepared.question))
    first = offers.pick(here.client, where, request.id)
    if first != request.id:
        return _say_only(here, request, designs.WORDS.say("picked", is_chinese(plan.request_text), id=first))
    answer = Answer(kind="plan", text=offer.designs[place].name)
    made = here.ledger.propose(request.id, prepared.plan, prepared.estimate, answer, prepared.reused)
    if made is not None:
        here.ledger.approve(made.id, request.user)
    return "plan"


def _say_only(here: Desk, request: Request, text: str) -> str:
    here.ledger.answer(request.id, Answer(kind="question", text=text))
    return "question"


def _about(here: Desk, request: Request, before: Sequence[Experiment]) -> tuple[Experiment | None, str | None]:
    """The experiment that a message is about: the one it names, else the last of the conversation; and the id that
    it names when there is no such experiment."""
    name = named(request.text)
    if name is None:
        return _of_thread(request.text, before), None
    try:
        return here.ledger.experiment(name), None
    except UnknownRecord:
        return None, name


FIRST = re.compile(
    r"\b(?:first|original|initial)\b[^,.;]{0,12}?\b(?:one|plan|version|experiment|setup|config\w*|settings?|try)\b"
    r"|\bback to the (?:first|start|beginning|original)"
    r"|(?:回到|恢复|用回|还是)[^,.;]{0,4}(?:第一|最初|最开始|一开始|原来|原始)|(?:第一[个次版]|最初的?)(?:实验|计划|方案|设置|配置)",
    re.IGNORECASE,
)
"""Means the first experiment of the conversation, not the last."""
UNDO = re.compile(r"\b(?:undo|revert)\b|go back(?! to)|撤销(?:修改)?|退回|改回去", re.IGNORECASE)


def _of_thread(text: str, before: Sequence[Experiment]) -> Experiment | None:
    """The experiment of the conversation that a message without an id is about; None when there is none."""
    if not before:
        return None
    if FIRST.search(text):
        return before[0]
    return before[-2] if UNDO.search(text) and len(before) > 1 else before[-1]


def _previous(experiment: Experiment) -> PreviousPlan:
    """What a follow-up in the conversation changes."""
    return PreviousPlan.of(experiment.plan, experiment.id, experiment.state)


def _apology(request: Request, error: Exception) -> str:
    chinese = is_chinese(request.text)
    if isinstance(error, OvernightError):
        return obstacles.WORDS.say("did_not_work", chinese, error=error)
    return obstacles.WORDS.say("went_wrong", chinese, id=request.id)
