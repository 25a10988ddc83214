"""A run that failed on a card gets another one where there is one, and waits for it when that is busy."""

from __future__ import annotations

from lab.card import Card
from lab.plan import Point
from lab.run import Run
from workers.choice import Binding, Offer
from workers.elsewhere import steered, waits_for_another


def card(uuid: str, host: str = "a") -> Card:
    return Card(uuid=uuid, index=int(uuid[-1]), name="H200", host=host)


def run(number: int = 1, avoid: tuple[str, ...] = (), gpus: int = 1) -> Run:
    point = Point(model="m", dataset=None, params={})
    return Run(
        id=f"exp-1/{number}",
        experiment_id="exp-1",
        number=number,
        point=point,
        template="probe",
        queued_at=0,
        avoid=avoid,
        gpus=gpus,
    )


def offer(*free: Card, host: str = "a", capacity: int = 4) -> Offer:
    return Offer(host=host, free=free, capacity=capacity, templates=frozenset({"probe"}), datasets=frozenset())


G0, G1, G2, H0 = card("G0"), card("G1"), card("G2"), card("H0", "b")


def cards_of(bindings: list[Binding]) -> list[tuple[str, ...]]:
    return [tuple(c.uuid for c in binding.cards) for binding in bindings]


def test_a_free_card_on_the_same_host_is_taken_instead() -> None:
    """Its checkpoint lies there."""
    moved = steered([Binding(run(avoid=("G0",)), (G0,))], [offer(G0, G1), offer(H0, host="b")])

    assert cards_of(moved) == [("G1",)]


def test_else_one_of_another_host() -> None:
    """The same card would very likely fail again."""
    moved = steered([Binding(run(avoid=("G0",)), (G0,))], [offer(G0), offer(H0, host="b")])

    assert cards_of(moved) == [("H0",)]


def test_only_the_card_to_avoid_is_left_of_a_gang() -> None:
    """The other ones stay."""
    moved = steered([Binding(run(avoid=("G0",), gpus=2), (G0, G1))], [offer(G0, G1, G2)])

    assert cards_of(moved) == [("G1", "G2")]


def test_where_there_is_no_other_card_it_runs_on_the_same() -> None:
    """A lab of one card must not wait for ever."""
    it = run(avoid=("G0",))

    assert not waits_for_another(it, [offer(G0)], [G0])
    assert cards_of(steered([Binding(it, (G0,))], [offer(G0)])) == [("G0",)]


def test_it_waits_for_a_better_card_that_is_busy() -> None:
    """Somebody's run on G1 ends some time; another run may have G0 now."""
    assert waits_for_another(run(avoid=("G0",)), [offer(G0)], [G0, G1])
    assert not waits_for_another(run(), [offer(G0)], [G0, G1])


def test_a_run_whose_better_card_went_to_somebody_else_waits_a_round() -> None:
    """Both were chosen at once; no card is given twice."""
    bindings = [Binding(run(1), (G1,)), Binding(run(2, avoid=("G0",)), (G0,))]

    assert cards_of(steered(bindings, [offer(G0, G1)])) == [("G1",)]


def test_a_card_given_up_can_be_had_by_the_next() -> None:
    """Two runs that avoid each other's card change places."""
    bindings = [Binding(run(1, avoid=("G0",)), (G0,)), Binding(run(2, avoid=("G1",)), (G1,))]
    moved = steered(bindings, [offer(G0, G1, G2)])

    assert cards_of(moved) == [("G2",), ("G0",)]
