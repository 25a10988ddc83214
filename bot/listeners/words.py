"""What a person typed, from Slack's form of it. Pure."""

from __future__ import annotations

import re
from typing import Any

from lab.language import is_chinese

_LABELLED_LINK = re.compile(r"<(?P<url>(?:https?|mailto|tel):[^|>]*)(?:\|(?P<label>[^>]*))?>")
_CHANNEL = re.compile(r"<#[A-Z0-9]+\|([^>]+)>")


def typed(text: str, bot_user: str) -> str:
    """The text as it was typed: links that Slack made of words undone, entities read, the bot's mention left out."""
    text = re.sub(rf"<@{re.escape(bot_user)}(?:\|[^>]*)?>", " ", text)
    text = _LABELLED_LINK.sub(lambda found: found["label"] or found["url"], text)
    text = _CHANNEL.sub(r"#\1", text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()


def in_chinese(body: dict[str, Any]) -> bool:
    """True where what was pressed speaks Chinese: the message that a button stands in, or a dialog."""
    title = ((body.get("view") or {}).get("title") or {}).get("text") or ""
    return is_chinese((body.get("message") or {}).get("text") or title)


def mentions(text: str, bot_user: str) -> bool:
    return re.search(rf"<@{re.escape(bot_user)}(?:\|[^>]*)?>", text) is not None
