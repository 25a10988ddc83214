"""A message for Slack, and the blocks it is made of; every text put in here is escaped already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bot.render.text import pieces, shorten

Block = dict[str, Any]

SECTION_CHARS = 2_900
"""Slack takes 3,000 in a section."""
TEXT_CHARS = 3_800
"""Slack takes 4,000 in the text of an update."""
MESSAGE_CHARS = 10_500
"""Slack takes about 13,200 in the JSON of all blocks."""
CELLS_CHARS = 9_000
"""Slack takes 10,000 in all cells of a table."""


@dataclass(frozen=True)
class Message:
    """What is posted: blocks, and the text that stands for them in notifications and where blocks are refused."""

    text: str
    blocks: tuple[Block, ...]


def message(text: str, *blocks: Block | None) -> Message:
    """The message of these blocks; None among them is left out."""
    return Message(shorten(text, TEXT_CHARS), tuple(block for block in blocks if block is not None))


def plain(text: str) -> Message:
    """A message of text alone, in as many sections as it takes; what is beyond a message is cut and said so."""
    whole = shorten(text, MESSAGE_CHARS)
    return message(whole, *(section(piece) for piece in pieces(whole, SECTION_CHARS)))


def section(text: str) -> Block:
    return {"type": "section", "text": mrkdwn(shorten(text, SECTION_CHARS))}


def context(*texts: str) -> Block | None:
    """Small print; None when there is nothing to print."""
    kept = [text for text in texts if text][:10]
    return (
        {"type": "context", "elements": [mrkdwn(shorten(text, SECTION_CHARS // 2)) for text in kept]} if kept else None
    )


def mrkdwn(text: str) -> Block:
    """`verbatim` keeps Slack from making links and mentions of words."""
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def actions(*buttons: Block) -> Block:
    return {"type": "actions", "elements": list(buttons)}


def button(label: str, action: str, value: str, style: str | None = None, confirm: Block | None = None) -> Block:
    made: Block = {"type": "button", "text": label_text(label), "action_id": action, "value": value}
    if style:
        made["style"] = style
    if confirm:
        made["confirm"] = confirm
    return made


def confirm(title: str, text: str, yes: str, no: str) -> Block:
    return {"title": label_text(title), "text": mrkdwn(text), "confirm": label_text(yes), "deny": label_text(no)}


def label_text(text: str) -> Block:
    return {"type": "plain_text", "text": text}


def table(rows: Sequence[Sequence[str]], right_aligned: Sequence[bool]) -> Block:
    """A table of plain cells; an empty cell shows a dash. The caller keeps to 100 rows and CELLS_CHARS."""
    cells = [[{"type": "raw_text", "text": cell or "-"} for cell in row] for row in rows]
    settings = [{"align": "right" if right else "left", "is_wrapped": not right} for right in right_aligned]
    return {"type": "table", "rows": cells, "column_settings": settings}
