"""One tenant a card even while Redis is away: a lock on a file, inherited by whom it is for and freed by the kernel."""

from __future__ import annotations

import fcntl
import os
import re
import time
from pathlib import Path

import psutil

from lab.errors import CardError
from lab.processes import end_group, end_marked

POLL_S = 0.05
LET_GO_S = 1.0
"""A trainer whose group nobody had named yet is on its way out with its parent, and holds the lock that long."""


class CardLock:
    """A card's lock, held until every process that inherited it has ended.

    Its text is the process group of the holder, and below it the mark of the attempt that it runs, so that whoever
    finds it held knows whom to end.

    Args:
        folder: the data folder.
        purpose: `keeper` for the keepers' lock, which is another one than the trainers'.
    """

    def __init__(self, folder: Path, uuid: str, purpose: str = "") -> None:
        self.uuid = uuid
        name = re.sub(r"[^A-Za-z0-9._-]", "_", uuid) + (f".{purpose}" if purpose else "")
        self._path = folder / "cards" / f"{name}.lock"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, wait_s: float) -> None:
        """The card is ours.

        Raises:
            CardError: another process still holds it after `wait_s`; names who.
        """
        deadline = time.monotonic() + wait_s
        while not self._try():
            if time.monotonic() >= deadline:
                problem = f"card {self.uuid} is still held by {self.holders()}"
                self.close()
                raise CardError(problem)
            time.sleep(POLL_S)
        os.ftruncate(self.file, 0)

    def take_at_once(self) -> bool:
        """The lock is ours and names this process; False when another process has it."""
        if not self._try():
            return False
        self.name_group(os.getpid())
        return True

    def name_group(self, pgid: int, mark: str = "") -> None:
        """The file says which process group holds the card, and the mark of what descends from the same attempt."""
        os.ftruncate(self.file, 0)
        os.pwrite(self.file, f"{pgid}\n{mark}\n".encode(), 0)

    def group(self) -> int | None:
        """The process group that the file names; None when it names none."""
        return self._named()[0]

    def holders(self) -> str:
        """Who has the lock's file open besides this process, for people: `PID 4711 (python)`."""
        found = [f"PID {process.pid} ({process.name()})" for process in _having_open(self._path)]
        return ", ".join(found) or f"process group {self.group() or 'unknown'}"

    def clear(self, wait_s: float) -> bool:
        """Nobody holds the card, and nothing is left of the attempt that it names. False when something would not go.

        Killed are the group that the file names and what bears the attempt's mark in whatever session; a stranger who
        has the file open is left alone. For the host's supervisor, once the worker of the card is dead.
        """
        group, mark = self._named()
        if not self._try():
            if group is not None:
                end_group(group, grace_s=0.0, wait_s=wait_s)
            end_marked(mark, wait_s)
            deadline = time.monotonic() + LET_GO_S
            while not self._try():
                if time.monotonic() >= deadline:
                    return False
                time.sleep(POLL_S)
        elif not end_marked(mark, wait_s):
            return False
        os.ftruncate(self.file, 0)
        return True

    def close(self) -> None:
        """The lock is free, as far as this process and its children without it go."""
        os.close(self.file)

    def _named(self) -> tuple[int | None, str]:
        """Process group and mark; a file of an earlier version has the group alone."""
        lines = self._path.read_text(errors="replace").split("\n")
        group = lines[0].strip()
        return int(group) if group.isdigit() else None, lines[1] if len(lines) > 1 else ""

    def _try(self) -> bool:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _having_open(path: Path) -> list[psutil.Process]:
    """Other processes of this user that have the file open."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and any(file.path == str(path) for file in process.open_files()):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found
