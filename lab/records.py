"""Records in Redis and how they move: by compare-and-set, with their index and their event in one transaction.

A record is a hash with one JSON value a field; fields that this version does not know are left alone. A move is one
transaction (WATCH, MULTI); a concurrent writer makes it start over with what that one wrote.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, TypeVar

from redis.client import Pipeline

from lab import events
from lab.errors import UnknownRecord
from lab.events import Event
from lab.run import Experiment, Record, Request, Run
from lab.store import PREFIX, Client

log = logging.getLogger(__name__)

R = TypeVar("R", bound=Record)
T = TypeVar("T")
M = TypeVar("M", Request, Experiment, Run)


class Records:
    """The floor of the ledger, for its own use: reads, creates and moves records."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._unreadable: set[str] = set()

    def _next(self, kind: str) -> str:
        return f"{kind}-{self.client.incr(f'{PREFIX}seq:{kind}')}"

    def _transact(self, write: Callable[[Pipeline], T], *keys: str) -> T:
        done: T = self.client.transaction(write, *keys, value_from_callable=True)
        return done

    def _create(self, pipe: Pipeline, record: Request | Experiment | Run, created_at: float) -> None:
        pipe.hset(record_key(record.id), mapping=_dump(record))
        pipe.zadd(_index(record, record.state), {record.id: created_at})
        if not isinstance(record, Request):
            self._event(pipe, _kind(record, record.state), record, {})

    def _move(self, pipe: Pipeline, record: M, state: StrEnum, data: dict[str, Any] | None = None, **fields: Any) -> M:
        """State, index and event go into the transaction; returns the record as it will be."""
        moved = record.model_copy(update={"state": state, **fields})
        written = _dump(moved)
        pipe.hset(record_key(record.id), mapping={k: written[k] for k in ("state", *fields)})
        pipe.zrem(_index(record, record.state), record.id)
        pipe.zadd(_index(record, state), {record.id: age(record)})
        self._event(pipe, _kind(record, state), moved, data or {})
        return moved

    def _set(self, pipe: Pipeline, record: M, **fields: Any) -> M:
        """Fields go into the transaction, the state stays; returns the record as it will be."""
        changed = record.model_copy(update=fields)
        written = _dump(changed)
        pipe.hset(record_key(record.id), mapping={name: written[name] for name in fields})
        return changed

    def _event(self, pipe: Pipeline, kind: str, record: Any, data: dict[str, Any]) -> None:
        events.write(pipe, Event(kind=kind, subject=record.id, conversation=record.conversation, data=data))

    def _read(self, cls: type[R], record_id: str, client: Any = None) -> R:
        found = (client or self.client).hgetall(record_key(record_id))
        if not found:
            raise UnknownRecord(record_id)
        return load(cls, found)

    def _read_many(self, cls: type[R], ids: list[str]) -> list[R]:
        with self.client.pipeline(transaction=False) as pipe:
            for record_id in ids:
                pipe.hgetall(record_key(record_id))
            loaded = [self._readable(cls, i, found) for i, found in zip(ids, pipe.execute(), strict=True) if found]
        return [record for record in loaded if record is not None]

    def _readable(self, cls: type[R], record_id: str, found: dict[str, str]) -> R | None:
        """The record; None, with one line in the log, where it cannot be read: the others must not wait for it."""
        try:
            return load(cls, found)
        except ValueError as error:
            if record_id not in self._unreadable:
                log.error("%s cannot be read and is passed over: %s", record_id, str(error).splitlines()[0])
            self._unreadable.add(record_id)
            return None

    def _all(self, cls: type[M], states: Iterable[StrEnum]) -> list[M]:
        wanted = tuple(states)
        # A record may move between the index and the read; what it is now decides.
        found = [r for r in self._read_many(cls, self._ids(cls, wanted)) if r.state in wanted]
        return sorted(found, key=age)

    def _ids(self, cls: type[M], states: Iterable[StrEnum]) -> list[str]:
        """Ids of the records that the index has in the states; those of one state oldest first."""
        name = cls.__name__.lower()
        return [i for state in states for i in self.client.zrange(index_key(name, state), 0, -1)]


def age(record: Request | Experiment | Run) -> float:
    """The index is ordered by age; a run's age begins when it was first queued."""
    return record.queued_at if isinstance(record, Run) else record.created_at


def record_key(record_id: str) -> str:
    """Redis key of a record by its id: `exp-12`, `exp-12/3`, `req-7`."""
    kind = "run" if "/" in record_id else record_id.split("-")[0]
    return f"{PREFIX}{kind}:{record_id}"


def index_key(kind: str, state: str) -> str:
    """Redis key of the ids of all records of a kind (`run`) that are in a state, ordered by age."""
    return f"{PREFIX}index:{kind}:{state}"


def _index(record: Any, state: Any) -> str:
    return index_key(type(record).__name__.lower(), state)


def _kind(record: Any, state: Any) -> str:
    return f"{type(record).__name__.lower()}.{state}"


def _dump(record: Record) -> dict[str, str]:
    return {k: json.dumps(v, ensure_ascii=False) for k, v in record.model_dump(mode="json").items()}


def load(cls: type[R], found: dict[str, str]) -> R:
    """The record of a hash's fields. Raises ValueError where this version cannot read it."""
    return cls.model_validate_json("{" + ",".join(f"{json.dumps(k)}:{v}" for k, v in found.items()) + "}")
