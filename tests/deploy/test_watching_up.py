"""A real Prometheus over a running `overnight up`: what the dashboard asks is answered by a lab at work."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.simulator import Simulator
from lab import hosts, store
from lab.errors import OperatorError
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer
from lab.settings import Settings
from tests.deploy.test_watching import ask, dashboard_queries, run_prometheus, tool

ROOT = Path(__file__).parents[2]
NOT_HERE = frozenset(
    {
        "Alerts by rule A",
        "Attempts an hour that went wrong, by cause A",
        "Energy a day, of runs where it is known A",
        "Language model: calls and cost a day B",
        "Memory of Redis B",
        "PCIe, to and from the card A",
        "PCIe, to and from the card B",
        "Power A",
        "Cards held by runs C",
        "Cards held by runs D",
        "Cards held by runs E",
    }
)
"""Panels that may be empty: simulated cards tell neither power nor PCIe, none is lost, nothing went wrong, and no
model has a price."""


@pytest.fixture
def prometheus() -> Iterator[tuple[str, Ledger]]:
    """Address of a Prometheus that scrapes `overnight up` on three simulated cards, and the lab's ledger."""
    tool("prometheus")
    port = free_port()
    with (
        tempfile.TemporaryDirectory(prefix="on-", dir="/tmp", ignore_cleanup_errors=True) as name,
        Simulator() as slack,
    ):
        folder = Path(name)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": name,
            "OVERNIGHT_DATA_DIR": name,
            "OVERNIGHT_HOST": "lab-a",
            "OVERNIGHT_GPU__SIMULATE": "3",
            "OVERNIGHT_METRICS__PORT": str(port),
            "OVERNIGHT_SLACK__BOT_TOKEN": slack.bot_token,
            "OVERNIGHT_SLACK__APP_TOKEN": slack.app_token,
            "OVERNIGHT_SLACK__API_URL": slack.api_url,
        }
        with (folder / "up.log").open("w") as log:
            up = subprocess.Popen([sys.executable, "-m", "overnight", "up"], cwd=ROOT, env=environ, stderr=log)
        try:
            client = store.connect(Settings(data_dir=folder))
            until(lambda: any(host.cards for host in hosts.hosts(client)), folder / "up.log")
            with run_prometheus(f"127.0.0.1:{port}", folder) as address:
                yield address, Ledger(client)
        finally:
            up.terminate()
            try:
                up.wait(30)
            except subprocess.TimeoutExpired:
                up.kill()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def until(true: Callable[[], Any], log: Path | None = None, timeout_s: float = 90.0) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, OperatorError, *store.AWAY):  # not up yet
            if true():
                return
        time.sleep(0.3)
    raise AssertionError(log.read_text()[-2000:] if log else "it did not happen in time")


def test_every_query_of_the_dashboard_is_answered_by_a_lab_at_work(prometheus: tuple[str, Ledger]) -> None:
    """From readings, dispatch and a worker to the panel: each figure has its writer, its name and its labels."""
    address, ledger = prometheus
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request is not None
    plan = Plan(template="probe", models=("probe",), axes={"seed": (0, 1, 2, 3)})
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment is not None
    until(lambda: ask(address, 'overnight_host_readable{host="lab-a"} == 1'))
    ledger.approve(experiment.id, "U1")
    until(lambda: ask(address, 'overnight_runs{state="finished"} == 4'))

    time.sleep(2)  # some scrapes more, for what counts increases

    empty = {title for title, expr in dashboard_queries().items() if not ask(address, expr)}
    assert empty <= NOT_HERE
    assert ask(address, 'overnight_keeper_info{host="lab-a", state="holding"}')
