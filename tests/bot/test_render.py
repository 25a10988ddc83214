"""Messages keep Slack's limits and show foreign names as text, whatever those are."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bot.render.message import Message, plain
from bot.render.plan import plan_card
from bot.render.progress import progress_card, run_line
from bot.render.report import report_card
from bot.render.text import escape, pieces, shorten
from bot.simulator.limits import slack_limits
from bot.simulator.validation import check_message
from lab.estimate import expected, place_words
from lab.forecast import End, Forecast, Place
from lab.plan import Assumed, Plan, Point
from lab.report import FailedRun, SeedValue
from lab.run import Answer, Estimate, Experiment, ExperimentState, Progress, Room, Run, RunResult, RunState
from tests.bot.made import monster, report

HOSTILE = [
    "<!channel> <script>alert(1)</script> ```*x*``` & " * 70,
    "x" * 3_000,
    "名" * 3_000,
    "\n" * 50 + "`",
    "🔥" * 999,
]


def experiment(plan: Plan, state: ExperimentState = ExperimentState.PROPOSED, **fields: Any) -> Experiment:
    return Experiment(
        id="exp-1",
        plan=plan,
        owner="U0ALICE",
        conversation="slack:T:C:1.0",
        request_id="req-1",
        n_runs=plan.n_runs,
        created_at=0.0,
        state=state,
        **fields,
    )


def runs(plan: Plan, state: RunState, **fields: Any) -> list[Run]:
    made = enumerate(plan.points(), start=1)
    return [
        Run(
            id=f"exp-1/{n}",
            experiment_id="exp-1",
            number=n,
            point=p,
            template="vision",
            queued_at=0,
            state=state,
            **fields,
        )
        for n, p in made
    ]


def check(message: Message) -> str:
    """All words of a message that passes Slack's checks for an update, the stricter ones."""
    check_message(message.text, list(message.blocks), None, slack_limits(), updating=True)
    assert "<!" not in message.text
    assert "<script" not in message.text
    return str(message.blocks)


@pytest.mark.parametrize("name", HOSTILE)
def test_monsters_of_plans_keep_the_limits(name: str) -> None:
    """A refused card is a request without an answer."""
    plan = Plan(
        models=tuple(f"{name}{i}" for i in range(10)),
        dataset=(name, name + "2"),
        axes={name[:500]: tuple(range(20)), "seed": (0,)},
        metric=name,
        assumed=tuple(Assumed(field=f"axes.{i}{name}", reason=f"{i}{name}") for i in range(40)),
        notes=(name,) * 40,
    )
    shown = check(plan_card(experiment(plan), note=name))

    assert "'run'" in shown
    assert "<!" not in shown
    assert re.search(r"and \d+ more", shown)


@pytest.mark.parametrize("name", HOSTILE)
def test_monsters_of_progress_keep_the_limits_and_say_what_is_left_out(name: str) -> None:
    """200 runs are 20 lines and a sentence."""
    plan = Plan(models=(name,), axes={"seed": tuple(range(200))})
    queued = runs(plan, RunState.QUEUED)
    failed = [r.model_copy(update={"state": RunState.FAILED, "cause": name, "finished_at": 1.0}) for r in queued[:10]]
    lines = [run_line(run, None, plan) for run in [*failed, *queued[10:]]]
    shown = check(progress_card(experiment(plan, ExperimentState.RUNNING), lines))

    assert "and 180 more queued" in shown
    assert "<!" not in shown


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("points", [0, 50, 200])
def test_monsters_of_reports_keep_the_limits(name: str, points: int) -> None:
    """The night's answer must not be refused in the morning; tables larger than 50 rows say where the rest is."""
    card = report_card(monster(points, name))
    shown = check(card)

    tables = [block for block in card.blocks if block["type"] == "table"]
    assert [len(t["rows"]) for t in tables] == ([] if points == 0 else [51 if points == 50 else 21])
    assert ("the best 20 of 200 points; all of them are in report.md" in shown) == (points == 200)


