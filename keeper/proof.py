"""Whether a keeper can be shown to work: the card's utilisation over the platform's window against its rule. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from keeper.policy import Policy
from lab.card import KeeperVerdict

PIECES = 60
"""The window is remembered in so many pieces, so that its length costs no memory."""
ENOUGH = 0.8
"""Share of the window that must have been read for a verdict."""


@dataclass(frozen=True)
class Judgement:
    """A verdict with its reason for people, and the mean utilisation behind it."""

    verdict: KeeperVerdict
    reason: str
    utilization_pct: float | None = None


@dataclass
class _Piece:
    number: int
    total_pct: float = 0.0
    known: int = 0
    unknown: int = 0


class Proof:
    """The readings of one card, judged; what the driver does not tell counts as unknown, never as 0."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._piece_s = policy.window_s / PIECES
        self._pieces: deque[_Piece] = deque(maxlen=PIECES)

    def add(self, now: float, utilization_pct: float | None) -> None:
        """A reading was taken; `now` in seconds of any clock that only goes forwards."""
        number = int(now / self._piece_s)
        if not self._pieces or self._pieces[-1].number != number:
            self._pieces.append(_Piece(number))
        piece = self._pieces[-1]
        if utilization_pct is None:
            piece.unknown += 1
        else:
            piece.known += 1
            piece.total_pct += utilization_pct

    def judge(self, now: float) -> Judgement:
        """What the readings of the last window show."""
        first = int(now / self._piece_s) - PIECES
        read = [piece for piece in self._pieces if piece.number > first and piece.known]
        known = sum(piece.known for piece in read)
        mean = sum(piece.total_pct for piece in read) / known if known else None
        verdict, reason = self._judge(mean, len(read) / PIECES)
        return Judgement(verdict, reason, mean)

    def _judge(self, mean: float | None, share: float) -> tuple[KeeperVerdict, str]:
        policy, platform = self._policy, self._policy.platform
        if "unpublished" in platform.looks_at:
            return "unverified", f"{platform.title} does not publish its idle rule"
        if platform.looks_at and not platform.sees_utilization:
            return "ineffective", (
                f"{platform.title} looks at {platform.what_is_seen}, which this does not change: {platform.own_setting}"
            )
        if policy.threshold_pct is None:
            return "unverified", "no keeper.platform is set, so there is no rule to check it against"
        if mean is None:
            return "unverified", self._why_unread()
        window_min = policy.window_s / 60
        if share < ENOUGH:
            return "unverified", f"utilisation read for {share * window_min:.0f} of {window_min:.0f} min so far"
        asked = f"{policy.threshold_pct:g} % that {_who(policy)} asks for"
        if mean > policy.threshold_pct:
            return "verified", f"utilisation {mean:.1f} % over {window_min:.0f} min, above the {asked}"
        return "ineffective", f"utilisation {mean:.1f} % over {window_min:.0f} min, not above the {asked}"

    def _why_unread(self) -> str:
        if any(piece.unknown for piece in self._pieces):
            return "the driver does not tell the utilisation of this card"
        return "the card's utilisation has not been read yet"


def _who(policy: Policy) -> str:
    return policy.platform.title if policy.platform.looks_at else "keeper.threshold_pct"
