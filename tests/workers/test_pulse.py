"""A hang has every sign at once; one sign of life is enough to be alive."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from workers.launch import Trainer
from workers.pulse import Pulse, where
from workers.rundir import Metrics


class Still:
    """A trainer whose processes use as much processor time as a test says."""

    used = 0.0

    def cpu_s(self) -> float:
        return self.used

    def ask_for_stacks(self) -> None:
        """Does not answer."""


class Bench:
    """A trainer's signs of life, moved by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self.utilisation = folder, 0.0, cast("float | None", None)
        self.trainer, self.metrics = Still(), Metrics(folder)
        trainer = cast(Trainer, self.trainer)
        self.pulse = Pulse(trainer, folder, self.metrics, 600, lambda: self.utilisation, lambda: self.now)

    def line(self, kind: str, step: int, **values: Any) -> None:
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"kind": kind, "step": step, "t": self.now, **values}) + "\n")
        self.metrics.read()

    def wait(self, seconds: float, each: Callable[[], object] = lambda: None) -> bool:
        """Whether it hangs after so long, looked at every ten seconds."""
        for _ in range(round(seconds / 10)):
            self.now += 10
            each()
            self.pulse.silent_s()
        return self.pulse.hangs()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A trainer that has done two steps of a second each."""
    bench = Bench(tmp_path)
    for bench.now in (1.0, 2.0, 3.0):
        bench.line("step", int(bench.now))
    bench.pulse.silent_s()
    return bench


def test_nothing_at_all_for_ten_minutes_is_a_hang(bench: Bench) -> None:
    """And not a moment earlier."""
    assert not bench.wait(590)
    assert bench.wait(20)


def test_computing_without_a_line_is_life(bench: Bench) -> None:
    """A long evaluation on the processor, or a step of an hour."""

    def compute() -> None:
        bench.trainer.used += 5.0

    assert not bench.wait(3000, compute)


def test_a_busy_card_is_life_and_an_unknown_one_is_not(bench: Bench) -> None:
    """The host waits for the card in its sleep."""
    bench.utilisation = 97.0
    busy = bench.wait(3000)
    bench.utilisation = None

    assert not busy
    assert bench.wait(620)


def test_a_line_in_the_log_is_life(bench: Bench) -> None:
    """A download that tells how far it is."""

    def write() -> None:
        with (bench.folder / "log.txt").open("a") as log:
            log.write("1 %\n")

    assert not bench.wait(3000, write)


def test_start_and_evaluation_are_given_three_times_as_long(bench: Bench, tmp_path: Path) -> None:
    """They leave no step lines."""
    bench.line("evaluation", 3)
    bench.pulse.silent_s()
    (tmp_path / "fresh").mkdir()
    starting = Bench(tmp_path / "fresh")

    assert not bench.wait(1700)
    assert bench.wait(120)
    assert not starting.wait(1700)
    assert starting.wait(120)


def test_slow_steps_are_given_twenty_of_themselves(bench: Bench) -> None:
    """A step of two minutes may take ten now and then."""
    for step in range(4, 60):
        bench.now += 120
        bench.line("step", step)
    bench.pulse.silent_s()

    assert bench.pulse.limit_s == 2400
    assert not bench.wait(2300)
    assert bench.wait(120)


def test_where_it_is_stuck_is_read_from_the_dump() -> None:
    """The thread that was asked is the main one."""
    dump = (
        'Thread 0x00007f01 (most recent call first):\n  File "/a/queue.py", line 9 in get\n\n'
        'Current thread 0x00007f02 (most recent call first):\n  File "/b/data.py", line 42 in read\n'
    )

    assert where(dump) == "stuck in read (data.py:42)"
    assert where("") == "it did not even write its stacks"
