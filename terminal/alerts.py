"""`overnight alerts`: what fires now and what did lately, for a terminal or as one JSON document."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from rich.console import Console

from lab.alert import Alert, Alerts, AlertState, Board
from lab.estimate import duration
from lab.store import Client

LISTED_S = 86_400.0
"""Alerts that are over stay in the list for so long."""
_ORDER = {"critical": 0, "warning": 1, "info": 2}


def show_alerts(client: Client, console: Console | None, now: float | None = None) -> dict[str, Any]:
    """Open alerts first, the gravest on top, then those over since yesterday; printed too when there is a console."""
    now = time.time() if now is None else now
    board = Alerts(client).board()
    listed = sorted((a for a in board.alerts.values() if _is_listed(a, now)), key=_rank)
    silences = [s for s in board.silences.values() if not s.over and s.until > now]
    if console is not None:
        lines = [line for alert in listed for line in _lines(alert, board)]
        lines = lines or ["no alert now, none since yesterday"]
        lines += [f"quiet about {s.subject or 'everything'} until {_clock(s.until)}, by {s.by}" for s in silences]
        for line in lines:
            console.print(line, markup=False, highlight=False)
    return {
        "alerts": [alert.model_dump(mode="json") for alert in listed],
        "silences": [silence.model_dump(mode="json") for silence in silences],
    }


def _is_listed(alert: Alert, now: float) -> bool:
    return alert.is_open or now - (alert.resolved_at or 0.0) <= LISTED_S


def _rank(alert: Alert) -> tuple[bool, int, float]:
    return not alert.is_open, _ORDER[alert.severity], -alert.since


def _lines(alert: Alert, board: Board) -> list[str]:
    """`al-1f9a03c2  critical  node07 has lost cards, x7 since 14:02`, then what it befalls and what helps."""
    many = f" x{alert.count}" if alert.count > 1 else ""
    state = alert.severity if alert.is_open else "over" if alert.happens else "resolved"
    head = f"{alert.id}  {state:8}  {_printable(alert.title)},{many} since {_clock(alert.since)}"
    if not alert.is_open and alert.resolved_at is not None:
        head += f", for {duration(alert.resolved_at - alert.since)}"
    if alert.state is AlertState.ACKNOWLEDGED:
        head += f", {alert.acknowledged_by} looks after it"
    silence = board.silences.get(alert.silenced_by or "")
    if silence is not None:
        head += f", silenced until {_clock(silence.until)}"
    if not alert.is_open:
        return [head]
    befallen = [member.text for member in alert.members.values()] or [line.text for line in alert.history[-3:]]
    return [head, *(f"    {_printable(text)}" for text in [*befallen, alert.advice] if text)]


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%m-%d %H:%M")


def _printable(text: str) -> str:
    """Others' words cannot move the cursor or colour the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)
