"""One trainer a card even while Redis is away: a lock on a file that the trainer inherits, freed by the kernel."""

from __future__ import annotations

import fcntl
import os
import re
import time
from pathlib import Path

from lab.errors import CardError
from lab.processes import end_group

POLL_S = 0.05
LET_GO_S = 1.0
"""A trainer whose group nobody had named yet is on its way out with its parent, and holds the lock that long."""


def lock_path(folder: Path, uuid: str) -> Path:
    """The lock file of a card."""
    return folder / "cards" / f"{re.sub(r'[^A-Za-z0-9._-]', '_', uuid)}.lock"


class CardLock:
    """A card's lock, held until every process that inherited it has ended.

    Its text is the process group of the trainer, so that whoever finds it held knows whom to end.
    """

    def __init__(self, folder: Path, uuid: str) -> None:
        self.uuid = uuid
        self._path = lock_path(folder, uuid)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, wait_s: float) -> None:
        """The card is ours.

        Raises:
            CardError: another process still holds it after `wait_s`; names its process group.
        """
        deadline = time.monotonic() + wait_s
        while not self._try():
            if time.monotonic() >= deadline:
                self.close()
                raise CardError(f"card {self.uuid} is still held by process group {self.group() or 'unknown'}")
            time.sleep(POLL_S)
        os.ftruncate(self.file, 0)

    def name_group(self, pgid: int) -> None:
        """The file says which process group holds the card."""
        os.ftruncate(self.file, 0)
        os.pwrite(self.file, str(pgid).encode(), 0)

    def group(self) -> int | None:
        """The process group that the file names; None when it names none."""
        text = self._path.read_bytes()[:32].strip()
        return int(text) if text.isdigit() else None

    def clear(self, wait_s: float) -> bool:
        """Nobody holds the card: whatever group held it was killed. False when something would not go.

        For the host's supervisor, once the worker of the card is dead.
        """
        if not self._try():
            group = self.group()
            if group is not None:
                end_group(group, grace_s=0.0, wait_s=wait_s)
            deadline = time.monotonic() + LET_GO_S
            while not self._try():
                if time.monotonic() >= deadline:
                    return False
                time.sleep(POLL_S)
        os.ftruncate(self.file, 0)
        return True

    def close(self) -> None:
        """The lock is free, as far as this process and its children without it go."""
        os.close(self.file)

    def _try(self) -> bool:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
