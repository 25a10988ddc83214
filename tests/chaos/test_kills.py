"""A lab under random kills loses nothing and doubles nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_sixty_kills_cost_nothing() -> None:
    """People leave this alone at night: what dies must come back, once. `make chaos` kills more often."""
    environ = {**os.environ, "KILLS": "60", "PYTHONPATH": str(ROOT), "SEED": "", "STATE": ""}
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.kills"], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    figures = json.loads(done.stdout)

    assert {sign: figures[sign] for sign in ("lost", "doubled", "overlapping", "unfinished")} == {
        "lost": 0,
        "doubled": 0,
        "overlapping": 0,
        "unfinished": 0,
    }, figures
    assert sum(figures["kills"].values()) == 60
    assert figures["made_room"] > 0, "nobody had to make room for anybody: kills in the middle of that were not tried"
    assert done.returncode == 0
