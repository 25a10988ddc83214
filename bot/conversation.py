"""Where in Slack a conversation takes place, and the opaque name it has elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(r"slack:([A-Z0-9]*):([A-Z0-9]+):(\d+\.\d+|)")


@dataclass(frozen=True)
class Conversation:
    """One thread: `root` is the ts of the message that began it; a channel itself where that is empty."""

    team: str
    channel: str
    root: str

    @property
    def name(self) -> str:
        """What requests, experiments and events carry: `slack:T0LAB:C0LAB:1700000000.000100`."""
        return f"slack:{self.team}:{self.channel}:{self.root}"

    @property
    def is_direct(self) -> bool:
        """A direct message with the bot, where nobody needs to mention it."""
        return self.channel.startswith("D")


def conversation(name: str) -> Conversation | None:
    """The thread with this name; None for a conversation that is not ours (a terminal's)."""
    found = _NAME.fullmatch(name)
    return Conversation(*found.groups()) if found else None
