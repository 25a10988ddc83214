"""Buttons of an alert: looked after, not told for a while, or more about its run. Anybody may press them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from slack_bolt import Ack, App

from bot.listeners.buttons import clicked_in
from bot.listeners.intake import Intake
from bot.render import alert as shown
from bot.render.answer import said
from bot.render.message import Message, plain
from bot.render.progress import run_line
from bot.render.text import name
from lab.alert import Alerts
from lab.errors import MoveRefused, StoreAwayError, UnknownRecord
from lab.when import moment

log = logging.getLogger(__name__)

HOURS = {shown.SILENCE_1H: 1, shown.SILENCE_4H: 4}
Do = Callable[[str, str, dict[str, Any]], Message]


def listen(app: App, intake: Intake) -> None:
    """A press is acknowledged whatever comes of it; what came of it is whispered to whoever pressed."""
    alerts = Alerts(intake.client)

    def acknowledge(value: str, user: str, body: dict[str, Any]) -> Message:
        title = alerts.acknowledge(value, user, time.time()).title
        return plain(f"You look after it: {name(title, 200)}. No more reminders.")

    def silence(hours: int) -> Do:
        def do(value: str, user: str, body: dict[str, Any]) -> Message:
            return _hush(alerts, value, time.time() + hours * 3600, user, body)

        return do

    def silence_until(value: str, user: str, body: dict[str, Any]) -> Message:
        alert_id, _, when = value.partition(" ")
        until = moment(f"until {when}", datetime.now().astimezone())
        return _hush(alerts, alert_id, until.timestamp() if until else time.time() + 3600, user, body)

    def show_run(value: str, user: str, body: dict[str, Any]) -> Message:
        run = intake.ledger.run(value)
        plan = intake.ledger.experiment(run.experiment_id).plan
        line = run_line(run, intake.ledger.progress([run.id]).get(run.id), plan)
        where = f", card {run.card_index} of {name(run.host, 60)}" if run.host else ""
        why = f"\n{name(run.message, 400)}" if run.message else ""
        return plain(f"{run.id} {name(line.label, 80)}: {name(line.detail, 200)}{where}{why}")

    doing: dict[str, Do] = {
        shown.ACKNOWLEDGE: acknowledge,
        shown.SILENCE_UNTIL: silence_until,
        shown.SHOW_RUN: show_run,
    }
    doing |= {action: silence(hours) for action, hours in HOURS.items()}
    for action, do in doing.items():
        app.action(action)(_on_press(action, do, intake))


def _on_press(action: str, do: Do, intake: Intake) -> Callable[..., None]:
    def on_press(ack: Ack, body: dict[str, Any]) -> None:
        ack()
        user, pressed = body["user"]["id"], body["actions"][0]
        value = str((pressed.get("selected_option") or pressed).get("value") or "")
        try:
            answer = intake.reach(lambda: do(value, user, body))
            log.info("%s: %s by %s", value, action, user)
        except StoreAwayError:
            answer = said("away_press", False)
        except UnknownRecord:
            answer = plain(f"There is no {name(value, 40)} any more.")
        except MoveRefused as refused:
            answer = plain(f"{name(refused.subject, 40)} is {refused.state} already.")
        intake.whispers.whisper(clicked_in(body), user, answer)

    return on_press


def _hush(alerts: Alerts, alert_id: str, until: float, user: str, body: dict[str, Any]) -> Message:
    title = alerts.alert(alert_id).title
    alerts.be_quiet("alert", alert_id, until, user, time.time(), clicked_in(body).name)
    return plain(f"Quiet until {shown.clock(until)}: {name(title, 200)}. What comes meanwhile is counted.")
