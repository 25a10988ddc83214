"""One decision: who starts, who makes room, what is reserved."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lab.plan import PRIORITIES
from workers.decision import decide
from workers.policy import (
    HALF_LIFE_S,
    USUAL,
    Decision,
    HostState,
    Preemption,
    Running,
    Start,
    Timings,
    Usage,
    Waiting,
)
from workers.ranks import over_share, remaining_p50

HOUR = 3600.0
NOW = 100 * HOUR


def waits(name: str, hours: float = 1.0, gpus: int = 1, **fields: object) -> Waiting:
    """A run that has had its look, can checkpoint, and was queued a moment ago."""
    known = {"looked": True, "can_checkpoint": True, "user": "a", "queued_at": NOW - 1} | fields
    return Waiting(name, p50_s=hours * HOUR, p90_s=hours * HOUR * 1.01, gpus=gpus, **known)  # type: ignore[arg-type]


def runs(name: str, *cards: str, hours: float = 50.0, since: float = NOW - 2 * HOUR, **fields: object) -> Running:
    """A run that has held its cards for two hours."""
    known = {"looked": True, "can_checkpoint": True, "user": "a", "queued_at": since} | fields
    return Running(name, host="h", cards=cards, since=since, p50_s=hours * HOUR, p90_s=hours * HOUR * 1.01, **known)  # type: ignore[arg-type]


def decided(
    waiting: list[Waiting], running: list[Running], free: int = 0, usage: dict[str, float] | None = None
) -> Decision:
    """The decision on one host, where the cards f0, f1, ... are free."""
    cards = tuple(f"f{i}" for i in range(free))
    return decide(NOW, waiting, running, [HostState("h", cards, free + sum(r.gpus for r in running))], usage or {})


def test_the_shortest_remaining_gpu_time_goes_first() -> None:
    """Most people wait least so; what a run has behind it does not count."""
    queue = [
        waits("long", 9),
        waits("wide", 2, gpus=4),
        waits("nearly done", 9, served_s=8.9 * HOUR),
        waits("short", 1),
    ]

    decision = decided(queue, [], free=9)

    assert [start.run_id for start in decision.starts] == ["nearly done", "short", "wide", "long"]


def test_waiting_makes_a_run_rank_as_shorter() -> None:
    """Else a long run would wait for as long as shorter ones come."""
    old = waits("old", 10, queued_at=NOW - 20 * 24 * HOUR)

    assert decided([waits("new", 1), old], [], free=1).starts == (Start("old", "h", ("f0",)),)


def test_who_is_over_his_share_comes_after_the_others() -> None:
    """However short his runs are, but within the same priority only."""
    queue = [waits("a's", 1, user="a"), waits("b's", 9, user="b"), waits("a's high", 9, user="a", priority="high")]

    decision = decided(queue, [], free=2, usage={"a": 10 * HOUR, "b": HOUR})

    assert [start.run_id for start in decision.starts] == ["a's high", "b's"]


def test_only_those_who_want_cards_are_compared() -> None:
    """Nobody is over his share for the sake of people who have gone home."""
    used = {"a": 10.0, "b": 9.0, "gone": 0.0}

    assert over_share(used, ["a", "b"]) == frozenset()
    assert over_share({**used, "a": 20.0}, ["a", "b"]) == {"a"}


def test_half_of_the_usage_is_forgotten_in_a_week() -> None:
    """In whatever order it is charged."""
    one, other = Usage(), Usage()
    one.charge("a", 100.0, at=0.0)
    one.charge("a", 50.0, at=HALF_LIFE_S, priority="high")
    other.charge("a", 50.0, at=HALF_LIFE_S, priority="high")
    other.charge("a", 100.0, at=0.0)

    assert one.at(HALF_LIFE_S) == {"a": 150.0} == other.at(HALF_LIFE_S)
    assert math.isclose(one.at(2 * HALF_LIFE_S)["a"], 75.0)


def test_a_new_run_takes_a_card_for_its_first_look_from_a_long_one() -> None:
    """Everybody sees within minutes whether his run works."""
    new = waits("new", 9, looked=False)

    decision = decided([new], [runs("long", "c0"), runs("longer", "c1", hours=99)])

    assert decision.preemptions == (Preemption("longer", "new", "first look", ends_look=False),)


def test_no_run_makes_room_for_one_of_its_own_experiment() -> None:
    """Their report waits for all of them, and a search would draw points before it knows what the first came to."""
    new = waits("exp-1/2", 9, looked=False)

    own = decided([new], [runs("exp-1/1", "c0"), runs("exp-1/3", "c1", hours=99)])
    others = decided([new], [runs("exp-1/1", "c0", hours=99), runs("exp-11/1", "c1")])

    assert own.preemptions == ()
    assert [p.run_id for p in others.preemptions] == ["exp-11/1"]


def test_a_first_look_is_lent_and_ends_before_ten_minutes_where_a_stint_does_not() -> None:
    """The lender goes on when the look is over; other stints keep their cards for USUAL.stint_s."""
    short = waits("short", 0.1)

    assert decided([short], [runs("look", "c0", looked=False, since=NOW - USUAL.look_s + 1)]).preemptions == ()
    ended = decided([short], [runs("look", "c0", looked=False, since=NOW - USUAL.look_s)]).preemptions
    assert ended == (Preemption("look", "short", "shorter", ends_look=True),)
    assert decided([short], [runs("stint", "c0", since=NOW - USUAL.stint_s + 1)]).preemptions == ()
    ended = decided([short], [runs("stint", "c0", since=NOW - USUAL.stint_s)]).preemptions
    assert ended == (Preemption("stint", "short", "shorter", ends_look=False),)


def test_a_run_is_preempted_at_most_once_an_hour() -> None:
    """Each time costs it its restart."""
    before = runs("r", "c0", preempted_at=NOW - USUAL.every_s + 1)

    assert decided([waits("short", 0.1)], [before]).preemptions == ()
    assert decided([waits("short", 0.1)], [replace(before, preempted_at=NOW - USUAL.every_s)]).preemptions != ()


def test_the_timings_are_the_labs_own() -> None:
    """Minutes for one, hours for another."""
    timings = Timings(look_s=10, stint_s=20, every_s=30)
    hosts, short = [HostState("h", (), 1)], waits("short", 0.1)

    def preempted(**running: object) -> bool:
        return bool(decide(NOW, [short], [runs("r", "c0", **running)], hosts, {}, timings).preemptions)  # type: ignore[arg-type]

    assert [preempted(since=NOW - s, looked=False) for s in (9, 10)] == [False, True]
    assert [preempted(since=NOW - s) for s in (19, 20)] == [False, True]
    assert [preempted(preempted_at=NOW - s) for s in (29, 30)] == [False, True]


def test_a_card_that_is_coming_is_waited_for() -> None:
    """Nobody is stopped for a run that will have a card in a moment."""
    long = [runs("long", "c0")]
    short = [waits("short", 0.1), waits("next", 0.2)]

    def stopped(*waiting: Waiting) -> list[str]:
        decision = decide(NOW, waiting, long, [HostState("h", (), 2, coming=1)], {})
        return [preemption.by for preemption in decision.preemptions]

    assert stopped(short[0]) == []
    assert stopped(*short) == ["next"]


def test_what_cannot_checkpoint_keeps_its_cards_and_is_lent_none() -> None:
    """It would lose its work; and as a look it could not be ended."""
    high = waits("high", 0.1, priority="high")

    assert decided([high], [runs("r", "c0", can_checkpoint=False)]).preemptions == ()
    assert decided([waits("new", 99, looked=False, can_checkpoint=False)], [runs("r", "c0")]).preemptions == ()


def test_looks_hold_at_most_half_of_the_cards() -> None:
    """A flood of new runs does not stop everybody else's."""
    new = [waits(f"n{i}", 99, looked=False, number=i) for i in range(9)]

    decision = decided(new, [runs(f"r{i}", f"c{i}", hours=5) for i in range(4)])

    assert [p.by for p in decision.preemptions] == ["n0", "n1"]


