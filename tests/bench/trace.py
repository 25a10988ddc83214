"""The dispatcher's policy on a trace in simulated time, FIFO with EASY backfill beside it; how fast it decides.

    TRACE=jobs.csv python -m tests.bench.trace [--clusters A,B] [--seed N]

Prints one JSON object. The trace is a CSV file with timestamp (ISO), duration (s), num_gpus and cluster; without TRACE
a small one is made up from the seed. Each cluster is one pool of as many cards as bring its load to 0.9; by default the
three of Microsoft's Philly trace (Jeon et al., USENIX ATC 2019) that have waiting in them, else every cluster there is.

What is made up, from the seed: guesses are off by a lognormal factor of sigma 1.2, of which 0.5 is the same for all
runs of a user; the users (10, each run of a random one); every run can be checkpointed, which costs 15 s of its cards
when it makes room and 30 s without progress when it goes on. `with_measurement` tells what changes when a first look
tells a run's length to sigma 0.35, since its steps can be counted then.

Fairness is measured where it matters, with more work than cards: the same runs come so fast that the load is 1.6,
dealt to 8 equal users, and Jain's index is over the GPU time that each had until the last run came.
`one_asks_for_more`: one of them submits three runs of ten.

What limits it, on the Philly clusters: the mean length alone is 7 to 26 h. With lengths known to 5 % and one user the
mean completion is 26, 48 and 73 h against 28 to 30, 52 to 54 and 86 to 95 h, so guesses cost a tenth and fairness
another. `fifo_easy` takes guesses as they come; `fifo_easy_informed` knows how such guesses err, which no scheduler in
use does, and against it 0.55 is out of reach on ee9e8c even with known lengths (48 of 85 h), whose gangs of 8 cards
hold three quarters of the work. The longest wait is up to 6 times that of FIFO: a run of many days that was
guessed far too long waits until it has aged; faster ageing costs everybody else 10 to 20 % (see ranks.AGE_S).

Decisions are timed on the wall and, since others use the machine too, by the processor time of this thread.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from typing import Any

import numpy as np

from lab.plan import Point
from lab.predict import History
from lab.run import Run
from tests.workers.simulate import CHECKPOINT_S, RESTART_S, Cluster, Decide, Job, fifo_easy, jain
from workers.choice import Choice
from workers.decision import decide
from workers.forecast import Known, forecast
from workers.policy import HostState, Running, Usage, Waiting

SIGMA, USER_SIGMA, MEASURED_SIGMA = 1.2, 0.5, 0.35
LOAD, SATURATED = 0.9, 1.6
USERS, EQUAL_USERS = 10, 8
CLUSTERS = ("103959", "ee9e8c", "0e4a51")
QUEUED, CARDS, HOSTS, DECISIONS = 10_000, 64, 8, 200
FORECAST_EVERY = 10
"""Decisions between two forecasts, for which the leader takes the moments after a decision."""


def main(clusters: Sequence[str], seed: int) -> dict[str, Any]:
    """All figures."""
    rng = np.random.default_rng(seed)
    path = os.environ.get("TRACE")
    trace = read(path) if path else {"synthetic": made_up(rng)}
    names = [name for name in clusters or CLUSTERS if name in trace] or list(trace)
    return {
        "trace": os.path.basename(path) if path else "made up",
        "seed": seed,
        "guess_sigma": SIGMA,
        "guess_sigma_of_user": USER_SIGMA,
        "users_made_up": USERS,
        "checkpoint_s": CHECKPOINT_S,
        "restart_s": RESTART_S,
        "machine_load_before": round(os.getloadavg()[0], 1),
        "decision": decision_times(rng),
        "clusters": {name: cluster(guessed(trace[name], rng), rng) for name in names},
    }


def read(path: str) -> dict[str, list[Job]]:
    """The jobs of each cluster, oldest first, the first at time 0."""
    found: dict[str, list[Job]] = {}
    with open(path, newline="") as lines:
        for n, row in enumerate(csv.DictReader(lines)):
            at = datetime.fromisoformat(row["timestamp"]).timestamp()
            job = Job(f"{n:06}", at, max(1.0, float(row["duration"])), int(row["num_gpus"]))
            found.setdefault(row["cluster"], []).append(job)
    for name, jobs in found.items():
        first = min(job.at for job in jobs)
        found[name] = sorted((replace(job, at=job.at - first) for job in jobs), key=lambda job: (job.at, job.id))
    return found


def made_up(rng: np.random.Generator, n: int = 600, days: float = 21.0) -> list[Job]:
    """Runs of a small lab: many of minutes, some of days, a tenth on two or four cards, in bursts."""
    bursts = np.sort(rng.uniform(0, days * 86_400, n // 4))
    at = np.sort(rng.choice(bursts, n) + rng.exponential(120, n))
    length = np.where(rng.random(n) < 0.6, rng.lognormal(6.2, 1.0, n), rng.lognormal(9.5, 1.3, n))
    gpus = rng.choice([1, 2, 4], n, p=[0.9, 0.05, 0.05])
    return [Job(f"{i:06}", at[i] - at[0], max(1.0, length[i]), int(gpus[i])) for i in range(n)]


def guessed(jobs: Sequence[Job], rng: np.random.Generator) -> list[Job]:
    """The same jobs with a user each and what is guessed and measured of their lengths."""
    own = math.sqrt(SIGMA**2 - USER_SIGMA**2)
    users = rng.integers(0, USERS, len(jobs))
    off = rng.normal(0, USER_SIGMA, USERS)[users] + rng.normal(0, own, len(jobs))
    seen = rng.normal(0, MEASURED_SIGMA, len(jobs))
    return [
        replace(
            job,
            user=f"user{users[i]}",
            guess_s=job.length_s * math.exp(off[i]),
            measured_s=job.length_s * math.exp(seen[i]),
        )
        for i, job in enumerate(jobs)
    ]


def cluster(jobs: Sequence[Job], rng: np.random.Generator) -> dict[str, Any]:
    """One cluster under each policy, and how fair it is when there is too much to do."""
    work, span = sum(job.length_s * job.gpus for job in jobs), jobs[-1].at
    cards = math.ceil(work / span / LOAD)
    blind = [replace(job, gpus=min(job.gpus, cards), measured_s=None) for job in jobs]
    measured = [replace(job, measured_s=full.measured_s) for job, full in zip(blind, jobs, strict=True)]
    figures: dict[str, Any] = {
        "jobs": len(jobs),
        "cards": cards,
        "load": round(work / span / cards, 3),
        "mean_length_h": round(sum(job.length_s for job in jobs) / len(jobs) / 3600, 1),
        "policy": _summary(blind, cards, decide),
        "with_measurement": _summary(measured, cards, decide),
        "fifo_easy": _summary(blind, cards, fifo_easy, learns=False),
        "fifo_easy_informed": _summary(blind, cards, partial(fifo_easy, informed=True), learns=False),
    }
    mean = figures["policy"]["mean_completion_h"]
    figures["of_fifo_easy"] = round(mean / figures["fifo_easy"]["mean_completion_h"], 3)
    figures["of_fifo_easy_informed"] = round(mean / figures["fifo_easy_informed"]["mean_completion_h"], 3)
    figures["fairness"] = {
        "load": SATURATED,
        "equal_users": EQUAL_USERS,
        "jain": _fairness(blind, cards, work / span / cards, rng, np.full(EQUAL_USERS, 1 / EQUAL_USERS)),
        "one_asks_for_more": _fairness(
            blind, cards, work / span / cards, rng, np.array([0.3] + [0.1] * (EQUAL_USERS - 1))
        ),
    }
    return figures


def _summary(jobs: Sequence[Job], cards: int, policy: Decide, *, learns: bool = True) -> dict[str, float]:
    began = time.perf_counter()
    simulated = Cluster({"pool": cards}, policy, History() if learns else None)
    history = _Watched(simulated)
    stories = list(simulated.run(jobs).values())
    completion = np.array([_at(s.ended_at) - s.job.at for s in stories])
    first = np.array([_at(s.started_at) - s.job.at for s in stories])
    waited = completion - [s.job.length_s for s in stories]
    summary = {
        "mean_completion_h": round(completion.mean() / 3600, 2),
        "median_completion_h": round(float(np.median(completion)) / 3600, 2),
        "longest_wait_h": round(waited.max() / 3600, 1),
        "first_on_card_min_p50": round(float(np.percentile(first, 50)) / 60, 2),
        "first_on_card_min_p95": round(float(np.percentile(first, 95)) / 60, 2),
        "first_on_card_min_max": round(first.max() / 60, 1),
    }
    if learns:
        made_room = [ends_look for s in stories for _, _, ends_look in s.made_room]
        summary |= {
            "preemptions_a_run": round((len(made_room) - sum(made_room)) / len(jobs), 2),
            "looks_ended_a_run": round(sum(made_room) / len(jobs), 2),
            "prediction_p90_covers": round(history.covered / len(jobs), 3),
            "prediction_log_error": round(math.sqrt(history.squared / len(jobs)), 3),
        }
    return summary | {"decisions": simulated.decisions, "took_s": round(time.perf_counter() - began, 1)}


class _Watched:
    """How right the predictions were that were made when the runs were submitted."""

    def __init__(self, simulated: Cluster) -> None:
        self.covered, self.squared = 0, 0.0
        self._arrive = simulated._arrive
        self._stories = simulated.stories
        simulated._arrive = self.arrive  # type: ignore[method-assign]

    def arrive(self, job: Job) -> None:
        self._arrive(job)
        prediction = self._stories[job.id].prediction
        self.covered += job.length_s <= prediction.p90_s
        self.squared += prediction.log_error(job.length_s) ** 2


def _fairness(jobs: Sequence[Job], cards: int, load: float, rng: np.random.Generator, shares: Any) -> float:
    users = rng.choice(len(shares), len(jobs), p=shares)
    faster = [replace(job, at=job.at * load / SATURATED, user=f"equal{u}") for job, u in zip(jobs, users, strict=True)]
    simulated = Cluster({"pool": cards}, decide, History())
    simulated.run(faster, until=faster[-1].at)
    return round(jain(simulated.held.get(f"equal{u}", 0.0) for u in range(len(shares))), 3)


def _at(moment: float | None) -> float:
    assert moment is not None
    return moment


def decision_times(rng: np.random.Generator) -> dict[str, Any]:
    """A decision with a long queue and full hosts, one run ending before each: milliseconds."""
    figures: dict[str, Any] = {"queued": QUEUED, "cards": CARDS, "hosts": HOSTS, "decisions": DECISIONS}
    for name, new in (("seen_before", 0.0), ("one_in_ten_new", 0.1), ("all_new", 1.0)):
        took, busy, told = _decisions(rng, new)
        figures[name] = {
            "p50_ms": round(float(np.percentile(took, 50)), 2),
            "p95_ms": round(float(np.percentile(took, 95)), 2),
            "processor_p95_ms": round(float(np.percentile(busy, 95)), 2),
            "forecast_processor_p50_ms": round(float(np.percentile(told, 50)), 2),
            "forecast_processor_p95_ms": round(float(np.percentile(told, 95)), 2),
        }
    return figures


def _decisions(rng: np.random.Generator, new: float) -> tuple[list[float], list[float], list[float]]:
    now, each = 100_000.0, CARDS // HOSTS
    waiting = [_waiting(rng, n, now, new) for n in range(QUEUED)]
    usage = Usage()
    for n in range(20):
        usage.charge(f"user{n}", rng.exponential(3600), now)
    free = {f"host{h}": [f"host{h}.{i}" for i in range(each)] for h in range(HOSTS)}
    running: dict[str, Running] = {}
    took, busy, told = [], [], []
    for turn in range(DECISIONS + 20):
        hosts = [HostState(name, tuple(cards), each) for name, cards in free.items()]
        held = list(running.values())
        began, worked = time.perf_counter(), time.thread_time()
        decision = decide(now, waiting, held, hosts, usage.at(now))
        decided, worked = time.perf_counter(), time.thread_time() - worked
        if turn >= 20:
            took.append((decided - began) * 1000)
            busy.append(worked * 1000)
        if turn % FORECAST_EVERY == 0:
            told.append(_forecast_ms(now, Choice((), decision, tuple(waiting), tuple(held), tuple(hosts)), usage))
        by_id = {w.id: w for w in waiting}
        for start in decision.starts:
            w = by_id.pop(start.run_id)
            free[start.host] = [card for card in free[start.host] if card not in start.cards]
            running[w.id] = Running(
                w.id, w.user, w.queued_at, start.host, start.cards, now, w.p50_s, w.p90_s, can_checkpoint=True
            )
        ended = {p.run_id for p in decision.preemptions} | {min(running, key=lambda i: running[i].since)}
        for run_id in ended:
            gone = running.pop(run_id)
            free[gone.host] += gone.cards
        waiting = list(by_id.values())
        waiting += [_waiting(rng, QUEUED * (turn + 1) + n, now, new) for n in range(QUEUED - len(waiting))]
        now += 30.0
    return took, busy, told


def _forecast_ms(now: float, choice: Choice, usage: Usage) -> float:
    """Milliseconds of the processor for what the leader publishes, as JSON: other processes do not count."""
    runs = [Known(_record(one.id), kind=one.user) for one in (*choice.waiting, *choice.running)]
    began = time.thread_time()
    found, queue = forecast(now, choice, usage.at(now), {known.run.id: known for known in runs}, {})
    assert queue.waiting == QUEUED - len(choice.decision.starts)
    sum(len(one.model_dump_json(exclude_defaults=True)) for one in found.values())
    return (time.thread_time() - began) * 1000


@cache
def _record(run_id: str) -> Run:
    """A run of an experiment of twenty."""
    number = int(run_id.removeprefix("exp-").removesuffix("/1"))
    return Run(
        id=run_id,
        experiment_id=f"exp-{number // 20}",
        number=number % 20 + 1,
        point=Point(model="m", dataset=None, params={}),
        template="vision",
        queued_at=0.0,
    )


def _waiting(rng: np.random.Generator, n: int, now: float, new: float) -> Waiting:
    p50, sigma = rng.lognormal(7, 1.5), rng.uniform(0.1, 1.2)
    gpus = int(rng.choice([1, 2, 4, 8], p=[0.85, 0.05, 0.05, 0.05]))
    queued_at = now - rng.exponential(20_000)
    return Waiting(
        f"exp-{n}/1", f"user{n % 20}", queued_at, p50, p50 * math.exp(1.28 * sigma), gpus,
        looked=bool(rng.random() >= new), can_checkpoint=True,
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", default="", help="names with commas between them")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(json.dumps(main([c for c in arguments.clusters.split(",") if c], arguments.seed), indent=2))
