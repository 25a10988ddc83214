"""Where each waiting run stands, and when it may start."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from workers.decision import LOOK_SHARE
from workers.policy import LOOK_S, Decision, HostState, Running, Waiting
from workers.ranks import Table, remaining_p50, served

ESTIMATED = 200
"""Runs at the front of the queue whose start is estimated one by one."""


class Place(NamedTuple):
    """Where a waiting run stands: 1 is next; `starts_at` is a guess that counts on preemption for first looks only."""

    position: int
    starts_at: float


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
    table = Table([waiting[i] for i in decision.order])
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
    table = Table(running)
    left = remaining_p50(table["p50_s"], table["p90_s"], served(table, now)).tolist()
    lanes = [now + left_s for run, left_s in zip(running, left, strict=True) for _ in run.cards][:cards]
    lanes += [now] * (cards - len(lanes))
    heapq.heapify(lanes)
    return lanes
