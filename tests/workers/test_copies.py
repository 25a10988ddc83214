"""What a failure means for the other runs of its experiment: held, not started, or none of their business."""

from __future__ import annotations

import pytest

from agent.orders import read_order
from lab import orders
from lab.card import Card
from lab.leases import Leases
from lab.plan import Plan, Scalar
from lab.run import Experiment, Run, RunResult, RunState
from lab.settings import Settings
from tests.language import english
from tests.workers.test_heal import attempt, told
from tests.workers.under_test import Lab
from workers import copies
from workers.job import Post, take_post

CARD = Card(uuid="SIM-lab-a-0", index=0, name="Simulated card", host="lab-a", simulated=True)
SMOKE = {"fail_at_step": 0, "steps": 4, "step_s": 0.0}
LATER = SMOKE | {"fail_at_step": 2}


@pytest.fixture(autouse=True)
def _post(settings: Settings) -> None:
    """This process is a worker of card 0."""
    take_post(Post(settings, "lab-a.0.test", CARD, threads=1))


def notices(lab: Lab, experiment: Experiment) -> list[str]:
    """What the thread was told."""
    keys = [event["key"] for event in told(lab, "experiment.notice")]
    return [lab.ledger.notice_text(experiment.id, key) or "" for key in keys]


def states(lab: Lab, experiment: Experiment) -> list[str]:
    return [run.state.value for run in lab.ledger.runs(experiment.id)]


def test_a_failed_smoke_step_holds_the_copies_and_tells_what_to_do(lab: Lab) -> None:
    """An import that is missing is missing for every seed: the night is not spent on finding it four times."""
    experiment = lab.approve(seeds=4, fail="import_error", **SMOKE)
    failed = attempt(lab, f"{experiment.id}/1")

    text = notices(lab, experiment)
    assert (failed.state, failed.cause) == (RunState.FAILED, "import_error")
    assert states(lab, experiment) == ["failed", "paused", "paused", "paused"]
    assert lab.ledger.run(f"{experiment.id}/3").message == (
        f"held: {failed.id} failed before its first step with import_error"
    )
    assert len(text) == 1
    assert f"{failed.id} (probe " in text[0]
    assert "so 3 waiting runs are held: exp-1/2, exp-1/3, exp-1/4." in text[0]
    assert "ModuleNotFoundError: No module named" in text[0]
    assert failed.advice
    assert failed.advice in text[0]


def in_chinese(lab: Lab, **params: Scalar) -> Experiment:
    """Three seeds that somebody asked for in Chinese."""
    axes = {"seed": (0, 1, 2, 3)} | {name: (value,) for name, value in params.items()}
    return lab.approve_plan(Plan(template="probe", models=("probe",), axes=axes, anew=True, request_text="跑三个种子"))


def test_who_asked_in_chinese_reads_in_chinese_what_is_held_and_what_is_not_started(lab: Lab) -> None:
    """The log's lines stay as they are; all else of the notice and of the run's own message is Chinese."""
    held = in_chinese(lab, fail="import_error", **SMOKE)
    attempt(lab, f"{held.id}/1")
    stopped = in_chinese(lab, fail="error", **LATER)
    for number in (1, 2, 3):
        attempt(lab, f"{stopped.id}/{number}")
    (told_held, *_), (*_, told_stopped) = notices(lab, held), notices(lab, stopped)

    assert "所以暂缓了 3 个等待中的 run：exp-1/2, exp-1/3, exp-1/4。" in told_held
    assert "连续 3 次失败" in told_stopped
    assert english(told_held.replace("probe fail import_error", "")) == []
    assert [lab.ledger.run(f"{e.id}/4").message for e in (held, stopped)] == [
        "已暂缓：exp-1/1 在第一步之前就失败了（import_error）",
        "未启动：probe 连续 3 次失败（user_code）",
    ]


@pytest.mark.parametrize("chinese", [False, True])
def test_the_words_of_the_notice_are_understood(lab: Lab, chinese: bool) -> None:
    """Whoever reads it types them back."""
    fault = {"fail": "import_error", **SMOKE}
    experiment = in_chinese(lab, **fault) if chinese else lab.approve(seeds=4, **fault)
    attempt(lab, f"{experiment.id}/1")
    said = notices(lab, experiment)[0].rsplit("\n", 1)[-1].split("`")[1::2]
    read = [order for words in said if (order := read_order(words, None))]

    assert [(order.verb, order.subject) for order in read] == [
        ("retry", "exp-1/1"),
        ("resume", "exp-1"),
        ("cancel", "exp-1"),
    ]
    for order in read[:2]:
        orders.carry_out(order, lab.ledger, "U1")
    assert states(lab, experiment) == ["failed", "queued", "queued", "queued", "queued"]
    orders.carry_out(read[2], lab.ledger, "U1")
    assert states(lab, experiment)[1:] == ["cancelled"] * 4


