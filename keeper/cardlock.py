"""One keeper a card: a lock on a file, released by the kernel however its holder ends."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path


class CardLock:
    """A card's lock below the data folder, beside the trainers' one; the file's text says who holds it."""

    def __init__(self, folder: Path, uuid: str) -> None:
        self._path = folder / "cards" / f"{re.sub(r'[^A-Za-z0-9._-]', '_', uuid)}.keeper.lock"
        self._file: int | None = None

    def take(self) -> int | None:
        """None when the lock is ours now, else the process id of its holder (0 when that is unknown)."""
        if self._file is not None:
            return None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 32).strip()
            os.close(file)
            return int(holder) if holder.isdigit() else 0
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        self._file = file
        return None

    def release(self) -> None:
        """The lock is free; harmless when it was not ours."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None
