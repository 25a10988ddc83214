"""What is to be expected of queue and runs."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given

from lab import forecast as published
from lab import tally
from lab.forecast import Forecast, Opening, Queue
from lab.plan import Point, Priority
from lab.predict import Prediction
from lab.run import Run, RunState
from lab.store import Client
from tests.workers.test_decision import NOW as LATER
from tests.workers.test_decision import situations
from tests.workers.under_test import Lab, until
from workers.choice import Choice, Offer, choose
from workers.decision import decide
from workers.forecast import Forecasts, Known, forecast
from workers.policy import HostState, Running, Waiting

NOW = 1_000_000.0
EXACT = 1.001
"""p90 over p50 of a run whose length is known."""


def run(number: int, experiment: int = 1, since: float | None = None, priority: Priority = "normal") -> Run:
    """A queued run, or one that has held its card since then."""
    return Run(
        id=f"exp-{experiment}/{number}",
        experiment_id=f"exp-{experiment}",
        number=number,
        point=Point(model="m", dataset=None, params={}),
        template="probe",
        owner=f"U{experiment}",
        queued_at=NOW - 100 + number,
        priority=priority,
        **{} if since is None else {"state": RunState.RUNNING, "started_at": since, "pid": 1, "cards": (f"c{number}",)},  # type: ignore[arg-type]
    )


def expected(
    runs: Sequence[Run], p50_s: float, cards: int = 2, spread: float = EXACT, stuck: dict[str, str] | None = None
) -> tuple[dict[str, Forecast], Queue]:
    """The forecast for a host with so many cards, all of them busy or about to be."""
    lengths = {r.id: Prediction(p50_s, p50_s * spread, "", rough=False) for r in runs}
    queued = [r for r in runs if r.state is RunState.QUEUED and r.id not in (stuck or {})]
    holding = [r for r in runs if r.state is RunState.RUNNING]
    offer = Offer("lab-a", (), cards, frozenset({"probe"}), frozenset())
    choice = choose(queued, [offer], now=NOW, holding=holding, lengths=lengths)
    return forecast(NOW, choice, {}, {r.id: Known(r, lengths[r.id], "k") for r in runs}, stuck or {})


def test_waiting_runs_have_places_and_starts_and_the_experiment_an_end() -> None:
    """Two cards with 40 s and 90 s to go, three runs of 100 s: they start then and when the first of them has ended."""
    runs = [run(1, since=NOW - 60), run(2, since=NOW - 10), run(3), run(4), run(5)]
    found, queue = expected(runs, 100.0)
    told = found["exp-1"]

    assert [told.waiting[n].position for n in (3, 4, 5)] == [1, 2, 3]
    assert [told.waiting[n].p50 - NOW for n in (3, 4, 5)] == pytest.approx([40, 90, 140], abs=2)
    assert [told.running[n].p50 - NOW for n in (1, 2)] == pytest.approx([40, 90], abs=2)
    assert told.end
    assert told.end.p50 - NOW == pytest.approx(240, abs=3)
    assert queue.waiting == 3
    assert told.next == told.waiting[3]


def test_the_p90_of_an_end_is_later_and_grows_with_what_is_unsure() -> None:
    """A person who needs it by nine looks at that one."""
    runs = [run(1, since=NOW - 5), run(2, since=NOW - 5), *[run(n) for n in range(3, 9)]]
    sure, unsure = (expected(runs, 100.0, spread=spread)[0]["exp-1"].end for spread in (1.1, 3.0))

    assert sure
    assert unsure
    assert sure.p90 - sure.p50 < 40
    assert unsure.p90 - unsure.p50 > 100


def test_each_experiment_has_an_end_of_its_own() -> None:
    """The first of two that wait is not done when the second is."""
    runs = [run(1, since=NOW - 50), run(1, 2), run(2, 2), run(1, 3, priority="low")]
    found, _ = expected(runs, 100.0, cards=1)

    assert {name: round((f.end.p50 if f.end else 0) - NOW, -1) for name, f in found.items()} == {
        "exp-1": 50,
        "exp-2": 250,
        "exp-3": 350,
    }


def test_a_newcomer_is_told_what_waits_before_it_by_its_priority_and_size() -> None:
    """High priority goes to the front, a long run behind the short ones, low priority to the end."""
    runs = [run(1, since=NOW - 50), *[run(n) for n in range(2, 6)]]
    _, queue = expected(runs, 200.0, cards=1)
    openings = [queue.opening(*what) for what in (("high", 200.0), ("normal", 5000.0), ("low", 200.0))]  # type: ignore[arg-type]

    assert [o.before for o in openings if o] == [0, 4, 4]
    assert [o.starts_at - NOW for o in openings if o] == pytest.approx([150, 950, 950], abs=10)


def test_a_run_that_no_host_can_take_has_no_start_and_its_experiment_no_end() -> None:
    """An end that never comes is no news."""
    runs = [run(1, since=NOW - 50), run(2)]
    found, queue = expected(runs, 100.0, stuck={"exp-1/2": "no host has the data set x"})

    assert found["exp-1"].stuck == {2: "no host has the data set x"}
    assert not found["exp-1"].waiting
    assert found["exp-1"].end is None
    assert found["exp-1"].running
    assert queue.waiting == 1


def test_runs_far_behind_have_places_too() -> None:
    """None of ten thousand is without an answer."""
    runs = [run(1, since=NOW), *[run(n) for n in range(2, 502)]]
    told = expected(runs, 100.0, cards=1)[0]["exp-1"]
    starts = [told.waiting[n].p50 for n in range(2, 502)]

    assert sorted(place.position for place in told.waiting.values()) == list(range(1, 501))
    assert starts == sorted(starts)
    assert starts[-1] - NOW == pytest.approx(50_000, rel=0.02)
    assert told.end
    assert told.end.p50 - NOW == pytest.approx(50_100, rel=0.02)


@given(situations())
def test_whatever_waits_has_a_place_and_every_end_a_time(
    situation: tuple[list[Waiting], list[Running], list[HostState], dict[str, float]],
) -> None:
    """Positions are 1 to n without a gap, nothing is expected in the past, p90 not before p50, an experiment not done
    before its runs."""
    waiting, running, hosts, usage = situation
    decision = decide(LATER, waiting, running, hosts, usage)
    choice = Choice((), decision, tuple(waiting), tuple(running), tuple(hosts))
    known = {}
    for number, one in enumerate([*waiting, *running], start=1):
        record = run(number, since=None if number <= len(waiting) else NOW)
        known[one.id] = Known(record.model_copy(update={"id": one.id}))
    found = forecast(LATER, choice, usage, known, {})[0].get("exp-1", Forecast())
    starting = {start.run_id for start in decision.starts}

    places = found.waiting.values()
    assert sorted(place.position for place in places) == list(range(1, len(waiting) - len(starting) + 1))
    assert all(LATER <= place.p50 <= place.p90 for place in places)
    assert len(found.running) == len(running)
    assert all(LATER <= end.p50 <= end.p90 <= (found.end or end).p90 + 0.2 for end in found.running.values())
    assert (found.end is None) == (not known)


def test_what_is_published_is_read_and_runs_out(store: Client) -> None:
    """Without a leader nobody is told what the last one expected."""
    runs = [run(1, since=NOW - 50), run(2)]
    offer = Offer("lab-a", (), 1, frozenset({"probe"}), frozenset())
    choice = choose([runs[1]], [offer], now=NOW, holding=[runs[0]])
    forecasts = Forecasts(store)
    assert forecasts.due()
    forecasts.publish(NOW, choice, {}, [Known(r) for r in runs], {}, 0.0)

    read = published.forecasts(store, ["exp-1", "exp-2"])

    assert not forecasts.due()
    assert read.keys() == {"exp-1"}
    assert read["exp-1"].waiting.keys() == {2}
    assert published.queue(store) is not None
    assert store.pttl(published.KEY) > 0


def test_newcomers_have_their_first_look_after_those_who_wait_for_theirs() -> None:
    """Half of four cards are lent for looks at a time, every two minutes, and four runs wait for one."""
    runs = [*[run(n, since=NOW - 1000) for n in (1, 2, 3, 4)], *[run(n) for n in (5, 6, 7, 8)]]
    lengths = {r.id: Prediction(50_000.0, 60_000.0, "", rough=False) for r in runs}
    offer = Offer("lab-a", (), 4, frozenset({"probe"}), frozenset())
    choice = choose(runs[4:], [offer], now=NOW, holding=runs[:4], lengths=lengths, can_checkpoint=lambda r: True)
    found, queue = forecast(NOW, choice, {}, {r.id: Known(r, lengths[r.id]) for r in runs}, {})

    assert [found["exp-1"].waiting[n].p50 - NOW for n in (5, 6, 7, 8)] == [0.0, 0.0, 120.0, 120.0]
    assert queue.opening("normal", 10_000.0) == Opening(
        priority="normal", gpu_s=28_800.0, before=0, starts_at=NOW + 240.0
    )


def test_a_running_lab_tells_where_its_runs_stand_and_how_right_it_was(lab: Lab) -> None:
    """Seven runs on three cards: the four that wait have places and starts, which move up; later runs are told from
    those that have ended, and counted."""
    lab.start()
    experiment = lab.approve(seeds=7, steps=10, step_s=0.2)

    def told() -> Forecast | None:
        found = published.forecasts(lab.client, [experiment.id]).get(experiment.id)
        return found if found and found.waiting else None

    first: Forecast = until(told, 30)
    begun = time.time()
    lab.ended(experiment, 60)
    right = until(lambda: tally.parse(lab.client.hgetall(tally.KEY)).predictions.get("known"))

    assert sorted(place.position for place in first.waiting.values()) == list(range(1, len(first.waiting) + 1))
    assert all(first.waiting[n].p50 <= first.waiting[n].p90 for n in first.waiting)
    assert first.end
    assert first.end.p50 > begun
    assert right.runs >= 1  # the last ones at least, which started after the first had ended
    assert right.abs_log_error / right.runs < 1.0
