"""Which run starts next, where, and who makes room for it: pure, from what waits, what runs, what is free and the time.

The order: priority; then runs that never had a card, for a first look; then users within their fair share before users
over it; then the shortest predicted remaining GPU-time, divided by how long the run has waited. Priority, look, share
and the size class of the last make a run's *tier*; a smaller number goes first.

- A run starts on free cards of one host: all that it needs, or none.
- Where they are not free, runs of a later tier on one host make room (`Running.yields_at` says from when): only what
  can checkpoint, after MIN_STINT_S, at most once in PREEMPT_EVERY_S.
- A first look is lent, not given. For LOOK_S nothing takes its cards; then it yields to any earlier tier, until it has
  been there for MIN_STINT_S. That is the one stint that may end before MIN_STINT_S, and it counts as no preemption.
  Only what can checkpoint is lent a look; the rest waits for its turn.
- Who gets no cards in either way is the head of the queue. Cards are reserved for the time from which it could have
  them; what ranks behind it starts there only if it will have ended by then, could be displaced by then, or uses cards
  that the head does not need (EASY backfill: Lifka, "The ANL/IBM SP scheduling system", 1995).

Short looks before long runs are the idea of Tiresias (Gu et al., NSDI 2019), usage that decays that of Slurm's
multifactor priority. The constants were chosen with tests/bench/trace.py.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from lab.card import Card
from lab.plan import PRIORITIES, Priority
from lab.predict import Z90, Prediction
from lab.run import Run

LOOK_S = 120.0
"""A first look: start-up takes 10 s, so the run shows its first steps and its speed. At 180 s a burst on a small
cluster made newcomers wait for 14 min (p95), at 120 s for 8."""
LOOK_SHARE = 0.5
"""Part of all cards that looks may hold at once, so that a flood of new runs cannot stop everybody else."""
MIN_STINT_S = 600.0
PREEMPT_EVERY_S = 3600.0
OVER_SHARE = 1.3
"""A user is over his share when he used so many times the mean of those who want cards now. At 1.5 Jain's index over
equal users fell below 0.95; at 1.2 chance differences between them cost twice as many preemptions."""
HALF_LIFE_S = 7 * 86_400.0
AGE_S = 86_400.0
"""A run that waited for a day ranks like one half as long, after nine days like one a tenth as long. Squared, the
longest wait was 40 % shorter and the mean completion time 10 to 20 % longer."""
CLASS_FACTOR = 4.0
"""Between size classes: a run displaces one only for something clearly shorter. At 2 there were more
preemptions, up to twice as many, and nothing was gained."""
SMALLEST_GPU_S = 225.0
"""Remaining GPU-time below which all runs are in the first size class."""
CLASSES = 32
PRIORITY_COST: Mapping[Priority, float] = {"low": 0.5, "normal": 1.0, "high": 2.0}
"""A card's second counts so often towards its user's usage: going first is not free."""
UNKNOWN = Prediction(3600.0, 6 * 3600.0, "rough: nothing is known")
ESTIMATED = 200
"""Runs at the front of the queue whose start is estimated one by one."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Reason = Literal["priority", "first look", "fair share", "shorter"]
_RANK: Mapping[Priority, int] = {priority: rank for rank, priority in enumerate(reversed(PRIORITIES))}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that wants cards.

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

    def looking(self, now: float) -> bool:
        """True during its first look, when nothing takes its cards."""
        return self.can_checkpoint and not self.looked and now < self.since + LOOK_S

    def look_ends(self, now: float) -> bool:
        """True when making room now would be the end of its first look and no preemption."""
        return not self.looked and now < self.since + MIN_STINT_S

    def yields_at(self) -> float:
        """From when it makes room for an earlier tier; infinite for what cannot checkpoint."""
        if not self.can_checkpoint or self.stopping:
            return math.inf
        if not self.looked:
            return self.since + LOOK_S
        last = -math.inf if self.preempted_at is None else self.preempted_at
        return max(self.since + MIN_STINT_S, last + PREEMPT_EVERY_S)


@dataclass(frozen=True, slots=True)
class HostState:
    """What a host has: its free cards in its own order, and how many it could give to one run if none were busy."""

    name: str
    free: tuple[str, ...]
    capacity: int


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


