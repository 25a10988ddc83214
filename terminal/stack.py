"""All processes of Overnight on one machine: started together, restarted when they die, ended together."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from lab import hosts, store
from lab.errors import ConfigError, OperatorError
from lab.processes import die_with_parent, end_group
from lab.settings import Settings

log = logging.getLogger(__name__)

EVERYTHING = ("keep", "dispatch", "work", "agent", "bot")
RESTART_S = (0.0, 1.0, 2.0, 5.0, 10.0)
"""Pauses before the first, second, ... restart in a row; the last one for all others: people wait meanwhile."""
STEADY_S = 60.0
"""A process that lived so long begins its pauses anew."""


WRITTEN_S = 2.0
"""The process that writes the logs may just have been started."""
LOGS_END_S = 10.0


@dataclass
class _Part:
    name: str
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    due: float = 0.0


@dataclass
class Stack:
    """The processes of one machine, for `with`; the embedded Valkey among them where no redis_url is set.

    Args:
        names: commands of `overnight` to run, of EVERYTHING.
        environ: what the children get besides this process's environment; None for a value removes it.

    Each writes to `logs/<name>.log` below the data folder, through a pipe and one process that rotates all of them, and
    ends with this process however that ends (Linux).
    """

    settings: Settings
    names: Sequence[str] = EVERYTHING
    environ: Mapping[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._parts = [_Part(name) for name in self.names]
        self._pipes: dict[str, tuple[int, int]] = {}
        """By part: where its log is read and where it is written."""
        self._collector: subprocess.Popen[bytes] | None = None
        self._exit = contextlib.ExitStack()
        self._logs = self.settings.data_dir / "logs"
        self._valkey: store.Embedded | None = None

    def __enter__(self) -> Stack:
        with contextlib.ExitStack() as starting:
            try:
                self._logs.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._logs.mkdir(exist_ok=True, mode=0o700)
            except OSError as error:
                raise ConfigError("data_dir", f"{self._logs} cannot be made: {error.strerror}") from None
            if self.settings.redis_url is None:
                self._valkey = starting.enter_context(store.embedded(self.settings))
            self.client = store.connect(self.settings)
            store.check(self.client, self.settings)
            self._pipes = {name: os.pipe() for name in self.names}
            starting.callback(self._end_logs)
            starting.callback(self._stop)
            self.step()
            self._exit = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def step(self) -> None:
        """Every part runs or waits for its restart; called about once a second."""
        if self._valkey is not None:
            self._valkey.revive()
        self._collect_logs()
        now = time.monotonic()
        for part in self._parts:
            if part.process is not None and part.process.poll() is not None:
                self._note_death(part, part.process.returncode, now)
            if part.process is None and now >= part.due:
                self._start(part, now)

    def wait_ready(self, timeout_s: float, cards: int = 1, *, measured: bool = False) -> None:
        """This machine's host is up with a worker for at least so many cards; its speed is measured too if asked.

        Raises:
            OperatorError: it is not within `timeout_s`; names what is missing and the log to read.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.step()
            host = next((h for h in hosts.hosts(self.client) if h.host == self.settings.host), None)
            if host is not None and len(host.cards) >= cards and (host.speed_flops or not measured):
                return
            time.sleep(0.1)
        raise OperatorError(f"no worker came up within {timeout_s:.0f} s; {self._complaint()}")

    def log_path(self, name: str) -> Path:
        """Where a part writes its log."""
        return self._logs / f"{name}.log"

    def _complaint(self) -> str:
        for name in ("keep", "work"):
            last = _last(self.log_path(name))
            if "ERROR" in last or "WARNING" in last:
                return f"{self.log_path(name)} ends with: {last}"
        return f"see {self._logs}"

    def _start(self, part: _Part, now: float) -> None:
        environ = {**os.environ, **{k: v for k, v in self.environ.items() if v is not None}}
        for key, value in self.environ.items():
            if value is None:
                environ.pop(key, None)
        part.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "overnight", part.name],  # no folder here named overnight stands in front
            stdin=subprocess.DEVNULL,
            stdout=self._pipes[part.name][1],
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends the others in order
            preexec_fn=die_with_parent,
        )
        part.started = now

    def _collect_logs(self) -> None:
        """The process that writes the logs runs; should it die, what is in the pipes waits there for the next one."""
        if self._collector is not None and self._collector.poll() is None:
            return
        readers = {name: reader for name, (reader, _) in self._pipes.items()}
        limits = [str(round(self.settings.logs.max_mb * 1_000_000)), str(self.settings.logs.keep)]
        self._collector = subprocess.Popen(
            [
                *[sys.executable, "-P", "-m", "lab.logs", *limits],
                *[f"{reader}={self.log_path(name)}" for name, reader in readers.items()],
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=tuple(readers.values()),
            start_new_session=True,  # it ends when nobody can write any more, which is after all others
        )

    def _end_logs(self) -> None:
        """What the parts wrote last is in their files."""
        for _, writer in self._pipes.values():
            os.close(writer)
        if self._collector is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._collector.wait(LOGS_END_S)
            self._collector.kill()
            self._collector.wait()
        for reader, _ in self._pipes.values():
            os.close(reader)

    def _note_death(self, part: _Part, code: int, now: float) -> None:
        part.deaths = 0 if now - part.started > STEADY_S else part.deaths
        pause = RESTART_S[min(part.deaths, len(RESTART_S) - 1)]
        part.deaths += 1
        part.process, part.due = None, now + pause
        path = self.log_path(part.name)
        self._wait_written(part.name)
        log.error(
            "%s ended with %d, starts again in %.0f s; %s ends with: %s", part.name, code, pause, path, _last(path)
        )

    def _wait_written(self, name: str) -> None:
        """What the part wrote is in its file, if that takes no longer than usual."""
        reader, _ = self._pipes[name]
        deadline = time.monotonic() + WRITTEN_S
        while select.select([reader], [], [], 0)[0] and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)  # from the pipe into the file

    def _stop(self) -> None:
        """The host of the trainers has the settings' grace, the others end at once."""
        running = [part for part in reversed(self._parts) if part.process is not None]
        for part in running:
            assert part.process is not None
            with contextlib.suppress(ProcessLookupError):
                part.process.terminate()
        for part in running:
            assert part.process is not None
            grace = self.settings.run.grace_s + 15 if part.name == "work" else 10.0
            try:
                part.process.wait(grace)
            except subprocess.TimeoutExpired:
                log.warning("%s did not end within %.0f s and is killed", part.name, grace)
            end_group(part.process.pid, 0.0)
            part.process.wait()


def _last(log_file: Path) -> str:
    """The last line of a log, cut to what a terminal shows; `nothing` when there is none."""
    if not log_file.exists():
        return "nothing"
    with log_file.open("rb") as file:
        file.seek(max(0, log_file.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "nothing")
