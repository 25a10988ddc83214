"""The event stream: every change of state, in order, for whoever speaks or acts on it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import redis
from redis.client import Pipeline

from lab.run import Record
from lab.store import PREFIX, Client

STREAM = PREFIX + "events"
MAX_LENGTH = 100_000
"""Entries kept at most; a courier that far behind has been down for weeks."""


class Event(Record):
    """A change of state of one record."""

    id: str = ""
    """The stream's entry id; `""` until it is written."""
    kind: str
    """`request.answered`, `plan.proposed`, `experiment.approved`, `run.finished`, `report.ready`, ..."""
    subject: str
    """Id of the record: `req-7`, `exp-12`, `exp-12/3`."""
    conversation: str = ""
    data: dict[str, Any] = {}
    at: float = 0.0


def write(pipe: Pipeline, event: Event) -> None:
    """Appends the event when the pipeline's transaction runs, so that status and event are written together."""
    fields = event.model_dump(exclude={"id"}, mode="json")
    fields["data"] = json.dumps(fields["data"], ensure_ascii=False)
    fields["at"] = event.at or time.time()
    pipe.xadd(STREAM, fields, maxlen=MAX_LENGTH, approximate=True)


def parse(entry_id: str, fields: dict[str, str]) -> Event:
    """The event of a stream entry."""
    return Event.model_validate({**fields, "id": entry_id, "data": json.loads(fields.get("data") or "{}")})


def newest_id(client: Client) -> str:
    """Id of the last entry, from which a follower that wants only news starts; `0` when there is none."""
    last = client.xrevrange(STREAM, count=1)
    return str(last[0][0]) if last else "0"


def wait(client: Client, after: str, block_ms: int = 1000) -> str:
    """Returns as soon as there is an entry newer than `after`, or after `block_ms`; gives the newest entry's id."""
    return newest_id(client) if client.xread({STREAM: after}, count=1, block=block_ms) else after


def follow(client: Client, after: str, block_ms: int = 1000) -> Iterator[Event | None]:
    """Every event after entry `after`, then each new one; yields None whenever `block_ms` pass without one.

    Each follower sees every event; nothing is acknowledged. For work that must survive a restart use `Consumer`.
    """
    while True:
        reply = client.xread({STREAM: after}, count=200, block=block_ms)
        if not reply:
            yield None
            continue
        for entry_id, fields in _entries(reply):
            after = entry_id
            yield parse(entry_id, fields)


class Consumer:
    """A named reader whose place in the stream survives its restart; an event not acknowledged comes again."""

    def __init__(self, client: Client, group: str) -> None:
        self.client = client
        self.group = group
        self._pending = True
        self._ensure()

    def _ensure(self) -> None:
        try:
            self.client.xgroup_create(STREAM, self.group, id="0", mkstream=True)
        except redis.exceptions.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def read(self, block_ms: int = 1000, count: int = 50) -> list[Event]:
        """The next events: first those read before a restart and never acknowledged, then new ones."""
        try:
            if self._pending:
                entries = _entries(self.client.xreadgroup(self.group, "one", {STREAM: "0"}, count=count))
                if entries:
                    return [parse(i, f) for i, f in entries if f]
                self._pending = False
            reply = self.client.xreadgroup(self.group, "one", {STREAM: ">"}, count=count, block=block_ms)
        except redis.exceptions.ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self._ensure()
            return []
        return [parse(i, f) for i, f in _entries(reply)]

    def again(self) -> None:
        """The next read begins with what was read and not acknowledged."""
        self._pending = True

    def acknowledge(self, event: Event) -> None:
        """The event is done with and does not come again."""
        self.client.xack(STREAM, self.group, event.id)


def _entries(reply: Any) -> list[tuple[str, dict[str, str]]]:
    """The entries of one stream from an XREAD reply, whichever shape (RESP2 list or RESP3 map) the client gives."""
    if not reply:
        return []
    if isinstance(reply, dict):
        chunks = next(iter(reply.values()))
        return [entry for chunk in chunks for entry in (chunk if isinstance(chunk, list) else [chunk])]
    return list(reply[0][1])
