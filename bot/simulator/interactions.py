"""Buttons, commands and modals: triggers, response URLs and the payloads the app gets for them."""

import secrets
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from bot.simulator.limits import Limits
from bot.simulator.refusal import Json, NoSuchThing, SlackRefusal
from bot.simulator.validation import check_message
from bot.simulator.workspace import APP, TEAM, Channel, User, Workspace, buttons


@dataclass
class ResponseUrl:
    """Where an app may answer an interaction: a few times, for a while. `message_ts` is what it can replace."""

    channel: str
    user: str
    thread_ts: str | None
    message_ts: str | None
    ephemeral: bool
    uses_left: int
    until_s: float


class Interactions:
    """Gives out triggers and response URLs and redeems them. Any thread may call."""

    def __init__(self, workspace: Workspace, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.base_url = ""
        self._workspace = workspace
        self.limits = limits
        self._clock = clock
        self._triggers: dict[str, tuple[float, str]] = {}
        self._exchanged: set[str] = set()
        self._responses: dict[str, ResponseUrl] = {}

    # -- triggers -------------------------------------------------------------------------------------------------

    def new_trigger(self, user: str) -> str:
        trigger = f"{len(self._triggers) + 1}.{TEAM}.{secrets.token_hex(8)}"
        self._triggers[trigger] = (self._clock() + self.limits.connection.trigger_s, user)
        return trigger

    def redeem_trigger(self, trigger: str) -> str:
        """The person who may now see a modal. Works once and for three seconds; then it raises SlackRefusal."""
        if trigger not in self._triggers:
            raise SlackRefusal("invalid_trigger_id")
        until_s, user = self._triggers[trigger]
        if trigger in self._exchanged:
            raise SlackRefusal("exchanged_trigger_id")
        if self._clock() > until_s:
            raise SlackRefusal("expired_trigger_id")
        self._exchanged.add(trigger)
        return user

    # -- response URLs --------------------------------------------------------------------------------------------

    def new_response_url(
        self,
        channel: str,
        user: str,
        *,
        thread_ts: str | None = None,
        message_ts: str | None = None,
        ephemeral: bool = False,
    ) -> str:
        name = secrets.token_urlsafe(16)
        limits = self.limits.connection
        until_s = self._clock() + limits.response_s
        self._responses[name] = ResponseUrl(
            channel, user, thread_ts, message_ts, ephemeral, limits.response_uses, until_s
        )
        return f"{self.base_url}/respond/{name}"

    def respond(self, name: str, body: Json) -> None:
        """The answer is shown: to the person alone, in the channel, or in place of the message. Raises SlackRefusal."""
        place = self._responses.get(name)
        if place is None or place.uses_left <= 0 or self._clock() > place.until_s:
            raise SlackRefusal("used_url" if place else "invalid_url")
        place.uses_left -= 1
        if body.get("delete_original"):
            self._replace(place, None)
            return
        if not isinstance(body.get("blocks") or [], list):
            raise SlackRefusal("invalid_blocks_format")
        check_message(body.get("text"), body.get("blocks"), body.get("attachments"), self.limits, updating=False)
        if body.get("replace_original"):
            self._replace(place, body)
        else:
            self.show_answer(place.channel, place.user, body, thread_ts=body.get("thread_ts"))

    def show_answer(self, channel: str, user: str, body: Json, *, thread_ts: str | None = None) -> None:
        message = bot_message(self._workspace, body)
        if thread_ts:
            message["thread_ts"] = thread_ts
        if body.get("response_type") == "in_channel":
            self._workspace.post(channel, message)
        else:
            self._workspace.whisper(channel, user, message)

    def _replace(self, place: ResponseUrl, body: Json | None) -> None:
        if place.message_ts is None:
            if body is not None:
                self.show_answer(place.channel, place.user, body)
        elif place.ephemeral:
            self._workspace.unwhisper(place.message_ts, bot_message(self._workspace, body) if body else None)
        elif body is None:
            self._workspace.delete(place.channel, place.message_ts, self._workspace.bot.id)
        else:
            shown = {"text": body.get("text", ""), "blocks": with_ids(body.get("blocks"))}
            self._workspace.edit(place.channel, place.message_ts, shown, self._workspace.bot.id)

    # -- payloads -------------------------------------------------------------------------------------------------

    def command(self, name: str, text: str, user: User, channel: Channel) -> Json:
        return {
            "token": "simulated-verification-token",
            "team_id": TEAM,
            "team_domain": "lab",
            "channel_id": channel.id,
            "channel_name": "directmessage" if channel.is_im else channel.name,
            "user_id": user.id,
            "user_name": user.name,
            "command": name,
            "text": text,
            "api_app_id": APP,
            "is_enterprise_install": "false",
            "response_url": self.new_response_url(channel.id, user.id),
            "trigger_id": self.new_trigger(user.id),
        }

    def press(
        self, channel: Channel, message: Json, user: User, action_id: str, block_id: str | None, chosen: Json
    ) -> Json:
        """The block_actions of somebody who used an element of this message. Raises NoSuchThing if it has none such."""
        found_block, element = find_element(message.get("blocks") or [], action_id, block_id)
        ephemeral = bool(message.get("is_ephemeral"))
        thread_ts = message.get("thread_ts")
        container: Json = {
            "type": "message",
            "message_ts": message["ts"],
            "channel_id": channel.id,
            "is_ephemeral": ephemeral,
        }
        if thread_ts:
            container["thread_ts"] = thread_ts
        payload = {
            **self._common("block_actions", user),
            "container": container,
            "channel": {"id": channel.id, "name": "directmessage" if channel.is_im else channel.name},
            "state": {"values": {}},
            "response_url": self.new_response_url(
                channel.id, user.id, thread_ts=thread_ts, message_ts=message["ts"], ephemeral=ephemeral
            ),
            "actions": [self._action(found_block, element, chosen)],
        }
        return payload if ephemeral else {**payload, "message": message}

    def view_press(self, view: Json, user: User, action_id: str, block_id: str | None, chosen: Json) -> Json:
        found_block, element = find_element(view["blocks"], action_id, block_id)
        return {
            **self._common("block_actions", user),
            "container": {"type": "view", "view_id": view["id"]},
            "view": public_view(view),
            "actions": [self._action(found_block, element, chosen)],
        }

    def submission(self, view: Json, user: User, values: Json) -> Json:
        """The view_submission with `values` as state: block_id -> action_id -> {"type": ..., "value": ...}."""
        shown = public_view(view)
        shown["state"] = {"values": values}
        return {**self._common("view_submission", user), "view": shown, "response_urls": []}

    def closing(self, view: Json, user: User) -> Json:
        return {**self._common("view_closed", user), "view": public_view(view), "is_cleared": False}

    def _common(self, kind: str, user: User) -> Json:
        return {
            "type": kind,
            "user": {"id": user.id, "username": user.name, "name": user.name, "team_id": TEAM},
            "api_app_id": APP,
            "token": "simulated-verification-token",
            "team": {"id": TEAM, "domain": "lab"},
            "enterprise": None,
            "is_enterprise_install": False,
            "trigger_id": self.new_trigger(user.id),
        }

    def _action(self, block_id: str, element: Json, chosen: Json) -> Json:
        kept: Json = {
            key: element[key] for key in ("type", "action_id", "text", "value", "style", "url") if key in element
        }
        return {**deepcopy(kept), "block_id": block_id, **chosen, "action_ts": self._workspace.new_ts()}


def find_element(blocks: list[Json], action_id: str, block_id: str | None = None) -> tuple[str, Json]:
    """The block_id and the element with this action_id. Raises NoSuchThing, naming those there are."""
    there = list(buttons(blocks))
    for found_block, element in there:
        if element["action_id"] == action_id and block_id in (None, found_block):
            return found_block, element
    names = ", ".join(element["action_id"] for _, element in there) or "none"
    raise NoSuchThing(f"no element {action_id!r} in this message; it has {names}")


def with_ids(blocks: list[Json] | None) -> list[Json] | None:
    """The blocks with the block_ids and action_ids that Slack adds where the app gave none."""
    if blocks is None:
        return None
    filled = deepcopy(blocks)
    for block in filled:
        block.setdefault("block_id", secrets.token_hex(3))
        for element in [*block.get("elements", []), block.get("accessory"), block.get("element")]:
            if isinstance(element, dict) and element.get("type") in _INTERACTIVE:
                element.setdefault("action_id", secrets.token_hex(3))
    return filled


def bot_message(workspace: Workspace, body: Json) -> Json:
    """A message of the app, from the fields of a call that posts one."""
    message: Json = {
        "user": workspace.bot.id,
        "bot_id": workspace.bot.bot_id,
        "app_id": APP,
        "text": body.get("text") or "",
        "bot_profile": {"id": workspace.bot.bot_id, "app_id": APP, "name": workspace.bot.name, "team_id": TEAM},
    }
    for key in ("attachments", "metadata"):
        if body.get(key):
            message[key] = body[key]
    if body.get("blocks"):
        message["blocks"] = with_ids(body["blocks"])
    return message


def public_view(view: Json) -> Json:
    """The view as the app sees it, without who looks at it and what that person is told."""
    return {key: deepcopy(value) for key, value in view.items() if key not in ("user", "errors", "trouble")}


_INTERACTIVE = {
    "button",
    "overflow",
    "checkboxes",
    "radio_buttons",
    "datepicker",
    "timepicker",
    "datetimepicker",
    "static_select",
    "multi_static_select",
    "external_select",
    "users_select",
    "conversations_select",
    "channels_select",
    "plain_text_input",
    "number_input",
    "email_text_input",
    "url_text_input",
}
