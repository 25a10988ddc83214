"""Logging of a process: one line a transition, ids first, no user text above debug; and the log files of `up`."""

from __future__ import annotations

import logging
import os
import selectors
import sys
from collections.abc import Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path

CHUNK = 65_536
"""Bytes read at once; a line that has none of its end within so many is cut there."""


def setup(level: str, process: str) -> None:
    """Every logger of this process writes to standard error: time, level, process, message."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter(f"%(asctime)s %(levelname)-7s {process} %(message)s", datefmt="%Y-%m-%d %H:%M:%S")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("rq", "slack_bolt", "slack_sdk", "openai", "httpx", "matplotlib", "urllib3", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))


class LogFile:
    """What comes through one pipe, line by line in a file; when that is full it becomes `x.log.1`, and so on.

    One process writes it, whoever fills the pipe: a part's own children write to the same one.
    """

    def __init__(self, path: Path, max_bytes: int, keep: int) -> None:
        self._handler = _Handler(path, maxBytes=max_bytes, backupCount=keep, encoding="utf-8", errors="replace")
        self._rest = b""

    def write(self, data: bytes) -> None:
        """The whole lines of what has come so far are in the file."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > CHUNK:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._handler.emit(logging.makeLogRecord({"msg": line.decode(errors="replace")}))

    def close(self) -> None:
        """The file is complete, with the line that was begun last."""
        if self._rest:
            self.write(b"\n")
        self._handler.close()


class _Handler(RotatingFileHandler):
    _failed = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name
        """Said once: a full disk would be told of with every line."""
        if not self._failed:
            print(f"overnight: {self.baseFilename} cannot be written: {sys.exc_info()[1]}", file=sys.stderr)
        self._failed = True


def collect(files: Mapping[int, LogFile]) -> None:
    """Everything that came through the pipes (by file descriptor) is in its file, and all of them are closed."""
    with selectors.DefaultSelector() as selector:
        for pipe, file in files.items():
            selector.register(pipe, selectors.EVENT_READ, file)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, CHUNK)
                key.data.write(data)
                if not data:
                    selector.unregister(key.fd)
                    key.data.close()


def main(max_bytes: str, keep: str, *pipes: str) -> None:
    """`python -m lab.logs 10000000 5 7=/data/logs/work.log ...`: a pipe's file descriptor and its file each."""
    pairs = (pipe.split("=", 1) for pipe in pipes)
    collect({int(pipe): LogFile(Path(path), int(max_bytes), int(keep)) for pipe, path in pairs})


if __name__ == "__main__":
    main(*sys.argv[1:])