def test_as_few_as_needed_make_room_for_a_gang() -> None:
    """One run of four cards rather than four runs, and none in vain."""
    gang = waits("gang", 0.1, gpus=4)
    held = [runs("wide", "c0", "c1", "c2", "c3", hours=20), *(runs(f"r{i}", f"d{i}", hours=90) for i in range(3))]

    assert [p.run_id for p in decided([gang], held).preemptions] == ["wide"]
    assert decided([gang._replace(gpus=8)], held).preemptions == ()


def test_cards_on_their_way_are_not_asked_for_again() -> None:
    """Between a preemption and its end many decisions are made."""
    stopping = runs("first", "c0", stopping=True)

    decision = decided([waits("short", 0.1)], [stopping, runs("second", "c1")])

    assert decision.preemptions == () == decision.starts


def test_short_runs_fill_in_before_a_reservation_and_long_ones_do_not() -> None:
    """EASY: the gang at the head starts when the running run ends, with or without the others."""
    gang = waits("gang", 0.5, gpus=3, can_checkpoint=False)
    fixed = {"can_checkpoint": False}
    queue = [gang, waits("long", 9, **fixed), waits("short", 1.9, **fixed)]

    decision = decided(queue, [runs("r", "c0", "c1", hours=4, **fixed)], free=1)

    assert [start.run_id for start in decision.starts] == ["short"]
    assert decision.reservation is not None
    assert decision.reservation.run_id == "gang"
    assert abs(decision.reservation.at - (NOW + 2 * HOUR)) < 300


