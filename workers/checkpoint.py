"""Checkpoints that survive a kill: a file is either whole under its final name or not there at all."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

from lab.files import sync_folder

log = logging.getLogger(__name__)

T = TypeVar("T")

KEEP_LAST = 2
"""Newest checkpoints kept: one may turn out damaged after a power cut, two in a row hardly."""

_NAME = re.compile(r"(?P<kind>step|best)-(?P<step>\d{9})\.(?P<digest>[0-9a-f]{16})\.(?P<suffix>\w+)")


class UnfitCheckpoint(ValueError):
    """A whole checkpoint that is of another run or another shape; the reader says why."""


class Writable(Protocol):
    """All that a writer of checkpoints may use of its file: bytes in order, no seeking back."""

    def write(self, data: Any, /) -> int: ...

    def flush(self) -> None: ...


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """A checkpoint that was found whole.

    Attributes:
        passed_over: newer ones that cannot be continued, each with the reason.
    """

    path: Path
    step: int
    state: T
    passed_over: tuple[str, ...] = ()


class _Hashing:
    """A file that takes the digest of what is written to it, so that a checkpoint is not read again to check it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: Any, /) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def save(folder: Path, step: int, write: Callable[[Writable], None], *, suffix: str, best: bool = False) -> Path:
    """The state that `write` puts out is on disk as the checkpoint of `step`; the two newest and the best remain.

    The name carries the first 16 hex digits of the content's SHA-256: one rename makes content and checksum appear
    together. `best` gives the checkpoint a second name that outlives the newer ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".step-{step:09d}.{os.getpid()}.tmp"
    with temporary.open("wb") as file:
        hashing = _Hashing(file)
        write(hashing)
        file.flush()
        os.fsync(file.fileno())
    digest = hashing.digest.hexdigest()[:16]
    path = folder / f"step-{step:09d}.{digest}.{suffix}"
    os.replace(temporary, path)
    if best:
        _name_best(path, folder / f"best-{step:09d}.{digest}.{suffix}")
    sync_folder(folder)
    _prune(folder)
    return path


def load_newest(folder: Path, read: Callable[[Path], T]) -> Loaded[T] | None:
    """The newest whole checkpoint that fits, None without one; others are passed over with a line in the log.

    Args:
        read: raises UnfitCheckpoint for one that cannot be continued.
    """
    passed_over: list[str] = []
    for path, step, digest in _found(folder):
        actual = _digest(path)
        if actual != digest:
            why = f"is damaged or cut short ({path.stat().st_size} bytes, checksum {actual} instead of {digest})"
        else:
            try:
                return Loaded(path, step, read(path), tuple(passed_over))
            except UnfitCheckpoint as reason:
                why = f"does not fit: {reason}"
        passed_over.append(f"checkpoint {path.name} {why}")
        log.warning("%s; trying the one before", passed_over[-1])
    return None


def newest_whole(folder: Path) -> int | None:
    """Step of the newest checkpoint that is whole; None when the folder has none."""
    return next((step for path, step, digest in _found(folder) if _digest(path) == digest), None)


def _found(folder: Path) -> list[tuple[Path, int, str]]:
    """Checkpoints by falling step; of two names for the same one, the first comes first."""
    matches = [(path, _NAME.fullmatch(path.name)) for path in folder.glob("*-*.*.*")]
    found = [(path, int(m["step"]), m["digest"]) for path, m in matches if m]
    return sorted(found, key=lambda entry: (entry[1], entry[0].name), reverse=True)


def _prune(folder: Path) -> None:
    steps = [path for path, _, _ in _found(folder) if path.name.startswith("step-")]
    bests = [path for path, _, _ in _found(folder) if path.name.startswith("best-")]
    for path in [*steps[KEEP_LAST:], *bests[1:], *folder.glob(".step-*.tmp")]:
        path.unlink(missing_ok=True)


def _name_best(path: Path, best: Path) -> None:
    try:
        os.link(path, best)
    except FileExistsError:
        return
    except OSError:  # file systems without hard links: exFAT, some network mounts
        temporary = best.with_name(f".{best.name}.{os.getpid()}.tmp")
        shutil.copyfile(path, temporary)
        os.replace(temporary, best)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
