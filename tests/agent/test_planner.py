"""A plan against what hosts have: what is not there is said before anybody presses Run."""

from __future__ import annotations

import time

import pytest

from agent import planner
from lab.card import Card, DataSet, Host, HostCards
from lab.ledger import Ledger
from lab.plan import Plan

NOW = time.time()
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "lr": {"type": "number", "exclusiveMinimum": 0},
        "batch_size": {"type": "integer", "minimum": 1},
        "seed": {"type": "integer"},
    },
}


def _lab(*datasets: DataSet, cards: int = 4, up: bool = True) -> planner.Lab:
    host = Host(host="a", version="0", templates={"vision": SCHEMA}, datasets=datasets, speed_flops=1e10)
    shown = tuple(
        Card(uuid=f"G{i}", index=i, name="L20", host="a", role="keeper" if i == cards - 1 else "train", read_at=NOW)
        for i in range(cards)
    )
    return planner.Lab([host] if up else [], [HostCards(host="a", cards=shown)], NOW)


DIGITS = DataSet(name="digits", present=True, train_samples=1437, image_size=32)
CIFAR = DataSet(name="cifar10", present=False, how_to_get="python -c ...", train_samples=50_000, image_size=32)


def _plan(**changes: object) -> Plan:
    fields = {"models": ("resnet18",), "dataset": "digits", "axes": {"lr": (0.1,), "seed": (0, 1, 2)}, "epochs": 3}
    return Plan(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_possible_plan_gets_an_estimate_on_the_cards_that_train(ledger: Ledger) -> None:
    """The reserved card trains nothing, so it must not shorten the estimate."""
    prepared = planner.prepare(_plan(), _lab(DIGITS), ledger, 200)

    assert prepared.question is None
    assert prepared.estimate is not None
    assert prepared.estimate.cards == 3
    assert prepared.estimate.rough
    assert prepared.estimate.gpu_hours > 0


def test_history_makes_the_estimate_exact(ledger: Ledger) -> None:
    """A run that took 100 s last time takes 100 s, whatever its FLOPs say."""
    kind = planner.estimates.kind("vision", _plan().points()[0], "3e", "L20")
    ledger.remember_duration(kind, 100.0)
    prepared = planner.prepare(_plan(), _lab(DIGITS), ledger, 200)

    assert prepared.estimate is not None
    assert prepared.estimate.wall_s == 100.0
    assert not prepared.estimate.rough


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (_plan(dataset="cifar10"), ["cifar10 is not on any host", "python -c ..."]),
        (_plan(dataset="cifar11"), ["cifar11", "cifar10"]),
        (_plan(models=("yolov8n",)), ["yolov8n"]),
        (_plan(axes={"lr": (0.1,), "batch_size": (0,)}), ["batch_size 0"]),
        (_plan(axes={"lr": (0.1,), "wings": (2,)}), ["wings"]),
        (_plan(gpus_per_run=2), ["2 cards a run"]),
        (_plan(template="dance"), ["dance", "vision"]),
        (_plan(axes={"seed": tuple(range(300))}), ["300 runs", "200"]),
        (_plan(search="bayesian", trials=5), ["bayesian"]),
        (_plan(models=()), ["Which model"]),
    ],
)
def test_what_cannot_run_is_asked_about_with_what_would(ledger: Ledger, plan: Plan, said: list[str]) -> None:
    """Found now, not at 2 a.m. in a log."""
    prepared = planner.prepare(plan, _lab(DIGITS, CIFAR), ledger, 200)

    assert prepared.question is not None
    assert prepared.estimate is None
    for words in said:
        assert words in prepared.question


def test_without_a_host_the_plan_stands_and_says_that_nothing_was_checked(ledger: Ledger) -> None:
    """A lab that is being set up may take requests already."""
    prepared = planner.prepare(_plan(dataset="cifar10"), _lab(up=False), ledger, 200)

    assert prepared.question is None
    assert planner.NO_HOST in prepared.plan.notes


@pytest.mark.parametrize(
    ("lab", "dataset", "reason"),
    [
        (_lab(DIGITS), "digits", "the only data set"),
        (_lab(DIGITS, CIFAR), "digits", "the only data set"),
        (_lab(DIGITS, CIFAR.model_copy(update={"present": True})), None, ""),
        (_lab(up=False), "digits", "ships"),
    ],
)
def test_the_data_set_of_a_silent_message_is_the_only_one_or_asked_for(
    lab: planner.Lab, dataset: str | None, reason: str
) -> None:
    """With two to choose from, a guess would train on the wrong one all night."""
    chosen, why = planner.default_dataset(lab)

    assert chosen == dataset
    assert reason in why
