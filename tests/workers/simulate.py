"""A cluster in simulated time: what a policy does to a trace of jobs, for the tests and the benchmark.

Event driven, without a clock or threads. Making room costs what it costs outside: the cards stay busy for CHECKPOINT_S
while the checkpoint is written, and the next stint begins with RESTART_S without progress.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lab.plan import Priority
from lab.predict import Z90, History, Level, Prediction
from workers.decision import decide
from workers.policy import USUAL, Decision, HostState, Running, Start, Usage, Waiting
from workers.ranks import remaining_p50

CHECKPOINT_S = 15.0
RESTART_S = 30.0
LOOK_AGAIN_S = 600.0
"""While something waits the policy is asked at least so often, since ages change the order."""

Decide = Callable[[float, Sequence[Waiting], Sequence[Running], Sequence[HostState], Mapping[str, float]], Decision]


@dataclass(frozen=True)
class Job:
    """What is submitted when: `length_s` is the truth that only the simulation knows, `guess_s` what is guessed of it.

    Attributes:
        measured_s: what its first look tells about its length; None when that tells nothing.
    """

    id: str
    at: float
    length_s: float
    gpus: int = 1
    user: str = "u"
    guess_s: float = 3600.0
    priority: Priority = "normal"
    can_checkpoint: bool = True
    measured_s: float | None = None


@dataclass
class Story:
    """What became of a job; `stints` are (start, end, cards) of each time on cards."""

    job: Job
    prediction: Prediction
    left_s: float
    started_at: float | None = None
    ended_at: float | None = None
    preempted_at: float | None = None
    stints: list[tuple[float, float, tuple[str, ...]]] = field(default_factory=list)
    made_room: list[tuple[float, str, bool]] = field(default_factory=list)
    """(when, for whom, whether that was the end of its first look)"""
    version: int = 0

    @property
    def served_s(self) -> float:
        """Seconds of progress that were kept."""
        return self.job.length_s - self.left_s


class Cluster:
    """Hosts with cards, a policy, and the stories of all jobs once `run` has returned."""

    def __init__(
        self,
        hosts: Mapping[str, int],
        policy: Decide = decide,
        history: History | None = None,
        watch: Callable[[float, Sequence[Waiting], Sequence[Running], Decision], None] | None = None,
    ) -> None:
        """
        Args:
            history: learns from each job that ends; without one the guess is taken as the median, off by sigma 1.2.
            watch: sees every decision and what it was made from.
        """
        self.hosts = dict(hosts)
        self.free = {name: [f"{name}.{i}" for i in range(cards)] for name, cards in hosts.items()}
        self.policy = policy
        self.history = history
        self.watch = watch
        self.usage = Usage()
        self.held: dict[str, float] = {}
        """GPU-seconds by user, not decayed."""
        self.stories: dict[str, Story] = {}
        self.decisions = 0
        self.now = 0.0
        self._waiting: dict[str, Waiting] = {}
        self._running: dict[str, Running] = {}
        self._events: list[tuple[float, int, str, str, int]] = []
        self._sequence = 0
        self._asked_at = math.inf
        self._charged_at = 0.0

    def run(self, jobs: Iterable[Job], until: float = math.inf) -> dict[str, Story]:
        """The stories of the jobs when all have ended, or at `until`."""
        known = {job.id: job for job in jobs}
        for job in known.values():
            self._push(job.at, "arrive", job.id)
        while self._events and self._events[0][0] <= until:
            self._charge(self._events[0][0])
            while self._events and self._events[0][0] <= self.now:
                _, _, what, job_id, version = heapq.heappop(self._events)
                if what == "arrive":
                    self._arrive(known[job_id])
                elif what == "ask":
                    self._asked_at = math.inf if self._asked_at <= self.now else self._asked_at
                elif self.stories[job_id].version == version:
                    {"end": self._end, "left": self._left, "measure": self._measure}[what](self.stories[job_id])
            if self._waiting:
                self._decide()
        if math.isfinite(until):
            self._charge(until)
        return self.stories

    def _decide(self) -> None:
        waiting, running = list(self._waiting.values()), list(self._running.values())
        hosts = [HostState(name, tuple(self.free[name]), cards) for name, cards in self.hosts.items()]
        decision = self.policy(self.now, waiting, running, hosts, self.usage.at(self.now))
        self.decisions += 1
        if self.watch:
            self.watch(self.now, waiting, running, decision)
        for preemption in decision.preemptions:
            self._make_room(self.stories[preemption.run_id], preemption.by, preemption.ends_look)
        for start in decision.starts:
            self._start(self.stories[start.run_id], start)
        again = min(self.now + LOOK_AGAIN_S, decision.look_again_at or math.inf)
        if self._waiting and again < self._asked_at:
            self._asked_at = again
            self._push(again, "ask", "")

    def _arrive(self, job: Job) -> None:
        rough = Prediction(job.guess_s, job.guess_s * math.exp(1.2 * Z90), "rough")
        prediction = self.history.predict(_levels(job), job.guess_s) if self.history else None
        self.stories[job.id] = Story(job, prediction or rough, job.length_s)
        self._wait(self.stories[job.id])

    def _wait(self, story: Story) -> None:
        job = story.job
        self._waiting[job.id] = Waiting(
            id=job.id,
            user=job.user,
            queued_at=job.at,
            p50_s=story.prediction.p50_s,
            p90_s=story.prediction.p90_s,
            gpus=job.gpus,
            priority=job.priority,
            served_s=story.served_s,
            looked=story.started_at is not None,
            can_checkpoint=job.can_checkpoint,
            preempted_at=story.preempted_at,
        )

    def _start(self, story: Story, start: Start) -> None:
        job, was = story.job, self._waiting.pop(start.run_id)
        for card in start.cards:
            self.free[start.host].remove(card)
        story.version += 1
        if story.started_at is None:
            story.started_at = self.now
            if job.measured_s is not None:
                self._push(self.now + USUAL.look_s, "measure", job.id, story.version)
        story.stints.append((self.now, math.inf, start.cards))
        self._running[job.id] = Running(
            id=job.id,
            user=job.user,
            queued_at=job.at,
            host=start.host,
            cards=start.cards,
            since=self.now,
            p50_s=was.p50_s,
            p90_s=was.p90_s,
            priority=job.priority,
            served_s=was.served_s,
            looked=was.looked,
            can_checkpoint=job.can_checkpoint,
            preempted_at=story.preempted_at,
        )
        self._push(self.now + story.left_s + (RESTART_S if was.looked else 0.0), "end", job.id, story.version)

    def _make_room(self, story: Story, by: str, ends_look: bool) -> None:
        run = self._running[story.job.id]
        story.left_s -= max(0.0, self.now - run.since - (RESTART_S if run.looked else 0.0))
        story.preempted_at = story.preempted_at if ends_look else self.now
        story.made_room.append((self.now, by, ends_look))
        story.version += 1
        self._running[run.id] = replace(run, stopping=True)
        self._push(self.now + CHECKPOINT_S, "left", run.id, story.version)

    def _left(self, story: Story) -> None:
        self._release(story)
        self._wait(story)

    def _end(self, story: Story) -> None:
        self._release(story)
        story.ended_at, story.left_s = self.now, 0.0
        story.version += 1
        if self.history:
            self.history.learn(_levels(story.job), story.job.length_s)

    def _release(self, story: Story) -> None:
        run = self._running.pop(story.job.id)
        self.free[run.host] += run.cards
        since, _, cards = story.stints[-1]
        story.stints[-1] = (since, self.now, cards)

    def _measure(self, story: Story) -> None:
        assert story.job.measured_s is not None
        p50 = story.job.measured_s
        story.prediction = Prediction(p50, p50 * math.exp(0.35 * Z90), "measured", rough=False)
        run = self._running[story.job.id]
        self._running[run.id] = replace(run, p50_s=p50, p90_s=story.prediction.p90_s)

    def _charge(self, now: float) -> None:
        for run in self._running.values():
            gpu_s = (now - self._charged_at) * run.gpus
            self.usage.charge(run.user, gpu_s, now, run.priority)
            self.held[run.user] = self.held.get(run.user, 0.0) + gpu_s
        self._charged_at = self.now = now

    def _push(self, at: float, what: str, job_id: str, version: int = 0) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (at, self._sequence, what, job_id, version))


def _levels(job: Job) -> tuple[Level, Level]:
    """Guesses are off in one way for all, and in another for each user."""
    return Level("all", job.guess_s), Level(job.user, job.guess_s)


def fifo_easy(
    now: float,
    waiting: Sequence[Waiting],
    running: Sequence[Running],
    hosts: Sequence[HostState],
    usage: Mapping[str, float],
    *,
    informed: bool = False,
) -> Decision:
    """First in, first out, with EASY backfill on one host: what people use today, to compare with.

    Args:
        informed: a run that outlives its guess is expected to end when such runs do (median of a lognormal); without
            it, as plain EASY has it, at any moment, which holds back what could have been filled in.
    """
    (host,) = hosts
    queue = sorted(waiting, key=lambda w: (w.queued_at, w.id))
    free, starts = list(host.free), []

    def start(w: Waiting) -> None:
        starts.append(Start(w.id, host.name, tuple(free[: w.gpus])))
        del free[: w.gpus]

    while queue and queue[0].gpus <= len(free):
        start(queue.pop(0))
    if queue and free:
        gpus = {w.id: w for w in waiting}
        leaving = [(now + gpus[s.run_id].p50_s, len(s.cards)) for s in starts]
        leaving += list(zip(_ends(now, running, informed), (r.gpus for r in running), strict=True))
        have, at = len(free), now
        for when, cards in sorted(leaving):
            if have >= queue[0].gpus:
                break
            at, have = when, have + cards
        spare = have - queue[0].gpus
        for w in queue[1:]:
            ends_before = now + w.p50_s <= at
            if w.gpus <= len(free) and (ends_before or w.gpus <= spare):
                spare -= 0 if ends_before else w.gpus
                start(w)
    return Decision(tuple(starts), (), None, (), None)


def _ends(now: float, running: Sequence[Running], informed: bool) -> list[float]:
    if not informed:
        return [max(now, r.since + r.p50_s) for r in running]
    p50, p90, since = (np.array([getattr(r, name) for r in running]) for name in ("p50_s", "p90_s", "since"))
    ends: list[float] = (now + remaining_p50(p50, p90, now - since)).tolist()
    return ends


def jain(values: Iterable[float]) -> float:
    """Jain's index: 1 when all have the same, 1/n when one has all (Jain, Chiu and Hawe 1984, DEC-TR-301)."""
    x = list(values)
    return sum(x) ** 2 / (len(x) * sum(v * v for v in x))
