# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Slack's text as the person meant it: entities, links, mentions, smart quotes, dashes and full-width forms undone."""

from __future__ import annotations

import html
import re
import unicodedata

LINK = re.compile(r"<(?:https?://|mailto:)[^|>]*\|([^>]*)>")
BARE_LINK = re.compile(r"<((?:https?://|mailto:)[^>]*)>")
CHANNEL = re.compile(r"<#\w+\|([^>]*)>")
SPECIAL = re.compile(r"<!(?:here|channel|everyone|subteam\^[^>]*|date\^[^>]*)>")
MENTION = re.compile(r"<@(\w+)(?:\|([^>]*))?>")
EMOJI_NAME = re.compile(r":[a-z][a-z0-9_+\-]*:")
CODE = re.compile(r"`+")
STYLE = re.compile(
    r"(?<![\w*])\*(?=\S)([^*\n]+)(?<=\S)\*(?![\w*])|(?<!\w)_(?=\S)([^_\n]+)(?<=\S)_(?!\w)|~~?(?=\S)([^~\n]+)(?<=\S)~(?!\d)"
)
TOOL_PREFIX = re.compile(r"^\s*@?overnight\b[\s,:，：]*", re.IGNORECASE)
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
SUPERSCRIPT = re.compile(r"[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")
PLAIN = str.maketrans(
    {
        "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'",
        "\u2212": "-", "\u2011": "-", "\u2010": "-", "\u00a0": " ", "\u202f": " ", "\u200b": "", "\ufeff": "",
        "×": "x", "✕": "x", "·": " ", "。": ". ", "、": ", ", "，": ", ", "；": "; ", "～": "~", "〜": "~", "⇒": "→", "⟶": "→",
    }
)  # fmt: skip
DASH_BETWEEN = re.compile(r"(?<=\d)\s*(?:[–—]|\.{2,3}|…)\s*(?=\.?\d)")
ARROW = re.compile(r"\s*(?:->|=>|→)\s*")


PORTUGUESE = re.compile(r"\b(?:trein(?:e|ar|a|o)|sementes?|avali(?:e|ar)|rode|execute o)\b", re.IGNORECASE)
IN_THE = re.compile(r"\bn[oa]s?\b", re.IGNORECASE)
"""Portuguese for `on the`, which English takes for a refusal."""


def clean(raw: str) -> str:
    """The text without Slack's artefacts, in compatible forms of one width, with plain quotes, dashes and arrows.

    A dash between two numbers becomes `~`, so that a range is never read as a minus sign.
    """
    text = LINK.sub(r"\1", raw)
    text = CHANNEL.sub(r"#\1", BARE_LINK.sub(r"\1", text))
    text = SPECIAL.sub(" ", text)
    text = MENTION.sub(lambda m: f" @{m[2] or m[1]} ", text)
    text = html.unescape(html.unescape(text))
    text = SUPERSCRIPT.sub(lambda m: "^" + m[0].translate(SUPERSCRIPTS), text)
    text = unicodedata.normalize("NFKC", text.translate(PLAIN)).translate(PLAIN)
    text = DASH_BETWEEN.sub(" ~ ", text).replace("–", "-").replace("—", " - ")
    text = ARROW.sub(" → ", CODE.sub(" ", text))
    text = STYLE.sub(lambda m: next(g for g in m.groups() if g is not None), text)
    text = EMOJI_NAME.sub(" ", text)
    text = IN_THE.sub("on", text) if PORTUGUESE.search(text) else text
    return re.sub(r"[ \t]+", " ", TOOL_PREFIX.sub("", text)).strip()


def mentions(raw: str) -> list[str]:
    """Ids of the people whom the text mentions."""
    return [m[1] for m in MENTION.finditer(raw)]


def has_words(text: str) -> bool:
    """False for an empty message and for one of emoji and punctuation only."""
    return any(unicodedata.category(c)[0] in "LN" for c in text)