def test_held_again_after_resuming_is_told_again(lab: Lab) -> None:
    """It was not mended, and nobody should wait for runs that do not wait any more."""
    experiment = lab.approve(seeds=3, fail="import_error", **SMOKE)
    attempt(lab, f"{experiment.id}/1")
    orders.carry_out(orders.Order("resume", experiment.id), lab.ledger, "U1")
    attempt(lab, f"{experiment.id}/2")

    assert states(lab, experiment) == ["failed", "failed", "paused"]
    assert "so 1 waiting run is held: exp-1/3." in notices(lab, experiment)[1]


def test_a_failure_after_the_first_step_holds_nothing(lab: Lab) -> None:
    """It may hang on the seed; three in a row are another matter."""
    experiment = lab.approve(seeds=3, fail="error", **LATER)
    attempt(lab, f"{experiment.id}/1")

    assert states(lab, experiment) == ["failed", "queued", "queued"]


def test_a_fault_that_another_try_may_mend_holds_nothing(lab: Lab) -> None:
    """A network that was away for three tries may be back for the next seed."""
    experiment = lab.approve(seeds=2, fail="disk_full", **SMOKE)
    attempt(lab, f"{experiment.id}/1")

    assert states(lab, experiment) == ["failed", "queued"]


def test_one_bad_value_of_an_axis_does_not_hold_the_others(lab: Lab) -> None:
    """Two rates, of which the first fails: the second may do better, and only copies of the first are held."""
    experiment = lab.approve_sweep(seed=(0, 1), lr=(0.1, 0.2), fail="error", **SMOKE)
    first = lab.ledger.runs(experiment.id)[0]
    attempt(lab, first.id)

    waiting = [run for run in lab.ledger.runs(experiment.id) if run.state is RunState.QUEUED]
    held = [run for run in lab.ledger.runs(experiment.id) if run.state is RunState.PAUSED]
    assert {run.point.params["lr"] for run in waiting} == {0.2}
    assert [run.point.params for run in held] == [first.point.params | {"seed": 1}]


def test_three_configurations_with_the_same_last_word_hold_the_model(lab: Lab) -> None:
    """Then it is no value of an axis: fifty rates would fail of one missing module."""
    experiment = lab.approve_sweep(lr=(0.1, 0.2, 0.3, 0.4, 0.5), fail="import_error", **SMOKE)
    for number in (1, 2, 3):
        attempt(lab, f"{experiment.id}/{number}")

    assert states(lab, experiment) == ["failed"] * 3 + ["paused"] * 2
    assert len(notices(lab, experiment)) == 1


def test_a_long_log_is_told_by_its_end() -> None:
    """A thread is no place for a progress bar of a megabyte; what was left out is marked."""
    end = copies.log_end("\n".join(["x" * 10_000, "", *map(str, range(5))]))

    assert end.splitlines()[1:] == ["0", "1", "2", "3", "4"]
    assert end.splitlines()[0] == "x" * copies.TOLD_CHARS + "…"


def test_three_alike_failures_in_a_row_stop_the_waiting_copies_once(lab: Lab) -> None:
    """Copies differ in their seed alone; another configuration goes on."""
    experiment = lab.approve_sweep(seed=(0, 1, 2, 3, 4), lr=(0.1, 0.2), fail="import_error", **LATER)
    ours = [run.id for run in lab.ledger.runs(experiment.id) if run.point.params["lr"] == 0.1]
    for run_id in ours[:3]:
        attempt(lab, run_id)

    runs = {run.id: run for run in lab.ledger.runs(experiment.id)}
    assert [runs[run_id].state for run_id in ours[3:]] == [RunState.CANCELLED, RunState.CANCELLED]
    assert "lr 0.1 failed 3 times in a row with import_error" in (runs[ours[3]].message or "")
    others = [run.state for run in runs.values() if run.point.params["lr"] == 0.2]
    assert others == [RunState.QUEUED] * 5
    notices = told(lab, "experiment.notice")
    assert len(notices) == 1
    assert "its 2 remaining runs are not started" in (lab.ledger.notice_text(experiment.id, notices[0]["key"]) or "")


def test_a_success_between_breaks_the_row(lab: Lab) -> None:
    """Two failures, one success, two failures: chance, not the configuration."""
    experiment = lab.approve(seeds=7)
    stopped = [copies.stop(lab.ledger, ended(lab, f"{experiment.id}/{n}", ok=n == 3)) for n in (1, 2, 3, 4, 5)]
    third = copies.stop(lab.ledger, ended(lab, f"{experiment.id}/6", ok=False))

    assert stopped == [[]] * 5
    assert [run.number for run in third] == [7]


def ended(lab: Lab, run_id: str, *, ok: bool) -> Run:
    """The run has finished or failed, without a process."""
    bound = lab.ledger.bind(run_id, (CARD.uuid,), "lab-a", 0)
    leases = Leases(lab.client, 60)
    lease = leases.claim(run_id, bound.dispatches, (CARD.uuid,), "w")
    lab.ledger.start(run_id, lease.fence, 1)
    leases.release(lease)
    if ok:
        return lab.ledger.finish(run_id, lease.fence, RunResult())
    return lab.ledger.fail(run_id, lease.fence, "user_code", "boom")
