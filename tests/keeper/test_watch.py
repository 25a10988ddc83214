from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from keeper.hold import Hold
from keeper.policy import Policy
from keeper.stop import Stop
from keeper.watch import Watch
from lab.card import Card, HostCards, KeeperStatus
from lab.errors import CardError, ConfigError
from lab.keeperorders import KeeperOrder, Look


def cards(*indexes: int, lost: Sequence[int] = ()) -> list[Card]:
    return [Card(uuid=f"GPU-{i}", index=i, name="L20X", host="n", lost=i in lost, read_at=1.0) for i in indexes]


class Source:
    """Cards as the test sets them, or an error in their place."""

    def __init__(self, now: list[Card] | Exception) -> None:
        self.now = now

    def read(self) -> list[Card]:
        if isinstance(self.now, Exception):
            raise self.now
        return self.now


class Holding(Hold):
    """A hold without a process: beats once a step."""

    def __init__(self, card: Card, policy: Policy) -> None:
        super().__init__(card.uuid, [], policy.interval_s)
        self.status = KeeperStatus(card=card.uuid, pid=7)
        self.stopped = False

    def step(self) -> None:
        assert self.status is not None
        self.status = self.status.model_copy(update={"beats": self.status.beats + 1})

    def stop(self) -> None:
        self.stopped = True


class Bench:
    """A watch with everything around it in the test's hands."""

    def __init__(self, folder: Path, now: list[Card] | Exception, **options: Any) -> None:
        self.source = Source(now)
        self.published: list[HostCards] = []
        self.holds: list[Holding] = []
        publish = options.pop("publish", self.published.append)
        self.watch = Watch("n", publish, folder, source=self.source, make=self._hold, **options)

    def _hold(self, card: Card, policy: Policy) -> Hold:
        self.holds.append(Holding(card, policy))
        return self.holds[-1]


def test_a_tick_publishes_the_cards_with_roles_and_the_keepers_state(tmp_path: Path) -> None:
    bench = Bench(tmp_path, cards(0, 1, 2), clock=lambda: 9.0)

    bench.watch.tick()
    bench.watch.tick()

    report = bench.published[-1]
    assert [card.role for card in report.cards] == ["train", "train", "keeper"]
    assert report.keeper is not None
    assert (report.keeper.card, report.keeper.beats) == ("GPU-2", 2)
    assert (report.host, report.published_at, report.problem) == ("n", 9.0, None)
    assert len(bench.holds) == 1
    bench.watch.close()
    assert bench.holds[0].stopped


def test_a_failed_driver_publishes_its_problem_and_no_cards_while_the_heart_beats_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, cards(0, 1))
    bench.watch.tick()

    bench.source.now = CardError("the NVIDIA driver went away")
    failed = bench.watch.tick()
    bench.source.now = cards(0, 1)
    back = bench.watch.tick()

    assert (failed.cards, failed.problem) == ((), "the NVIDIA driver went away")
    assert failed.keeper is not None
    assert (failed.keeper.beats, failed.keeper.card) == (2, "GPU-1")
    assert (len(back.cards), back.problem) == (2, None)
    assert len(bench.holds) == 1


def test_a_driver_that_lists_no_card_is_a_problem(tmp_path: Path) -> None:
    report = Bench(tmp_path, []).watch.tick()

    assert "lists no card" in (report.problem or "")


def test_the_heartbeat_moves_when_its_card_is_lost(tmp_path: Path) -> None:
    bench = Bench(tmp_path, cards(0, 1, 2))
    bench.watch.tick()

    bench.source.now = cards(0, 1, 2, lost=[2])
    report = bench.watch.tick()

    assert [hold.card for hold in bench.holds] == ["GPU-2", "GPU-1"]
    assert bench.holds[0].stopped
    assert report.keeper is not None
    assert report.keeper.card == "GPU-1"


@pytest.mark.parametrize("options", [{"keep": False}, {"reserve_last": False}])
def test_no_heartbeat_runs_where_none_is_wanted(tmp_path: Path, options: dict[str, bool]) -> None:
    bench = Bench(tmp_path, cards(0, 1), **options)

    assert bench.watch.tick().keeper is None
    assert bench.holds == []


