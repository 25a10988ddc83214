"""A lab whose Valkey hangs for longer than a lease loses nothing and doubles nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.outage import FAULTS

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(180)
def test_trainers_stop_themselves_before_their_lease_ends_and_go_on_afterwards() -> None:
    """Nobody can tell them to: the deadline is their own. `make chaos-outage` takes longer ones."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "SECONDS": "8", "LEASE_S": "4", "HOW": "stop"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.outage"], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    figures = json.loads(done.stdout)
    outage = figures["outages"][0]

    assert {fault: outage.get(fault, figures.get(fault)) for fault in FAULTS} == dict.fromkeys(FAULTS, 0), figures
    assert (outage["running"], outage["stopped_themselves"]) == (3, 3)
    assert done.returncode == 0