@pytest.mark.parametrize("name", HOSTILE)
def test_long_answers_are_cut_and_say_so(name: str) -> None:
    """A reply of any length is one message."""
    shown = check(plain(escape(name * 10)))

    assert ("(shortened)" in shown) == (len(escape(name * 10)) > 10_500)


def test_a_progress_card_reads_like_the_design() -> None:
    """Done, under way, waiting: a bar each and what one wants to know about it."""
    plan = Plan(models=("resnet50", "efficientnet_b0"), axes={"seed": (0, 1)}, metric="val_acc")
    done, going, failed, queued = runs(plan, RunState.QUEUED)
    result = RunResult(metrics={"val_acc": 0.9512, "val_loss": 0.2})
    done = done.model_copy(
        update={"state": RunState.FINISHED, "result": result, "started_at": 0.0, "finished_at": 60.0}
    )
    going = going.model_copy(update={"state": RunState.RUNNING, "fence": 1, "started_at": 30.0})
    failed = failed.model_copy(update={"state": RunState.FAILED, "cause": "cuda_oom", "finished_at": 50.0})
    progress = Progress(step=20, steps_total=33, epoch=2, epochs_total=3, eta_s=40, metrics={"val_acc": 0.574})
    estimate = Estimate(wall_s=240, gpu_hours=0.2, cards=3)
    owned = experiment(plan, ExperimentState.RUNNING, estimate=estimate, approved_by="U0ALICE", approved_at=1.0)
    forecast = Forecast(waiting={4: Place(3, 730.0, 900.0)}, running={2: End(50.0, 60.0)}, end=End(1800.0, 7200.0))
    place = place_words(forecast.waiting[4], 10.0)
    lines = [run_line(run, progress if run is going else None, plan, place) for run in (done, going, failed, queued)]
    text = progress_card(owned, lines, expected(forecast, 10.0, lambda at: f"[{at:.0f}]")).text

    assert text.splitlines() == [
        "*exp-1*: 1 of 4 done, 1 failed, about 30 min left, done at about [1800] (nine times in ten by [7200])",
        "1 resnet50 seed 0        ██████████ val acc 0.951",
        "2 efficientnet_b0 seed 0 ██████░░░░ epoch 2/3, val acc 0.574, 40 s left",
        "3 resnet50 seed 1        ░░░░░░░░░░ failed: cuda_oom",
        "4 efficientnet_b0 seed 1 ░░░░░░░░░░ 3rd in the queue, starts in about 12 min",
    ]


def test_a_run_that_its_search_stopped_is_not_told_as_cancelled() -> None:
    """Nobody cancelled it: it was hopeless, and its value is that of an early epoch."""
    plan = Plan(models=("resnet50",), axes={"seed": (0, 1)})
    done, stopped = runs(plan, RunState.FINISHED)
    early = {"state": RunState.CANCELLED, "pruned_at": 2, "result": RunResult(metrics={"val_acc": 0.31})}
    stopped = stopped.model_copy(update=early)
    owned = experiment(plan, ExperimentState.RUNNING, approved_by="U0ALICE", approved_at=1.0)
    lines = [run_line(run, None, plan) for run in (done, stopped)]

    assert progress_card(owned, lines).text.splitlines() == [
        "*exp-1*: 1 of 2 done, 1 stopped early",
        "1 resnet50 seed 0 ██████████ done",
        "2 resnet50 seed 1 ░░░░░░░░░░ stopped early at epoch 2, val acc 0.310",
    ]


@pytest.mark.parametrize(
    ("text", "there", "line"),
    [
        ("compare", "1 of 2 runs are there already (exp-12), 1 new", "val acc 0.951, from exp-12/3"),
        ("对比", "2 个 run 中 1 个已有结果（exp-12），1 个要跑", "val acc 0.951，来自 exp-12/3"),
    ],
)
def test_cards_tell_what_is_there_already(text: str, there: str, line: str) -> None:
    """The person presses Run on so many new runs, and must not take an old number for a new one."""
    plan = Plan(models=("resnet18",), axes={"seed": (0, 1)}, request_text=text)
    done = RunResult(metrics={"val_acc": 0.951})
    first = runs(plan, RunState.FINISHED, result=done, reused_from="exp-12/3")[0]
    owned = experiment(plan, reused=("exp-12/3",))
    zh = text == "对比"

    assert there in check(plan_card(owned))
    assert line in check(progress_card(owned, [run_line(first, None, plan, zh=zh)]))


