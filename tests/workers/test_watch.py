"""The holder's own deadline, over simulated time: whatever Redis does, no trainer works on after its lease."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis

from lab.leases import Lease
from lab.run import Room, RunState
from lab.settings import RunSettings, Settings
from workers import watch
from workers.watch import Watch

HANGS_S = 2.1
"""How long a call takes that a halted server does not answer: two tries of a second."""


@dataclass
class World:
    """A clock, a Redis that halts at `away_at`, and a trainer that does not mind SIGTERM."""

    away_at: float
    cancelled_at: float = float("inf")
    room_at: float = float("inf")
    now: float = 1000.0
    renewed_at: float = 1000.0
    killed_at: float | None = None
    metrics: Any = None
    pid: int = 4711
    asked_to_stop: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def ask(self, *_: object) -> Any:
        """Any call to Redis."""
        if self.now >= self.away_at:
            self.now += HANGS_S
            raise redis.exceptions.TimeoutError("halted")
        return self

    def renew(self, lease: Lease) -> bool:
        asked_at = self.now
        self.ask()
        self.renewed_at = asked_at
        return True

    report_progress = run = ask

    @property
    def state(self) -> RunState:
        return RunState.CANCELLING if self.now >= self.cancelled_at else RunState.RUNNING

    fence, wish = 1, None

    @property
    def room(self) -> Room | None:
        told = Room(for_run="exp-9/1", reason="shorter", ends_look=False, asked_at=self.room_at)
        return told if self.now >= self.room_at else None

    def wait(self, timeout_s: float) -> int | None:
        self.now += timeout_s
        return None if self.killed_at is None else -9

    def ask_to_stop(self) -> None:
        self.asked_to_stop.append(self.now)

    def kill(self) -> None:
        self.killed_at = self.killed_at or self.now

    def read(self) -> str:
        """News in every look at the metrics."""
        return "step"


class Alive:
    """A pulse that is always felt."""

    def __init__(self, *_: object) -> None:
        pass

    def hangs(self) -> bool:
        return False


def followed(world: World, lease_s: float, folder: Path, monkeypatch: pytest.MonkeyPatch) -> watch.Ending:
    """The watch over the trainer, from its start to its end."""
    settings = Settings(data_dir=folder, run=RunSettings(lease_s=lease_s, renew_s=max(0.5, lease_s / 6)))
    with monkeypatch.context() as patch:
        patch.setattr(watch, "time", world)
        patch.setattr(watch, "Pulse", Alive)
        patch.setattr(watch.hosts, "cards", world.ask)
        patch.setattr(Watch, "_sample_power", lambda *_: None)
        patch.setattr(watch.disk, "is_full", lambda _: False)
        lease = Lease(run_id="exp-1/1", fence=1, cards=("a",), holder="w")
        stop = threading.Event()
        watching = Watch(world, world, lease, world.now, world, folder, settings, stop)  # type: ignore[arg-type]
        patch.setattr(watching.metrics, "read", world.read)
        return watching.follow(True)


@pytest.mark.parametrize("lease_s", [3, 4, 5, 6, 7, 8, 12, 20, 60])
def test_a_trainer_that_minds_nothing_is_dead_before_its_lease_ends(
    lease_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls hang for seconds just when the deadline comes; whenever Redis halts, it is the deadline that counts."""
    for tenth in range(40):
        world = World(away_at=1010.0 + tenth / 10)

        ending = followed(world, lease_s, tmp_path, monkeypatch)

        assert ending.how == "lease_lost"
        assert world.killed_at
        assert world.killed_at < world.renewed_at + lease_s, f"halted at {world.away_at}"


def test_a_cancelled_trainer_has_its_grace_no_longer_than_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis halts while it saves: nobody else knows that it still does."""
    world = World(cancelled_at=1005.0, away_at=1012.0)

    ending = followed(world, 20, tmp_path, monkeypatch)

    assert ending.how == "cancelled"
    assert world.killed_at
    assert world.killed_at < world.renewed_at + 20


@pytest.mark.parametrize(("cancelled_at", "how"), [(float("inf"), "preempted"), (1004.0, "cancelled")])
def test_a_trainer_that_is_told_to_make_room_has_its_grace_unless_its_run_is_cancelled(
    cancelled_at: float, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a checkpoint to write; and who cancels a run does not want it back in the queue."""
    world = World(away_at=float("inf"), room_at=1004.0, cancelled_at=cancelled_at)

    ending = followed(world, 60, tmp_path, monkeypatch)

    assert ending.how == how
    assert world.asked_to_stop
    assert world.killed_at
    assert world.killed_at >= world.asked_to_stop[0] + RunSettings().grace_s


def test_an_outage_of_forty_seconds_is_ridden_out_with_the_usual_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is restarted for an upgrade should cost nobody's training a restart."""
    for tenth in range(100):
        world = World(away_at=1010.0 + tenth / 10)

        followed(world, 60, tmp_path, monkeypatch)

        assert world.asked_to_stop[0] - world.away_at > 40
