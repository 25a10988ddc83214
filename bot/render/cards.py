"""The cards of all hosts as monospaced text, in as many messages as Slack's limits ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.render.message import MESSAGE_CHARS, SECTION_CHARS, Message, actions, button, context, message, section
from bot.render.text import code, escape, person, pieces
from lab.card import HostCards
from lab.cardtable import ARROW, CardUse, owners_of, table
from lab.estimate import duration

REFRESH = "cards_refresh"
TELL = "cards_tell"

NOBODY = "No host publishes its cards, so I cannot say what they do; `overnight keep` on a host with cards does that."
MOST_MESSAGES = 5
"""A response_url works five times."""
_SECTIONS = MESSAGE_CHARS // SECTION_CHARS
_CODE_CHARS = SECTION_CHARS - 200
"""Room for the fence and for what escaping adds."""


def cards(hosts: Sequence[HostCards], leases: Mapping[str, CardUse], now: float) -> list[Message]:
    """The table, below its last part whose the runs are, how old the readings, and the buttons; never empty."""
    if not hosts:
        return [message(NOBODY, section(NOBODY), actions(button("Refresh", REFRESH, "cards")))]
    parts = _parts(table(hosts, leases, now))
    groups = [parts[i : i + _SECTIONS] for i in range(0, len(parts), _SECTIONS)]
    rest = _rest(groups[MOST_MESSAGES:])
    groups = groups[:MOST_MESSAGES]
    simulated = any(host.simulated or any(card.simulated for card in host.cards) for host in hosts)
    said = ["Simulated cards: they train on the CPU."] if simulated else []
    made = [message(f"Cards, part {i}", *(section(code(part)) for part in g)) for i, g in enumerate(groups, start=1)]
    last = message(
        "\n".join(["Cards", *said, rest]).strip() + "\n" + code(groups[-1][0]),
        *made[-1].blocks,
        context(*said, rest, _ages(hosts, now), _owners(leases)),
        actions(button("Refresh", REFRESH, "cards"), button("Tell me when a card is free", TELL, "cards")),
    )
    return [*made[:-1], last]


def _rest(left_out: Sequence[Sequence[str]]) -> str:
    """How many lines with a card did not fit."""
    lines = sum(part.count(ARROW) for group in left_out for part in group)
    return f"{lines} more cards do not fit here; `overnight cards` shows them all." if left_out else ""


def _ages(hosts: Sequence[HostCards], now: float) -> str:
    ages_s = [max(0.0, now - card.read_at) for host in hosts for card in host.cards if card.read_at > 0]
    if not ages_s:
        return ""
    youngest, oldest = duration(min(ages_s)), duration(max(ages_s))
    return f"Read {youngest} ago." if youngest == oldest else f"Read between {youngest} and {oldest} ago."


def _owners(leases: Mapping[str, CardUse]) -> str:
    return ", ".join(f"{experiment}: {person(owner)}" for experiment, owner in owners_of(leases).items())


def _parts(text: str) -> list[str]:
    """The table in pieces that fit into a code block once they are escaped, parted at line ends."""
    whole = [piece for piece in pieces(text, _CODE_CHARS) if piece.strip("\n")]
    return [small for piece in whole for small in (pieces(piece, _CODE_CHARS // 2) if _grows(piece) else [piece])]


def _grows(piece: str) -> bool:
    return len(escape(piece)) > SECTION_CHARS - 10
