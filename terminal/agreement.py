"""Whether the ledger, its leases, its queues and the run directories of this host tell the same story."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from lab import leases
from lab.ledger import RUN_ID
from lab.queue import entries
from lab.records import record_key
from lab.run import FINAL_RUN, ExperimentState, RequestState, RunState
from lab.settings import Settings
from lab.store import PREFIX, Client

OVERDUE_S = 60.0
"""The leader puts back after 20 s what has no answer and after 35 s what has no report; after this nobody leads."""
SETTLE_S = 3.0
"""Records, leases and queues are read one after the other while they move: what is seen twice, so far apart, counts."""
CHUNK = 2000
"""Commands a round trip."""
ATTEMPTED = (RunState.RUNNING, RunState.CANCELLING)
_ENTRY = re.compile(r"(exp-\d+)-(\d+)-d\d+|(exp-\d+)-report-\d+-\d+|(req-\d+)-\d+")
_NULL_BYTES = len("null")

LEADER = "`overnight up` or `overnight dispatch` puts that right within a minute; is it up?"


@dataclass(frozen=True)
class Disagreement:
    """One way in which things do not fit together, with all that it befell."""

    what: str
    subjects: tuple[str, ...]
    fix: str

    def __str__(self) -> str:
        """`finished runs without a result: 2 (exp-1/3, exp-1/4); ...`"""
        shown = ", ".join(self.subjects[:3]) + (", ..." if len(self.subjects) > 3 else "")
        return f"{self.what}: {len(self.subjects)} ({shown}); {self.fix}"


@dataclass(frozen=True)
class Held:
    """What the ledger says of a run, as far as it is needed here."""

    state: str | None
    """None where the index names a run that has no record."""
    indexed_as: str
    fence: int = 0
    host: str | None = None
    has_result: bool = False


@dataclass(frozen=True)
class Agreement:
    """What was looked at, and what does not agree."""

    n_experiments: int
    n_runs: int
    found: tuple[Disagreement, ...]


def examine(
    settings: Settings, client: Client, pause: Callable[[float], object] = time.sleep, now: float | None = None
) -> Agreement:
    """One look at everything, and a second one after SETTLE_S where something was found. Raises what Redis raises."""
    at = time.time() if now is None else now
    first = _look(settings, client, at)
    if not first.found:
        return first
    pause(SETTLE_S)
    second = _look(settings, client, at)
    before = {d.what: set(d.subjects) for d in first.found}
    lasting = [
        Disagreement(d.what, tuple(s for s in d.subjects if s in before.get(d.what, ())), d.fix) for d in second.found
    ]
    return Agreement(second.n_experiments, second.n_runs, tuple(d for d in lasting if d.subjects))


def _look(settings: Settings, client: Client, now: float) -> Agreement:
    experiments = _index(client, "experiment", ExperimentState)
    # Directories first: one that is made while the ledger is read has its run there.
    directories = list(_directories(settings.runs_dir))
    runs = _runs(client)
    found = [
        *_records(runs),
        *_results(settings, runs),
        *_unknown_directories(settings, runs, directories),
        *_leases(client, runs),
        *_requests(client, now),
        *_reports(client, now),
        *_queues(client),
    ]
    return Agreement(len(experiments), len(runs), tuple(d for d in found if d.subjects))


def _records(runs: dict[str, Held]) -> Iterator[Disagreement]:
    restore = "the store lost part of what it held: `overnight restore` brings back a backup"
    yield _said("runs in an index without a record", (i for i, r in runs.items() if r.state is None), restore)
    moved = (i for i, r in runs.items() if r.state is not None and r.state != r.indexed_as)
    yield _said("runs in the index of another state", moved, restore)


def _results(settings: Settings, runs: dict[str, Held]) -> Iterator[Disagreement]:
    """Of other hosts' runs nothing can be said here, unless their directories are shared."""
    bare = (i for i, r in runs.items() if r.state == RunState.FINISHED and not r.has_result and r.host == settings.host)
    without = (i for i in bare if not any((settings.runs_dir / i).glob("attempt-*/result.json")))
    yield _said(
        "finished runs without a result", without, "`overnight restore` brings back a backup, or ask for them again"
    )


def _unknown_directories(
    settings: Settings, runs: dict[str, Held], directories: Iterable[str]
) -> Iterator[Disagreement]:
    unknown = (i for i in directories if i not in runs)
    fix = f"they lie below {settings.runs_dir} and belong to another ledger: move them away, or restore its backup"
    yield _said("run directories of no run in this ledger", unknown, fix)


