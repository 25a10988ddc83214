"""What a host publishes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lab.card import Card
from lab.settings import Settings
from workers import host
from workers.host import Speed, cores, describe, threads


def card(*, simulated: bool) -> Card:
    """A card of host lab-a."""
    return Card(uuid="c", index=0, name="card", host="lab-a", simulated=simulated)


def test_a_host_says_what_a_plan_is_checked_against(settings: Settings) -> None:
    """A missing data set is found before the plan card is shown."""
    settings.data_dir.mkdir()

    stated = describe(settings, ["c"], 1e9)

    assert (stated.host, stated.cards, stated.cores) == ("lab-a", ("c",), cores())
    assert "steps" in stated.templates["probe"]["properties"]
    assert any(found.name == "digits" and found.present for found in stated.datasets)
    assert "torch" in stated.models
    assert stated.disk_free_bytes


def test_publishing_loads_no_torch() -> None:
    """The supervisor and its workers stay small, and a fork after CUDA breaks."""
    code = "import sys, workers.supervisor, workers.dispatch, workers.job; print('torch' in sys.modules)"

    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert output.strip() == "False"


def test_simulated_cards_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's own default for each of them is several times slower."""
    monkeypatch.setattr(host, "cores", lambda: 8)

    assert [threads(card(simulated=True), n) for n in (1, 3, 16)] == [8, 2, 1]
    assert threads(card(simulated=False), 3) is None


def test_a_measurement_that_fails_leaves_the_speed_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimate then says so; nothing else depends on it."""
    monkeypatch.setattr(sys, "executable", "/bin/false")

    speed = Speed(card(simulated=True))
    speed.end()

    assert speed.flops is None
    assert not speed.poll()
