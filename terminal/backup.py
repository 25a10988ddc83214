"""`overnight backup` and `overnight restore`: the ledger and the run directories as one archive.

A tar file, gzip inside: records.jsonl (every key of the ledger), runs/ as below the data folder, backup.json last, so
that an archive which was cut short has none.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO

from pydantic import ValidationError

from lab import snapshot, store
from lab.errors import OperatorError, StoreAwayError
from lab.ledger import Ledger
from lab.run import Record
from lab.settings import Settings

ABOUT, RECORDS, RUNS = "backup.json", "records.jsonl", "runs"
CHECKPOINTS = "checkpoints"
STAGING = "runs.restoring"
"""Folder below the data folder in which run directories are laid out before they take their place."""


class Backup(Record):
    """What an archive holds."""

    made_at: float
    keys: int
    files: int
    checkpoints: bool


def backup(settings: Settings, path: Path, *, checkpoints: bool = False) -> Backup:
    """The archive stands at `path`, whole, for its owner alone; the lab may be at work meanwhile.

    The records are those of one moment. Run directories are read after it, so that they hold at least what the
    records tell of; datasets, logs and settings are not in it.

    Args:
        checkpoints: with them, runs that had begun go on where they were; they are most of the bytes.

    Raises:
        OperatorError: there is a file already; there is nothing to back up.
        StoreAwayError: redis_url does not answer.
    """
    if path.exists():
        raise OperatorError(f"{path} exists; name another file")
    part = path.with_name(f".{path.name}.part")
    try:
        with _private(part) as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
            about = Backup(
                made_at=time.time(),
                keys=_pack_records(archive, settings),
                files=_pack_runs(archive, settings.runs_dir, checkpoints),
                checkpoints=checkpoints,
            )
            _add(archive, ABOUT, BytesIO(about.model_dump_json(indent=1).encode()))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return about


def restore(settings: Settings, path: Path) -> Backup:
    """The lab stands in this data folder (and this Redis) as it did; `overnight up` goes on from there.

    What ran then is queued again by the leader; ids and reports are the old ones.

    Raises:
        OperatorError: the folder is in use or not empty; the archive cannot be used.
    """
    if not hasattr(tarfile, "data_filter"):
        raise OperatorError("unpacking an archive safely needs Python 3.11.4 or newer")
    runs, staging = settings.runs_dir, settings.data_dir / STAGING
    if runs.exists() and any(runs.iterdir()):
        raise OperatorError(f"{runs} is not empty: restore into another data_dir, or move it away")
    with _opened(path) as archive, _server(settings, shared=False):
        raw = store.connect(settings, decode=False)
        store.check(raw, settings)
        if not snapshot.is_empty(raw):
            raise OperatorError("Redis holds a ledger already: restore into another data_dir, or an empty Redis")
        about = _about(archive, path)
        try:
            _unpack_runs(archive, staging)
            snapshot.put_back(raw, _entries(archive))
            runs.mkdir(parents=True, exist_ok=True)
            for folder in (staging / RUNS).iterdir():  # one by one: runs may be a link to a larger disk
                shutil.move(folder, runs / folder.name)
            Ledger(store.connect(settings)).moved(runs, settings.host)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return about


def _pack_records(archive: tarfile.TarFile, settings: Settings) -> int:
    with _server(settings, shared=True), tempfile.TemporaryFile() as file:
        n = 0
        for n, entry in enumerate(snapshot.take(store.connect(settings, decode=False)), start=1):  # noqa: B007
            file.write(entry.line())
        if n == 0:
            raise OperatorError(f"there is no ledger yet: nothing to back up for {settings.data_dir}")
        _add(archive, RECORDS, file)
    return n


def _pack_runs(archive: tarfile.TarFile, runs: Path, checkpoints: bool) -> int:
    """Plain files only; what vanishes meanwhile was replaced by something newer."""
    n = 0
    for folder, folders, files in os.walk(runs):
        folders[:] = sorted(name for name in folders if checkpoints or name != CHECKPOINTS)
        for name in sorted(files):
            path = Path(folder) / name
            if name.endswith(".tmp") or path.is_symlink() or not path.is_file():
                continue
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                _add(archive, f"{RUNS}/{path.relative_to(runs).as_posix()}", file)
                n += 1
    return n


def _add(archive: tarfile.TarFile, name: str, file: IO[bytes]) -> None:
    """The file as long as it is now: a log grows while it is read."""
    info = tarfile.TarInfo(name)
    info.size = file.seek(0, os.SEEK_END)
    info.mtime, info.mode = int(time.time()), 0o600
    file.seek(0)
    archive.addfile(info, file)


def _unpack_runs(archive: tarfile.TarFile, staging: Path) -> None:
    shutil.rmtree(staging, ignore_errors=True)
    (staging / RUNS).mkdir(parents=True)
    members = (member for member in archive if PurePosixPath(member.name).parts[:1] == (RUNS,))
    archive.extractall(staging, members=members, filter="data")


def _entries(archive: tarfile.TarFile) -> Iterator[snapshot.Entry]:
    lines = archive.extractfile(RECORDS)
    if lines is None:
        raise OperatorError(f"{RECORDS} of the archive is no file")
    yield from map(snapshot.Entry.parse, lines)


def _about(archive: tarfile.TarFile, path: Path) -> Backup:
    """What the archive says of itself, at its end: everything before it is there."""
    try:
        file = archive.extractfile(ABOUT)
        archive.getmember(RECORDS)
        return Backup.model_validate_json(file.read() if file else b"")
    except (KeyError, ValidationError):
        raise OperatorError(f"{path} is no whole backup of Overnight: {ABOUT} or {RECORDS} is missing") from None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    """The archive. Raises OperatorError for a file that is none, is cut short, or would write elsewhere."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            yield archive
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise OperatorError(f"{path} cannot be restored: {error}") from None


@contextlib.contextmanager
def _server(settings: Settings, *, shared: bool) -> Iterator[None]:
    """Redis answers within the block; the embedded one is started for it where nothing is up.

    Args:
        shared: False refuses an embedded one that somebody else runs.
    """
    if settings.redis_url is None and not (shared and _is_up(settings)):
        with store.embedded(settings):
            yield
    else:
        store.check(store.connect(settings), settings)
        yield


def _is_up(settings: Settings) -> bool:
    try:
        store.check(store.connect(settings), settings)
    except StoreAwayError:
        return False
    return True


@contextlib.contextmanager
def _private(path: Path) -> Iterator[IO[bytes]]:
    """A new file that its owner alone may read: it holds what people wrote."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
