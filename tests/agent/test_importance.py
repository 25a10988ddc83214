"""Which axis of a search mattered: found where one did, silent where there is too little to go by."""

from __future__ import annotations

import io
import math
import random
from typing import Any

import pytest
from PIL import Image

from agent.importance import FEWEST, Finished, bars, importance
from agent.report import build
from lab.plan import Axis, Point, Range
from lab.run import RunState
from tests.agent.test_searched import experiment, run

SPACE: dict[str, Axis] = {
    "lr": Range(low=1e-5, high=0.1),
    "weight_decay": Range(low=1e-6, high=0.01),
    "optimizer": ("sgd", "adamw"),
}


def trials(n: int, lr: float = 1.0, optimizer: float = 0.0) -> Finished:
    """Trials whose outcome hangs on the axes as much as is said."""
    lot, made = random.Random(1), []
    for _ in range(n):
        values = {
            "lr": 10 ** lot.uniform(-5, -1),
            "weight_decay": 10 ** lot.uniform(-6, -2),
            "optimizer": lot.choice(("sgd", "adamw")),
        }
        outcome = -lr * (math.log10(values["lr"]) + 3) ** 2 + optimizer * (values["optimizer"] == "adamw")  # type: ignore[arg-type]
        made.append((values, outcome + lot.gauss(0, 0.05)))
    return made


@pytest.mark.parametrize("n", [FEWEST, 20, 60])
def test_the_axis_that_decides_has_most(n: int) -> None:
    """Else the figure would send people after the wrong one."""
    shares = importance(SPACE, trials(n))

    assert next(iter(shares)) == "lr"
    assert shares["lr"] > 0.6
    assert sum(shares.values()) == pytest.approx(1)
    assert set(shares) == set(SPACE)


def test_a_choice_counts_like_a_range() -> None:
    """An optimizer has no scale, and may decide all the same."""
    assert next(iter(importance(SPACE, trials(40, lr=0.0, optimizer=1.0)))) == "optimizer"


def test_the_same_trials_give_the_same_shares() -> None:
    """A report that is written again must not differ."""
    assert importance(SPACE, trials(20)) == importance(SPACE, trials(20))


@pytest.mark.parametrize(
    ("space", "finished"),
    [
        (SPACE, trials(FEWEST - 1)),
        ({"lr": SPACE["lr"]}, trials(30)),
        (SPACE, [(values, 0.5) for values, _ in trials(30)]),
    ],
)
def test_too_little_to_go_by_gives_no_shares(space: dict[str, Axis], finished: Finished) -> None:
    """Few trials, one axis, or outcomes that do not differ."""
    assert importance(space, finished) == {}
    assert bars({"resnet18": importance(space, finished)}, "val_acc", "exp-3") is None


def searched(n: int, text: str = "search", **fields: Any) -> Any:
    """The report of a search over two axes, and its figures."""
    axes: dict[str, Axis] = {name: SPACE[name] for name in ("lr", "weight_decay")} | {"seed": (0,)}
    asked = experiment(text, axes=axes, trials=n)
    runs = []
    for number, (values, outcome) in enumerate(trials(n), start=1):
        params = {name: values[name] for name in ("lr", "weight_decay")} | {"seed": 0}
        point = Point(model="resnet18", dataset="digits", params=params)
        runs.append(run(asked, number, 0.1, 0.9 + outcome / 100, point=point, **fields))
    return build(asked, runs, 0)


@pytest.mark.parametrize(
    ("text", "said", "honest"),
    [
        ("search", "fANOVA over 12 finished trials): lr 0.", "chance alone gets some"),
        ("搜索学习率", "对 12 次完成的试验做 fANOVA）：lr 0.", "只能当线索"),
    ],
)
def test_the_report_tells_the_shares_and_how_little_they_mean(text: str, said: str, honest: str) -> None:
    """Text and figure; twelve trials are a hint."""
    report, pictures = searched(12, text)
    (told,) = [detail for detail in report.verdict.details if "fANOVA" in detail]

    assert said in told
    assert honest in told
    assert Image.open(io.BytesIO(pictures["importance.png"])).size[0] == 1080
    assert "importance.png" in report.figures


def test_trials_that_were_stopped_early_do_not_count() -> None:
    """Their values are not final: eleven of twelve pruned leave nothing to tell."""
    report, pictures = searched(12, state=RunState.CANCELLED, pruned_at=2)

    assert "importance.png" not in pictures
    assert not any("fANOVA" in detail for detail in report.verdict.details)
