"""The leader's forecast: places in the queue, starts and ends, from its decision and the predicted lengths."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lab.forecast import End, Forecast, Opening, Place, Queue, publish
from lab.lanes import SAMPLES, Floats, Job, list_schedule, p50_p90, sample
from lab.plan import PRIORITIES
from lab.predict import Prediction
from lab.run import Run, RunState
from lab.store import Client
from workers.choice import Choice
from workers.decision import LOOK_SHARE, decide
from workers.policy import UNKNOWN, Running, Waiting

EVERY_S = 5.0
SHARE = 0.05
"""Part of a processor that forecasts may take: with very many runs they come less often."""
HELD = 4
"""A forecast is believed until so many of the next ones have not come."""
SIMULATED = 200
"""Runs at the front of the queue that are scheduled one by one; those behind are spread over all cards."""
SIZES_GPU_S = (100.0, 450.0, 1_800.0, 7_200.0, 28_800.0, 115_200.0)
"""Sizes of runs for which it is told what they would wait for, one in each of the usual size classes."""
NOBODY = "?"
"""Owner of those runs: somebody who has used nothing."""


@dataclass(frozen=True)
class Known:
    """What is known of a run beside its place: from what its length was told, and which runs are like it."""

    run: Run
    length: Prediction = UNKNOWN
    kind: str = ""


class Forecasts:
    """Publishes a forecast every few seconds, when asked."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._at = 0.0

    def due(self) -> bool:
        """True when it is time for the next one."""
        return time.monotonic() >= self._at

    def publish(
        self,
        now: float,
        choice: Choice,
        usage: Mapping[str, float],
        known: Sequence[Known],
        stuck: Mapping[str, str],
        since: float,
    ) -> None:
        """The forecast stands in Redis; the next one is due in a while.

        Args:
            choice, usage, stuck: as for `forecast`.
            since: `time.thread_time` when work for it began; what others do on this machine does not count.
        """
        found, queue = forecast(now, choice, usage, {k.run.id: k for k in known}, stuck)
        wait_s = max(EVERY_S, (time.thread_time() - since) / SHARE)
        publish(self._client, found, queue, HELD * wait_s)
        self._at = time.monotonic() + wait_s


def forecast(
    now: float, choice: Choice, usage: Mapping[str, float], known: Mapping[str, Known], stuck: Mapping[str, str]
) -> tuple[dict[str, Forecast], Queue]:
    """What is to be expected of each experiment with runs that wait or hold cards, and of the queue.

    Args:
        choice: the decision of this moment; what it starts counts as started.
        usage: as for the decision.
        known: the runs of the choice, and those that are stuck, by id.
        stuck: ids of runs that no host could take, and why.
    """
    waiting = [*choice.waiting, *_probes(now)]
    full = [replace(host, free=()) for host in choice.hosts]
    queue = [waiting[i] for i in decide(now, waiting, choice.running, full, usage, choice.timings).order]
    starting = {start.run_id for start in choice.decision.starts}
    walk = _Walk(now, choice, known)
    walk.front(queue, starting)
    return walk.forecasts(stuck), Queue(at=now, waiting=walk.position + len(stuck), openings=walk.openings())


def _probes(now: float) -> list[Waiting]:
    return [
        Waiting(f"{NOBODY}{priority}/{gpu_s}", NOBODY, now, gpu_s, 2 * gpu_s, priority=priority)
        for priority in PRIORITIES
        for gpu_s in SIZES_GPU_S
    ]


