"""What people do in Slack: write, edit, react, press buttons, type commands, submit modals. Any thread may call."""

import html
import logging
import re
import time
import uuid
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from bot.simulator.api.views import replace_view
from bot.simulator.forms import filled, unknown_blocks
from bot.simulator.interactions import Interactions
from bot.simulator.refusal import Json, NoSuchThing, SlackRefusal
from bot.simulator.sockets import Delivery, EnvelopeKind
from bot.simulator.validation import check_view
from bot.simulator.workspace import SLACKBOT, Workspace

log = logging.getLogger(__name__)

TROUBLE = "We had some trouble connecting. Try again?"
"""What Slack says in a modal when it cannot use the app's answer, or none came."""


class People:
    """Everybody but the bot. What they do reaches the app through `deliver`, which must not block."""

    def __init__(self, workspace: Workspace, interactions: Interactions, deliver: Callable[[Delivery], None]) -> None:
        self._workspace = workspace
        self._interactions = interactions
        self._deliver = deliver

    def say(self, channel: str, user: str, text: str, thread_ts: str | None = None) -> str:
        """The message stands in the channel and is on its way to the app. `text` is in Slack's markup."""
        place = self._workspace.channel(channel)
        author = self._workspace.user(user)
        if not text:
            raise ValueError("an empty message cannot be sent")
        if place.is_im and user != place.person:
            raise NoSuchThing(f"{user} is not in the direct message {place.id}")
        message: Json = {"user": author.id, "text": text, "client_msg_id": str(uuid.uuid4())}
        if thread_ts is not None:
            root = self._workspace.message(place.id, thread_ts)
            message["thread_ts"] = root.get("thread_ts", root["ts"])
        return str(self._workspace.post(place.id, message)["ts"])

    def edit(self, channel: str, ts: str, text: str, user: str | None = None) -> None:
        """The message of this person reads differently. Raises NoSuchThing for anybody else's."""
        place = self._workspace.channel(channel)
        message = self._workspace.message(place.id, ts)
        if user not in (None, message["user"]) or message["user"] == self._workspace.bot.id:
            raise NoSuchThing(f"the message {ts} is not {user or 'a person'}'s to edit")
        self._workspace.edit(place.id, ts, {"text": text}, message["user"])

    def delete(self, channel: str, ts: str) -> None:
        place = self._workspace.channel(channel)
        message = self._workspace.message(place.id, ts)
        self._workspace.delete(place.id, ts, message["user"])

    def react(self, channel: str, ts: str, name: str, user: str, *, remove: bool = False) -> None:
        place = self._workspace.channel(channel)
        self._workspace.message(place.id, ts)
        self._workspace.react(place.id, ts, name, self._workspace.user(user).id, remove=remove)

    def press(
        self,
        channel: str,
        ts: str,
        action_id: str,
        user: str,
        *,
        block_id: str | None = None,
        chosen: Json | None = None,
        as_seen: Json | None = None,
    ) -> Delivery:
        """Somebody used an element of a message. `as_seen` is an older copy of it, for a click that came too late."""
        place = self._workspace.channel(channel)
        who = self._workspace.user(user)
        message = as_seen or self._whispered(ts, user) or self._workspace.message(place.id, ts)
        payload = self._interactions.press(place, message, who, action_id, block_id, chosen or {})
        return self._send("interactive", "block_actions", ts, payload, self._tell_failure(place.id, who.id, "That"))

    def command(self, name: str, text: str, user: str, channel: str) -> Delivery:
        """A slash command was typed. What the app sends with its ack is shown, and so is its silence."""
        place = self._workspace.channel(channel)
        who = self._workspace.user(user)
        payload = self._interactions.command(name, text, who, place)
        told = self._tell_failure(place.id, who.id, name)

        def then(delivery: Delivery) -> None:
            told(delivery)
            if delivery.answer.get("text") or delivery.answer.get("blocks"):
                self._interactions.show_answer(place.id, who.id, delivery.answer)

        return self._send("slash_commands", name, self._workspace.new_ts(), payload, then)

    def submit(self, view_id: str, values: Json) -> Delivery:
        """The modal was sent. It closes, unless the app answers with errors or another view.

        Inputs that `values` leaves out hold what they held at first. Raises as forms.filled, and nothing is sent then.
        """
        view = self._view(view_id)
        who = self._workspace.user(view["user"])
        payload = self._interactions.submission(view, who, filled(view, values))
        return self._send("interactive", "view_submission", view_id, payload, self._after_submission(view_id))

    def press_in_view(
        self, view_id: str, action_id: str, *, block_id: str | None = None, chosen: Json | None = None
    ) -> Delivery:
        view = self._view(view_id)
        who = self._workspace.user(view["user"])
        payload = self._interactions.view_press(view, who, action_id, block_id, chosen or {})
        return self._send("interactive", "block_actions", view_id, payload, None)

    def close(self, view_id: str) -> None:
        """The modal was dismissed; the app hears of it only if it asked to."""
        view = self._workspace.close_view(view_id)
        if view["notify_on_close"]:
            payload = self._interactions.closing(view, self._workspace.user(view["user"]))
            self._send("interactive", "view_closed", view_id, payload, None)

    def _send(
        self, kind: EnvelopeKind, event: str, ts: str, payload: Json, then: Callable[[Delivery], None] | None
    ) -> Delivery:
        delivery = Delivery(kind, event, ts, payload, time.monotonic(), then=then)
        self._deliver(delivery)
        return delivery

    def _whispered(self, ts: str, user: str) -> Json | None:
        with self._workspace.changed:
            mine = [e for e in self._workspace.ephemerals if e["ts"] == ts and e["to"] == user]
            return deepcopy(mine[0]) if mine else None

    def _view(self, view_id: str) -> Json:
        with self._workspace.changed:
            for view in (*self._workspace.views.values(), *self._workspace.homes.values()):
                if view["id"] == view_id:
                    return deepcopy(view)
        raise NoSuchThing(f"no open view {view_id!r}; there are {', '.join(self._workspace.views) or 'none'}")

    def _tell_failure(self, channel: str, user: str, what: str) -> Callable[[Delivery], None]:
        def then(delivery: Delivery) -> None:
            if delivery.state == "given_up":
                text = f"{what} failed: the app did not answer in time (operation_timeout)."
                self._workspace.whisper(channel, user, {"user": SLACKBOT, "text": text})

        return then

    def _after_submission(self, view_id: str) -> Callable[[Delivery], None]:
        def then(delivery: Delivery) -> None:
            view = self._workspace.views.get(view_id)
            if view is None:
                return
            if delivery.state == "given_up":
                self._workspace.show_view({**view, "trouble": TROUBLE})
                return
            match delivery.answer.get("response_action"):
                case "errors":
                    self._show_errors(view, delivery.answer.get("errors"))
                case "update":
                    self._replace(view, delivery.answer.get("view"), view_id)
                case "push":
                    self._replace(view, delivery.answer.get("view"), self._workspace.new_id("V"))
                case "clear":
                    for shown in [v["id"] for v in self._workspace.views.values() if v["user"] == view["user"]]:
                        self._workspace.close_view(shown)
                case _:
                    self._workspace.close_view(view_id)

        return then

    def _show_errors(self, view: Json, errors: Any) -> None:
        wrong = unknown_blocks(view, errors)
        if wrong:
            log.error("the app's errors name what is no input of its view: %s", ", ".join(wrong))
            self._workspace.show_view({**view, "trouble": TROUBLE})
        else:
            self._workspace.show_view({**view, "trouble": "", "errors": errors})

    def _replace(self, view: Json, new: Any, view_id: str) -> None:
        try:
            check_view(new, self._interactions.limits)
        except SlackRefusal as refusal:
            log.error("the app answers with a view that Slack does not take: %s", refusal)
            self._workspace.show_view({**view, "trouble": TROUBLE})
            return
        replace_view(self._workspace, new, view["user"], view_id)


def composed(text: str, workspace: Workspace) -> str:
    """What Slack makes of typed text: `& < >` escaped, and `@alice` and `#lab-gpus` of known names turned to links."""
    names = {user.name: f"<@{user.id}>" for user in workspace.users.values()}
    rooms = {c.name: f"<#{c.id}|{c.name}>" for c in workspace.channels.values() if not c.is_im}
    escaped = html.escape(text, quote=False)
    escaped = re.sub(r"(?<![\w@])@([a-z0-9._-]+)", lambda m: _named(m, names), escaped)
    return re.sub(r"(?<![\w&#])#([a-z0-9_-]+)", lambda m: _named(m, rooms), escaped)


def _named(match: re.Match[str], names: dict[str, str]) -> str:
    """The link for the longest known name at the start of the word, so that `@overnight.` keeps its full stop."""
    word = match.group(1)
    for end in range(len(word), 0, -1):
        if word[:end] in names and not word[end : end + 1].isalnum():
            return names[word[:end]] + word[end:]
    return match.group(0)