class Place(NamedTuple):
    """Where a waiting run stands: 1 is next; `starts_at` is a guess that counts on preemption for first looks only."""

    position: int
    starts_at: float


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


def decide(
    now: float,
    waiting: Sequence[Waiting],
    running: Sequence[Running],
    hosts: Sequence[HostState],
    usage: Mapping[str, float],
) -> Decision:
    """What starts now and what makes room; the same input gives the same decision.

    Call it again after every change and at `look_again_at`. Cards that a preemption sets free are not handed over
    here: when they are free, the next decision gives them to whoever is first then.

    Args:
        now: seconds on the clock of all other times.
        usage: decayed GPU-seconds by user, as `Usage.at` gives them.
    """
    over = over_share(usage, {w.user for w in waiting} | {r.user for r in running})
    lent = sum(r.gpus for r in running if r.looking(now))
    table, held = _Table(waiting), _Table(running)
    looks = _looks(table, lent, LOOK_SHARE * sum(h.capacity for h in hosts))
    looking = np.fromiter((r.looking(now) for r in running), np.bool_, len(running))
    ranks = _rank(table, over, now, looks, table["served_s"])
    return _Round(
        now, table, waiting, running, hosts, ranks, _rank(held, over, now, looking, _served(held, now))
    ).decide()


def over_share(usage: Mapping[str, float], users: Iterable[str]) -> frozenset[str]:
    """Those among the users who want cards now that used more than OVER_SHARE times the mean of them."""
    used = {user: usage.get(user, 0.0) for user in users}
    limit = OVER_SHARE * sum(used.values()) / max(1, len(used))
    return frozenset(user for user, gpu_s in used.items() if gpu_s > limit)


def remaining_p50(p50_s: Floats, p90_s: Floats, served_s: Floats) -> Floats:
    """Median of what is left of lognormal lengths when `served_s` was not enough, in seconds, at least 1."""
    mu = np.log(np.maximum(p50_s, 1.0))
    sigma = np.maximum(np.log(np.maximum(p90_s, 1.0)) - mu, 0.01) / Z90
    # Beyond 30 deviations the tail is 0 in double precision; such a run has long outlived its prediction.
    z = np.minimum((np.log(np.maximum(served_s, 1e-3)) - mu) / sigma, 30.0)
    left = np.exp(mu - sigma * ndtri(0.5 * ndtr(-z))) - served_s
    return np.asarray(np.maximum(left, 1.0), dtype=np.float64)