def test_cards_that_the_head_does_not_need_are_given_away() -> None:
    """Two of three are enough for it."""
    fixed = {"can_checkpoint": False}
    queue = [waits("gang", 0.5, gpus=2, **fixed), waits("long", 9, **fixed), waits("longer", 10, **fixed)]

    decision = decided(queue, [runs("r", "c0", "c1", hours=4, **fixed)], free=1)

    assert [start.run_id for start in decision.starts] == ["long"]


def test_a_run_goes_where_its_checkpoints_are_else_where_it_fills_a_host() -> None:
    """Whole hosts stay free for gangs."""
    hosts = [HostState("a", ("a0", "a1"), 2), HostState("b", ("b0",), 2), HostState("c", ("c0", "c1"), 2)]

    decision = decide(NOW, [waits("x", 1), waits("y", 2, prefers="c")], [], hosts, {})

    assert [(start.run_id, start.host) for start in decision.starts] == [("x", "b"), ("y", "c")]


def test_what_is_left_of_a_length_grows_when_it_outlives_its_prediction() -> None:
    """A run that should have ended is more likely to be a long one than to end now."""
    served = np.array([0.0, HOUR, 8 * HOUR])

    left = remaining_p50(np.full(3, HOUR), np.full(3, 4 * HOUR), served)

    assert math.isclose(left[0], HOUR, rel_tol=1e-6)
    assert left[2] > left[1] > 0
    assert np.isfinite(remaining_p50(np.array([60.0]), np.array([60.0]), np.array([1e9]))).all()


