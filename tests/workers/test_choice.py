"""Who starts next, and where."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lab.card import Card
from lab.plan import PRIORITIES, Point, Priority
from lab.predict import Prediction
from lab.run import Run, Usage
from workers.choice import Offer, choose, why_waiting


def run(number: int, *, priority: Priority = "normal", at: float = 0.0, gpus: int = 1, **fields: str | None) -> Run:
    """A queued run of experiment exp-1."""
    point = Point(model="m", dataset=fields.pop("dataset", None), params={})
    return Run(
        id=f"exp-1/{number}",
        experiment_id="exp-1",
        number=number,
        point=point,
        template="probe",
        priority=priority,
        gpus=gpus,
        queued_at=at,
        **fields,
    )


def offer(host: str = "a", free: int = 1, capacity: int | None = None, datasets: tuple[str, ...] = ()) -> Offer:
    """A host with so many free cards."""
    cards = tuple(Card(uuid=f"{host}{i}", index=i, name="card", host=host) for i in range(free))
    return Offer(host, cards, free if capacity is None else capacity, frozenset({"probe"}), frozenset(datasets))


def chosen(queued: list[Run], *offers: Offer) -> list[tuple[int, list[str]]]:
    """Number of each run that starts with its cards."""
    return [(binding.run.number, [card.uuid for card in binding.cards]) for binding in choose(queued, offers).bindings]


def test_priority_goes_before_age_and_age_before_number() -> None:
    """Somebody who needs it now says so; among equals who came first is first."""
    queued = [run(1, at=2), run(2, at=1), run(3, at=3, priority="high"), run(4, at=0, priority="low"), run(5, at=1)]

    assert [number for number, _ in chosen(queued, offer(free=5))] == [3, 2, 5, 1, 4]


def test_no_card_no_run() -> None:
    """Nothing is bound to wait in a queue."""
    assert chosen([run(1)], offer(free=0, capacity=3)) == []
    assert chosen([run(1)]) == []


def test_a_run_of_several_cards_gets_all_on_one_host() -> None:
    """Its parts talk to each other."""
    assert chosen([run(1, gpus=2)], offer("a", 1, 2), offer("b", 2)) == [(1, ["b0", "b1"])]


def test_a_waiting_gang_keeps_back_the_cards_of_its_host_only() -> None:
    """Runs of one card would take every card that becomes free, for ever."""
    queued = [run(1, gpus=3, priority="high"), run(2, at=1), run(3, at=1)]

    assert chosen(queued, offer("a", 2, 3), offer("b", 1, 1)) == [(2, ["b0"])]


def test_a_gang_that_fits_nowhere_holds_nothing_back() -> None:
    """It waits for a host that is not there; the others need not."""
    assert chosen([run(1, gpus=8), run(2)], offer("a", 1, 3)) == [(2, ["a0"])]


def test_a_run_keeps_to_hosts_with_its_data_and_template() -> None:
    """Elsewhere it would only fail."""
    queued = [run(1, dataset="cifar10"), run(2, dataset="digits")]

    assert chosen(queued, offer("a", datasets=("digits",)), offer("b", datasets=("cifar10",))) == [
        (1, ["b0"]),
        (2, ["a0"]),
    ]
    assert why_waiting(run(3, dataset="svhn"), [offer()]) == "no host has the data set svhn"
    assert why_waiting(run(3, gpus=9), [offer()]) == "no host has 9 usable cards"
    assert why_waiting(run(3), [offer("a"), offer("b")], {"a"}) is None
    assert "the disk of a or b" in (why_waiting(run(3), [offer("a"), offer("b")], {"a", "b"}) or "")


def test_a_next_attempt_prefers_the_host_of_its_checkpoints() -> None:
    """Without a shared folder they lie there."""
    assert chosen([run(1, host="b")], offer("a", 3), offer("b", 1)) == [(1, ["b0"])]


@given(
    st.lists(st.tuples(st.sampled_from(PRIORITIES), st.integers(1, 4), st.floats(0, 9)), max_size=30),
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
)
def test_no_card_twice_no_run_twice_and_gangs_whole(queue: list[tuple[Priority, int, float]], free: list[int]) -> None:
    """Whatever waits and whatever is free."""
    queued = [run(n, priority=p, gpus=g, at=at) for n, (p, g, at) in enumerate(queue, 1)]

    bindings = choose(queued, [offer(f"h{i}", count, 4) for i, count in enumerate(free)]).bindings

    cards = [card.uuid for binding in bindings for card in binding.cards]
    runs = [binding.run.number for binding in bindings]
    assert len(cards) == len(set(cards)) <= sum(free)
    assert len(runs) == len(set(runs))
    assert all(len(b.cards) == b.run.gpus and len({c.host for c in b.cards}) == 1 for b in bindings)


@given(st.lists(st.tuples(st.sampled_from(PRIORITIES), st.floats(0, 9)), min_size=1, max_size=20), st.integers(1, 5))
def test_nobody_overtakes_among_runs_of_one_card(queue: list[tuple[Priority, float]], free: int) -> None:
    """Who starts is never behind somebody who does not."""
    queued = [run(n, priority=p, at=at) for n, (p, at) in enumerate(queue, 1)]

    started = {binding.run.number for binding in choose(queued, [offer(free=free)]).bindings}

    ahead = sorted(queued, key=lambda r: (-PRIORITIES.index(r.priority), r.queued_at, r.number))[:free]
    assert started == {r.number for r in ahead}


def test_a_run_known_to_be_short_goes_before_an_older_long_one() -> None:
    """Predictions reach the policy by run id."""
    queued = [run(1, at=1), run(2, at=2)]
    lengths = {"exp-1/1": Prediction(7200, 9000, ""), "exp-1/2": Prediction(60, 90, "")}

    choice = choose(queued, [offer(free=1)], now=3, lengths=lengths)

    assert [binding.run.number for binding in choice.bindings] == [2]


def test_a_preempted_run_waits_for_its_checkpoints_as_long_as_training_them_took() -> None:
    """Elsewhere it begins anew: worth it only when its own host is busy for longer than that took."""
    moved = run(1, host="b").model_copy(update={"preempted_at": 1000.0, "earlier": Usage(gpu_s=700)})
    elsewhere, home = offer("a", 1), offer("b", 0, 1)

    def hosts(now: float, *offers: Offer, queued: Run = moved) -> list[str]:
        return [binding.cards[0].host for binding in choose([queued], offers, now=now).bindings]

    assert hosts(1600, elsewhere, home) == []
    assert hosts(1600, elsewhere, offer("b", 1)) == ["b"]
    assert hosts(1701, elsewhere, home) == ["a"]
    assert hosts(1600, elsewhere) == ["a"]  # its host is gone
    assert hosts(1600, elsewhere, home, queued=moved.model_copy(update={"avoid": ("b0",)})) == ["a"]


def test_without_somebody_to_act_on_it_nothing_is_preempted() -> None:
    """Runs count as impossible to checkpoint unless the caller says otherwise."""
    holding = [run(1, host="a").model_copy(update={"cards": ("a0",), "state": "running", "pid": 1, "started_at": 0.0})]

    quiet = choose([run(2, priority="high")], [offer(free=0, capacity=1)], now=9000, holding=holding)
    acted = choose(
        [run(2, priority="high")],
        [offer(free=0, capacity=1)],
        now=9000,
        holding=holding,
        can_checkpoint=lambda _: True,
    )

    assert quiet.decision.preemptions == ()
    assert [(p.run_id, p.by, p.reason) for p in acted.decision.preemptions] == [("exp-1/1", "exp-1/2", "priority")]
