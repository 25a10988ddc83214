from __future__ import annotations

import importlib.util
import queue
import subprocess
import sys
import time

import pytest

from keeper.heartbeat import PERIOD_S, TELL_S, UNTOLD_S, Heartbeat, Pulse, Words
from keeper.memory import CudaMemory, HostMemory, cuda_cards
from keeper.stop import Stop
from lab.card import KeeperStatus
from lab.errors import CardError


class Waits(Stop):
    """Takes no time to wait, remembers for how long it was asked to, and stops after so many waits."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._limit = limit

    def wait(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        if len(self.seconds) >= self._limit:
            self.ask()
        return self.asked


class Memory(HostMemory):
    """Host memory whose touches fail by a list: "ok" or an error's text."""

    def __init__(self, *script: str) -> None:
        super().__init__()
        self.done: list[str] = []
        self._script = list(script)

    def hold(self) -> None:
        super().hold()
        self.done.append("hold")

    def touch(self) -> None:
        super().touch()
        outcome = self._script.pop(0) if self._script else "ok"
        if outcome != "ok":
            raise RuntimeError(outcome)
        self.done.append("touch")

    def release(self) -> None:
        super().release()
        self.done.append("release")


def beat(memory: Memory, stop: Stop, interval_s: float = 300.0) -> list[KeeperStatus]:
    told: list[KeeperStatus] = []
    Heartbeat(memory, "GPU-1", interval_s, told.append, stop, clock=lambda: 50.0).run()
    return told


def test_every_interval_is_a_beat_and_the_end_frees_the_memory() -> None:
    memory, stop = Memory(), Waits(3)

    told = beat(memory, stop)

    assert stop.seconds == [300.0, 300.0, 300.0]
    assert memory.done == ["hold", "touch", "touch", "touch", "release"]
    assert [(status.card, status.beats, status.last_beat_at) for status in told] == [
        ("GPU-1", 1, 50.0),
        ("GPU-1", 2, 50.0),
        ("GPU-1", 3, 50.0),
    ]


def test_errors_are_told_and_retried_with_growing_waits_on_new_memory() -> None:
    memory, stop = Memory("out of memory", "out of memory\nmore lines", "ok"), Waits(3)

    told = beat(memory, stop)

    assert stop.seconds == [1.0, 2.0, 300.0]
    assert [status.problem for status in told] == ["beat failed: out of memory", "beat failed: out of memory", None]
    assert told[-1].beats == 1
    assert memory.done == ["hold", "release", "hold", "release", "hold", "touch", "release"]


def test_a_card_that_keeps_failing_ends_the_process_with_nothing_held() -> None:
    memory = Memory("ok", *["illegal access"] * 4)

    with pytest.raises(CardError, match=r"GPU-1: beat failed: illegal access \(4 times in a row\)"):
        beat(memory, Waits(100))

    assert memory.done[-1] == "release"


def test_a_stop_before_the_first_beat_allocates_nothing() -> None:
    memory, stop = Memory(), Stop()
    stop.ask()

    assert beat(memory, stop) == []
    assert "hold" not in memory.done


class Clock:
    """Monotonic seconds that pass when a burst or a wait takes them."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def pulse(duty: float, pulses: int, *script: str) -> tuple[list[float], list[KeeperStatus]]:
    """How long each burst took, and what was told, over so many periods."""
    clock, bursts, told = Clock(), [], []

    class Bursting(Memory):
        def burst(self, seconds: float) -> None:
            bursts.append(seconds)
            clock.now += seconds
            if script and len(bursts) == 3:
                raise RuntimeError(script[0])

    class Ticking(Waits):
        def wait(self, seconds: float) -> bool:
            clock.now += seconds
            return super().wait(seconds)

    Pulse(Bursting(), "GPU-1", told.append, Ticking(pulses), lambda: duty, monotonic=clock).run()
    return bursts, told


def test_bursts_take_the_share_of_time_that_the_parent_says() -> None:
    bursts, told = pulse(0.2, 120)

    assert bursts == pytest.approx([0.2 * PERIOD_S] * 119)
    assert [status.mode for status in told] == ["duty"] * len(told)
    assert [status.duty for status in told] == [0.0, *[pytest.approx(0.2, abs=0.01)] * (len(told) - 1)]
    assert len(told) == 1 + int(119 * PERIOD_S / TELL_S)


def test_a_duty_of_0_computes_nothing_and_still_tells_that_it_is_there() -> None:
    bursts, told = pulse(0.0, 120)

    assert bursts == []
    assert len(told) > 1


def test_a_burst_that_fails_is_told_and_tried_again_on_new_memory() -> None:
    bursts, told = pulse(0.2, 20, "CUDA error: unspecified launch failure")

    assert "beat failed: CUDA error: unspecified launch failure" in [status.problem for status in told]
    assert told[-1].problem is None
    assert len(bursts) > 3


def test_words_are_heard_and_count_for_a_while_only() -> None:
    """A keeper whose parent hangs cannot know whether real work is there: it rests."""
    now, pipe = [0.0], queue.SimpleQueue[str]()
    words = Words(iter(pipe.get, "end"), clock=lambda: now[0])
    before = words.duty()
    for line in ("0.3\n", "nonsense\n", "7\n", "0.25\n", "end"):
        pipe.put(line)
    until = time.monotonic() + 5
    while words.duty() != 0.25 and time.monotonic() < until:
        time.sleep(0.001)
    said = words.duty()
    now[0] = UNTOLD_S

    assert (before, said, words.duty()) == (0.0, 0.25, 0.0)


def test_a_wait_ends_when_the_stop_is_asked_for() -> None:
    stop = Stop()

    assert not stop.wait(0.001)
    stop.ask()
    assert stop.wait(1000)
    assert stop.wait(1000)


def test_host_memory_is_1024_float32_that_are_zero_after_a_touch() -> None:
    memory = HostMemory()

    memory.hold()
    memory.touch()

    assert memory._array.shape == (1024,)
    assert str(memory._array.dtype) == "float32"
    assert not memory._array.any()


def test_a_simulated_heartbeat_loads_no_torch() -> None:
    command = "import sys, keeper.heartbeat as h; h.HostMemory().hold(); sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", command]).returncode == 0


def test_a_missing_torch_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(CardError, match="torch is not installed here"):
        cuda_cards()


def test_a_torch_without_cuda_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.version, "cuda", None)

    with pytest.raises(CardError, match="is built without CUDA"):
        CudaMemory(0)
