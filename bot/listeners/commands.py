"""`/gpu-monitor`: what every card does, for whoever asks, with a button that looks again."""

from __future__ import annotations

import time
from typing import Any

from slack_bolt import Ack, App

from bot.conversation import Conversation
from bot.listeners.intake import Intake
from bot.render.answer import WORDS, said
from bot.render.cards import REFRESH, TELL, cards
from bot.render.message import Message, plain
from bot.render.text import escape
from bot.web import Web
from lab import freecards
from lab.errors import StoreAwayError

COMMAND = "/gpu-monitor"


def listen(app: App, intake: Intake) -> None:
    """The command is acknowledged before the cards are looked at."""

    @app.command(COMMAND)
    def on_command(ack: Ack, body: dict[str, Any]) -> None:
        ack()
        url = body["response_url"]
        intake.whispers.say(lambda web: show(web, url, intake))

    @app.action(TELL)
    def on_tell(ack: Ack, body: dict[str, Any]) -> None:
        ack()
        url, answer = body["response_url"], plain(escape(wish(intake, body)))
        intake.whispers.say(lambda web: web.respond(url, answer))

    @app.action(REFRESH)
    def on_refresh(ack: Ack, body: dict[str, Any]) -> None:
        ack()
        url = body["response_url"]
        ephemeral = bool((body.get("container") or {}).get("is_ephemeral"))
        intake.whispers.say(lambda web: show(web, url, intake, replace=ephemeral))


def show(web: Web, url: str, intake: Intake, *, replace: bool = False) -> None:
    """The cards as they are now, answered to the response_url; `replace` where one message held them all."""
    shown = look(intake)
    for message in shown:
        web.respond(url, message, replace=replace and len(shown) == 1)


def wish(intake: Intake, body: dict[str, Any]) -> str:
    """Whoever pressed will be told of a free card by a direct message, or at once; the words for that."""
    user = body["user"]["id"]
    place = Conversation((body.get("team") or {}).get("id") or "", user, "")
    try:
        return intake.reach(lambda: freecards.ask(intake.ledger, user, place.name, time.time()))
    except StoreAwayError:
        return WORDS.say("away_press", False)


def look(intake: Intake) -> list[Message]:
    """The table, or the sentence that it cannot be told."""
    ledger = intake.ledger
    try:
        return intake.reach(lambda: cards(ledger.shown_cards(), ledger.card_uses(), time.time()))
    except StoreAwayError:
        return [said("away_cards", False)]
