"""An alert's message: what is wrong, where, since when, how often, what to do, and who looks after it."""

from __future__ import annotations

import time

from bot.render.message import Block, Message, actions, button, context, label_text, message, plain, section
from bot.render.text import escape, name, person
from lab.alert import Alert, AlertState, Line, Silence, through

ACKNOWLEDGE, SHOW_RUN = "alert_acknowledge", "alert_show_run"
SILENCE_1H, SILENCE_4H, SILENCE_UNTIL = "alert_silence_1h", "alert_silence_4h", "alert_silence_until"
UNTIL = {"tonight": "until this evening", "tomorrow": "until tomorrow morning", "monday": "until Monday morning"}
"""What the menu offers; the keys are words that lab/when reads after `until`."""

MOST_MEMBERS = 8
MOST_LINES = 3
_ICONS = {"critical": ":red_circle:", "warning": ":large_yellow_circle:", "info": ":large_blue_circle:"}


def alert_card(alert: Alert, silence: Silence | None = None) -> Message:
    """The alert as it stands; `silence` is the one that it lies under now."""
    head = f"{_icon(alert)} *{_state(alert)}: {name(alert.title, 200)}*{_count(alert)}"
    body = "\n".join(_members(alert))
    quiet = f"silenced until {clock(silence.until)} by {person(silence.by)}" if silence else ""
    return message(
        "\n".join(part for part in (head, body) if part),
        section(head),
        section(body) if body else None,
        context(escape(alert.advice) if alert.is_open else "", quiet, _past(alert)),
        _buttons(alert) if alert.is_open else None,
    )


def said(alert: Alert, line: Line) -> Message:
    """One line of the alert's history as a message of its own."""
    return plain(f"{_icon(alert)} {name(alert.title, 200)}: {escape(line.text)}")


def digest(silence: Silence) -> Message:
    """What a silence held back, when it is over."""
    what = name(silence.subject, 60) if silence.scope not in ("all", "alert") else "alerts"
    return plain(f"The silence of {person(silence.by)} on {what} is over. Held back: {escape(silence.digest)}.")


def clock(at: float) -> str:
    """A moment, which Slack shows on each reader's own clock; with its date where it is not today's."""
    fallback = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
    form = "{time}" if abs(time.time() - at) < 12 * 3600 else "{date_short_pretty} {time}"
    return f"<!date^{int(at)}^{form}|{fallback}>"


def _icon(alert: Alert) -> str:
    return _ICONS[alert.severity] if alert.is_open else ":white_check_mark:"


def _state(alert: Alert) -> str:
    if not alert.is_open:
        return "over" if alert.happens else "resolved"
    if alert.state is AlertState.ACKNOWLEDGED and alert.acknowledged_by:
        return f"{alert.severity}, acknowledged"
    return alert.severity


def _count(alert: Alert) -> str:
    many = f" x{alert.count}" if alert.count > 1 else ""
    if not alert.is_open and alert.resolved_at is not None:
        return f"{many} {clock(alert.since)} to {clock(alert.last_at if alert.happens else alert.resolved_at)}"
    return f"{many} since {clock(alert.since)}"


def _members(alert: Alert) -> list[str]:
    shown = [member.text for member in alert.members.values()]
    if alert.happens:
        shown = [line.text for line in alert.history if not line.aloud][-MOST_LINES:]
    rest = len(shown) - MOST_MEMBERS
    return [f"• {name(text, 240)}" for text in shown[:MOST_MEMBERS]] + ([f"and {rest} more"] if rest > 0 else [])


def _past(alert: Alert) -> str:
    """The newest lines of the history, in small print, and who acknowledged it."""
    by = f"acknowledged by {person(alert.acknowledged_by)}" if alert.acknowledged_by else ""
    lines = [] if alert.happens else [f"{clock(line.at)} {name(line.text, 200)}" for line in alert.history[1:]]
    lines = [line for line in lines if "acknowledged by" not in line]
    return "\n".join([*([by] if by else []), *lines[-MOST_LINES:]])


def _buttons(alert: Alert) -> Block | None:
    shown = [button("Acknowledge", ACKNOWLEDGE, alert.id)] if alert.state is AlertState.FIRING else []
    if not through(alert):
        shown += [
            button("Silence 1 h", SILENCE_1H, alert.id),
            button("Silence 4 h", SILENCE_4H, alert.id),
            _menu(alert),
        ]
    if run := run_of(alert):
        shown.append(button("Show run", SHOW_RUN, run))
    return actions(*shown) if shown else None


def _menu(alert: Alert) -> Block:
    options = [{"text": label_text(words), "value": f"{alert.id} {key}"} for key, words in UNTIL.items()]
    placeholder = label_text("Silence until")
    return {"type": "static_select", "action_id": SILENCE_UNTIL, "placeholder": placeholder, "options": options}


def run_of(alert: Alert) -> str | None:
    """The run that the alert is about; the newest one where it is about several."""
    runs = [member.labels["run"] for member in alert.members.values() if "run" in member.labels]
    return runs[-1] if runs else alert.labels.get("run")