def _leases(client: Client, runs: dict[str, Held]) -> Iterator[Disagreement]:
    keys = [str(key) for key in client.scan_iter(leases.key("*"), count=5000)]
    raw = client.mget(keys) if keys else []
    held = {key: json.loads(value) for key, value in zip(keys, raw, strict=True) if value}
    stale = (
        f"{key.removeprefix(leases.key(''))} by {lease['run_id']}"
        for key, lease in held.items()
        if lease["run_id"] not in runs or runs[lease["run_id"]].state in FINAL_RUN
    )
    yield _said("cards leased by runs that have ended", stale, "the lease runs out by itself; is that worker stuck?")
    live = {(lease["run_id"], int(lease["fence"])) for lease in held.values()}
    bare = (i for i, r in runs.items() if r.state in ATTEMPTED and (i, r.fence) not in live)
    yield _said("running runs without a lease", bare, LEADER)


def _requests(client: Client, now: float) -> Iterator[Disagreement]:
    ids = client.zrangebyscore(f"{PREFIX}index:request:{RequestState.RECEIVED}", "-inf", now - OVERDUE_S)
    yield _said("requests without an answer for a minute", ids, "`overnight agent` answers them; is it up?")


def _reports(client: Client, now: float) -> Iterator[Disagreement]:
    ids = list(_index(client, "experiment", (ExperimentState.FINISHED, ExperimentState.FAILED)))
    facts = _each(client, ids, lambda pipe, key: pipe.hmget(key, "report_revision", "finished_at"))
    late = (
        i
        for i, (revision, ended) in zip(ids, facts, strict=True)
        if not int(revision or 0) and float(json.loads(ended or "null") or 0) < now - OVERDUE_S
    )
    yield _said(
        "ended experiments without a report", late, "`overnight agent` writes them; is it up? its log tells why not"
    )


def _queues(client: Client) -> Iterator[Disagreement]:
    named = [
        (f"{entry} in {queue}", _subject(entry)) for queue, waiting in entries(client).items() for entry in waiting
    ]
    known = _each(client, [subject for _, subject in named if subject], lambda pipe, key: pipe.exists(key))
    there = iter(known)
    unknown = (name for name, subject in named if not (subject and next(there)))
    yield _said(
        "queue entries that name nothing in the ledger", unknown, "they are passed over when a worker takes them"
    )


def _subject(entry: str) -> str | None:
    """`exp-12/3` of `exp-12-3-d1`, `exp-12` of `exp-12-report-1-1`, `req-7` of `req-7-1`; None for anything else."""
    match = _ENTRY.fullmatch(entry)
    if match is None:
        return None
    return f"{match[1]}/{match[2]}" if match[1] else match[3] or match[4]


def _said(what: str, subjects: Iterable[str], fix: str) -> Disagreement:
    return Disagreement(what, tuple(subjects), fix)


def _directories(runs: Path) -> Iterator[str]:
    """Run directories as run ids; those that were moved aside are named otherwise."""
    if not runs.is_dir():
        return
    for experiment in os.scandir(runs):
        if experiment.is_dir(follow_symlinks=False):
            names = (f"{experiment.name}/{entry.name}" for entry in os.scandir(experiment) if entry.is_dir())
            yield from (name for name in names if RUN_ID.match(name))


def _runs(client: Client) -> dict[str, Held]:
    indexed = _index(client, "run", RunState)
    facts = _each(client, indexed, lambda pipe, key: pipe.hmget(key, "state", "fence", "host"))
    # The length tells whether there is a result; ten thousand results themselves would be hundreds of megabytes.
    sizes = _each(client, indexed, lambda pipe, key: pipe.hstrlen(key, "result"))
    return {i: _held(state, fact, size) for (i, state), fact, size in zip(indexed.items(), facts, sizes, strict=True)}


def _held(indexed_as: str, fact: list[str | None], result_bytes: int) -> Held:
    state, fence, host = (json.loads(value) if value else None for value in fact)
    return Held(state, indexed_as, int(fence or 0), host, result_bytes > _NULL_BYTES)


def _index(client: Client, kind: str, states: Iterable[StrEnum]) -> dict[str, str]:
    """Ids of the records in these states, each with its state, all at one moment."""
    wanted = list(states)
    with client.pipeline() as pipe:
        for state in wanted:
            pipe.zrange(f"{PREFIX}index:{kind}:{state}", 0, -1)
        return {i: state.value for state, ids in zip(wanted, pipe.execute(), strict=True) for i in ids}


def _each(client: Client, ids: Iterable[str], command: Callable[[Any, str], object]) -> list[Any]:
    """The command's reply for each record, a few thousand a round trip."""
    keys, replies = [record_key(i) for i in ids], []
    for start in range(0, len(keys), CHUNK):
        with client.pipeline(transaction=False) as pipe:
            for key in keys[start : start + CHUNK]:
                command(pipe, key)
            replies += pipe.execute()
    return replies
