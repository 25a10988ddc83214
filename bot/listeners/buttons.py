"""Buttons: Run and Cancel of a plan, Cancel of what runs. A second click changes nothing and is told so."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from slack_bolt import Ack, App

from bot.conversation import Conversation
from bot.listeners.intake import Intake
from bot.render import plan, progress
from bot.render.answer import STORE_AWAY_PRESS, gone, not_yours, too_late
from bot.render.message import plain
from lab.errors import MoveRefused, StoreAwayError, UnknownRecord
from lab.ledger import Ledger
from lab.run import Experiment

log = logging.getLogger(__name__)

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
        refusal = intake.reach(lambda: _move(experiment_id, user, verb, done, move, intake.ledger))
    except StoreAwayError:
        refusal = plain(STORE_AWAY_PRESS)
    if refusal is not None:
        intake.whispers.whisper(place, user, refusal)


def _move(experiment_id: str, user: str, verb: str, done: str, move: Move, ledger: Ledger) -> Any:
    try:
        experiment = ledger.experiment(experiment_id)
        if experiment.owner != user:
            return not_yours(experiment, verb)
        move(ledger, experiment, user)
        log.info("%s: %s by %s", experiment_id, done, user)
        return None
    except UnknownRecord:
        return gone(experiment_id)
    except MoveRefused:
        return too_late(ledger.experiment(experiment_id), done)


def clicked_in(body: dict[str, Any]) -> Conversation:
    """The thread of the message whose button was pressed."""
    container, shown = body.get("container") or {}, body.get("message") or {}
    ts = container.get("message_ts") or shown.get("ts") or ""
    root = container.get("thread_ts") or shown.get("thread_ts") or ts
    channel = (body.get("channel") or {}).get("id") or container.get("channel_id") or ""
    return Conversation((body.get("team") or {}).get("id") or "", channel, root)
