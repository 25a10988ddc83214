"""The processes of one machine: started again when they die, soon, however often that was."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lab.settings import LogSettings, Settings
from lab.store import Client
from terminal import stack
from terminal.stack import Stack


class Clock:
    """Monotonic seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(stack, "time", moved)
    return moved


@pytest.fixture
def dying(settings: Settings, store: Client, clock: Clock) -> Iterator[Stack]:
    """A stack of one part, `keep`, that ends as soon as it is started: its setting is wrong."""
    with Stack(settings, ["keep"], {"OVERNIGHT_LOG_LEVEL": "nonsense"}) as running:
        yield running


def deaths(running: Stack, clock: Clock, times: int) -> list[float]:
    """Seconds from each death to the next start."""
    (part,) = running._parts
    pauses = []
    for _ in range(times):
        process = part.process
        assert process
        process.wait(30)
        running.step()
        noticed = clock.now
        while part.process in (None, process):
            clock.now += 0.5
            running.step()
        pauses.append(clock.now - noticed)
    return pauses


def test_a_part_that_dies_again_and_again_waits_ten_seconds_at_most(dying: Stack, clock: Clock) -> None:
    """Nobody is answered while the agent is away; five deaths within a night are no reason to be away for a minute."""
    assert max(deaths(dying, clock, times=7)) <= 10.5


def test_a_part_that_died_once_starts_at_once(dying: Stack, clock: Clock) -> None:
    """It may hold what people wait for."""
    clock.now += stack.STEADY_S + 1

    (pause,) = deaths(dying, clock, times=1)

    assert pause == 0
    assert "log_level" in dying.log_path("keep").read_text()


def test_what_is_told_of_a_death_is_the_last_line_of_its_log(
    dying: Stack, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever started `up` sees why, without looking for the file."""
    deaths(dying, clock, times=1)

    assert "keep ended with 1" in caplog.text
    assert "log_level" in caplog.text


PARENT = """
import sys, time
from pathlib import Path
from lab.settings import Settings
from terminal.stack import Stack
settings = Settings(data_dir=Path(sys.argv[1]), redis_url=sys.argv[2])
with Stack(settings, ["keep"], {"OVERNIGHT_LOG_LEVEL": "nonsense"}) as running:
    print(running._collector.pid, flush=True)
    while True:
        time.sleep(0.1)
        running.step()
"""


def written(running: Stack) -> str:
    """All that the part has ever written, oldest first."""
    path = running.log_path("keep")
    numbered = sorted(path.parent.glob("keep.log.*"), key=lambda file: -int(file.suffix[1:]))
    return "".join(file.read_text() for file in [*numbered, path] if file.exists())


def say(running: Stack, text: str) -> None:
    """The part writes a line."""
    os.write(running._pipes["keep"][1], text.encode() + b"\n")


def test_logs_are_rotated_and_bounded(settings: Settings, store: Client) -> None:
    """A year of nights must not fill the disk that the checkpoints need."""
    small = settings.model_copy(update={"logs": LogSettings(max_mb=0.01, keep=2)})
    with Stack(small, ["keep"], {"OVERNIGHT_LOG_LEVEL": "nonsense"}) as running:
        for number in range(5_000):
            say(running, f"line {number}")
    files = sorted(file.name for file in running.log_path("keep").parent.iterdir())

    assert files == ["keep.log", "keep.log.1", "keep.log.2"]
    assert all(file.stat().st_size <= 10_000 for file in running.log_path("keep").parent.iterdir())
    assert written(running).endswith("line 4998\nline 4999\n")


def test_no_line_is_lost_when_the_process_that_writes_the_logs_dies(settings: Settings, store: Client) -> None:
    """What the parts say meanwhile waits in the pipe, and none of them dies of it."""
    with Stack(settings, ["keep"], {"OVERNIGHT_LOG_LEVEL": "nonsense"}) as running:
        assert running._collector
        running._collector.kill()
        running._collector.wait()
        say(running, "said while nobody wrote")
        running.step()
        say(running, "said afterwards")

    assert "said while nobody wrote\nsaid afterwards\n" in written(running)


def test_the_process_that_writes_the_logs_ends_with_a_killed_stack(settings: Settings, tmp_path: Path) -> None:
    """Nothing of `up` may be left when it was killed."""
    assert settings.redis_url
    url = settings.redis_url.get_secret_value()
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), url], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        writer = psutil.Process(int(parent.stdout.readline()))
        parent.kill()

    assert not psutil.wait_procs([writer], timeout=10)[1]
