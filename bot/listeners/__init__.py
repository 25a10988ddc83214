"""What Slack tells the bot: each listener records and enqueues, and never speaks or waits."""

from __future__ import annotations

from slack_bolt import App

from bot.listeners import alerts, buttons, commands, edits, messages
from bot.listeners.intake import Intake


def listen(app: App, intake: Intake) -> None:
    """Everything that manifest.json subscribes to has its listener."""
    messages.listen(app, intake)
    buttons.listen(app, intake)
    edits.listen(app, intake)
    alerts.listen(app, intake)
    commands.listen(app, intake)
