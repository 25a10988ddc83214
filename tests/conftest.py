"""What every test may use: a real Valkey, settings on a folder of their own, and a network that is shut."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import store as stores
from lab.ledger import Ledger
from lab.settings import GpuSettings, KeeperSettings, RunSettings, Settings

SECRETS = ("OVERNIGHT_", "SLACK_", "OPENAI_")


@pytest.fixture(scope="session", autouse=True)
def _clean_environment() -> None:
    """The developer's own settings and tokens change no test and are used by none."""
    for name in [name for name in os.environ if name.startswith(SECRETS)]:
        del os.environ[name]


@pytest.fixture(scope="session", autouse=True)
def _network_shut() -> Iterator[None]:
    """Only loopback and Unix sockets can be reached."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            raise OSError(f"the tests' network is shut; {address[0]} was wanted")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


@pytest.fixture(scope="session")
def _valkey() -> Iterator[Path]:
    """The data folder of one embedded Valkey for all tests of this process; its path is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="on-", dir="/tmp"))
    try:
        with stores.embedded(Settings(data_dir=folder)):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def settings(_valkey: Path, tmp_path: Path) -> Settings:
    """Settings of a host `lab-a` with 4 simulated cards, a data folder of the test's own and the tests' Valkey."""
    return Settings(
        data_dir=tmp_path / "data",
        redis_url=f"unix://{_valkey / 'valkey' / 'valkey.sock'}",
        host="lab-a",
        gpu=GpuSettings(simulate=4),
        keeper=KeeperSettings(reading_interval_s=0.5),
        run=RunSettings(lease_s=10, renew_s=1, grace_s=2),
    )


@pytest.fixture
def store(settings: Settings) -> Iterator[stores.Client]:
    """A client of the tests' Valkey, emptied."""
    client = stores.connect(settings)
    client.flushdb()
    yield client
    client.close()


@pytest.fixture
def ledger(store: stores.Client) -> Ledger:
    """A ledger on the emptied store."""
    return Ledger(store)
