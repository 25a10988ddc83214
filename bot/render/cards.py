"""The cards of all hosts as monospaced text, in as many messages as Slack's limits ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.render.message import MESSAGE_CHARS, SECTION_CHARS, Message, actions, button, context, message, section
from bot.render.text import code, escape, pieces
from lab.card import HostCards
from lab.cardtable import CardUse, table

REFRESH = "cards_refresh"

NOBODY = "No host publishes its cards, so I cannot say what they do; `overnight keep` on a host with cards does that."
MOST_MESSAGES = 5
"""A response_url works five times."""
_SECTIONS = MESSAGE_CHARS // SECTION_CHARS
_CODE_CHARS = SECTION_CHARS - 200
"""Room for the fence and for what escaping adds."""


def cards(hosts: Sequence[HostCards], leases: Mapping[str, CardUse], now: float) -> list[Message]:
    """The table, the Refresh button below its last part; never empty."""
    if not hosts:
        return [message(NOBODY, section(NOBODY), actions(button("Refresh", REFRESH, "cards")))]
    parts = _parts(table(hosts, leases, now))
    groups = [parts[i : i + _SECTIONS] for i in range(0, len(parts), _SECTIONS)]
    rest = (
        "" if len(groups) <= MOST_MESSAGES else "There are more cards than fit here; `overnight cards` shows them all."
    )
    groups = groups[:MOST_MESSAGES]
    simulated = any(host.simulated or any(card.simulated for card in host.cards) for host in hosts)
    said = ["Simulated cards: they train on the CPU."] if simulated else []
    made = [message(f"Cards, part {i}", *(section(code(part)) for part in g)) for i, g in enumerate(groups, start=1)]
    last = message(
        "\n".join(["Cards", *said, rest]).strip() + "\n" + code(groups[-1][0]),
        *made[-1].blocks,
        context(*said, rest),
        actions(button("Refresh", REFRESH, "cards")),
    )
    return [*made[:-1], last]


def _parts(text: str) -> list[str]:
    """The table in pieces that fit into a code block once they are escaped, parted at line ends."""
    whole = [piece for piece in pieces(text, _CODE_CHARS) if piece.strip("\n")]
    return [small for piece in whole for small in (pieces(piece, _CODE_CHARS // 2) if _grows(piece) else [piece])]


def _grows(piece: str) -> bool:
    return len(escape(piece)) > SECTION_CHARS - 10
