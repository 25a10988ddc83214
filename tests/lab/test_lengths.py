"""How long the lab's runs take: from its own history, else from FLOPs."""

from __future__ import annotations

import pytest

from lab.card import Card, DataSet, Host
from lab.lengths import BACKWARD_FACTOR, STARTUP_S, Lengths, Machines, Subject, machines
from lab.plan import Point
from lab.store import Client

DIGITS = DataSet(name="digits", present=True, train_samples=1000, image_size=224)
WHERE = Machines({"digits": DIGITS}, 1e12, {"G0": "L20", "G1": "L20"})


def subject(
    model: str = "resnet50",
    epochs: int | None = 3,
    max_steps: int | None = None,
    owner: str = "ann",
    template: str = "vision",
    card: str | None = "L20",
    **params: float,
) -> Subject:
    """A run on digits."""
    return Subject.of(Point(model=model, dataset="digits", params=params), template, epochs, max_steps, owner, card)


def p50_s(lengths: Lengths, about: Subject) -> float:
    """The median that is told."""
    found = lengths.predict(about, WHERE)
    assert found
    return found.p50_s


def test_without_history_the_models_work_decides_and_is_called_rough(store: Client) -> None:
    """resnet50 costs 4.1e9 multiply-adds an image: 3 epochs of 1000, two operations each, forward and backward."""
    found = Lengths(store).predict(subject(), WHERE)

    assert found
    assert found.rough
    assert found.p50_s == pytest.approx(STARTUP_S + BACKWARD_FACTOR * 2 * 4.1e9 * 3000 / 1e12, rel=0.03)


@pytest.mark.parametrize(
    "unknown",
    [subject("no_such_model"), subject(epochs=None), subject(epochs=None, max_steps=100), subject(template="command")],
)
def test_nothing_is_told_of_what_nothing_is_known_of(store: Client, unknown: Subject) -> None:
    """No figure is better than a made-up one."""
    about = Machines({}, 1e12) if unknown.template == "command" else WHERE

    assert Lengths(store).predict(unknown, about) is None


def test_another_number_of_epochs_is_told_from_the_same_history_with_the_start_apart(store: Client) -> None:
    """100 s for 2 epochs, of which 10 s were start-up: 20 epochs take 910 s and not 1000."""
    for _ in range(5):
        Lengths(store).learn(subject(epochs=2), WHERE, 100.0, 10.0)
    lengths = Lengths(store)

    assert p50_s(lengths, subject(epochs=2)) == pytest.approx(100, rel=0.05)
    assert p50_s(lengths, subject(epochs=20)) == pytest.approx(910, rel=0.05)
    assert not lengths.predict(subject(epochs=20), WHERE).rough  # type: ignore[union-attr]


def test_history_outlives_the_process_that_learned_it(store: Client) -> None:
    """The agent tells on the plan card what the dispatcher learned."""
    Lengths(store).learn(subject(), WHERE, 500.0, None)

    assert p50_s(Lengths(store), subject()) > 300


def test_seeds_and_learning_rates_share_a_history_and_batch_sizes_do_not(store: Client) -> None:
    """They take the same time, and history is scarce."""
    assert subject(seed=0, lr=0.1, batch_size=64).kind == subject(seed=1, lr=0.01, batch_size=64).kind
    assert subject(batch_size=64).kind != subject(batch_size=32).kind


def test_a_guess_is_corrected_by_how_wrong_it_was_for_other_models(store: Client) -> None:
    """Where FLOPs are off by four for everything, they are off by four for the next model."""
    lengths = Lengths(store)
    before = p50_s(lengths, subject("resnet18")) - STARTUP_S
    for model in ("resnet34", "resnet50", "resnet101", "densenet121", "vgg16") * 2:
        guess_s = subject(model).guess_s(WHERE)
        assert guess_s
        lengths.learn(subject(model), WHERE, 4 * guess_s + STARTUP_S, STARTUP_S)
    after = lengths.predict(subject("resnet18"), WHERE)

    assert after
    assert after.rough
    assert 2 < (after.p50_s - STARTUP_S) / before <= 4


def test_a_slower_measurement_of_the_host_changes_nothing_where_runs_were_timed(store: Client) -> None:
    """A host that is measured while it is busy would else promise half of everything."""
    lengths = Lengths(store)
    for _ in range(5):
        lengths.learn(subject(), WHERE, 100.0, 10.0)
    slower = Machines(WHERE.datasets, WHERE.flops / 3 if WHERE.flops else None, WHERE.names)
    found = lengths.predict(subject(), slower)

    assert found
    assert found.p50_s == pytest.approx(100, rel=0.1)


def test_other_cards_have_a_history_of_their_own(store: Client) -> None:
    """A slow card in the lab must not lengthen what is promised on a fast one."""
    lengths = Lengths(store)
    for card, seconds in (("L20", 100.0), ("K80", 1000.0)) * 6:
        lengths.learn(subject(card=card), WHERE, seconds, 5.0)

    assert p50_s(lengths, subject(card="L20")) == pytest.approx(100, rel=0.15)
    assert p50_s(lengths, subject(card="K80")) == pytest.approx(1000, rel=0.15)
    assert 150 < p50_s(lengths, subject(card=None)) < 700


def test_a_limit_in_steps_ends_the_run_whatever_the_epochs_say() -> None:
    """So it is what the length is in proportion to."""
    assert (subject(max_steps=500).unit, subject(max_steps=500).units) == ("steps", 500)
    assert subject(max_steps=500, batch_size=32).guess_s(WHERE) == pytest.approx(
        BACKWARD_FACTOR * 2 * 4.1e9 * 500 * 32 / 1e12, rel=0.03
    )


def test_simulated_cards_share_their_hosts_cores() -> None:
    """Three of them train at a third of the host's speed each."""
    host = Host(host="a", version="0", datasets=(DIGITS,), speed_flops=3e9)
    cards = [Card(uuid=f"S{i}", index=i, name="Simulated card", host="a", simulated=True) for i in range(3)]
    where = machines([host], cards)

    assert where.flops == pytest.approx(1e9)
    assert where.datasets == {"digits": DIGITS}
    assert where.name_of(None) == "Simulated card" == where.name_of("S1")
    assert where.name_of("gone") is None
