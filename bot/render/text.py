"""Words for Slack: escaped, on one line, short enough."""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

_USER = re.compile(r"[UW][A-Z0-9]{2,}")
_HALF_ENTITY = re.compile(r"&[a-z]{0,3}$")
_CUT = " ... (shortened)"


def escape(text: str) -> str:
    """The text as Slack shows it literally: no mention, link or broadcast can be made of it."""
    cleaned = "".join(c for c in text if c.isprintable() or c == "\n")
    return cleaned.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def name(text: str, width: int = 60) -> str:
    """A name that somebody else chose: one line, at most `width` characters before it is escaped, no formatting."""
    return escape(_plain(cut(" ".join(text.split()), width)))


def _plain(text: str) -> str:
    """Without the marks that would make a part of it bold, struck or code."""
    return text.replace("`", "'").replace("*", "\N{ASTERISK OPERATOR}").replace("~", "\N{TILDE OPERATOR}")


def code(text: str) -> str:
    """A block of monospaced text; whatever it holds, it ends where it should."""
    return f"```\n{escape(text.replace('`', chr(39)))}\n```"


def cut(text: str, width: int) -> str:
    """The text, or its beginning with an ellipsis."""
    return text if len(text) <= width else text[: max(0, width - 1)].rstrip() + "…"


def shorten(text: str, most: int) -> str:
    """Escaped text of at most `most` characters that says so where something is missing; no entity is cut in two."""
    if len(text) <= most:
        return text
    kept = _HALF_ENTITY.sub("", text[: most - len(_CUT)])
    return kept.rstrip() + _CUT


def column(text: str, width: int) -> str:
    """The text in a column of so many terminal cells, cut or filled up."""
    if cell_len(text) <= width:
        return text + " " * (width - cell_len(text))
    return set_cell_size(text, width - 1).rstrip() + "…"


def pieces(text: str, most: int) -> list[str]:
    """The text in pieces of at most `most` characters, parted at line ends where there are any."""
    parts: list[str] = []
    rest = text
    while len(rest) > most:
        end = rest.rfind("\n", 1, most)
        end = end if end > 0 else len(_HALF_ENTITY.sub("", rest[:most]))
        parts.append(rest[:end])
        rest = rest[end:].removeprefix("\n")
    return [*parts, rest] if rest else parts


def person(user: str) -> str:
    """A Slack user as a mention, anybody else by name."""
    return f"<@{user}>" if _USER.fullmatch(user) else name(user, 40)
