"""Emoji put on messages."""

import re

from bot.simulator.api.call import Call, Method
from bot.simulator.refusal import Json, SlackRefusal

_NAME = re.compile(r"[a-z0-9_'+-]{1,100}(::skin-tone-[2-6])?")


def add(call: Call) -> Json:
    return _react(call, remove=False)


def remove(call: Call) -> Json:
    return _react(call, remove=True)


def get(call: Call) -> Json:
    channel = call.channel()
    return {"type": "message", "channel": channel.id, "message": call.message(channel, "timestamp")}


def _react(call: Call, *, remove: bool) -> Json:
    channel = call.channel()
    name = call.text("name")
    if not _NAME.fullmatch(name):
        raise SlackRefusal("invalid_name")
    message = call.message(channel, "timestamp")
    present = call.workspace.react(channel.id, message["ts"], name, call.workspace.bot.id, remove=remove)
    if present != remove:
        raise SlackRefusal("no_reaction" if remove else "already_reacted")
    return {}


METHODS: dict[str, Method] = {"reactions.add": add, "reactions.remove": remove, "reactions.get": get}