def places(
    now: float,
    waiting: Sequence[Waiting],
    running: Sequence[Running],
    hosts: Sequence[HostState],
    decision: Decision,
) -> dict[str, Place]:
    """Queue position and expected start of every run that does not start now, from the medians of all lengths.

    The first ESTIMATED runs are laid on the cards one by one, the others spread over all cards.
    """
    starting = {start.run_id: start for start in decision.starts}
    table = _Table([waiting[i] for i in decision.order])
    left = remaining_p50(table["p50_s"], table["p90_s"], table["served_s"]).tolist()
    cards = max(1, sum(host.capacity for host in hosts))
    most = max(1.0, LOOK_SHARE * cards)
    lanes = _lanes(now, running, cards)
    found: dict[str, Place] = {}
    lent, ahead, total = 0, 0.0, sum(lanes)
    for w, left_s in zip(table.runs, left, strict=True):
        assert isinstance(w, Waiting)
        if len(found) >= ESTIMATED and w.id not in starting:
            found[w.id] = Place(len(found) + 1, total / cards + ahead)
            ahead += left_s * w.gpus / cards
            continue
        taken = [heapq.heappop(lanes) for _ in range(min(w.gpus, cards))]
        at = now if w.id in starting else max(now, taken[-1])
        for _ in taken:
            heapq.heappush(lanes, at + left_s)
        total += (at + left_s) * len(taken) - sum(taken)
        if w.id in starting:
            continue
        if w.can_checkpoint and not w.looked:
            at = min(at, now + LOOK_S * (lent // most))
            lent += w.gpus
        found[w.id] = Place(len(found) + 1, at)
    return found


def _lanes(now: float, running: Sequence[Running], cards: int) -> list[float]:
    """When each card will be free, as a heap; what is busy with nothing we know counts as free."""
    table = _Table(running)
    left = remaining_p50(table["p50_s"], table["p90_s"], _served(table, now)).tolist()
    lanes = [now + left_s for run, left_s in zip(running, left, strict=True) for _ in run.cards][:cards]
    lanes += [now] * (cards - len(lanes))
    heapq.heapify(lanes)
    return lanes


def _served(held: _Table, now: float) -> Floats:
    return held["served_s"] + now - held["since"]


# -- ranks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ranks:
    """For each run: its tier, the tier it would have without a look, what is left (p50), and all in order."""

    tier: Ints
    natural: Ints
    left_s: Floats
    order: Ints


class _Table:
    """Attributes of many runs as columns, each read once: reading them is most of a decision's time."""

    def __init__(self, runs: Sequence[Waiting] | Sequence[Running]) -> None:
        self.runs = runs
        self._columns: dict[str, Floats] = {}

    def __getitem__(self, name: str) -> Floats:
        column = self._columns.get(name)
        if column is None:
            values: Iterable[Any] = map(attrgetter(name), self.runs)
            if name == "priority":
                values = map(_RANK.__getitem__, values)
            elif name == "preempted_at":
                values = (-math.inf if at is None else at for at in values)
            column = self._columns[name] = np.fromiter(values, np.float64, len(self.runs))
        return column

    @property
    def new(self) -> Bools:
        """Who may be lent a first look."""
        new: Bools = (self["can_checkpoint"] > 0) & (self["looked"] == 0)
        return new


def _looks(table: _Table, lent: int, most: float) -> Bools:
    """Which runs are due a first look: the oldest, as many as find room beside the `lent` cards; always one."""
    looks = np.zeros(len(table.runs), np.bool_)
    new = np.flatnonzero(table.new)
    if len(new):
        new = new[np.lexsort((table["number"][new], table["queued_at"][new]))]
        due = lent + np.cumsum(table["gpus"][new]) <= most
        due[0] |= lent == 0
        looks[new[due]] = True
    return looks


def _rank(table: _Table, over: frozenset[str], now: float, looks: Bools, served_s: Floats) -> _Ranks:
    priority = table["priority"].astype(np.int64)
    beyond = np.zeros_like(priority)
    if over:
        beyond = np.fromiter((run.user in over for run in table.runs), np.int64, len(table.runs))
    queued_at = table["queued_at"]
    left = remaining_p50(table["p50_s"], table["p90_s"], served_s)
    waited = np.maximum(now - queued_at - served_s, 0.0)
    size = np.log(left * table["gpus"] / (1.0 + waited / AGE_S) / SMALLEST_GPU_S) / math.log(CLASS_FACTOR)
    group = (priority * 2 + 1) * 2 + beyond
    natural = group * CLASSES + np.clip(np.floor(size), 0, CLASSES - 1).astype(np.int64)
    tier = np.where(looks, priority * 4 * CLASSES, natural)
    coarse = np.where(looks, priority * 4 + beyond, group)
    fine = np.where(looks, queued_at, size)
    return _Ranks(tier, natural, left, np.lexsort((table["number"], queued_at, fine, coarse)))


# -- one decision ----------------------------------------------------------------------------------------------------


@dataclass
class _Room:
    """A host during one decision.

    Attributes:
        coming: cards that become free by preemptions and that nobody before in the order has claimed.
        held: indices of its runs that are not stopping, the last in the order first.
        victims: those among them that yield now.
    """

    name: str
    capacity: int
    free: list[str]
    coming: int = 0
    held: list[int] = field(default_factory=list)
    victims: list[int] = field(default_factory=list)

    def claim(self, cards: int) -> None:
        """So many cards are spoken for, those that are yet to come first."""
        coming = min(cards, self.coming)
        self.coming -= coming
        del self.free[: cards - coming]


class _Round:
    """One walk down the queue. What is there only shrinks, so a run that failed stands for all like it behind it."""

    def __init__(
        self,
        now: float,
        table: _Table,
        waiting: Sequence[Waiting],
        running: Sequence[Running],
        hosts: Sequence[HostState],
        ranks: _Ranks,
        held: _Ranks,
    ) -> None:
        self.now, self.waiting, self.running = now, waiting, running
        self.table, self.ranks = table, ranks
        self.order: list[int] = ranks.order.tolist()
        self.tiers: list[int] = ranks.tier.tolist()
        self.natural: list[int] = ranks.natural.tolist()
        self.held_tiers: list[int] = held.tier.tolist()
        self.held_left: list[float] = held.left_s.tolist()
        self.yields = [r.yields_at() for r in running]
        self.rooms = {h.name: _Room(h.name, h.capacity, list(h.free)) for h in hosts}
        for j in reversed(held.order.tolist()):
            run, room = running[j], self.rooms.get(running[j].host)
            if room is None:
                continue
            if run.stopping:
                room.coming += run.gpus
                continue
            room.held.append(j)
            if self.yields[j] <= now:
                room.victims.append(j)
        self.starts: list[Start] = []
        self.started: list[int] = []
        self.preemptions: list[Preemption] = []
        self.reservation: Reservation | None = None
        self.spare = 0
        """Cards of the reservation's host that the head will not need."""
        self.gone_by: list[bool] = []
        """For each waiting run: it will have left before the reservation, or can be displaced by then."""

    def decide(self) -> Decision:
        failed: set[tuple[int, frozenset[str] | None, bool]] = set()
        worst = self._worst_victim()
        for i in self.order:
            run = self.waiting[i]
            like = (run.gpus, run.hosts, not self.gone_by or self.gone_by[i])
            if like in failed:
                continue
            if self.reservation and worst <= self.tiers[i] and not any(r.free or r.coming for r in self.rooms.values()):
                break
            rooms = [
                r for r in self.rooms.values() if r.capacity >= run.gpus and (not run.hosts or r.name in run.hosts)
            ]
            rooms = [r for r in rooms if self._leaves_reservation(i, r)]
            if self._start(i, rooms) or self._claim(i, rooms):
                continue
            if worst > self.tiers[i] and self._make_room(i, rooms):
                worst = self._worst_victim()
                failed.clear()  # a gang that made room for less than itself left cards for others
            elif self.reservation is None and self._reserve(i, rooms):
                failed.clear()
            else:
                failed.add(like)
        return Decision(
            tuple(self.starts), tuple(self.preemptions), self.reservation, tuple(self.order), self._look_again_at()
        )

    def _start(self, i: int, rooms: list[_Room]) -> bool:
        run = self.waiting[i]
        fitting = [room for room in rooms if len(room.free) >= run.gpus]
        if not fitting:
            return False
        # The fullest host that still fits it: whole hosts stay free for gangs.
        room = min(fitting, key=lambda r: (r.name != run.prefers, len(r.free)))
        self._use(i, room)
        self.started.append(i)
        self.starts.append(Start(run.id, room.name, tuple(room.free[: run.gpus])))
        del room.free[: run.gpus]
        return True

    def _claim(self, i: int, rooms: list[_Room]) -> bool:
        """True when cards that are about to be free suffice: the run waits for those."""
        run = self.waiting[i]
        room = next((r for r in rooms if len(r.free) + r.coming >= run.gpus), None)
        if room is None:
            return False
        self._use(i, room)
        room.claim(run.gpus)
        return True

    def _make_room(self, i: int, rooms: list[_Room]) -> bool:
        """True when runs of a later tier on one host were told to stop, so few cards of them as will do."""
        run = self.waiting[i]
        found = [(chosen, room) for room in rooms if (chosen := self._victims(i, room))]
        if not found:
            return False
        chosen, room = min(found, key=lambda pair: sum(self.running[j].gpus for j in pair[0]))
        self._use(i, room)
        for j in chosen:
            victim = self.running[j]
            room.victims.remove(j)
            room.held.remove(j)
            room.coming += victim.gpus
            reason = _reason(self.tiers[i], self.held_tiers[j])
            self.preemptions.append(Preemption(victim.id, run.id, reason, victim.look_ends(self.now)))
        room.claim(run.gpus)
        return True

    def _victims(self, i: int, room: _Room) -> list[int]:
        """The last runs in the order that together make room, none without whom it would do; empty if they cannot."""
        need = self.waiting[i].gpus - len(room.free) - room.coming
        chosen: list[int] = []
        for j in room.victims:
            if need <= 0 or self.held_tiers[j] <= self.tiers[i]:
                break
            chosen.append(j)
            need -= self.running[j].gpus
        if need > 0:
            return []
        for j in list(chosen):
            if need + self.running[j].gpus <= 0:
                chosen.remove(j)
                need += self.running[j].gpus
        return chosen

    def _reserve(self, i: int, rooms: list[_Room]) -> bool:
        """True when the run is the head of the queue now, with a time from which it could have cards of one host."""
        run = self.waiting[i]
        found = [(*when, room.name) for room in rooms if (when := self._available(i, room))]
        if not found:
            return False
        at, spare, name = min(found)
        self.reservation, self.spare = Reservation(run.id, name, at), spare
        table = self.table
        ends_at = self.now + table["p90_s"] - table["served_s"]
        stint = np.where(table["looked"] > 0, MIN_STINT_S, LOOK_S)
        yields_at = np.maximum(self.now + stint, table["preempted_at"] + PREEMPT_EVERY_S)
        displaced = (table["can_checkpoint"] > 0) & (self.ranks.natural > self.tiers[i]) & (yields_at <= at)
        self.gone_by = ((ends_at <= at) | displaced).tolist()
        return True

    def _available(self, i: int, room: _Room) -> tuple[float, int] | None:
        """When the run could have its cards there, by medians and by who yields, and how many are left over then."""
        short = self.waiting[i].gpus - len(room.free) - room.coming
        known = sum(self.running[j].gpus for j in room.held)
        # Cards that are busy with what we know nothing of may be free at any moment.
        short -= max(0, room.capacity - known - len(room.free) - room.coming)
        leaving = sorted((self._leaves_at(i, j), self.running[j].gpus) for j in room.held)
        at = self.now
        for when, gpus in leaving:
            if short <= 0 and when > at:
                break
            at = max(at, when)
            short -= gpus
        return (at, -short) if short <= 0 and math.isfinite(at) else None

    def _leaves_at(self, i: int, j: int) -> float:
        ends_at = self.now + self.held_left[j]
        later = self.held_tiers[j] > self.tiers[i] or self.running[j].looking(self.now)
        return max(self.now, min(ends_at, self.yields[j])) if later else ends_at

    def _leaves_reservation(self, i: int, room: _Room) -> bool:
        """True when the head of the queue would not have to wait longer if this run had cards of that host."""
        if self.reservation is None or room.name != self.reservation.host:
            return True
        return self.gone_by[i] or self.waiting[i].gpus <= self.spare

    def _use(self, i: int, room: _Room) -> None:
        if self.reservation and room.name == self.reservation.host and not self.gone_by[i]:
            self.spare -= self.waiting[i].gpus

    def _worst_victim(self) -> int:
        return max((self.held_tiers[j] for room in self.rooms.values() for j in room.victims), default=-1)

    def _look_again_at(self) -> float | None:
        if len(self.starts) == len(self.waiting):
            return None
        times = [at for at in self.yields if self.now < at < math.inf]
        times += [self.now + (MIN_STINT_S if self.waiting[i].looked else LOOK_S) for i in self.started]
        times += [self.reservation.at] if self.reservation and self.reservation.at > self.now else []
        return min(times, default=None)


def _reason(tier: int, later: int) -> Reason:
    """Why a run of one tier displaces one of a later tier."""
    if tier // (4 * CLASSES) != later // (4 * CLASSES):
        return "priority"
    if tier % (4 * CLASSES) < 2 * CLASSES:
        return "first look"
    return "fair share" if tier // CLASSES != later // CLASSES else "shorter"


# -- for the dispatcher ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offer:
    """What a host can take now.

    Attributes:
        free: its free cards, in its own order.
        capacity: cards that it could give to one run if none were busy.
        templates: names of the templates it has.
        datasets: names of the data sets it has.
    """

    host: str
    free: tuple[Card, ...]
    capacity: int
    templates: frozenset[str]
    datasets: frozenset[str]


@dataclass(frozen=True)
class Binding:
    """A run and the cards of one host that it gets."""

    run: Run
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Choice:
    """A decision in the ledger's terms, and what it was made from."""

    bindings: tuple[Binding, ...]
    decision: Decision
    waiting: tuple[Waiting, ...] = ()
    running: tuple[Running, ...] = ()
    hosts: tuple[HostState, ...] = ()

    def places(self, now: float) -> dict[str, Place]:
        """Queue position and expected start by run id, for those that go on waiting."""
        return places(now, self.waiting, self.running, self.hosts, self.decision)


def choose(
    queued: Sequence[Run],
    offers: Sequence[Offer],
    *,
    now: float = 0.0,
    holding: Sequence[Run] = (),
    usage: Mapping[str, float] | None = None,
    lengths: Mapping[str, Prediction] | None = None,
    can_checkpoint: Callable[[Run], bool] = lambda run: False,
) -> Choice:
    """Who starts now and who makes room.

    Args:
        holding: runs that hold cards.
        lengths: predictions by run id; a run without one counts as UNKNOWN.
        can_checkpoint: which runs may be lent a look and preempted; none of them unless somebody acts on preemptions.
    """
    lengths = lengths or {}
    where: dict[tuple[str, str | None, int], frozenset[str]] = {}
    waiting = []
    for run in queued:
        like = (run.template, run.point.dataset, run.gpus)
        if like not in where:
            where[like] = frozenset(offer.host for offer in offers if fits(run, offer))
        if where[like]:
            waiting.append(_waiting(run, lengths.get(run.id, UNKNOWN), where[like], can_checkpoint(run)))
    running = tuple(_running(run, now, lengths.get(run.id, UNKNOWN), can_checkpoint(run)) for run in holding)
    hosts = tuple(HostState(o.host, tuple(card.uuid for card in o.free), o.capacity) for o in offers)
    decision = decide(now, waiting, running, hosts, usage or {})
    cards = {card.uuid: card for offer in offers for card in offer.free}
    started = {start.run_id: start for start in decision.starts}
    by_id = {run.id: run for run in queued if run.id in started} if started else {}
    bindings = [Binding(by_id[run_id], tuple(cards[c] for c in start.cards)) for run_id, start in started.items()]
    return Choice(tuple(bindings), decision, tuple(waiting), running, hosts)


def fits(run: Run, offer: Offer) -> bool:
    """True when the host could run it: it has the template, the data set and as many cards."""
    has_data = run.point.dataset is None or run.point.dataset in offer.datasets
    return has_data and run.template in offer.templates and run.gpus <= offer.capacity


def why_waiting(run: Run, offers: Sequence[Offer]) -> str | None:
    """Why no host could ever take the run, as a phrase for people; None when one could."""
    if not offers or any(fits(run, offer) for offer in offers):
        return None
    with_template = [offer for offer in offers if run.template in offer.templates]
    if not with_template:
        return f"no host has the template {run.template}"
    with_data = [offer for offer in with_template if run.point.dataset is None or run.point.dataset in offer.datasets]
    if not with_data:
        return f"no host has the data set {run.point.dataset}"
    return f"no host has {run.gpus} usable cards"


def _waiting(run: Run, length: Prediction, hosts: frozenset[str], can_checkpoint: bool) -> Waiting:
    return Waiting(
        id=run.id,
        user=run.owner,
        queued_at=run.queued_at,
        p50_s=length.p50_s,
        p90_s=length.p90_s,
        gpus=run.gpus,
        priority=run.priority,
        looked=run.fence > 0,
        can_checkpoint=can_checkpoint,
        hosts=hosts,
        prefers=run.host,
        number=run.number,
    )


def _running(run: Run, now: float, length: Prediction, can_checkpoint: bool) -> Running:
    # Before its first step a dispatched run is as good as new; `started_at` may be of an earlier attempt.
    return Running(
        id=run.id,
        user=run.owner,
        queued_at=run.queued_at,
        host=run.host or "",
        cards=run.cards,
        since=run.started_at if run.started_at is not None and run.pid is not None else now,
        p50_s=length.p50_s,
        p90_s=length.p90_s,
        priority=run.priority,
        looked=run.fence > 1,
        can_checkpoint=can_checkpoint and run.state == "running",
        number=run.number,
        stopping=run.state == "cancelling",
    )
