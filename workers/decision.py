"""One decision: what starts now and what makes room, by the rules of workers/policy. Pure; time is an argument."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lab.run import experiment_of
from workers.policy import (
    USUAL,
    Decision,
    HostState,
    Preemption,
    Reason,
    Reservation,
    Running,
    Start,
    Timings,
    Waiting,
)
from workers.ranks import CLASSES, Ranks, Table, looks_due, over_share, rank, served

LOOK_SHARE = 0.5
"""Part of all cards that looks may hold at once, so that a flood of new runs cannot stop everybody else."""


def decide(
    now: float,
    waiting: Sequence[Waiting],
    running: Sequence[Running],
    hosts: Sequence[HostState],
    usage: Mapping[str, float],
    timings: Timings = USUAL,
) -> Decision:
    """What starts now and what makes room; the same input gives the same decision.

    Call it again after every change and at `look_again_at`. Cards that a preemption sets free are not handed over
    here: when they are free, the next decision gives them to whoever is first then.

    Args:
        now: seconds on the clock of all other times.
        usage: decayed GPU-seconds by user, as `Usage.at` gives them.
    """
    over = over_share(usage, {w.user for w in waiting} | {r.user for r in running})
    lent = sum(r.gpus for r in running if r.looking(now, timings))
    table, held = Table(waiting), Table(running)
    looks = looks_due(table, lent, LOOK_SHARE * sum(h.capacity for h in hosts))
    looking = np.fromiter((r.looking(now, timings) for r in running), np.bool_, len(running))
    ranks = rank(table, over, now, looks, table["served_s"])
    held_ranks = rank(held, over, now, looking, served(held, now))
    return _Round(now, table, waiting, running, hosts, ranks, held_ranks, timings).decide()


@dataclass
class _Host:
    """A host during one decision.

    Attributes:
        coming: cards that will be free in a moment and that nobody before in the order has claimed.
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
        table: Table,
        waiting: Sequence[Waiting],
        running: Sequence[Running],
        hosts: Sequence[HostState],
        ranks: Ranks,
        held: Ranks,
        timings: Timings,
    ) -> None:
        self.timings = timings
        self.now, self.waiting, self.running = now, waiting, running
        self.table, self.ranks = table, ranks
        self.order: list[int] = ranks.order.tolist()
        self.tiers: list[int] = ranks.tier.tolist()
        self.natural: list[int] = ranks.natural.tolist()
        self.held_tiers: list[int] = held.tier.tolist()
        self.held_left: list[float] = held.left_s.tolist()
        self.yields = [r.yields_at(timings) for r in running]
        self.hosts = {h.name: _Host(h.name, h.capacity, list(h.free), h.coming) for h in hosts}
        for j in reversed(held.order.tolist()):
            run, host = running[j], self.hosts.get(running[j].host)
            if host is None:
                continue
            if run.stopping:
                host.coming += run.gpus
                continue
            host.held.append(j)
            if self.yields[j] <= now:
                host.victims.append(j)
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
            if self.reservation and worst <= self.tiers[i] and not any(h.free or h.coming for h in self.hosts.values()):
                break
            hosts = [
                h for h in self.hosts.values() if h.capacity >= run.gpus and (not run.hosts or h.name in run.hosts)
            ]
            hosts = [h for h in hosts if self._leaves_reservation(i, h)]
            if self._start(i, hosts) or self._claim(i, hosts):
                continue
            if worst > self.tiers[i] and self._make_room(i, hosts):
                worst = self._worst_victim()
                failed.clear()  # a gang that made room for less than itself left cards for others
            elif self.reservation is None and self._reserve(i, hosts):
                failed.clear()
            else:
                failed.add(like)
        return Decision(
            tuple(self.starts), tuple(self.preemptions), self.reservation, tuple(self.order), self._look_again_at()
        )

    def _start(self, i: int, hosts: list[_Host]) -> bool:
        run = self.waiting[i]
        fitting = [host for host in hosts if len(host.free) >= run.gpus]
        if not fitting:
            return False
        # The fullest host that still fits it: whole hosts stay free for gangs.
        host = min(fitting, key=lambda h: (h.name != run.prefers, len(h.free)))
        self._use(i, host)
        self.started.append(i)
        self.starts.append(Start(run.id, host.name, tuple(host.free[: run.gpus])))
        del host.free[: run.gpus]
        return True

    def _claim(self, i: int, hosts: list[_Host]) -> bool:
        """True when cards that are about to be free suffice: the run waits for those."""
        run = self.waiting[i]
        host = next((h for h in hosts if len(h.free) + h.coming >= run.gpus), None)
        if host is None:
            return False
        self._use(i, host)
        host.claim(run.gpus)
        return True

    def _make_room(self, i: int, hosts: list[_Host]) -> bool:
        """True when runs of a later tier on one host were told to stop, so few cards of them as will do."""
        run = self.waiting[i]
        found = [(chosen, host) for host in hosts if (chosen := self._victims(i, host))]
        if not found:
            return False
        chosen, host = min(found, key=lambda pair: sum(self.running[j].gpus for j in pair[0]))
        self._use(i, host)
        for j in chosen:
            victim = self.running[j]
            host.victims.remove(j)
            host.held.remove(j)
            host.coming += victim.gpus
            reason = _reason(self.tiers[i], self.held_tiers[j])
            self.preemptions.append(Preemption(victim.id, run.id, reason, victim.look_ends(self.now, self.timings)))
        host.claim(run.gpus)
        return True

    def _victims(self, i: int, host: _Host) -> list[int]:
        """The last runs in the order that together make room, none without whom it would do; empty if they cannot.

        None of its own experiment and priority: the report waits for all of them, and a search wants to know what the
        first came to before it draws the next.
        """
        own = experiment_of(self.waiting[i].id), self.waiting[i].priority
        need = self.waiting[i].gpus - len(host.free) - host.coming
        chosen: list[int] = []
        for j in host.victims:
            if need <= 0 or self.held_tiers[j] <= self.tiers[i]:
                break
            if (experiment_of(self.running[j].id), self.running[j].priority) != own:
                chosen.append(j)
                need -= self.running[j].gpus
        if need > 0:
            return []
        for j in list(chosen):
            if need + self.running[j].gpus <= 0:
                chosen.remove(j)
                need += self.running[j].gpus
        return chosen

    def _reserve(self, i: int, hosts: list[_Host]) -> bool:
        """True when the run is the head of the queue now, with a time from which it could have cards of one host."""
        run = self.waiting[i]
        found = [(*when, host.name) for host in hosts if (when := self._available(i, host))]
        if not found:
            return False
        at, spare, name = min(found)
        self.reservation, self.spare = Reservation(run.id, name, at), spare
        table = self.table
        ends_at = self.now + table["p90_s"] - table["served_s"]
        stint = np.where(table["looked"] > 0, self.timings.stint_s, self.timings.look_s)
        yields_at = np.maximum(self.now + stint, table["preempted_at"] + self.timings.every_s)
        displaced = (table["can_checkpoint"] > 0) & (self.ranks.natural > self.tiers[i]) & (yields_at <= at)
        self.gone_by = ((ends_at <= at) | displaced).tolist()
        return True

    def _available(self, i: int, host: _Host) -> tuple[float, int] | None:
        """When the run could have its cards there, by medians and by who yields, and how many are left over then."""
        short = self.waiting[i].gpus - len(host.free) - host.coming
        known = sum(self.running[j].gpus for j in host.held)
        # Cards that are busy with what we know nothing of may be free at any moment.
        short -= max(0, host.capacity - known - len(host.free) - host.coming)
        leaving = sorted((self._leaves_at(i, j), self.running[j].gpus) for j in host.held)
        at = self.now
        for when, gpus in leaving:
            if short <= 0 and when > at:
                break
            at = max(at, when)
            short -= gpus
        return (at, -short) if short <= 0 and math.isfinite(at) else None

    def _leaves_at(self, i: int, j: int) -> float:
        ends_at = self.now + self.held_left[j]
        later = self.held_tiers[j] > self.tiers[i] or self.running[j].looking(self.now, self.timings)
        return max(self.now, min(ends_at, self.yields[j])) if later else ends_at

    def _leaves_reservation(self, i: int, host: _Host) -> bool:
        """True when the head of the queue would not have to wait longer if this run had cards of that host."""
        if self.reservation is None or host.name != self.reservation.host:
            return True
        return self.gone_by[i] or self.waiting[i].gpus <= self.spare

    def _use(self, i: int, host: _Host) -> None:
        if self.reservation and host.name == self.reservation.host and not self.gone_by[i]:
            self.spare -= self.waiting[i].gpus

    def _worst_victim(self) -> int:
        return max((self.held_tiers[j] for host in self.hosts.values() for j in host.victims), default=-1)

    def _look_again_at(self) -> float | None:
        if len(self.starts) == len(self.waiting):
            return None
        times = [at for at in self.yields if self.now < at < math.inf]
        times += [
            self.now + (self.timings.stint_s if self.waiting[i].looked else self.timings.look_s) for i in self.started
        ]
        times += [self.reservation.at] if self.reservation and self.reservation.at > self.now else []
        return min(times, default=None)


def _reason(tier: int, later: int) -> Reason:
    """Why a run of one tier displaces one of a later tier."""
    if tier // (4 * CLASSES) != later // (4 * CLASSES):
        return "priority"
    if tier % (4 * CLASSES) < 2 * CLASSES:
        return "first look"
    return "fair share" if tier // CLASSES != later // CLASSES else "shorter"