def test_one_card_is_shared_and_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path, cards(0))

    report = bench.watch.tick()

    assert report.cards[0].role == "shared"
    assert report.keeper is not None
    assert report.keeper.card == "GPU-0"


class Operator:
    """What operators want and which card a run has, as the test says."""

    def __init__(self) -> None:
        self.order: KeeperOrder | None = None
        self.in_use: set[str] = set()
        self.away = False

    def look(self, card: str) -> Look:
        if self.away:
            raise ConnectionError("redis is away")
        return Look(self.order, card in self.in_use)


def test_a_released_card_trains_until_it_is_to_be_held_and_its_run_has_ended(tmp_path: Path) -> None:
    operator = Operator()
    bench = Bench(tmp_path, cards(0, 1, 2), look=operator.look)
    bench.watch.tick()

    operator.order = KeeperOrder(verb="release", by="ann")
    assert bench.watch.glance()
    released = bench.watch.tick()
    operator.in_use = {"GPU-2"}
    operator.order = KeeperOrder(verb="hold", by="ann", at=2.0)
    closing = [bench.watch.tick() for _ in range(3)][-1]
    operator.in_use = set()
    back = bench.watch.tick()

    assert [card.role for card in released.cards] == ["train", "train", "train"]
    assert released.keeper is not None
    assert (released.keeper.state, released.keeper.released_by, released.keeper.pid) == ("released", "ann", None)
    assert bench.holds[0].stopped
    assert (closing.cards[2].role, closing.cards[2].closing) == ("train", True)
    assert closing.keeper is not None
    assert closing.keeper.state == "away"
    assert (back.cards[2].role, back.cards[2].closing) == ("keeper", False)
    assert len(bench.holds) == 2


def test_a_release_is_followed_within_2_s_however_seldom_the_cards_are_read(tmp_path: Path) -> None:
    operator, stop = Operator(), Stop()
    said_at: list[float] = []

    def publish(report: HostCards) -> None:
        if not said_at:
            said_at.append(time.monotonic())
            operator.order = KeeperOrder(verb="release")
        elif report.cards[1].role == "train":
            said_at.append(time.monotonic())
            stop.ask()

    bench = Bench(tmp_path, cards(0, 1), look=operator.look, publish=publish, every_s=10.0)

    bench.watch.run(stop)

    assert bench.holds[0].stopped
    assert said_at[1] - said_at[0] < 2.0


def test_a_card_that_is_held_again_closes_before_it_is_kept(tmp_path: Path) -> None:
    """Dispatch may give it to a run at this very moment; by the next reading its lease shows that."""
    operator = Operator()
    operator.order = KeeperOrder(verb="release", until=50.0)
    now = [0.0]
    bench = Bench(tmp_path, cards(0, 1), look=operator.look, clock=lambda: now[0])

    first = bench.watch.tick()
    now[0] = 50.0
    looked = bench.watch.glance()
    second, third = bench.watch.tick(), bench.watch.tick()

    assert looked
    assert (first.cards[1].role, first.cards[1].closing) == ("train", False)
    assert (second.cards[1].role, second.cards[1].closing) == ("train", True)
    assert (third.cards[1].role, third.cards[1].closing) == ("keeper", False)


def test_the_keeper_moves_to_a_card_with_a_run_only_when_that_has_ended(tmp_path: Path) -> None:
    operator = Operator()
    bench = Bench(tmp_path, cards(0, 1, 2), look=operator.look)
    bench.watch.tick()

    operator.in_use = {"GPU-1"}
    bench.source.now = cards(0, 1, 2, lost=[2])
    waiting = bench.watch.tick()
    operator.in_use = set()
    moved = bench.watch.tick()

    assert [(card.role, card.closing) for card in waiting.cards][1:] == [("train", True), ("none", False)]
    assert len(bench.holds) == 2
    assert moved.cards[1].role == "keeper"


