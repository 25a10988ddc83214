"""The event stream: every change of state, in order, for whoever speaks or acts on it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import redis
from redis.client import Pipeline

from lab.run import Record
from lab.store import PREFIX, Client

log = logging.getLogger(__name__)

STREAM = PREFIX + "events"
MAX_LENGTH = 100_000
"""Entries kept at most; a courier that far behind has been down for weeks."""
PAGE = 1000
"""Entries asked for at once."""


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


def _readable(entry_id: str, fields: dict[str, str] | None) -> Event | None:
    """The event; None, with a line in the log, for one of another version or one that the stream has dropped."""
    try:
        return parse(entry_id, fields or {})
    except ValueError as error:
        log.error("event %s cannot be read and is passed over: %s", entry_id, str(error).splitlines()[0])
        return None


def newest_id(client: Client) -> str:
    """Id of the last entry, from which a follower that wants only news starts; `0` when there is none."""
    last = client.xrevrange(STREAM, count=1)
    return str(last[0][0]) if last else "0"


def since(client: Client, after: str, count: int) -> list[Event]:
    """The next events after entry `after`, at most `count` of them, without waiting."""
    entries = client.xrange(STREAM, min=f"({after}", count=count)
    return [event for entry_id, fields in entries if (event := _readable(entry_id, fields)) is not None]


def changed(client: Client, after: str) -> tuple[str, set[str]] | None:
    """Id of the newest entry, and the records that have had events since entry `after`.

    None where the stream does not hold that entry (any more): then anything may have changed.
    """
    subjects: set[str] = set()
    while True:
        page = client.xrange(STREAM, min=after, count=PAGE)
        if not page or page[0][0] != after:
            return None
        subjects.update(fields.get("subject", "") for _, fields in page[1:])
        after = str(page[-1][0])
        if len(page) < PAGE:
            return after, subjects


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
            event = _readable(entry_id, fields)
            if event is not None:
                yield event


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
                    return self._readable(entries)
                self._pending = False
            reply = self.client.xreadgroup(self.group, "one", {STREAM: ">"}, count=count, block=block_ms)
        except redis.exceptions.ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self._ensure()
            return []
        return self._readable(_entries(reply))

    def _readable(self, entries: list[tuple[str, dict[str, str]]]) -> list[Event]:
        """The events; an entry that cannot be read is done with, or it would come again for ever and hide the rest."""
        found = {entry_id: _readable(entry_id, fields) for entry_id, fields in entries}
        lost = [entry_id for entry_id, event in found.items() if event is None]
        if lost:
            self.client.xack(STREAM, self.group, *lost)
        return [event for event in found.values() if event is not None]

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
