"""A plan against what hosts have: what is not there is said before anybody presses Run."""

from __future__ import annotations

import time

import pytest

from agent import obstacles, planner
from lab.card import Card, DataSet, Host, HostCards
from lab.estimate import duration, gpu_hours
from lab.forecast import Opening, Queue
from lab.ledger import Ledger
from lab.lengths import Lengths, Subject, machines
from lab.plan import Budget, Plan
from tests.language import english

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
    prepared = planner.prepare(_plan(), _lab(DIGITS), ledger, 200, "U1")

    assert prepared.question is None
    assert prepared.estimate is not None
    assert prepared.estimate.cards == 3
    assert prepared.estimate.rough
    assert prepared.estimate.gpu_hours > 0


def test_history_makes_the_estimate_exact(ledger: Ledger) -> None:
    """A run that took 100 s last time takes 100 s, whatever its FLOPs say; ten times the epochs take ten times that."""
    lab = _lab(DIGITS)
    where = machines(lab.hosts, lab.usable())
    subject = Subject.of(_plan().points()[0], "vision", 3, None, "U2", "L20")
    for _ in range(5):
        Lengths(ledger.client).learn(subject, where, 100.0, 10.0)
    prepared = planner.prepare(_plan(), lab, ledger, 200, "U1")
    longer = planner.prepare(_plan(epochs=30), lab, ledger, 200, "U1")

    assert prepared.estimate is not None
    assert prepared.estimate.wall_s == pytest.approx(105, abs=10)  # the longest of three
    assert not prepared.estimate.rough
    assert prepared.estimate.basis == "from 5 earlier runs"
    assert longer.estimate is not None
    assert longer.estimate.wall_s == pytest.approx(10 + 10 * 95, rel=0.1)


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
        (_plan(search="bayesian", trials=5), ["search vary"]),
        (_plan(models=()), ["Which model"]),
    ],
)
def test_what_cannot_run_is_asked_about_with_what_would(ledger: Ledger, plan: Plan, said: list[str]) -> None:
    """Found now, not at 2 a.m. in a log."""
    prepared = planner.prepare(plan, _lab(DIGITS, CIFAR), ledger, 200, "U1")

    assert prepared.question is not None
    assert prepared.estimate is None
    for words in said:
        assert words in prepared.question


def test_without_a_host_the_plan_stands_and_says_that_nothing_was_checked(ledger: Ledger) -> None:
    """A lab that is being set up may take requests already."""
    prepared = planner.prepare(_plan(dataset="cifar10"), _lab(up=False), ledger, 200, "U1")

    assert prepared.question is None
    assert obstacles.WORDS.say("no_host", False) in prepared.plan.notes


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


def _busy(lab: planner.Lab, *openings: Opening) -> planner.Lab:
    """The lab with a queue."""
    return planner.Lab(lab.hosts, lab.cards, NOW, Queue(at=NOW, waiting=3, openings=openings))


def test_a_plan_for_busy_cards_says_when_it_starts_by_its_priority_and_size(ledger: Ledger) -> None:
    """Four minutes of training that begin in an hour are an answer in an hour."""
    lab = _busy(
        _lab(DIGITS),
        Opening(priority="high", gpu_s=100.0, before=0, starts_at=NOW + 3),
        Opening(priority="normal", gpu_s=1.0, before=1, starts_at=NOW + 60),
        Opening(priority="normal", gpu_s=1e6, before=3, starts_at=NOW + 1200),
    )
    normal = planner.prepare(_plan(), lab, ledger, 200, "U1").estimate
    high = planner.prepare(_plan(priority="high"), lab, ledger, 200, "U1").estimate

    assert normal
    assert normal.wait_s == pytest.approx(1200.0)
    assert normal.before == 3
    assert high
    assert high.wait_s is None


def _learned(ledger: Ledger, seconds: float) -> planner.Lab:
    """A lab in which three epochs of the plan take so long."""
    lab = _lab(DIGITS)
    subject = Subject.of(_plan().points()[0], "vision", 3, None, "U1", "L20")
    for _ in range(5):
        Lengths(ledger.client).learn(subject, machines(lab.hosts, lab.usable()), seconds, 10.0)
    return lab


@pytest.mark.parametrize(
    ("plan", "remark"),
    [
        (_plan(), ""),
        (_plan(epochs=90), "This takes about 3"),
        (_plan(epochs=90, request_text="跑三个种子，九十轮"), "这要跑约 3"),
        (_plan(deadline="in 1 hour"), "after the deadline (in 1 hour)."),
        (_plan(deadline="in 3 days"), ""),
        (_plan(deadline="whenever"), ""),
    ],
)
def test_a_plan_that_takes_too_long_says_so(ledger: Ledger, plan: Plan, remark: str) -> None:
    """Before it is run; it may well be meant, so nothing is refused."""
    found = planner.prepare(plan, _learned(ledger, 4000.0), ledger, 200, "U1")

    assert found.question is None
    assert found.estimate
    assert remark in " ".join(found.estimate.remarks)
    assert bool(remark) == bool(found.estimate.remarks)


def test_an_estimate_far_over_the_budget_says_so(ledger: Ledger) -> None:
    """Half of the runs and no answer is what the budget would leave."""
    lab = _learned(ledger, 4000.0)
    found = planner.prepare(_plan(), lab, ledger, 200, "U1").estimate
    plan = _plan(budget=Budget(gpu_hours=1.0, wall_hours=0.5))
    assert found

    said = list(planner._remarks(found, plan, NOW))

    assert said == [
        f"It needs about {gpu_hours(found.gpu_hours)} GPU-h of a budget of 1.",
        f"It takes about {duration(found.wall_s)} of a budget of 0.5 h.",
    ]
    assert not list(planner._remarks(found, _plan(budget=Budget(gpu_hours=4.0)), NOW))


@pytest.mark.parametrize(
    "fields",
    [
        {"models": ()},
        {"schedule": {"at": "22:00"}},
        {"mode": "zero-shot"},
        {"axes": {"seed": tuple(range(300))}},
        {"template": "chess"},
        {"models": ("bert_base",)},
        {"dataset": "cifar1O"},
        {"dataset": "cifar10"},
        {"axes": {"lr": (-1.0,), "seed": (0,)}},
        {"axes": {"spin": (1,), "seed": (0,)}},
        {"axes": {"batch_size": ("many",), "seed": (0,)}},
        {"gpus_per_run": 2},
        {"template": "probe", "models": ("probe",), "axes": {"seed": (0,)}, "gpus_per_run": 9},
        {"budget": Budget(gpu_hours=1e-6)},
        {"search": "random", "axes": {"seed": (0,)}, "trials": 3},
    ],
)
def test_what_stands_in_the_way_is_said_in_chinese_to_who_asked_in_chinese(
    ledger: Ledger, fields: dict[str, object]
) -> None:
    """Names, values and commands aside: half an answer in another language is half an answer."""
    plan = _plan(request_text="训练 resnet18").model_copy(update=fields)
    asked = planner.prepare(plan, _lab(DIGITS, CIFAR), ledger, 200, "U1").question

    assert asked is not None
    assert english(asked) == []