def test_a_run_on_the_shared_card_sends_the_keeper_away(tmp_path: Path) -> None:
    operator = Operator()
    bench = Bench(tmp_path, cards(0), look=operator.look)
    bench.watch.tick()

    operator.in_use = {"GPU-0"}
    assert bench.watch.glance()
    report = bench.watch.tick()

    assert report.cards[0].role == "shared"
    assert report.keeper is not None
    assert report.keeper.state == "away"
    assert bench.holds[0].stopped


def test_hours_and_cost_of_a_hold_go_on_after_a_restart(tmp_path: Path) -> None:
    """A process that is restarted every night would else keep the card, and cost, for ever."""
    told: dict[str, float] = {"GPU-1": 7199.0}
    policy = Policy(max_hold_s=7200.0, price_per_hour=3.0)
    first = Bench(tmp_path, cards(0, 1), policy=policy, held=told.__getitem__, tell_held=told.__setitem__)
    at_start = first.watch.tick().keeper
    time.sleep(1.1)
    over = [first.watch.tick() for _ in range(2)][-1].keeper
    first.watch.close()
    again = Bench(tmp_path, cards(0, 1), policy=policy, held=told.__getitem__, tell_held=told.__setitem__)
    after = again.watch.tick().keeper

    assert at_start is not None
    assert over is not None
    assert after is not None
    assert (at_start.state, at_start.held_s, at_start.cost) == ("holding", 7199.0, pytest.approx(6.0, abs=0.01))
    assert over.state == "expired"
    assert told["GPU-1"] >= 7200.0
    assert (after.state, after.cost) == ("expired", pytest.approx(6.0, abs=0.01))


def test_while_the_store_is_away_the_hold_counts_on(tmp_path: Path) -> None:
    def away(*_: object) -> float:
        raise ConnectionError("redis is away")

    bench = Bench(tmp_path, cards(0, 1), held=away, tell_held=away)
    keeper = bench.watch.tick().keeper
    bench.watch.close()

    assert keeper is not None
    assert keeper.state == "holding"
    assert bench.holds[0].stopped


def test_while_nobody_can_tell_what_operators_want_it_stays_as_it_was(tmp_path: Path) -> None:
    operator = Operator()
    operator.order = KeeperOrder(verb="release")
    bench = Bench(tmp_path, cards(0, 1), look=operator.look)
    bench.watch.tick()

    operator.away = True

    assert not bench.watch.glance()
    assert [card.role for card in bench.watch.tick().cards] == ["train", "train"]


def test_a_second_keeper_of_a_card_says_who_holds_it_and_takes_over_at_its_end(tmp_path: Path) -> None:
    first, second = Bench(tmp_path, cards(0, 1)), Bench(tmp_path, cards(0, 1))
    first.watch.tick()

    waiting = second.watch.tick()
    first.watch.close()
    taken = second.watch.tick()

    assert waiting.keeper is not None
    assert waiting.keeper.problem == f"already kept by PID {os.getpid()}; this watch takes over when that one ends"
    assert waiting.problem is None
    assert taken.keeper is not None
    assert taken.keeper.problem is None
    assert len(second.holds) == 1


