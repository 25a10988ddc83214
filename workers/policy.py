"""Which run starts next, where, and who makes room for it: the rules, and the words for them.

The order: priority; then runs that never had a card, for a first look; then users within their fair share before users
over it; then the shortest predicted remaining GPU-time, divided by how long the run has waited. Priority, look, share
and the size class of the last make a run's *tier*; a smaller number goes first.

- A run starts on free cards of one host: all that it needs, or none.
- Where they are not free, runs of a later tier on one host make room (`Running.yields_at` says from when): only what
  can checkpoint, after `Timings.stint_s`, at most once in `every_s`.
- A first look is lent, not given. For `look_s` nothing takes its cards; then it yields to any earlier tier, until it
  has been there for `stint_s`. That is the one stint that may end sooner, and it counts as no preemption. Only what can
  checkpoint is lent a look, and one run of each model of an experiment (workers/looks); the rest waits for its turn.
- Who gets no cards in either way is the head of the queue. Cards are reserved for the time from which it could have
  them; what ranks behind it starts there only if it will have ended by then, could be displaced by then, or uses cards
  that the head does not need (EASY backfill: Lifka, "The ANL/IBM SP scheduling system", 1995).

Short looks before long runs are the idea of Tiresias (Gu et al., NSDI 2019), usage that decays that of Slurm's
multifactor priority. The constants were chosen with tests/bench/trace.py. The order is computed in workers/ranks, the
decision in workers/decision, what is to be expected in workers/forecast: all pure, time an argument.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lab.plan import Priority
from lab.predict import Prediction

HALF_LIFE_S = 7 * 86_400.0
PRIORITY_COST: Mapping[Priority, float] = {"low": 0.5, "normal": 1.0, "high": 2.0}
"""A card's second counts so often towards its user's usage: going first is not free."""
UNKNOWN = Prediction(3600.0, 6 * 3600.0, "rough: nothing is known")
Reason = Literal["priority", "first look", "fair share", "shorter"]


@dataclass(frozen=True, slots=True)
class Timings:
    """How long cards are left to a run, in seconds; the defaults are those of the settings.

    Attributes:
        look_s: a first look. Start-up takes 10 s, so the run shows its first steps and its speed. At 180 s a burst on
            a small cluster made newcomers wait for 14 min (p95), at 120 s for 8.
        stint_s: any other stint, before the run makes room.
        every_s: between two preemptions of a run.
    """

    look_s: float = 120.0
    stint_s: float = 600.0
    every_s: float = 3600.0


USUAL = Timings()


class Waiting(NamedTuple):
    """A run that wants cards; ten thousand of them are made for a decision, and a tuple is made quickest.

    Attributes:
        p50_s, p90_s: predicted seconds on its cards in all, what it was `served_s` already included.
        looked: it has had cards before.
        hosts: where it could run; None means anywhere with so many cards.
        prefers: the host of its checkpoints.
        number: breaks ties between runs that were queued at once.
    """

    id: str
    user: str
    queued_at: float
    p50_s: float = UNKNOWN.p50_s
    p90_s: float = UNKNOWN.p90_s
    gpus: int = 1
    priority: Priority = "normal"
    served_s: float = 0.0
    looked: bool = False
    can_checkpoint: bool = False
    preempted_at: float | None = None
    hosts: frozenset[str] | None = None
    prefers: str | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Running:
    """A run that holds cards of one host since `since`.

    Attributes:
        served_s: seconds on cards before this stint.
        looked: it had had cards before this stint, so this one is no first look.
        preempted_at: when it was last preempted; the end of its first look does not count.
        stopping: it was told to make room and its cards will be free in a moment.
    """

    id: str
    user: str
    queued_at: float
    host: str
    cards: tuple[str, ...]
    since: float
    p50_s: float = UNKNOWN.p50_s
    p90_s: float = UNKNOWN.p90_s
    priority: Priority = "normal"
    served_s: float = 0.0
    looked: bool = False
    can_checkpoint: bool = False
    preempted_at: float | None = None
    stopping: bool = False
    number: int = 0

    @property
    def gpus(self) -> int:
        """How many cards it holds."""
        return len(self.cards)

    def looking(self, now: float, timings: Timings) -> bool:
        """True during its first look, when nothing takes its cards."""
        return self.can_checkpoint and not self.looked and now < self.since + timings.look_s

    def look_ends(self, now: float, timings: Timings) -> bool:
        """True when making room now would be the end of its first look and no preemption."""
        return not self.looked and now < self.since + timings.stint_s

    def yields_at(self, timings: Timings) -> float:
        """From when it makes room for an earlier tier; infinite for what cannot checkpoint."""
        if not self.can_checkpoint or self.stopping:
            return math.inf
        if not self.looked:
            return self.since + timings.look_s
        last = -math.inf if self.preempted_at is None else self.preempted_at
        return max(self.since + timings.stint_s, last + timings.every_s)


@dataclass(frozen=True, slots=True)
class HostState:
    """What a host has.

    Attributes:
        free: its free cards, in its own order.
        capacity: cards that it could give to one run if none were busy.
        coming: cards that a run has just left and that will be free in a moment.
    """

    name: str
    free: tuple[str, ...]
    capacity: int
    coming: int = 0


@dataclass(frozen=True, slots=True)
class Start:
    """The run starts now on these cards."""

    run_id: str
    host: str
    cards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preemption:
    """The run makes room for `by`.

    Attributes:
        ends_look: its first look is over; not to be counted as a preemption.
    """

    run_id: str
    by: str
    reason: Reason
    ends_look: bool


@dataclass(frozen=True, slots=True)
class Reservation:
    """The head of the queue could have its cards on `host` from `at` on."""

    run_id: str
    host: str
    at: float


@dataclass(frozen=True)
class Decision:
    """What is to be done now.

    Attributes:
        order: indices of the runs that waited, first in the queue first.
        look_again_at: when the passing of time alone may allow something; None when nothing waits for that.
    """

    starts: tuple[Start, ...]
    preemptions: tuple[Preemption, ...]
    reservation: Reservation | None
    order: tuple[int, ...]
    look_again_at: float | None


class Usage:
    """GPU-seconds by user, of which half is forgotten every HALF_LIFE_S; no clock of its own."""

    def __init__(self) -> None:
        self._used: dict[str, tuple[float, float]] = {}

    def charge(self, user: str, gpu_s: float, at: float, priority: Priority = "normal") -> None:
        """The user held cards for so many GPU-seconds, up to the time `at`; may come in any order of time."""
        used, since = self._used.get(user, (0.0, at))
        newest, cost = max(at, since), gpu_s * PRIORITY_COST[priority]
        self._used[user] = (used * _decay(newest - since) + cost * _decay(newest - at), newest)

    def at(self, now: float) -> dict[str, float]:
        """What each user has used, as it counts at `now`."""
        return {user: used * _decay(now - since) for user, (used, since) in self._used.items()}


def _decay(seconds: float) -> float:
    return float(0.5 ** (max(0.0, seconds) / HALF_LIFE_S))
