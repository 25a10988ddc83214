"""Failures that really happen, for the probe: each does what its name says, and the system answers in its own words."""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import signal
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path

OOM_LIMIT_BYTES = 2**30
"""Address space of a probe that is to run out of it; a cgroup would set its limit on memory."""
PIECE_BYTES = 2**26
NOBODY = 65_534


def oom_host(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (OOM_LIMIT_BYTES, OOM_LIMIT_BYTES))
    pieces = [bytearray(PIECE_BYTES)]
    while True:
        pieces.append(bytearray(PIECE_BYTES))


def disk_full(folder: Path) -> None:
    with Path("/dev/full").open("wb") as file:  # Linux: a device that is always full
        file.write(b"checkpoint")


def port_in_use(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        socket.create_server(("127.0.0.1", first.getsockname()[1])).close()


def network(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    urllib.request.urlopen(f"http://127.0.0.1:{port}/weights.safetensors", timeout=5)


def import_error(folder: Path) -> None:
    importlib.import_module("a_module_that_nobody_wrote")


def data_missing(folder: Path) -> None:
    (folder / "dataset" / "train" / "index.json").read_bytes()


def permission(folder: Path) -> None:
    locked = folder / "index.json"
    locked.touch(mode=0o000)
    if os.geteuid() == 0:  # who may do everything is refused nothing
        os.seteuid(NOBODY)
    locked.read_bytes()


def bad_args(folder: Path) -> None:
    parser = argparse.ArgumentParser(prog="train.py")
    parser.add_argument("--lr", type=float)
    parser.parse_args(["--lr-decay", "0.1"])


def preempted(folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def time_limit(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (0, resource.RLIM_INFINITY))
    while True:
        pass


def sigkill(folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exit_silently(folder: Path) -> None:
    os._exit(0)


FAULTS: dict[str, Callable[[Path], None]] = {
    "oom_host": oom_host,
    "disk_full": disk_full,
    "port_in_use": port_in_use,
    "network": network,
    "import_error": import_error,
    "data_missing": data_missing,
    "permission": permission,
    "bad_args": bad_args,
    "preempted": preempted,
    "time_limit": time_limit,
    "sigkill": sigkill,
    "exit_silently": exit_silently,
}
"""Name of the failure to what brings it about; given the attempt's folder, it raises or ends the process."""
