"""The manifest that people paste into Slack and what the code uses are the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import bot

FOLDER = Path(bot.__file__).parent
METHODS = {
    "chat_postMessage": "chat:write",
    "chat_postEphemeral": "chat:write",
    "chat_update": "chat:write",
    "files_upload_v2": "files:write",
    "conversations_replies": "channels:history groups:history im:history mpim:history",
    "conversations_history": "channels:history groups:history im:history mpim:history",
    "conversations_open": "im:write",
    "views_open": "",
    "auth_test": "",
}
EVENTS = {
    "app_mention": "app_mentions:read",
    "message.channels": "channels:history",
    "message.groups": "groups:history",
    "message.im": "im:history",
    "message.mpim": "mpim:history",
}
DIRECT_MESSAGES = {"im:read", "im:write"}
"""People open the conversation; both are what Slack's documentation asks for beside im:history."""


def manifest() -> Any:
    return json.loads((FOLDER / "manifest.json").read_text())


def source() -> str:
    files = [p for p in FOLDER.rglob("*.py") if "simulator" not in p.parts]
    return "\n".join(p.read_text() for p in files)


def test_scopes_are_those_of_the_methods_and_events_used() -> None:
    """A missing scope fails at night, one too many is asked about by every administrator."""
    used = set(re.findall(r"_?client\.([a-z]+_[a-zA-Z_0-9]+)\(", source()))
    without_scope = {"is_connected", "apps_connections_open"}  # the second is the app token's, connections:write
    assert used - without_scope == set(METHODS)
    wanted = " ".join([*METHODS.values(), *EVENTS.values(), "commands"]).split()

    assert set(manifest()["oauth_config"]["scopes"]["bot"]) == {*wanted, *DIRECT_MESSAGES}


def test_events_and_commands_are_those_that_have_listeners() -> None:
    """What is subscribed to without a listener is redelivered for nothing."""
    settings = manifest()["settings"]
    listened = set(re.findall(r'@app\.event\("([a-z_]+)"\)', source()))

    assert {name.partition(".")[0] for name in settings["event_subscriptions"]["bot_events"]} == listened
    assert set(settings["event_subscriptions"]["bot_events"]) == set(EVENTS)
    assert [c["command"] for c in manifest()["features"]["slash_commands"]] == ["/gpu-monitor"]
    assert settings["socket_mode_enabled"]
    assert settings["interactivity"]["is_enabled"]
