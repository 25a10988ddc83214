"""One call of the Web API: its arguments, read strictly, and what it may touch."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bot.simulator.interactions import Interactions
from bot.simulator.limits import Limits
from bot.simulator.refusal import Json, SlackRefusal
from bot.simulator.sockets import Sockets
from bot.simulator.workspace import Channel, Workspace

_TS = re.compile(r"\d{10}\.\d{6}")


@dataclass(frozen=True)
class Call:
    """The arguments of a call and the workspace it acts on. `base_url` has no slash at its end."""

    args: Json
    workspace: Workspace
    interactions: Interactions
    sockets: Sockets
    limits: Limits
    base_url: str
    upload_ticket: Callable[[str], str]

    def with_args(self, **args: Any) -> "Call":
        """The same call with these arguments changed."""
        return replace(self, args={**self.args, **args})

    def text(self, name: str) -> str:
        """The argument, which must be there and a string."""
        value = self.args.get(name)
        if value in (None, ""):
            raise SlackRefusal("invalid_arguments", [f"[ERROR] missing required field: {name}"])
        if not isinstance(value, str):
            raise SlackRefusal("invalid_arguments", [f"[ERROR] must be a string [json-pointer:/{name}]"])
        return value

    def flag(self, name: str) -> bool:
        return self.args.get(name) in (True, "true", "1", 1)

    def number(self, name: str, default: int) -> int:
        try:
            return int(self.args.get(name, default))
        except (TypeError, ValueError):
            raise SlackRefusal("invalid_arguments", [f"[ERROR] must be an integer [json-pointer:/{name}]"]) from None

    def json(self, name: str, refusal: str = "invalid_arguments") -> Any:
        """The argument as JSON: itself in a JSON body, parsed where a form carries it. None when absent."""
        value = self.args.get(name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            raise SlackRefusal(refusal) from None

    def array(self, name: str, refusal: str) -> list[Any] | None:
        value = self.json(name, refusal)
        if value is not None and not isinstance(value, list):
            raise SlackRefusal(refusal)
        return value

    def channel(self, *, writing: bool = False, name: str = "channel") -> Channel:
        """The conversation named by the argument; with `writing`, one the bot may write to.

        A user id stands for the direct message with that person where something is posted, as in Slack.
        """
        wanted = self.text(name)
        if writing and wanted in self.workspace.users and wanted != self.workspace.bot.id:
            return self.workspace.open_im(wanted)
        channel = self.workspace.find_channel(wanted)
        if channel is None:
            raise SlackRefusal("channel_not_found")
        if not channel.bot_is_member:
            raise SlackRefusal("not_in_channel")
        if writing and channel.is_archived:
            raise SlackRefusal("is_archived")
        return channel

    def message(self, channel: Channel, name: str = "ts", refusal: str = "message_not_found") -> Json:
        """The message named by the argument, or the refusal."""
        found = self.workspace.find(channel.id, self.text(name))
        if found is None:
            raise SlackRefusal(refusal)
        return found

    def thread_ts(self, channel: Channel) -> str | None:
        """The root to reply to: a string, in Slack's form, of a message that is there and no reply itself."""
        if self.args.get("thread_ts") in (None, ""):
            return None
        wanted = self.text("thread_ts")
        if not _TS.fullmatch(wanted):
            raise SlackRefusal("invalid_arguments", [f"[ERROR] not a message time: {wanted} [json-pointer:/thread_ts]"])
        root = self.workspace.find(channel.id, wanted)
        if root is None:
            raise SlackRefusal("thread_not_found")
        if root.get("thread_ts", wanted) != wanted:
            raise SlackRefusal("cannot_reply_to_message")
        return wanted


Method = Callable[[Call], Json]
