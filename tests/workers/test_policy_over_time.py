"""The policy over simulated weeks: nobody starves, preemption keeps to its rules, shares come out even."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.plan import PRIORITIES
from lab.predict import History
from tests.workers.simulate import Cluster, Job, Story, fifo_easy, jain
from workers.decision import decide
from workers.policy import USUAL, Decision, Running, Waiting

HOUR, DAY = 3600.0, 86_400.0
ROUNDING_S = 1e-6
"""`at + 3600 <= now` and `now - at >= 3600` may differ in the last bit."""


def stream(seed: int, load: float, cards: int, days: float, users: int = 4) -> list[Job]:
    """Runs of minutes to days, a tenth on several cards, guessed within a factor of 3."""
    rng = np.random.default_rng(seed)
    jobs: list[Job] = []
    work = 0.0
    while work < load * cards * days * DAY:
        length, gpus = (
            float(np.clip(rng.lognormal(8.0, 1.5), 30, 3 * DAY)),
            int(rng.choice([1, 2, 4], p=[0.9, 0.05, 0.05])),
        )
        guess = length * float(np.exp(rng.normal(0, 1.2)))
        jobs.append(Job(f"{len(jobs):05}", rng.uniform(0, days * DAY), length, gpus, f"u{rng.integers(users)}", guess))
        work += length * gpus
    return sorted(jobs, key=lambda job: job.at)


def waits(stories: Sequence[Story]) -> np.ndarray:  # type: ignore[type-arg]
    """Hours each job was not on a card, or had no progress."""
    return np.array([(s.ended_at or np.inf) - s.job.at - s.job.length_s for s in stories]) / HOUR


@pytest.mark.parametrize("seed", [1, 2])
def test_nobody_starves_at_a_load_of_0_8(seed: int) -> None:
    """Three weeks on 16 cards: even the longest run, guessed at ten times its length, waits for 5 days at most."""
    stories = list(Cluster({"h": 16}, history=History()).run(stream(seed, 0.8, 16, 21)).values())

    first = np.array([(s.started_at or np.inf) - s.job.at for s in stories])
    assert waits(stories).max() < 120
    assert np.percentile(first, 95) < 600


def test_a_long_run_ends_under_an_endless_stream_of_short_ones() -> None:
    """With its restarts as much as there are cards for, all of it shorter, all of one user: ageing lets it through."""
    short = [Job(f"s{n:04}", n * 640.0, 1200.0, guess_s=1200.0) for n in range(1800)]
    long = Job("long", 0.0, 2 * HOUR, guess_s=2 * HOUR)

    stories = Cluster({"h": 2}).run([*short, long], until=short[-1].at)

    assert stories["long"].ended_at is not None
    assert stories["long"].ended_at < 8 * DAY


def test_a_gang_is_not_starved_by_runs_of_one_card() -> None:
    """It gets its reservation, and the others fill in around it."""
    short = [Job(f"s{n:04}", n * 450.0, HOUR, user="a", guess_s=HOUR, can_checkpoint=False) for n in range(600)]
    gang = Job("gang", 3 * HOUR, HOUR, gpus=8, user="b", guess_s=HOUR, can_checkpoint=False)

    stories = Cluster({"h": 8}).run([*short, gang])

    assert (stories["gang"].started_at or np.inf) - gang.at < 14 * HOUR


def test_first_looks_come_soon_in_a_cluster_that_is_full_of_long_runs() -> None:
    """Thirty new runs at once on ten cards: all have been on a card within 15 minutes, and the first within one."""
    long = [Job(f"l{n}", 0.0, 90 * HOUR, user="a", guess_s=90 * HOUR) for n in range(10)]
    new = [Job(f"n{n:02}", 5 * HOUR, 9 * HOUR, user="b", guess_s=9 * HOUR) for n in range(30)]

    stories = Cluster({"h": 10}).run([*long, *new], until=9 * HOUR)

    first = sorted((stories[job.id].started_at or np.inf) - job.at for job in new)
    assert first[0] < 60
    assert first[-1] < 900


def test_equal_users_get_equal_shares_when_there_is_too_much_to_do() -> None:
    """Which of them has the longer runs is chance, and evened out."""
    jobs = stream(3, 2.0, 8, 8)
    cluster = Cluster({"h": 8}, history=History())

    cluster.run(jobs, until=8 * DAY)

    assert jain(cluster.held.values()) > 0.95


def test_the_mean_completion_is_far_below_that_of_fifo_with_easy_backfill() -> None:
    """What the policy is for; the benchmark says how far on real traces."""
    jobs = stream(4, 0.95, 16, 14)

    ours = Cluster({"h": 16}, history=History()).run(jobs).values()
    theirs = Cluster({"h": 16}, fifo_easy).run(jobs).values()

    def mean(stories: Sequence[Story]) -> float:
        return float(np.mean([(s.ended_at or np.inf) - s.job.at for s in stories]))

    assert mean(list(ours)) < 0.55 * mean(list(theirs))


def test_nine_in_ten_end_within_their_p90() -> None:
    """Although what is learned first comes from the short ones."""
    cluster = Cluster({"h": 16}, history=History())

    stories = cluster.run(stream(5, 0.9, 16, 21)).values()

    covered = np.mean([s.job.length_s <= s.prediction.p90_s for s in stories])
    assert 0.85 <= covered <= 0.95


jobs_of_a_day = st.lists(
    st.builds(
        Job,
        id=st.uuids().map(str),
        at=st.floats(0, DAY),
        length_s=st.floats(10, 2 * DAY),
        gpus=st.integers(1, 4),
        user=st.sampled_from("abc"),
        guess_s=st.floats(10, 2 * DAY),
        priority=st.sampled_from(["low", "normal", "high"]),
        can_checkpoint=st.booleans(),
    ),
    max_size=25,
    unique_by=lambda job: job.id,
)


@settings(max_examples=40, deadline=None)
@given(jobs_of_a_day)
def test_every_job_ends_and_no_card_is_held_twice(jobs: list[Job]) -> None:
    """Over its whole story, whatever comes when; the cluster itself fails when a busy card is given out."""
    ranks: list[tuple[int, int]] = []

    def watch(now: float, waiting: Sequence[Waiting], running: Sequence[Running], decision: Decision) -> None:
        wants, holds = {w.id: w for w in waiting}, {r.id: r for r in running}
        for p in decision.preemptions:
            ranks.append((PRIORITIES.index(wants[p.by].priority), PRIORITIES.index(holds[p.run_id].priority)))

    stories = Cluster({"h": 5, "i": 4}, decide, watch=watch).run(jobs)

    assert all(story.ended_at is not None and story.left_s == 0 for story in stories.values())
    busy = sorted((since, until, card) for s in stories.values() for since, until, cards in s.stints for card in cards)
    for card in {card for _, _, card in busy}:
        held = [(since, until) for since, until, of in busy if of == card]
        assert all(until <= later for (_, until), (later, _) in itertools.pairwise(held))
    assert all(winner >= victim for winner, victim in ranks)
    for story in stories.values():
        assert all(len(cards) == story.job.gpus and len({c[0] for c in cards}) == 1 for _, _, cards in story.stints)
        assert story.job.can_checkpoint or not story.made_room
        counted = [at for at, _, ends_look in story.made_room if not ends_look]
        assert all(later - at >= USUAL.every_s - ROUNDING_S for at, later in itertools.pairwise(counted))
        for (at, _, ends_look), (since, _, _) in zip(story.made_room, story.stints, strict=False):
            assert at - since >= (USUAL.look_s if ends_look else USUAL.stint_s) - ROUNDING_S
        assert sum(ends_look for _, _, ends_look in story.made_room) <= 1