def test_a_store_that_is_away_stops_neither_readings_nor_heartbeat(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def publish(report: HostCards) -> None:
        raise ConnectionError("redis is away")

    bench = Bench(tmp_path, cards(0, 1), publish=publish)

    for _ in range(3):
        report = bench.watch.tick()

    assert report.keeper is not None
    assert report.keeper.beats == 3
    assert len([line for line in caplog.records if "cannot be published" in line.message]) == 1


def test_simulated_cards_keep_what_they_showed_while_nobody_can_tell_what_trains(tmp_path: Path) -> None:
    """What trains is asked of Redis, which may be away; the watch must not end by that."""
    answers: list[dict[str, list[int]] | Exception] = [{"SIM-n-0": [os.getpid()]}, ConnectionError("away"), {}]

    def running() -> dict[str, list[int]]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    watch = Watch("n", lambda report: None, tmp_path, simulate=2, running=running, keep=False)

    assert [len(watch.tick().cards[0].processes) for _ in range(3)] == [1, 1, 0]


def test_a_wrong_choice_of_cards_ends_the_start_but_not_a_running_watch(tmp_path: Path) -> None:
    bench = Bench(tmp_path, cards(0, 1), auto_detect=False, chosen=["GPU-0"])
    bench.watch.tick()
    bench.source.now = cards(1)

    assert "gpu.cards" in (bench.watch.tick().problem or "")
    with pytest.raises(ConfigError, match=r"gpu\.cards"):
        Bench(tmp_path, cards(1), auto_detect=False, chosen=["GPU-0"]).watch.tick()


def test_a_dead_heartbeat_is_started_again_after_a_growing_wait(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    hold = Hold("GPU-1", [], 300.0, command=[sys.executable, "-c", "import sys; sys.exit(9)"], clock=lambda: now[0])

    starts, running = [], False
    for _ in range(2000):
        hold.step()
        if (hold._child is not None) != running:
            running = not running
            starts += [now[0]] if running else []
        if len(starts) == 4:
            break
        if hold._child is None:
            now[0] += 0.5
        else:
            time.sleep(0.005)
    hold.stop()

    assert [later - earlier for earlier, later in itertools.pairwise(starts)] == pytest.approx([1.0, 2.0, 4.0], abs=0.6)
    assert hold.status is not None
    assert hold.status.problem == "the heartbeat's process ended with status 9"
    assert hold.cannot is None


def test_a_heartbeat_that_falls_silent_is_killed_and_said(caplog: pytest.LogCaptureFixture) -> None:
    """A call that hangs in the driver would otherwise be a keeper that only seems to be there."""
    now = [0.0]
    hold = Hold("GPU-1", [], 300.0, command=[sys.executable, "-c", "import time; time.sleep(99)"], clock=lambda: now[0])
    hold.step()
    assert hold.status is not None
    child = hold.status.pid

    now[0] = 421.0
    hold.step()

    assert not psutil.pid_exists(child)
    assert "was silent for 420 s and was killed" in (hold.status.problem or "")


@pytest.mark.parametrize("interval_s", [0.0, -1.0, float("nan"), float("inf"), 100_000.0])
def test_an_interval_that_is_none_is_refused(interval_s: float) -> None:
    with pytest.raises(ValueError, match="between"):
        Hold("GPU-1", [], interval_s)


def test_run_ends_with_its_stop_and_closes(tmp_path: Path) -> None:
    stop = Stop()
    bench = Bench(tmp_path, cards(0, 1), publish=lambda report: stop.ask())

    bench.watch.run(stop)

    assert bench.holds[0].stopped


WATCH = """
import logging, sys
from pathlib import Path
from keeper.watch import Watch
logging.basicConfig(level=logging.INFO)
def publish(report): print(report.model_dump_json(), flush=True)
Watch("n", publish, Path(sys.argv[1]), simulate=2, every_s=0.1).run()
"""


def test_a_real_watch_keeps_a_simulated_card_and_leaves_nothing_behind(tmp_path: Path) -> None:
    watch = subprocess.Popen(
        [sys.executable, "-c", WATCH, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert watch.stdout is not None
    report = next(r for r in map(json.loads, watch.stdout) if r["keeper"]["beats"] and r["cards"][1]["processes"])
    child = psutil.Process(report["keeper"]["pid"])

    begun = time.monotonic()
    watch.send_signal(signal.SIGTERM)
    _, log = watch.communicate(timeout=20)
    took_s = time.monotonic() - begun

    print(f"SIGTERM to a watch: ended in {took_s:.3f} s")
    assert watch.returncode == 0
    assert not child.is_running()
    assert took_s < 3.0
    assert report["simulated"]
    assert [card["role"] for card in report["cards"]] == ["train", "keeper"]
    assert [process["pid"] for process in report["cards"][1]["processes"]] == [child.pid]
    assert "GPU Keeper starting on GPU 1" in log
    assert "GPU Keeper stopped." in log
