"""Messages to the bot: a mention in a channel, or anything in a direct message, becomes a request."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from slack_bolt import App

from bot.conversation import Conversation
from bot.listeners.intake import Intake
from bot.listeners.words import mentions, typed
from bot.render.answer import runs_already, went_on
from bot.render.message import Message
from lab.errors import StoreAwayError, UnknownRecord
from lab.language import is_chinese
from lab.ledger import CLAIM_S
from lab.run import Experiment
from lab.store import PREFIX

log = logging.getLogger(__name__)

Event = dict[str, Any]

WITH_WORDS = frozenset({None, "file_share", "thread_broadcast"})
"""Subtypes of messages that people write; all others tell of something else."""


def listen(app: App, intake: Intake) -> None:
    """Mentions arrive as `app_mention` and as `message`; whichever comes first is taken, the other is known then."""

    @app.event("app_mention")
    def on_mention(event: Event, body: dict[str, Any]) -> None:
        take(event, body, intake)

    @app.event("message")
    def on_message(event: Event, body: dict[str, Any]) -> None:
        if is_deletion(event):
            take_deletion(event, body, intake)
        elif event.get("subtype") == "message_changed":
            take_change(event, body, intake)
        elif event.get("channel_type") == "im" or mentions(event.get("text") or "", intake.bot_user):
            take(event, body, intake)


def take(event: Event, body: dict[str, Any], intake: Intake) -> None:
    """The request stands in the ledger, once; Slack is told so only after that.

    Raises:
        StoreAwayError: it does not; the event is left unacknowledged, so that Slack brings it again.
    """
    if not _by_a_person(event, intake):
        return
    place = _place(event, body)
    claims = [f"slack:{body['event_id']}", f"slack:{place.team}:{place.channel}:{event['ts']}"]
    _submit(event, place, claims, event["ts"], intake)


def _submit(event: Event, place: Conversation, claims: list[str], ts: str, intake: Intake) -> None:
    text = typed(event.get("text") or "", intake.bot_user)

    def submit() -> None:
        request = intake.ledger.submit(text, str(event["user"]), place.name, claims)
        if request is not None:
            intake.client.set(_asked(place, ts), request.id, ex=CLAIM_S)
            log.info("%s: from %s in %s", request.id, event["user"], place.name)

    try:
        intake.reach(submit)
    except StoreAwayError:
        intake.say_away(place, chinese=is_chinese(text))
        raise


def take_change(event: Event, body: dict[str, Any], intake: Intake) -> None:
    """A changed request is asked anew while its plan waits; once that runs, its author reads why nothing changes.

    Changes that leave the words alone, as when Slack unfurls a link, are none.
    """
    new, old = event.get("message") or {}, event.get("previous_message") or {}
    said = new.get("text") or ""
    ours = event.get("channel_type") == "im" or mentions(said, intake.bot_user)
    if not ours or said == (old.get("text") or "") or not _by_a_person(new, intake):
        return
    place = _place({**new, "channel": event["channel"]}, body)
    if intake.reach(lambda: _withdraw(new, place, runs_already, intake)):
        edited = (new.get("edited") or {}).get("ts") or event.get("event_ts")
        claims = [f"slack:{body['event_id']}", f"slack:{place.team}:{place.channel}:{new['ts']}:{edited}"]
        _submit(new, place, claims, new["ts"], intake)


def is_deletion(event: Event) -> bool:
    """A message was deleted; where it has replies, a tombstone takes its place, which Slack tells as a change."""
    kind = event.get("subtype")
    tombstone = (event.get("message") or {}).get("subtype") == "tombstone"
    return kind == "message_deleted" or (kind == "message_changed" and tombstone)


def take_deletion(event: Event, body: dict[str, Any], intake: Intake) -> None:
    """A deleted request is withdrawn while its plan waits; once that runs, its author reads that it goes on."""
    old = event.get("previous_message") or {}
    if old.get("ts") and _by_a_person(old, intake):
        place = _place({**old, "channel": event["channel"]}, body)
        intake.reach(lambda: _withdraw(old, place, went_on, intake))


def _withdraw(message: Event, place: Conversation, say: Callable[[Experiment], Message], intake: Intake) -> bool:
    """Nothing comes of the message's earlier words any more; False when their plan runs, and their author knows."""
    user = str(message["user"])
    earlier = intake.client.get(_asked(place, message["ts"]))
    try:
        going_on = intake.ledger.withdraw(earlier, user) if earlier else None
    except UnknownRecord:
        return True
    if going_on is not None:
        intake.whispers.whisper(place, user, say(going_on))
    elif earlier:
        log.info("%s: withdrawn by %s", earlier, user)
    return going_on is None


def _by_a_person(event: Event, intake: Intake) -> bool:
    """Not by this bot or another one, which might answer each other all night."""
    is_bot = event.get("bot_id") or event.get("bot_profile") or event.get("user") in (None, intake.bot_user)
    return not is_bot and event.get("subtype") in WITH_WORDS and not event.get("hidden")


def _place(event: Event, body: dict[str, Any]) -> Conversation:
    return Conversation(body.get("team_id") or "", event["channel"], event.get("thread_ts") or event["ts"])


def _asked(place: Conversation, ts: str) -> str:
    """Key of the request that a message became."""
    return f"{PREFIX}slack:asked:{place.channel}:{ts}"
