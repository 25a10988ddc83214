"""What stands in Redis, counted in one round trip and without reading records: for whoever watches the lab."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import redis
from rq import Queue

from lab import events, tally
from lab.alert import ALERTS
from lab.leader import DISPATCH, leader_key
from lab.plan import Priority
from lab.queue import AGENT
from lab.records import index_key
from lab.run import ExperimentState, RequestState, RunState
from lab.store import PREFIX, Client
from lab.tally import Tally

STATES: dict[str, type[StrEnum]] = {"request": RequestState, "experiment": ExperimentState, "run": RunState}


@dataclass(frozen=True)
class Waiting:
    """A run that waits for a card."""

    priority: Priority
    since: float


@dataclass(frozen=True)
class Census:
    """The lab in numbers."""

    states: dict[str, dict[str, int]]
    """Kind of record (`run`) to the number in each of its states."""
    waiting: tuple[Waiting, ...] = ()
    oldest_request: float | None = None
    """When the request was made that has waited longest for its answer; None when none waits."""
    leader: bool = False
    agent_queue: int = 0
    """Entries that wait for an agent's worker."""
    alerts: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By rule, severity and state."""
    unread: dict[str, int] = field(default_factory=dict)
    """Reader of the event stream to the number of events that it has yet to deal with; left out when not known."""
    tally: Tally = field(default_factory=Tally)
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    """None where Redis has no limit."""


def take(client: Client) -> Census:
    """The numbers as they are now; for a client that decodes. Raises one of store.AWAY while Redis is away."""
    with client.pipeline(transaction=False) as pipe:
        keys = [(kind, state.value) for kind, states in STATES.items() for state in states]
        for kind, state in keys:
            pipe.zcard(index_key(kind, state))
        # Priority and time of ten thousand waiting runs in 20 ms, without their records.
        queued = index_key("run", RunState.QUEUED)
        pipe.sort(queued, by="nosort", get=[f"{PREFIX}run:*->priority", f"{PREFIX}run:*->queued_at"])
        pipe.zrange(index_key("request", RequestState.RECEIVED), 0, 0, withscores=True)
        pipe.exists(leader_key(DISPATCH))
        pipe.llen(Queue.redis_queue_namespace_prefix + AGENT)
        pipe.hvals(ALERTS)
        pipe.hgetall(tally.KEY)
        pipe.info("memory")
        pipe.xinfo_groups(events.STREAM)
        replies = pipe.execute(raise_on_error=False)  # the stream is missing before the first event
    *_, groups = replies
    for reply in replies[:-1]:
        if isinstance(reply, Exception):
            raise reply
    n = len(keys)
    waiting, requests, leader, agent_queue, alerts, counts, memory = replies[n:-1]
    states: dict[str, dict[str, int]] = {kind: {} for kind in STATES}
    for (kind, state), count in zip(keys, replies, strict=False):
        states[kind][state] = count
    return Census(
        states=states,
        waiting=tuple(_waiting(waiting)),
        oldest_request=requests[0][1] if requests else None,
        leader=bool(leader),
        agent_queue=agent_queue,
        alerts=_alerts(alerts),
        unread=_unread(groups),
        tally=tally.parse(counts),
        memory_bytes=memory.get("used_memory"),
        memory_limit_bytes=memory.get("maxmemory") or None,
    )


def _waiting(found: Sequence[str | None]) -> Iterable[Waiting]:
    for priority, since in zip(found[::2], found[1::2], strict=True):
        if priority is not None and since is not None:  # else the run is gone by now
            yield Waiting(json.loads(priority), json.loads(since))


def _alerts(records: Iterable[str]) -> dict[tuple[str, str, str], int]:
    counts: dict[tuple[str, str, str], int] = {}
    for record in records:
        with contextlib.suppress(ValueError):  # of another version
            alert = json.loads(record)
            key = (str(alert.get("rule")), str(alert.get("severity")), str(alert.get("state")))
            counts[key] = counts.get(key, 0) + 1
    return counts


def _unread(groups: Any) -> dict[str, int]:
    """Events not yet delivered and those not yet acknowledged; Redis does not know the first after some trimming."""
    if isinstance(groups, redis.exceptions.ResponseError):
        return {}
    if isinstance(groups, Exception):
        raise groups
    return {group["name"]: group["lag"] + group["pending"] for group in groups if group.get("lag") is not None}
