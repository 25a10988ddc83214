"""Whether the ledger, its leases, its queues and the run directories of this host tell the same story."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from lab import leases
from lab.queue import entries
from lab.records import record_key
from lab.run import FINAL_RUN, RUN_ID, Experiment, ExperimentState, Record, RequestState, Run, RunState
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
RUN_FIELDS = tuple(name for name in Run.model_fields if name != "result")

R = TypeVar("R", bound=Record)

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
    """What the ledger holds under a run's id."""

    indexed_as: str
    there: bool
    run: Run | None
    """Without its result; None where this version cannot read it."""
    has_result: bool

    @property
    def state(self) -> str:
        """The record's state; the index's where there is none to be read."""
        return self.run.state.value if self.run else self.indexed_as


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
    experiments = _experiments(client)
    # Directories first: one that is made while the ledger is read has its run there.
    directories = list(_directories(settings.runs_dir))
    runs = _runs(client)
    archived = {i: e.archive.n_runs for i, e in experiments.items() if e and e.archive}
    found = [
        *_records(runs, experiments),
        *_results(settings, runs),
        *_unknown_directories(settings, runs, archived, directories),
        *_archives(settings, experiments),
        *_leases(client, runs),
        *_requests(client, now),
        *_reports(experiments, now),
        *_queues(client),
    ]
    return Agreement(len(experiments), len(runs), tuple(d for d in found if d.subjects))


def _records(runs: dict[str, Held], experiments: dict[str, Experiment | None]) -> Iterator[Disagreement]:
    restore = "the store lost part of what it held: `overnight restore` brings back a backup"
    yield _said("runs in an index without a record", (i for i, held in runs.items() if not held.there), restore)
    moved = (i for i, held in runs.items() if held.state != held.indexed_as)
    yield _said("runs in the index of another state", moved, restore)
    unread = [i for i, experiment in experiments.items() if experiment is None]
    unread += [i for i, held in runs.items() if held.there and held.run is None]
    yield _said("records that this version cannot read", unread, "upgrade this host, or restore a backup")


def _results(settings: Settings, runs: dict[str, Held]) -> Iterator[Disagreement]:
    """Of other hosts' runs nothing can be said here, unless their directories are shared."""
    ended = {i: held.run for i, held in runs.items() if held.state == RunState.FINISHED and not held.has_result}
    here = (i for i, run in ended.items() if run and run.host == settings.host)
    without = (i for i in here if not any((settings.runs_dir / i).glob("attempt-*/result.json")))
    fix = "`overnight restore` brings back a backup, or ask for them again"
    yield _said("finished runs without a result", without, fix)


def _unknown_directories(
    settings: Settings, runs: dict[str, Held], archived: Mapping[str, int], directories: Iterable[str]
) -> Iterator[Disagreement]:
    unknown = (i for i in directories if i not in runs and not _is_archived(i, archived))
    fix = f"they lie below {settings.runs_dir} and belong to another ledger: move them away, or restore its backup"
    yield _said("run directories of no run in this ledger", unknown, fix)


def _is_archived(run_id: str, archived: Mapping[str, int]) -> bool:
    experiment_id, _, number = run_id.partition("/")
    return int(number) <= archived.get(experiment_id, 0)


def _archives(settings: Settings, experiments: dict[str, Experiment | None]) -> Iterator[Disagreement]:
    """Of other hosts' files nothing can be said here."""
    here = [e for e in experiments.values() if e and e.archive and e.archive.host == settings.host]
    without = (e.id for e in here if e.archive and not Path(e.archive.file).is_file())
    fix = f"their archive.json.gz is no longer below {settings.runs_dir}: put it back, or restore a backup"
    yield _said("archived experiments without their file", without, fix)


def _leases(client: Client, runs: dict[str, Held]) -> Iterator[Disagreement]:
    keys = [str(key) for key in client.scan_iter(leases.key("*"), count=5000)]
    raw = client.mget(keys) if keys else []
    leased = {key: json.loads(value) for key, value in zip(keys, raw, strict=True) if value}
    stale = (
        f"{key.removeprefix(leases.key(''))} by {lease['run_id']}"
        for key, lease in leased.items()
        if lease["run_id"] not in runs or runs[lease["run_id"]].state in FINAL_RUN
    )
    yield _said("cards leased by runs that have ended", stale, "the lease runs out by itself; is that worker stuck?")
    live = {(lease["run_id"], int(lease["fence"])) for lease in leased.values()}
    attempted = {i: held.run for i, held in runs.items() if held.run and held.state in ATTEMPTED}
    bare = (i for i, run in attempted.items() if (i, run.fence) not in live)
    yield _said("running runs without a lease", bare, LEADER)


def _requests(client: Client, now: float) -> Iterator[Disagreement]:
    ids = client.zrangebyscore(f"{PREFIX}index:request:{RequestState.RECEIVED}", "-inf", now - OVERDUE_S)
    yield _said("requests without an answer for a minute", ids, "`overnight agent` answers them; is it up?")


def _reports(experiments: dict[str, Experiment | None], now: float) -> Iterator[Disagreement]:
    due = (ExperimentState.FINISHED, ExperimentState.FAILED)
    ended = (e for e in experiments.values() if e and e.state in due and not e.report_revision)
    late = (e.id for e in ended if (e.finished_at or 0) < now - OVERDUE_S)
    fix = "`overnight agent` writes them; is it up? its log tells why not"
    yield _said("ended experiments without a report", late, fix)


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
    # The length tells whether there is a result; ten thousand results themselves would be hundreds of megabytes.
    sizes = _each(client, indexed, lambda pipe, key: pipe.hstrlen(key, "result"))
    facts = _each(client, indexed, lambda pipe, key: pipe.hmget(key, *RUN_FIELDS))
    records = [{k: v for k, v in zip(RUN_FIELDS, fact, strict=True) if v is not None} for fact in facts]
    return {
        i: Held(state, bool(record), _parsed(Run, record), size > _NULL_BYTES)
        for (i, state), record, size in zip(indexed.items(), records, sizes, strict=True)
    }


def _experiments(client: Client) -> dict[str, Experiment | None]:
    ids = list(_index(client, "experiment", ExperimentState))
    records = _each(client, ids, lambda pipe, key: pipe.hgetall(key))
    return {i: _parsed(Experiment, record) for i, record in zip(ids, records, strict=True)}


def _parsed(cls: type[R], record: dict[str, str]) -> R | None:
    try:
        return cls.model_validate({k: json.loads(v) for k, v in record.items()})
    except ValueError:
        return None


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
