"""An upgrade in the middle of a night."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run.py")


@pytest.mark.timeout(300)
def test_an_upgrade_loses_nothing() -> None:
    """People upgrade while runs run, after a Ctrl-C or after a crash; in the morning every run is accounted for."""
    done = subprocess.run([sys.executable, RUN], capture_output=True, text=True, timeout=280)
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())

    assert done.returncode == 0, done.stdout + done.stderr
    for move in json.loads(done.stdout)["moves"]:
        assert move["runs_before"]["running"] > 0
        assert move["runs_now"] == {"finished": 9, "failed": 2}
        assert move["resumed"] > 0
        assert move["request_answered"]
