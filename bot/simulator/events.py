"""Changes in the workspace, as the events Slack would send to the app. Pure."""

import re
import uuid

from bot.simulator.refusal import Json
from bot.simulator.workspace import APP, TEAM, Change, Workspace

_MENTION = re.compile(r"<@([A-Z0-9]+)(?:\|[^>]*)?>")


def events_of(change: Change, workspace: Workspace) -> list[Json]:
    """The inner events of a change, none where the app is not a member or subscribes to nothing of that kind.

    A mention in a channel arrives twice, as `app_mention` and as `message`, in that order; in a direct message there
    is no `app_mention`. The app hears its own messages and edits too, as it would from Slack.
    """
    if change.kind == "home" or not change.channel or not workspace.channels[change.channel].bot_is_member:
        return []
    match change.kind:
        case "posted":
            return _posted(change, workspace)
        case "edited":
            return [_edited(change, workspace)]
        case "deleted":
            return [_deleted(change, workspace)]
        case "reaction":
            return [_reaction(change)]
        case _:
            return []


def wrapped(event: Json, event_time: int, bot_user: str) -> Json:
    """The outer payload of an event, with an event_id that stays the same over redeliveries."""
    return {
        "token": "simulated-verification-token",
        "team_id": TEAM,
        "api_app_id": APP,
        "event": event,
        "type": "event_callback",
        "event_id": f"Ev{uuid.uuid4().hex[:10].upper()}",
        "event_time": event_time,
        "authorizations": [
            {
                "enterprise_id": None,
                "team_id": TEAM,
                "user_id": bot_user,
                "is_bot": True,
                "is_enterprise_install": False,
            }
        ],
        "is_ext_shared_channel": False,
    }


def mentions(text: str, user: str) -> bool:
    return user in _MENTION.findall(text)


def _channel_type(change: Change, workspace: Workspace) -> str:
    return "im" if workspace.channels[change.channel].is_im else "channel"


def _posted(change: Change, workspace: Workspace) -> list[Json]:
    message = dict(change.body)
    ts = message["ts"]
    place = {"channel": change.channel, "event_ts": ts}
    plain = {**message, **place, "channel_type": _channel_type(change, workspace)}
    if message.get("files") and "bot_id" not in message:
        plain["subtype"] = "file_share"
    said_to_bot = mentions(message.get("text", ""), workspace.bot.id)
    if said_to_bot and "bot_id" not in message and not workspace.channels[change.channel].is_im:
        return [{**message, **place, "type": "app_mention"}, plain]
    return [plain]


def _edited(change: Change, workspace: Workspace) -> Json:
    return {
        "type": "message",
        "subtype": "message_changed",
        "hidden": True,
        "message": change.body,
        "previous_message": change.before,
        "channel": change.channel,
        "channel_type": _channel_type(change, workspace),
        "ts": workspace.new_ts(),
        "event_ts": workspace.new_ts(),
    }


def _deleted(change: Change, workspace: Workspace) -> Json:
    return {
        "type": "message",
        "subtype": "message_deleted",
        "hidden": True,
        "deleted_ts": change.body["ts"],
        "previous_message": change.before,
        "channel": change.channel,
        "channel_type": _channel_type(change, workspace),
        "ts": workspace.new_ts(),
        "event_ts": workspace.new_ts(),
    }


def _reaction(change: Change) -> Json:
    return {
        "type": "reaction_removed" if change.body["removed"] else "reaction_added",
        "user": change.actor,
        "reaction": change.body["reaction"],
        "item": {"type": "message", "channel": change.channel, "ts": change.body["ts"]},
        "item_user": change.body["message"]["user"],
        "event_ts": change.body["ts"],
    }