lengths = st.tuples(st.floats(1, 1e6), st.floats(1.01, 30))


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Waiting], list[Running], list[HostState], dict[str, float]]:
    """Any queue on up to three hosts, some cards free, some held, some of those stopping."""
    running, hosts = [], []
    common = {
        "user": st.sampled_from("abc"),
        "priority": st.sampled_from(PRIORITIES),
        "looked": st.booleans(),
        "can_checkpoint": st.booleans(),
        "preempted_at": st.none() | st.floats(NOW - 2 * HOUR, NOW - 20),
    }
    for h in range(draw(st.integers(1, 3))):
        cards = [f"h{h}.{i}" for i in range(draw(st.integers(1, 8)))]
        free = list(cards)
        while free and draw(st.booleans()):
            held = tuple(free.pop() for _ in range(min(len(free), draw(st.integers(1, 4)))))
            since, (p50, times) = NOW - draw(st.floats(0, 3 * HOUR)), draw(lengths)
            fields = {name: draw(strategy) for name, strategy in common.items()}
            stopping = draw(st.booleans()) and draw(st.booleans())
            running.append(
                Running(f"r{len(running)}", queued_at=since, host=f"h{h}", cards=held, since=since, p50_s=p50,
                        p90_s=p50 * times, stopping=stopping, **fields)
            )  # fmt: skip
        hosts.append(HostState(f"h{h}", tuple(free), len(cards)))
    waiting = []
    for n in range(draw(st.integers(0, 12))):
        (p50, times), fields = draw(lengths), {name: draw(strategy) for name, strategy in common.items()}
        at, gpus = NOW - draw(st.floats(0, 9e5)), draw(st.integers(1, 6))
        waiting.append(Waiting(f"w{n}", queued_at=at, p50_s=p50, p90_s=p50 * times, gpus=gpus, number=n, **fields))
    return waiting, running, hosts, {user: draw(st.floats(0, 1e6)) for user in "abc"}


@given(situations())
def test_no_card_twice_gangs_whole_and_preemption_within_its_rules(
    situation: tuple[list[Waiting], list[Running], list[HostState], dict[str, float]],
) -> None:
    """Whatever waits, runs and is free."""
    waiting, running, hosts, usage = situation

    decision = decide(NOW, waiting, running, hosts, usage)

    wants, holds = {w.id: w for w in waiting}, {r.id: r for r in running}
    free = {host.name: set(host.free) for host in hosts}
    given_out = [card for start in decision.starts for card in start.cards]
    assert len(given_out) == len(set(given_out))
    for start in decision.starts:
        assert len(start.cards) == wants[start.run_id].gpus
        assert set(start.cards) <= free[start.host]
    assert len({s.run_id for s in decision.starts}) == len(decision.starts)
    assert len({p.run_id for p in decision.preemptions}) == len(decision.preemptions)
    assert sorted(decision.order) == list(range(len(waiting)))
    over = over_share(usage, {r.user for r in (*waiting, *running)})
    for preemption in decision.preemptions:
        victim, winner = holds[preemption.run_id], wants[preemption.by]
        assert victim.can_checkpoint
        assert not victim.stopping
        assert PRIORITIES.index(winner.priority) >= PRIORITIES.index(victim.priority)
        look = winner.can_checkpoint and not winner.looked
        if winner.priority == victim.priority and not look:
            assert (winner.user in over) <= (victim.user in over)
        had = NOW - victim.since
        assert had >= (USUAL.stint_s if victim.looked else USUAL.look_s) - 1e-6
        assert preemption.ends_look == (not victim.looked and victim.since + USUAL.stint_s > NOW)
        if victim.looked and victim.preempted_at is not None:
            assert NOW - victim.preempted_at >= USUAL.every_s - 1e-6


@given(situations(), st.randoms())
def test_the_same_situation_gives_the_same_decision(
    situation: tuple[list[Waiting], list[Running], list[HostState], dict[str, float]], shuffled: random.Random
) -> None:
    """Also where the records come in another order: two leaders for a moment decide alike."""
    waiting, running, hosts, usage = situation
    one = decide(NOW, waiting, running, hosts, usage)

    other = list(waiting)
    shuffled.shuffle(other)
    again = decide(NOW, other, running, hosts, usage)

    assert (again.starts, again.preemptions, again.reservation) == (one.starts, one.preemptions, one.reservation)
    assert [other[i].id for i in again.order] == [waiting[i].id for i in one.order]
