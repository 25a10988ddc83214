"""The report of a search: the best point, how little one run says of it, and what would confirm it."""

from __future__ import annotations

import io
import shlex
from typing import Any

import pytest
from PIL import Image

from agent.report import build
from agent.trace import best_so_far, trace
from agent.understand import understand
from lab.plan import Plan, Point, Range
from lab.report import Report, counts, summary_lines
from lab.run import Experiment, Run, RunResult, RunState, Usage
from lab.trials import Trial

VALUES = [(1e-4, 0.5), (3e-3, 0.91), (1e-2, 0.93), (0.05, 0.4), (8e-3, 0.932), (1.5e-2, 0.92)]


def experiment(text: str = "find the best lr for resnet18 on digits, 6 trials", **plan: Any) -> Experiment:
    axes = {"lr": Range(low=1e-5, high=0.1), "batch_size": (64,), "seed": (0,)}
    made = Plan(
        **{"models": ("resnet18",), "dataset": "digits", "axes": axes, "search": "bayesian", "trials": 6, "epochs": 5}
        | {"request_text": text}
        | plan
    )
    return Experiment(
        id="exp-3", plan=made, owner="a", conversation="t", request_id="req-1", n_runs=made.n_runs, created_at=0
    )


def run(asked: Experiment, number: int, lr: float, acc: float | None, **fields: Any) -> Run:
    """A run that finished with that accuracy, or ended as the fields say."""
    curve = [(float(epoch), (acc or 0.1) * epoch / 5) for epoch in range(1, 6)]
    result = RunResult(metrics={"val_acc": acc}, curves={"val_acc": curve}, usage=Usage(gpu_s=50))
    model = fields.pop("model", "resnet18")
    return Run(
        **{
            "id": f"exp-3/{number}",
            "experiment_id": "exp-3",
            "number": number,
            "trial": asked.plan.trial_of(number),
            "point": Point(
                model=model, dataset="digits", params={"batch_size": 64, "seed": fields.pop("seed", 0), "lr": lr}
            ),
            "template": "vision",
            "epochs": 5,
            "queued_at": 0,
            "state": RunState.FINISHED,
            "result": result,
        }
        | fields
    )


def report(asked: Experiment, runs: list[Run]) -> Report:
    return build(asked, runs, 0)[0]


def six(asked: Experiment) -> list[Run]:
    return [run(asked, n, lr, acc) for n, (lr, acc) in enumerate(VALUES, start=1)]


def test_the_best_point_stands_first_with_its_value_and_nobody_wins() -> None:
    """One run each cannot tell a difference from luck, and the best of six least of all."""
    asked = experiment()
    built = report(asked, six(asked))

    assert built.verdict.headline == (
        "Best of 6 trials of resnet18 on digits after 5 epochs: lr 0.008, val acc 0.932 (1 seed)"
    )
    assert built.verdict.winners == {}
    assert [row.params["lr"] for row in built.rows[:3]] == [8e-3, 1e-2, 1.5e-2]
    assert built.verdict.details[0] == "The next: lr 0.01 with 0.930, 0.002 behind, lr 0.015 with 0.920, 0.012 behind."
    assert "probably too good" in built.verdict.details[1]