def test_a_run_that_made_room_says_for_whom() -> None:
    """Its owner sees it stop half-way, and nothing is wrong with it."""
    plan = Plan(models=("resnet50",))
    room = Room(for_run="exp-9/1", reason="higher priority", ends_look=False, asked_at=1.0)
    moved = runs(plan, RunState.QUEUED)[0].model_copy(update={"fence": 1, "room": room})

    details = [run_line(moved, None, plan, place).detail for place in ("", "3rd in the queue")]
    assert details == ["made room for exp-9/1, goes on later", "made room for exp-9/1, 3rd in the queue"]


def test_a_report_says_what_it_used_and_how_to_run_it_again() -> None:
    """What one asks next, answered beforehand."""
    text = report_card(report("exp-1")).text

    assert "0.19 GPU-h, peak 2.0 GiB" in text
    assert "again: overnight ask 'compare ResNet50 vs EfficientNet'" in text


def test_a_report_marks_the_seeds_that_were_there_already() -> None:
    """The old ones stand in the same mean, so the table tells how many of them there are, and where they ran."""
    made = report("exp-5")
    seeds = tuple(SeedValue(run_id=f"exp-5/{n}", reused_from="exp-3/1" if n < 3 else None) for n in (1, 2, 3))
    row = made.rows[0].model_copy(update={"seeds": seeds})

    told = check(report_card(made.model_copy(update={"rows": (row,)})))

    assert "3 (2 from exp-3)" in told
    assert "(2 from" not in check(report_card(made))


def test_the_advice_on_a_failed_run_outlives_a_long_deciding_line() -> None:
    """An out-of-memory line has 400 characters; what to do about it stands behind them."""
    failed = FailedRun(run_id="exp-1/3", label="x", cause="oom_gpu", message="CUDA " * 100, advice="Halve the batch.")
    made = report("exp-1").model_copy(update={"failed": (failed,), "notes": tuple(f"note {n}" for n in range(12))})

    small_print = [e["text"] for b in report_card(made).blocks if b["type"] == "context" for e in b["elements"]]

    line = next(text for text in small_print if text.startswith("exp-1/3 failed: oom_gpu: CUDA"))
    assert line.endswith("… (Halve the batch.)")
    assert small_print[-1].splitlines()[-2:] == ["note 7", "and 4 more in report.md"]


def test_no_entity_is_cut_in_two() -> None:
    """`&am` at the end of a text would be shown as it stands."""
    text = escape("&" * 100)

    assert all(set(part.replace("&amp;", "")) <= {""} for part in pieces(text, 33))
    assert "".join(pieces(text, 33)) == text
    assert shorten(text, 40).removesuffix(" ... (shortened)").replace("&amp;", "") == ""


def test_a_point_without_axes_has_a_line() -> None:
    """One model, one run: nothing varies, and the line still says which it is."""
    run = runs(Plan(models=("resnet50",)), RunState.DISPATCHED)[0]

    assert run.point == Point(model="resnet50", dataset=None, params={})
    assert run_line(run, None, Plan(models=("resnet50",))).detail == "starting"
    assert Answer(kind="reply").text == ""


def test_things_assumed_for_one_reason_stand_together() -> None:
    """Six assumed values are one line that one reads, not six that one skips."""
    fields = ("axes.lr", "axes.batch_size", "gpus_per_run", "priority")
    plan = Plan(
        models=("resnet18",),
        axes={"lr": (0.001,), "batch_size": (64,)},
        assumed=tuple(Assumed(field=field, reason="default") for field in fields),
    )

    assert (
        "assumed: lr 0.001, batch size 64, 1 card a run, normal priority (default)" in plan_card(experiment(plan)).text
    )
