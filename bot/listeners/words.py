"""What a person typed, from Slack's form of it. Pure."""

from __future__ import annotations

import re

_LABELLED_LINK = re.compile(r"<(?P<url>(?:https?|mailto|tel):[^|>]*)(?:\|(?P<label>[^>]*))?>")
_CHANNEL = re.compile(r"<#[A-Z0-9]+\|([^>]+)>")


def typed(text: str, bot_user: str) -> str:
    """The text as it was typed: links that Slack made of words undone, entities read, the bot's mention left out."""
    text = re.sub(rf"<@{re.escape(bot_user)}(?:\|[^>]*)?>", " ", text)
    text = _LABELLED_LINK.sub(lambda found: found["label"] or found["url"], text)
    text = _CHANNEL.sub(r"#\1", text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()


def mentions(text: str, bot_user: str) -> bool:
    return re.search(rf"<@{re.escape(bot_user)}(?:\|[^>]*)?>", text) is not None