def test_even_three_seeds_a_trial_make_no_winner() -> None:
    """The same values chose the point and would judge it."""
    asked = experiment(trials=2, axes={"lr": Range(low=1e-5, high=0.1), "seed": (0, 1, 2)})
    values = [0.9, 0.91, 0.92, 0.1, 0.11, 0.12]
    runs = [run(asked, n + 1, (1e-3, 1e-4)[n // 3], value, seed=n % 3) for n, value in enumerate(values)]
    built = report(asked, runs)

    assert built.verdict.winners == {}
    assert "Best of 2 trials" in built.verdict.headline
    assert "(3 seeds)" in built.verdict.headline


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        ("find the best lr for resnet18 on digits, 6 trials", "Best of 6 trials"),
        ("给 resnet18 搜索最好的学习率，数据集 digits，六次", "共 6 次试验，最好的是 lr 0.008"),
    ],
)
def test_the_command_that_confirms_asks_for_the_best_two_with_fresh_seeds(text: str, headline: str) -> None:
    """Seeds that the search has seen chose the point; others can judge it. What is printed is understood so."""
    asked = experiment(text)
    built = report(asked, six(asked))
    command = shlex.split(built.verdict.details[-1].split("overnight ask", 1)[1])[0]
    plan = understand(command).plan

    assert headline in built.verdict.headline
    assert plan is not None
    assert (plan.models, plan.dataset, plan.epochs, plan.search) == (("resnet18",), "digits", 5, "grid")
    assert plan.axes == {"lr": (0.008, 0.01), "batch_size": (64,), "seed": (1, 2, 3)}


def test_runs_that_were_stopped_early_are_counted_and_have_no_final_value() -> None:
    """Their last value is that of an early epoch, and must not stand in the order."""
    asked = experiment()
    runs = six(asked)
    runs[2] = run(asked, 3, 1e-2, 0.99, state=RunState.CANCELLED, pruned_at=2, message="pruned at epoch 2: ...")
    built = report(asked, runs)

    assert counts(built) == "5 ok, 1 stopped early"
    assert (built.n_ok, built.n_pruned, built.n_cancelled) == (5, 1, 0)
    assert "lr 0.008" in built.verdict.headline
    assert built.rows[-1].params["lr"] == 1e-2
    assert built.rows[-1].mean is None
    assert any("Of 6 trials, 1 stopped early" in detail for detail in built.verdict.details)
    assert any("lr 0.01 " in line and "stopped early" in line for line in summary_lines(built))


def test_a_trial_that_diverged_is_a_result_and_one_that_failed_is_none() -> None:
    """Where training blows up is worth knowing; a full disk is not."""
    asked = experiment()
    runs = six(asked)
    runs[3] = run(asked, 4, 0.05, None, state=RunState.FAILED, result=None, cause="nan_loss", message="loss is nan")
    runs[0] = run(asked, 1, 1e-4, None, state=RunState.FAILED, result=None, cause="disk_full", message="full")
    details = report(asked, runs).verdict.details

    assert "1 of 6 trials diverged: lr 0.05." in details
    assert "1 of 6 trials gave no result: lr 0.0001." in details


def test_a_best_value_at_the_edge_of_its_range_says_where_to_look_next() -> None:
    """The search cannot leave its range; the person can."""
    asked = experiment(axes={"lr": Range(low=7.5e-3, high=0.1), "seed": (0,)})
    details = report(asked, six(asked)).verdict.details

    assert "The best lr, 0.008, lies at the lower end of 0.0075..0.1: a smaller one may be better." in details


def test_runs_that_were_never_drawn_are_no_points() -> None:
    """The budget was used up before them: they are counted, and have no values to show."""
    asked = experiment()
    runs = six(asked)[:4]
    waiting = Point(model="resnet18", dataset="digits", params={"batch_size": 64, "seed": 0})
    why = "not run: the budget of 1 GPU-h is used up (1.02)"
    late = {"state": RunState.CANCELLED, "result": None, "to_draw": True, "point": waiting, "message": why}
    runs += [run(asked, n, 0.0, None, **late) for n in (5, 6)]
    built = report(asked, runs)

    assert len(built.rows) == 4
    assert (built.n_ok, built.n_cancelled) == (4, 2)
    assert built.warnings == (f"{why} (exp-3/5 and exp-3/6)",)


def test_two_models_have_a_search_each_and_are_not_compared() -> None:
    """The best of one search against the best of another is luck against luck."""
    asked = experiment(models=("resnet18", "vgg16"), trials=3)
    models = ("resnet18", "vgg16")
    runs = [run(asked, n, 10 ** -(n / 2), 0.9 - n / 20, model=models[(n - 1) % 2]) for n in range(1, 7)]
    verdict = report(asked, runs).verdict

    assert verdict.headline.startswith("resnet18: val acc 0.850 with ")
    assert "; vgg16: val acc 0.800 with " in verdict.headline
    assert "no comparison of the models" in verdict.details[0]
    assert verdict.winners == {}


def test_a_lower_loss_is_the_better_one() -> None:
    """The direction is the metric's."""
    asked = experiment(metric="val_loss")
    runs = [
        r.model_copy(update={"result": RunResult(metrics={"val_loss": acc})})
        for r, (_, acc) in zip(six(asked), VALUES, strict=True)
    ]
    headline = report(asked, runs).verdict.headline

    assert "lr 0.05, val loss 0.400" in headline


def test_the_figure_shows_each_trial_and_the_best_so_far() -> None:
    """How quickly the search got there, and whether it still gets better."""
    asked = experiment()
    built, pictures = build(asked, six(asked), 0)

    assert "search.png" in built.figures
    assert Image.open(io.BytesIO(pictures["search.png"])).size[0] == 1080


def test_the_best_so_far_goes_one_way() -> None:
    """By the metric's direction; trials without a value change nothing."""
    trials = [Trial(1, {}, "done", 0.5), Trial(2, {}, "diverged"), Trial(3, {}, "done", 0.4), Trial(4, {}, "done", 0.6)]

    assert best_so_far(trials, True) == [(1, 0.5), (3, 0.5), (4, 0.6)]
    assert best_so_far(trials, False) == [(1, 0.5), (3, 0.4), (4, 0.4)]
    assert trace({"a": trials[:2]}, "val_acc", "x") is None
