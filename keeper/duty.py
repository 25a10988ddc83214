"""How much a keeper computes in mode `duty`: held at a target by what is read back, at rest while others work. Pure."""

from __future__ import annotations

GAIN = 0.15
"""Share of the distance to the target that is made up a second; readings lag by one or two."""
LEAST, MOST = 0.005, 0.9
LONGEST_STEP_S = 5.0
SETTLE_S = 2.0
"""A driver averages over up to a second and the reading is up to two old: what it says of before counts for nothing."""
REST_S = 10.0
"""How long a card must look idle after real work until the keeper computes again."""
SURPRISE_PCT = 30.0
"""Utilisation so far above what we make is somebody's work, even where no process of theirs can be seen."""
SURPRISES = 2


class DutyController:
    """The share of time to compute, from the card's utilisation; seconds are of any clock that only goes forwards."""

    def __init__(self, target_pct: float) -> None:
        self._target_pct = target_pct
        self._duty = min(MOST, max(LEAST, target_pct / 100))
        self._ratio = 1.0
        """Utilisation read for a duty of 1 %: a driver may show more than the share of time in which kernels run."""
        self._read_at: float | None = None
        """When the last reading that counted came: what is made up goes by the time between readings."""
        self._settled_at = 0.0
        self._rest_until: float | None = None
        self._surprises = 0
        self._surprise_ratio: float | None = None

    @property
    def resting(self) -> bool:
        """True while somebody else's work shows on the card."""
        return self._rest_until is not None

    def step(self, now: float, utilization_pct: float | None, others: bool = False) -> float:
        """The duty from now on, 0 at once when others work there.

        Args:
            utilization_pct: the card's newest reading; None when it is not known, and then the duty stays.
            others: somebody else's process or run is on the card.
        """
        if self._read_at is None:
            self._read_at, self._settled_at = now, now + SETTLE_S
        known = utilization_pct if now >= self._settled_at else None
        if self._rest_until is not None or others:
            return self._rest(now, known, others)
        if known is not None:
            if self._surprised(known):
                return self._rest(now, None, others=True)
            step_s, self._read_at = min(LONGEST_STEP_S, now - self._read_at), now
            moved = self._duty + GAIN * step_s * (self._target_pct - known) / 100 / self._ratio
            self._duty = min(MOST, max(LEAST, moved))
        return self._duty

    def _surprised(self, utilization_pct: float) -> bool:
        expected = min(100.0, 100 * self._duty * self._ratio)
        self._surprises = self._surprises + 1 if utilization_pct > expected + SURPRISE_PCT else 0
        if self._surprises < SURPRISES:
            return False
        self._surprises = 0
        self._surprise_ratio = utilization_pct / (100 * self._duty)
        return True

    def _rest(self, now: float, known: float | None, others: bool) -> float:
        if self._rest_until is None:
            self._rest_until, self._settled_at = now + REST_S, now + SETTLE_S
            return 0.0
        if others or (known is not None and known >= SURPRISE_PCT):
            self._rest_until = now + REST_S
            self._surprise_ratio = None  # it was not ours after all
        if now < self._rest_until:
            return 0.0
        if self._surprise_ratio is not None:  # it went when we rested, so it had been our own doing
            self._ratio, self._surprise_ratio = self._surprise_ratio, None
            self._duty = min(MOST, max(LEAST, self._target_pct / 100 / self._ratio))
        self._rest_until, self._settled_at = None, now + SETTLE_S
        return self._duty
