"""Buttons of a plan, of what runs and of a report. A second click changes nothing and is told so."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from slack_bolt import Ack, App

from bot.conversation import Conversation
from bot.listeners.intake import Intake
from bot.listeners.words import in_chinese
from bot.render import plan, progress, report
from bot.render.answer import PICK, WORDS, gone, not_yours, said, too_late
from bot.render.message import plain
from bot.render.text import escape
from lab import orders
from lab.errors import MoveRefused, RequestError, StoreAwayError, UnknownRecord
from lab.ledger import Ledger
from lab.orders import Order, Verb, carry_out
from lab.run import Experiment

log = logging.getLogger(__name__)

ORDERS: dict[str, Verb] = {progress.PAUSE: "pause", progress.RESUME: "resume", report.RETRY: "retry"}

Move = Callable[[Ledger, Experiment, str], Experiment]


def listen(app: App, intake: Intake) -> None:
    """A click is acknowledged whatever comes of it; a refusal is whispered to whoever clicked."""

    @app.action(plan.RUN)
    def on_run(ack: Ack, body: dict[str, Any]) -> None:
        ack()
        press(body, "start", "approved", lambda ledger, e, user: ledger.approve(e.id, user), intake)

    @app.action(plan.CANCEL)
    def on_cancel(ack: Ack, body: dict[str, Any]) -> None:
        ack()
        press(body, "cancel", "cancelled", cancel_plan, intake)

    @app.action(progress.CANCEL)
    def on_stop(ack: Ack, body: dict[str, Any]) -> None:
        ack()
        press(body, "cancel", "cancelled", lambda ledger, e, user: ledger.cancel(e.id, user), intake)

    @app.action(re.compile(rf"^{PICK}_\d$"))
    def on_pick(ack: Ack, body: dict[str, Any]) -> None:
        ack()
        _submit_pick(body, intake)

    for action, verb in ORDERS.items():
        app.action(action)(_on_order(verb, intake))


def _on_order(verb: Verb, intake: Intake) -> Callable[..., None]:
    def on_order(ack: Ack, body: dict[str, Any]) -> None:
        ack()
        user, place = body["user"]["id"], clicked_in(body)
        order = Order(verb, str(body["actions"][0].get("value") or ""))
        intake.whispers.whisper(place, user, plain(escape(_obeyed(order, user, intake, in_chinese(body)))))

    return on_order


def _submit_pick(body: dict[str, Any], intake: Intake) -> None:
    """The pick is a request like any, in the words of the button; the click arriving twice is one."""
    action, user, place = body["actions"][0], body["user"]["id"], clicked_in(body)
    claim = f"pick:{place.name}:{user}:{action.get('action_ts')}"
    try:
        intake.reach(lambda: intake.ledger.submit(str(action.get("value") or ""), user, place.name, [claim]))
    except StoreAwayError:
        intake.whispers.whisper(place, user, said("away_press", in_chinese(body)))


def _obeyed(order: Order, user: str, intake: Intake, chinese: bool) -> str:
    """What became of the order, for whoever pressed."""
    try:
        return intake.reach(lambda: carry_out(order, intake.ledger, user, admin=user in intake.admins, chinese=chinese))
    except StoreAwayError:
        return WORDS.say("away_press", chinese)
    except (MoveRefused, RequestError) as refused:
        return orders.refusal(refused, order, chinese)


def cancel_plan(ledger: Ledger, experiment: Experiment, user: str) -> Experiment:
    """The plan is cancelled. Its card may be an old one: what was approved since then has a Cancel of its own."""
    if experiment.approved_at is not None:
        raise MoveRefused(experiment.id, experiment.state, "cancelled")
    return ledger.cancel(experiment.id, user)


def press(body: dict[str, Any], verb: str, done: str, move: Move, intake: Intake) -> None:
    """The experiment made the move, or the person reads why not; only who asked for it may move it.

    Args:
        verb: what a stranger cannot do with it: `Only @alice can start it`.
        done: what it would have become.
    """
    user, place = body["user"]["id"], clicked_in(body)
    experiment_id = str(body["actions"][0].get("value") or "")
    try:
        refusal = intake.reach(lambda: _move(experiment_id, user, verb, done, move, intake))
    except StoreAwayError:
        refusal = said("away_press", in_chinese(body))
    except UnknownRecord:
        refusal = gone(experiment_id, in_chinese(body))
    if refusal is not None:
        intake.whispers.whisper(place, user, refusal)


def _move(experiment_id: str, user: str, verb: str, done: str, move: Move, intake: Intake) -> Any:
    ledger = intake.ledger
    try:
        experiment = ledger.experiment(experiment_id)
        if user != experiment.owner and user not in intake.admins:
            return not_yours(experiment, verb)
        move(ledger, experiment, user)
        log.info("%s: %s by %s", experiment_id, done, user)
        return None
    except MoveRefused:
        return too_late(ledger.experiment(experiment_id), done)


def clicked_in(body: dict[str, Any]) -> Conversation:
    """The thread of the message whose button was pressed."""
    container, shown = body.get("container") or {}, body.get("message") or {}
    ts = container.get("message_ts") or shown.get("ts") or ""
    root = container.get("thread_ts") or shown.get("thread_ts") or ts
    channel = (body.get("channel") or {}).get("id") or container.get("channel_id") or ""
    return Conversation((body.get("team") or {}).get("id") or "", channel, root)
