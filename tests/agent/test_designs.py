"""Ways to find a best value within GPU-hours: what is offered, in which order, and how one is picked."""

from __future__ import annotations

import pytest

from agent import designs
from agent.report import build
from agent.understand import understand
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, Design, Estimate, RunResult

ASKED = "find the best learning rate for resnet50 on digits within 10 GPU hours"
EACH_H = 0.35


def plan(text: str = ASKED) -> Plan:
    found = understand(text).plan
    assert found is not None
    return found


def estimate(asked: Plan) -> Estimate:
    hours = asked.n_runs * EACH_H
    return Estimate(wall_s=hours * 1200, gpu_hours=hours, cards=3)


def made(text: str = ASKED, each_h: float = EACH_H) -> tuple[Design, ...]:
    return designs.candidates(plan(text), each_h, 200, estimate)


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        (ASKED, True),
        ("在 10 个 GPU 小时内找到 resnet50 最好的学习率，digits", True),
        ("best dropout for resnet18 on digits within 2 GPU-h", True),
        ("find the best learning rate for resnet50 on digits", False),
        ("find the best lr for resnet50 on digits with 20 trials within 10 GPU hours", False),
        ("resnet50 on digits, lr 0.1/0.01/0.001, within 10 GPU hours", False),
        ("train resnet50 on digits within 10 GPU hours", False),
        ("find the best optimizer for resnet50 on digits within 10 GPU hours", False),
    ],
)
def test_designs_are_offered_where_neither_values_nor_ways_are_said(text: str, offered: bool) -> None:
    """Whoever says how wants a plan, and whoever gives no hours has no budget to fill."""
    assert designs.wanted(plan(text)) is offered


def test_three_designs_fit_the_budget_and_say_what_they_cost() -> None:
    """Grid, Bayesian, halving; none costs more than the person has."""
    found = made()

    assert {design.plan.search for design in found} == {"grid", "random", "bayesian"}
    assert all(0 < design.estimate.gpu_hours <= 10 for design in found)
    assert {d.plan.why("axes.lr") for d in found if d.plan.drawn} == {"a usual range, since none was named"}
    assert [design.plan.n_runs for design in found if design.plan.search == "bayesian"] == [28]
    assert next(d for d in found if d.plan.search == "grid").plan.axes["seed"] == (0, 1, 2)


def test_the_finest_is_first_and_says_how_fine() -> None:
    """A grid by tens is coarse; that is the reason, with the figure."""
    found = made()

    assert [design.name for design in found] == ["Bayesian search", "successive halving", "grid"]
    assert "within a factor of 1.17 of one tried" in found[0].reason
    assert "within a factor of 3.2 of one tried; 3 seeds a value, so differences are tested" in found[2].reason


def test_halving_counts_what_is_stopped() -> None:
    """Of 9 epochs a third goes on after the first, a ninth after the third: 1 + 2/3 + 6/9 of 9."""
    assert designs.expected_share(9) == pytest.approx((1 + 2 / 3 + 6 / 9) / 9)
    halving = next(d for d in made(f"{ASKED}, 9 epochs") if d.plan.prune)

    assert halving.plan.n_runs == 100
    assert halving.estimate.gpu_hours == pytest.approx(100 * EACH_H * designs.expected_share(9))


def test_a_run_of_two_epochs_has_nothing_to_halve() -> None:
    """Its design would be a lie."""
    assert all(design.plan.prune is None for design in made(f"{ASKED}, 2 epochs"))


def test_where_hardly_a_run_fits_there_is_no_design() -> None:
    """The question names the figures and what would make room."""
    assert made(each_h=4.0) == ()
    assert designs.no_room(plan(), 4.0).startswith(
        "One run of resnet50 takes about 4.0 GPU-h, so 10 GPU-h have room for 2"
    )


def test_the_text_has_every_figure_in_the_askers_language() -> None:
    """The pick starts at once, so what it costs stands where it is picked."""
    english = designs.text(plan(), made(), EACH_H, "?")
    chinese_plan = plan("在 10 个 GPU 小时内找到 resnet50 最好的学习率，digits")
    chinese = designs.text(chinese_plan, designs.candidates(chinese_plan, EACH_H, 200, estimate), EACH_H, "？")

    assert "1. Bayesian search: 28 runs = 28 trials, 9.8 GPU-h, about 3.3 h: each run is drawn" in english
    assert english.endswith("Pick one by its number; it starts at once, with the figures above.")
    assert "1. 贝叶斯搜索：28 个 run = 28 次采样，9.8 GPU 小时，约 3.3 小时：" in chinese


def test_what_was_reached_before_is_told_or_said_to_be_unknown(ledger: Ledger) -> None:
    """No figure comes from nowhere."""
    assert designs.reached(plan(), ledger) == "How good it gets is unknown: nothing like it has finished here."

    for best, higher in ((0.91, 0.95), (0.93, 0.94)):
        finished(ledger, best, higher)

    assert designs.reached(plan(), ledger) == (
        "What has been reached here with resnet50 on digits: val acc 0.930 (exp-2); how much better these get is"
        " unknown."
    )


def finished(ledger: Ledger, resnet50: float, vgg16: float) -> None:
    """An experiment of two models that has its report."""
    request = ledger.submit("x", "U1", "terminal:1")
    assert request is not None
    asked = Plan(models=("resnet50", "vgg16"), dataset="digits", template="probe")
    made = ledger.propose(request.id, asked, None, Answer(kind="plan"))
    assert made is not None
    for run in ledger.runs(ledger.approve(made.id, "U1").id):
        bound = ledger.bind(run.id, (f"C{run.id}",), "a", 0)
        lease = Leases(ledger.client, 60).claim(run.id, bound.dispatches, bound.cards, "w")
        ledger.start(run.id, lease.fence, 1)
        ledger.finish(run.id, lease.fence, RunResult(metrics={"val_acc": resnet50 if run.number == 1 else vgg16}))
    report, _ = build(ledger.experiment(made.id), ledger.runs(made.id), 0)
    assert ledger.save_report(made.id, 1, report.model_dump_json(), {})


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("1", 0), ("2", 1), ("2.", 1), ("the second", 1), ("the third one please", 2), ("option 1", 0), ("ok 1", 0),
        ("let's do 3", 2), ("design 2 of req-7", 1), ("bayesian", 0), ("go with the grid", 2), ("halving", 1),
        ("第二个", 1), ("选2", 1), ("就第一个吧", 0), ("方案二", 1), ("用网格", 2), ("No. 3", 2), ("#2", 1),
        ("4", None), ("design 2 of req-8", None), ("stop the second", None),
        ("2 seeds", None),
        ("train resnet18", None), ("why is 2 better", None), ("the second run failed", None), ("1 and 2", None),
    ],
)  # fmt: skip
def test_a_design_is_picked_by_number_place_or_name(message: str, place: int | None) -> None:
    """And by nothing that might mean something else: a pick spends GPU-hours."""
    assert designs.choice(message, made(), "req-7") == place