class _Walk:
    """One walk down the queue, in which each run takes the cards that are free first; seconds count from now."""

    def __init__(self, now: float, choice: Choice, known: Mapping[str, Known]) -> None:
        self.now = now
        self.position = 0
        """Runs so far that go on waiting."""
        self._opened: list[tuple[Waiting, int, float]] = []
        self._known = known
        self._cards = max(1, sum(host.capacity for host in choice.hosts))
        self._look_s = choice.timings.look_s if any(run.can_checkpoint for run in choice.running) else None
        self._lent = 0
        self._places: dict[str, Place] = {}
        self._ends: dict[str, Floats] = {}
        """Of runs that were scheduled one by one: (SAMPLES,)."""
        self._far: dict[str, End] = {}
        """Of those behind them."""
        self._free = self._busy(choice.running)

    def _busy(self, running: Sequence[Running]) -> Floats:
        """When each card is free; one that is busy with nothing we know counts as free."""
        left = sample([self._job(run, run.served_s + self.now - run.since) for run in running])
        self._ends = {run.id: left[:, i] for i, run in enumerate(running)}
        lanes = [left[:, i] for i, run in enumerate(running) for _ in run.cards][: self._cards]
        return np.stack([*lanes, *[np.zeros(SAMPLES)] * (self._cards - len(lanes))], axis=1)

    def _job(self, run: Running | Waiting, served_s: float) -> Job:
        known = self._known[run.id]
        return Job(Prediction(run.p50_s, run.p90_s, "", known.length.rough), run.gpus, served_s, known.kind)

    def front(self, queue: Sequence[Waiting], starting: set[str]) -> None:
        """The queue has its places: the first SIMULATED runs one by one, the others behind them."""
        real = [run for run in queue if run.user != NOBODY]
        behind = [run for run in real if run.id not in starting]
        front = [*[run for run in real if run.id in starting], *behind[:SIMULATED]]
        lengths = sample([self._job(run, run.served_s) for run in front])
        column = {run.id: i for i, run in enumerate(front)}
        base: Place | None = None
        ahead_s = 0.0
        for run in queue:
            i = column.get(run.id)
            if i is not None:
                self._take(run, lengths[:, i : i + 1], run.id in starting)
            elif run.user == NOBODY:
                self._open(run, ahead_s)
            else:
                base = base or Place(0, *p50_p90(self._free.mean(axis=1)))
                p50, p90 = base.p50 + ahead_s, base.p90 + ahead_s
                self._put(run, p50, p90)
                self._far[run.id] = End(p50 + run.p50_s, p90 + run.p90_s)
                ahead_s += max(1.0, run.p50_s - run.served_s) * run.gpus / self._cards

    def _take(self, run: Waiting, length: Floats, starts: bool) -> None:
        at = list_schedule(self._free, length, [run.gpus])[:, 0]
        self._ends[run.id] = at + length[:, 0]
        if not starts:
            self._put(run, *p50_p90(at))

    def _put(self, run: Waiting, p50_s: float, p90_s: float) -> None:
        """It goes on waiting; a first look may come before its cards do."""
        self.position += 1
        look_s = self._first_look_s() if run.can_checkpoint and not run.looked else None
        if look_s is not None:
            self._lent += run.gpus
            p50_s, p90_s = min(p50_s, look_s), min(p90_s, look_s + (self._look_s or 0.0))
        self._places[run.id] = Place(self.position, self.now + p50_s, self.now + p90_s)

    def _first_look_s(self) -> float | None:
        """In how many seconds the next newcomer has its first look; None where no run makes room for one."""
        if self._look_s is None:
            return None
        return self._look_s * (self._lent // max(1.0, LOOK_SHARE * self._cards))

    def _open(self, run: Waiting, ahead_s: float) -> None:
        self._opened.append((run, self.position, p50_p90(self._free.min(axis=1))[0] + ahead_s))

    def openings(self) -> tuple[Opening, ...]:
        """What newcomers would wait for, after all who wait: the newest has its first look last."""
        look_s = self._first_look_s()
        found = []
        for run, before, at_s in self._opened:
            first = look_s is not None and look_s < at_s
            at = self.now + (look_s if first and look_s is not None else at_s)
            found.append(Opening(priority=run.priority, gpu_s=run.p50_s, before=0 if first else before, starts_at=at))
        return tuple(found)

    def forecasts(self, stuck: Mapping[str, str]) -> dict[str, Forecast]:
        """By experiment."""
        runs: dict[str, list[Run]] = {}
        for known in self._known.values():
            runs.setdefault(known.run.experiment_id, []).append(known.run)
        return {experiment_id: self._of(own, stuck) for experiment_id, own in runs.items()}

    def _of(self, runs: Sequence[Run], stuck: Mapping[str, str]) -> Forecast:
        return Forecast(
            at=self.now,
            waiting={run.number: self._places[run.id] for run in runs if run.id in self._places},
            running={
                run.number: self._at(*p50_p90(self._ends[run.id]))
                for run in runs
                if run.state is not RunState.QUEUED and run.id in self._ends
            },
            stuck={run.number: stuck[run.id] for run in runs if run.id in stuck},
            end=None if any(run.id in stuck for run in runs) else self._last(runs),
        )

    def _last(self, runs: Sequence[Run]) -> End | None:
        sampled = [self._ends[run.id] for run in runs if run.id in self._ends]
        ends = [End(*p50_p90(np.max(sampled, axis=0)))] if sampled else []
        ends += [self._far[run.id] for run in runs if run.id in self._far]
        return self._at(max(end.p50 for end in ends), max(end.p90 for end in ends)) if ends else None

    def _at(self, p50_s: float, p90_s: float) -> End:
        return End(round(self.now + p50_s, 1), round(self.now + p90_s, 1))
