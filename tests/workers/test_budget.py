"""Budgets: nothing starts once one is used up, what runs is finished, and people read which runs that left out."""

from __future__ import annotations

from typing import Any

import pytest

from agent import report
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Budget, Plan, Range
from lab.run import ExperimentState, Run, RunResult, RunState, Usage
from tests.workers.under_test import Lab, until
from workers.budget import Budgets, used_up

ENGLISH, CHINESE = "grid within 0.5 gpu hours", "网格搜索，最多 0.5 个 GPU 小时"


def plan(text: str = ENGLISH, **fields: Any) -> Plan:
    """Six runs with half a GPU-hour for all."""
    axes = {"final_acc": (0.1, 0.2, 0.3), "seed": (0, 1)}
    base = {"template": "probe", "models": ("probe",), "axes": axes, "budget": Budget(gpu_hours=0.5), "anew": True}
    return Plan(request_text=text, **base | fields)


def begin(ledger: Ledger, run: Run) -> int:
    bound = ledger.bind(run.id, (f"CARD-{run.number}",), "lab-a", 0)
    lease = Leases(ledger.client, 60).claim(run.id, bound.dispatches, bound.cards, "w")
    return ledger.start(run.id, lease.fence, 1).fence


def finish(ledger: Ledger, run: Run, gpu_s: float) -> None:
    """The run has run on a card and finished."""
    ledger.finish(run.id, begin(ledger, run), RunResult(metrics={"val_acc": 0.5}, usage=Usage(gpu_s=gpu_s)))


def notice(lab: Lab, experiment: str, number: int) -> str:
    return lab.ledger.notice_text(experiment, f"budget:{experiment}/{number}") or ""


@pytest.mark.parametrize(
    ("text", "message", "told"),
    [
        (
            ENGLISH,
            "not run: the budget of 0.5 GPU-h is used up (0.516)",
            "Not run: the budget of 0.5 GPU-h is used up (0.516). 4 of 6 runs of exp-1 are not started: exp-1/3, "
            "exp-1/4, exp-1/5 and 1 more. What runs now is finished. To run them too, ask again with a larger budget.",
        ),
        (
            CHINESE,
            "未运行：预算 0.5 GPU 小时已用完（已用 0.516）",
            "未运行：预算 0.5 GPU 小时已用完（已用 0.516）。exp-1 的 6 个 run 中有 4 个不再启动："
            "exp-1/3, exp-1/4, exp-1/5 等，另有 1 个。正在跑的会跑完。要跑剩下的，请用更大的预算重新提问。",
        ),
    ],
)
@pytest.mark.parametrize(
    "how", [{}, {"search": "random", "trials": 3, "axes": {"final_acc": Range(low=0.1, high=1.0), "seed": (0, 1)}}]
)
def test_nothing_more_starts_once_the_gpu_hours_are_used(
    lab: Lab, how: dict[str, Any], text: str, message: str, told: str
) -> None:
    """Grid and search alike; the thread is told the figures and the runs, in the asker's language."""
    experiment, budgets = lab.approve_plan(plan(text, **how)), Budgets(lab.ledger)
    first, second, third, *_ = lab.ledger.runs(experiment.id)
    assert budgets.allows(first)
    finish(lab.ledger, first, gpu_s=1799)
    assert budgets.allows(second)
    finish(lab.ledger, second, gpu_s=60)

    assert not budgets.allows(third)

    runs = lab.ledger.runs(experiment.id)
    assert [run.state for run in runs] == [RunState.FINISHED] * 2 + [RunState.CANCELLED] * 4
    assert {run.message for run in runs[2:]} == {message}
    assert lab.ledger.experiment(experiment.id).state is ExperimentState.FINISHED
    assert notice(lab, experiment.id, 3) == told


def test_a_run_that_has_begun_goes_on_after_the_budget_is_used(lab: Lab) -> None:
    """What it used would be lost; it may be waiting for a card again just then."""
    experiment, budgets = lab.approve_plan(plan()), Budgets(lab.ledger)
    first, second, third, fourth, *_ = lab.ledger.runs(experiment.id)
    finish(lab.ledger, first, gpu_s=2000)
    lab.ledger.give_back(second.id, begin(lab.ledger, second), "its worker was lost")
    begin(lab.ledger, third)

    assert budgets.allows(lab.ledger.run(second.id))
    assert not budgets.allows(fourth)
    states = [run.state for run in lab.ledger.runs(experiment.id)]
    assert states == [RunState.FINISHED, RunState.QUEUED, RunState.RUNNING] + [RunState.CANCELLED] * 3


def test_the_time_of_a_plan_is_counted_from_its_approval(lab: Lab) -> None:
    """`within 3 hours` means the clock on the wall, the wait for a card included."""
    experiment = lab.approve_plan(plan(budget=Budget(wall_hours=3)))
    approved, runs = experiment.approved_at or 0.0, lab.ledger.runs(experiment.id)

    assert used_up(experiment, runs, approved + 3 * 3600 - 1) is None
    assert used_up(experiment, runs, approved + 3 * 3600) == "not run: 3 h after the approval the budget is used up"


def test_a_plan_without_a_budget_is_never_held_up(lab: Lab) -> None:
    """However much it has used."""
    experiment, budgets = lab.approve_plan(plan(budget=None)), Budgets(lab.ledger)
    first, second, *_ = lab.ledger.runs(experiment.id)
    finish(lab.ledger, first, gpu_s=360_000)

    assert budgets.allows(second)
    assert budgets.allows(second)


def test_a_grid_with_a_small_budget_stops_in_time_and_its_report_says_what_did_not_run(lab: Lab) -> None:
    """Real workers: the first runs use the budget up, the others never begin, and the figures add up."""
    axes = {"seed": tuple(range(12)), "steps": (20,), "step_s": (0.1,)}
    experiment = lab.approve_plan(plan(axes=axes, budget=Budget(gpu_hours=4 / 3600)))
    lab.start()
    runs = lab.ended(experiment, 90)
    built, _ = report.build(lab.ledger.experiment(experiment.id), runs, 1.0)
    left_out = [run.id for run in runs if run.state is RunState.CANCELLED]
    finished = [run for run in runs if run.state is RunState.FINISHED]

    assert left_out
    assert all(run.fence == 0 for run in runs if run.id in left_out)
    assert len(finished) + len(left_out) == 12
    assert sum(run.used.gpu_s for run in finished) >= 4
    assert built.n_cancelled == len(left_out)
    assert any("not run: the budget of 0.00111111 GPU-h is used up" in said for said in built.warnings)
    assert until(lambda: notice(lab, experiment.id, min(int(i.split("/")[1]) for i in left_out)))
