"""The processes of one machine: started again when they die, soon, however often that was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.settings import Settings
from lab.store import Client
from terminal import stack
from terminal.stack import Stack


class Clock:
    """Monotonic seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


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

    assert deaths(dying, clock, times=1) == [0.0]
    assert "log_level" in dying.log_path("keep").read_text()


def test_what_is_told_of_a_death_is_the_last_line_of_its_log(
    dying: Stack, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever started `up` sees why, without looking for the file."""
    deaths(dying, clock, times=1)

    assert "keep ended with 1" in caplog.text
    assert "log_level" in caplog.text
