"""Old experiments in files: their runs and reports leave Redis for one file each, and are read there when asked for.

The experiment's own record and its counts stay, so that it stays listed and can be asked about, run again or retried.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from redis.client import Pipeline

from lab import reuse
from lab.errors import OperatorError, UnknownRecord
from lab.files import replace_file
from lab.records import index_key, load, record_key
from lab.run import FINAL_RUN, RUN_ID, Archive, Experiment, ExperimentState, Run, experiment_of
from lab.runs import counts_key, report_key
from lab.store import PREFIX, Client
from lab.wishes import Wishes

ARCHIVED = f"{PREFIX}archived"
"""Redis key of the archived experiments, ordered by when the last run of each ended."""
NAME = "archive.json.gz"
ENDED = (ExperimentState.FINISHED, ExperimentState.FAILED, ExperimentState.CANCELLED)
FIELDS = ("archive", "n_runs", "n_retried", "approved_at")


class NotHereError(OperatorError):
    """An archived experiment's file cannot be read on this machine."""

    def __init__(self, experiment_id: str, archive: Archive, why: str) -> None:
        super().__init__(f"the runs of {experiment_id} are archived in {archive.file} of {archive.host}: {why}")


class Archives(Wishes):
    """The part of the ledger that moves old experiments to files and reads them there."""

    def to_archive(self, before: float) -> list[str]:
        """Experiments with runs in Redis that were proposed before that time and have ended, the oldest first."""
        ids = [i for s in ENDED for i in self.client.zrangebyscore(index_key("experiment", s), "-inf", before)]
        with self.client.pipeline(transaction=False) as pipe:
            for experiment_id in ids:
                pipe.hmget(record_key(experiment_id), FIELDS)
            found = [[json.loads(value or "null") for value in values] for values in pipe.execute()]
        return [i for i, fields in zip(ids, found, strict=True) if _has_runs(*fields)]

    def archive(self, experiment_id: str, runs_dir: Path, host: str, before: float) -> bool:
        """The experiment's runs and reports stand in its file and no longer in Redis; False if it is not old enough.

        Args:
            runs_dir: its file lies below it, among the experiment's run directories.
            host: this machine.
            before: nothing of it may have ended later.

        Raises:
            OSError: the file cannot be written; nothing was changed.
            NotHereError: it has one already, with earlier runs, which is on another machine.
            ValueError: a record of it is one that this version cannot read.
        """

        def write(pipe: Pipeline) -> bool:
            experiment = self._read(Experiment, experiment_id, pipe)
            numbers = range(1, experiment.total_runs + 1)
            raw = {f"{experiment_id}/{n}": pipe.hgetall(record_key(f"{experiment_id}/{n}")) for n in numbers}
            runs = [load(Run, fields) for fields in raw.values() if fields]
            ends = [run.finished_at or 0.0 for run in runs]
            if experiment.state not in ENDED or not runs or any(run.state not in FINAL_RUN for run in runs):
                return False
            if max(ends) >= before:
                return False
            earlier = _document(experiment) if experiment.archive else {"runs": {}, "reports": {}}
            reports = pipe.hgetall(report_key(experiment_id))
            document = {
                "experiment": pipe.hgetall(record_key(experiment_id)),
                "runs": earlier["runs"] | {i: fields for i, fields in raw.items() if fields},
                "reports": earlier["reports"] | reports,
            }
            file = runs_dir / experiment_id / NAME
            replace_file(file, gzip.compress(json.dumps(document, ensure_ascii=False).encode(), compresslevel=6))
            archive = Archive(host=host, file=str(file), n_runs=experiment.total_runs)
            reusable = reuse.entries(pipe, runs)
            pipe.multi()
            self._set(pipe, experiment, archive=archive)
            pipe.zadd(ARCHIVED, {experiment_id: max(ends)})
            pipe.delete(report_key(experiment_id))
            if reusable:
                pipe.hdel(reuse.INDEX, *reusable)
            for run in runs:
                pipe.delete(record_key(run.id), f"{PREFIX}progress:{run.id}")
                pipe.zrem(index_key("run", run.state), run.id)
            return True

        return self._transact(write, record_key(experiment_id), counts_key(experiment_id))

    def run(self, run_id: str) -> Run:
        """The run, from its experiment's file where it is archived. Raises UnknownRecord, NotHereError."""
        try:
            return super().run(run_id)
        except UnknownRecord:
            if not RUN_ID.match(run_id):
                raise
            found = {run.id: run for run in archived_runs(self._read(Experiment, experiment_of(run_id)))}
            if run_id not in found:
                raise
            return found[run_id]

    def moved(self, runs_dir: Path, host: str) -> None:
        """Files that are below this folder now, after a restore, are looked for there."""
        for experiment_id in self.client.zrange(ARCHIVED, 0, -1):
            experiment = self._read(Experiment, experiment_id)
            file = runs_dir / experiment_id / NAME
            if experiment.archive is not None and file.is_file():
                there = experiment.archive.model_copy(update={"host": host, "file": str(file)})
                self.client.hset(record_key(experiment_id), "archive", there.model_dump_json())


def archived_runs(experiment: Experiment) -> list[Run]:
    """The runs in the experiment's file by number; none where it has no file. Raises NotHereError."""
    if experiment.archive is None:
        return []
    runs = [load(Run, fields) for fields in _document(experiment)["runs"].values()]
    return sorted(runs, key=lambda run: run.number)


def archived_report(experiment: Experiment, revision: int) -> str | None:
    """The report's JSON in the experiment's file; None where it is not there. Raises NotHereError."""
    if experiment.archive is None:
        return None
    found: str | None = _document(experiment)["reports"].get(str(revision))
    return found


def archived_since(client: Client, since: float) -> Iterator[Run]:
    """The archived runs that ended at `since` or later. Raises NotHereError."""
    for experiment_id in client.zrangebyscore(ARCHIVED, since, "+inf"):
        experiment = load(Experiment, client.hgetall(record_key(experiment_id)))
        yield from (run for run in archived_runs(experiment) if (run.finished_at or 0.0) >= since)


def _has_runs(archive: dict[str, Any] | None, n_runs: int, n_retried: int | None, approved_at: float | None) -> bool:
    return approved_at is not None and (archive or {}).get("n_runs", 0) < n_runs + (n_retried or 0)


def _document(experiment: Experiment) -> dict[str, Any]:
    assert experiment.archive is not None
    try:
        document: dict[str, Any] = json.loads(gzip.decompress(Path(experiment.archive.file).read_bytes()))
    except OSError as error:
        raise NotHereError(experiment.id, experiment.archive, error.strerror or str(error)) from None
    except (EOFError, ValueError, zlib.error) as error:
        raise NotHereError(experiment.id, experiment.archive, f"it is damaged ({error})") from None
    return document
