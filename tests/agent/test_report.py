"""From an experiment and its runs to a report."""

import io
import re
import shlex
from typing import Any

import pytest
from PIL import Image

from agent.report import build
from lab.objective import choose_metric, latest
from lab.plan import Plan, Point
from lab.planwords import sentence
from lab.report import Report, summary_lines, to_markdown
from lab.run import Estimate, Experiment, Run, RunResult, RunState, Usage

TEXT = "compare ResNet50 vs EfficientNet; rm -rf '~'"


def experiment(text: str = TEXT, metric: str | None = None, **plan: Any) -> Experiment:
    plan = {"models": ("resnet50", "efficientnet_b0"), "dataset": "digits", "axes": {"seed": (0, 1, 2)}} | plan
    return Experiment(
        id="exp-12",
        plan=Plan(epochs=3, request_text=text, metric=metric, **plan),
        owner="alice",
        conversation="terminal:1",
        request_id="req-1",
        estimate=Estimate(wall_s=240, gpu_hours=0.2, cards=3),
        n_runs=6,
        created_at=0,
    )


def run(number: int, model: str, acc: float | None, seed: int, **fields: Any) -> Run:
    """A run on a simulated card that finished with that accuracy."""
    params = fields.pop("params", {})
    dataset = fields.pop("dataset", "digits")
    final = 0.0 if acc is None else acc
    curve = [(float(e), final * part) for e, part in ((1, 0.5), (2, 0.75), (3, 1.0))]
    result = RunResult(
        metrics={"val_acc": acc, "val_loss": 1 - final},
        curves={"val_acc": curve, "val_loss": [(x, 1 - y) for x, y in curve]},
        usage=Usage(gpu_s=120, peak_memory_bytes=number * 2**30, memory_kind="host", samples_per_s=10.0 * number),
        warnings=("no pretrained weights",),
    )
    record = {"state": RunState.FINISHED, "result": result, "started_at": 100.0, "finished_at": 220.0} | fields
    return Run(
        id=f"exp-12/{number}",
        experiment_id="exp-12",
        number=number,
        point=Point(model=model, dataset=dataset, params={"seed": seed, "lr": 1e-3} | params),
        template="vision",
        epochs=3,
        queued_at=0,
        **record,
    )


def six() -> list[Run]:
    resnet = [run(i + 1, "resnet50", acc, i) for i, acc in enumerate((0.951, 0.955, 0.960))]
    return resnet + [run(i + 4, "efficientnet_b0", acc, i) for i, acc in enumerate((0.64, 0.60, 0.70))]


def failed(number: int, model: str, seed: int, cause: str) -> Run:
    ended = {"state": RunState.FAILED, "cause": cause, "message": "loss is nan at step 40", "result": None}
    ended |= {"earlier": Usage(gpu_s=120)}  # what the ledger leaves of an attempt without a result
    return run(number, model, None, seed, **ended)


def test_one_night_becomes_its_report() -> None:
    report, figures = build(experiment(), six(), now=5.0)

    assert report.verdict.headline.startswith("resnet50 is better than efficientnet_b0 on digits after 3 epochs")
    assert report.verdict.headline.endswith("both were still improving")
    assert [r.label for r in report.rows] == ["resnet50", "efficientnet_b0"]
    assert (report.rows[0].n_ok, report.rows[0].best, report.rows[0].best_seed) == (3, 0.960, 2)
    assert (report.n_ok, report.n_failed, report.n_cancelled) == (6, 0, 0)
    assert report.gpu_hours == pytest.approx(0.2)
    assert (report.peak_memory_bytes, report.memory_kind, report.simulated) == (6 * 2**30, "host", True)
    assert (report.revision, report.metric, report.created_at) == (1, "val_acc", 5.0)
    assert report.figures == tuple(figures) == ("curves.png",)
    assert Image.open(io.BytesIO(figures["curves.png"])).size[0] == 1080


def test_the_report_survives_its_trip_through_json() -> None:
    report, _ = build(experiment(), six(), now=5.0)

    assert Report.model_validate_json(report.model_dump_json()) == report


def test_the_command_to_run_it_again_is_safe_for_a_shell() -> None:
    """Whatever a data set is called, it stays one argument."""
    asked = experiment(dataset="/data/$(rm -rf ~)'; rm")
    report, _ = build(asked, six(), now=5.0)

    plan = asked.plan.model_copy(update={"anew": True})
    assert shlex.split(report.again) == ["overnight", "ask", sentence(plan)]


def test_the_command_to_run_it_again_names_every_value() -> None:
    """A follow-up's own words (`batch 96`) would mean nothing outside their thread."""
    report, _ = build(experiment(text="batch 换成 96", axes={"batch_size": (96,), "seed": (0, 1, 2)}), six(), now=5.0)

    asked = shlex.split(report.again)[-1]
    assert asked == "对比 resnet50 和 efficientnet_b0，数据集 digits；batch size 96；3 个种子；3 轮；全部重跑"


@pytest.mark.parametrize(("text", "said"), [(TEXT, "2 of 6 runs were there"), ("对比", "6 个运行中有 2 个已有结果")])
def test_reused_runs_are_marked_and_their_time_is_not_counted(text: str, said: str) -> None:
    """Whoever reads the table must know which numbers are old, and which GPU time this experiment took."""
    old = Usage(gpu_s=0, peak_memory_bytes=2**30, memory_kind="host", samples_per_s=10.0)
    runs = six()
    for i in (0, 1):
        assert runs[i].result is not None
        result = runs[i].result.model_copy(update={"usage": old})  # type: ignore[union-attr]
        runs[i] = runs[i].model_copy(update={"result": result, "started_at": None, "reused_from": f"exp-3/{i + 1}"})

    report, _ = build(experiment(text=text), runs, now=5.0)

    assert report.n_ok == 6
    assert report.gpu_hours == pytest.approx(4 * 120 / 3600)
    assert [s.reused_from for s in report.rows[0].seeds] == ["exp-3/1", "exp-3/2", None]
    note = next(note for note in report.notes if said in note)
    assert "exp-3" in note
    table = {"en": "3 of 3 (2 from exp-3)", "zh": "3 中 3（2 个来自 exp-3）"}[report.language]
    assert table in to_markdown(report)
    line = {"en": "3 of 3 seeds (2 from exp-3)", "zh": "3 中 3 个种子（2 个来自 exp-3）"}[report.language]
    assert any(line in told for told in summary_lines(report))
    plain, _ = build(experiment(text=text), six(), now=5.0)
    assert "exp-3" not in to_markdown(plain)


ENGLISH = r"\b(?:the|and|of|to|failed|seeds|mean|interval|warnings|notes|again|best|model|cause|peak|better|each)\b"
"""Words of the English report."""


def test_a_chinese_report_is_chinese_throughout() -> None:
    """Names of models, metrics and commands stay; no sentence and no heading around them is English."""
    runs = [*six()[:5], failed(6, "efficientnet_b0", 2, "oom_gpu")]
    report, _ = build(experiment(text="对比 ResNet50 和 EfficientNet"), runs, now=5.0)

    text = to_markdown(report) + "\n".join(summary_lines(report))
    assert re.findall(ENGLISH, text) == []
    assert "显存不足" in text


def test_caveats_are_stated() -> None:
    report, _ = build(experiment(), six(), now=5.0)
    notes = " ".join(report.notes)

    assert "one train/validation split" in notes
    assert "cards are simulated" in notes
    assert "It took 0.20 GPU-h; the plan had estimated 0.20 (a rough guess)" in notes
    assert "It ran for 2 min; the plan had estimated 4 min" in notes
    assert report.warnings == ("no pretrained weights (exp-12/1, exp-12/2, exp-12/3 and 3 others)",)


def test_time_of_earlier_attempts_counts_and_what_was_lost_is_said() -> None:
    """The cards were busy with it, whatever came of it; who made room did so for others and lost nothing."""
    one, *rest = six()
    two, *rest = rest
    lost = one.model_copy(update={"earlier": Usage(gpu_s=3600), "lost_gpu_s": 1800.0, "losses": 1, "fence": 3})
    moved = two.model_copy(update={"earlier": Usage(gpu_s=900), "made_room_for": ("exp-9/1",), "fence": 2})
    report, _ = build(experiment(), [lost, moved, *rest], now=5.0)
    notes = " ".join(report.notes)

    assert report.gpu_hours == pytest.approx(0.2 + 1.0 + 0.25)
    assert "1 run needed more than one attempt; the GPU time of all of them is in the total" in notes
    assert "Of the GPU time, 0.50 h went to attempts that were lost with their card, worker or host" in notes
    assert "exp-12/2 made room for other runs and went on from its checkpoint" in notes


def test_what_was_changed_on_runs_is_noted() -> None:
    """A number from a changed run must not pass for one from the plan."""
    halved = "micro-batch halved to 32 (2 parts a step) after it did not fit the card (same effective batch)"
    runs = [r.model_copy(update={"changes": (halved,)}) if r.number in (2, 3) else r for r in six()]
    report, _ = build(experiment(), runs, now=5.0)

    assert f"exp-12/2 and exp-12/3: {halved}" in report.notes


def test_a_failed_run_comes_with_what_to_do() -> None:
    """Whoever reads it in the morning acts on it."""
    lost = failed(6, "efficientnet_b0", 2, "import_error").model_copy(update={"advice": "install apex"})
    report, _ = build(experiment(), [*six()[:5], lost], now=5.0)

    assert report.failed[0].advice == "install apex"
    assert "  exp-12/6 failed: import_error: loss is nan at step 40 (install apex)" in summary_lines(report)


def test_failed_runs_are_listed_with_their_cause_and_cost() -> None:
    runs = [*six()[:5], failed(6, "efficientnet_b0", 2, "nan_loss")]
    report, _ = build(experiment(), runs, now=5.0)

    assert (report.n_ok, report.n_failed) == (5, 1)
    assert report.failed[0].model_dump(include={"run_id", "cause", "message"}) == {
        "run_id": "exp-12/6",
        "cause": "nan_loss",
        "message": "loss is nan at step 40",
    }
    assert report.rows[1].seeds[2].outcome == "diverged"
    assert report.gpu_hours == pytest.approx(0.2)
    assert report.verdict.winners == {}


def test_a_retry_replaces_the_run_it_retried() -> None:
    again = run(7, "efficientnet_b0", 0.65, 2, retry_of="exp-12/6")
    report, _ = build(experiment(), [*six()[:5], failed(6, "efficientnet_b0", 2, "oom_gpu"), again], now=5.0)

    assert (report.n_ok, report.n_failed) == (6, 0)
    assert report.gpu_hours == pytest.approx(7 * 120 / 3600)
    assert any("replaced by its retry" in note for note in report.notes)


def test_of_a_chain_of_retries_the_finished_one_counts() -> None:
    chain = [
        failed(1, "a", 0, "hang"),
        run(2, "a", 0.5, 0, retry_of="exp-12/1"),
        failed(3, "a", 0, "hang").model_copy(update={"retry_of": "exp-12/2"}),
    ]

    assert [r.number for r in latest(chain)] == [2]


def test_the_same_seed_twice_is_one_seed() -> None:
    report, _ = build(experiment(), [run(1, "a", 0.5, 0), run(2, "a", 0.6, 0)], now=5.0)

    assert (report.rows[0].n, report.rows[0].mean) == (1, 0.6)


def test_a_value_that_is_no_number_means_diverged() -> None:
    report, _ = build(experiment(), [run(1, "a", None, 0), run(2, "a", 0.6, 1)], now=5.0)

    assert [s.outcome for s in report.rows[0].seeds] == ["diverged", "ok"]
    assert report.failed[0].message == "val acc: its last value is not a number"


def test_a_sweep_names_its_axis_and_brings_its_figure() -> None:
    lrs = {0.1: 0.5, 0.01: 0.8, 0.001: 0.9}
    runs = [
        run(3 * i + s + 1, "resnet50", acc + s / 100, s, params={"lr": lr})
        for i, (lr, acc) in enumerate(lrs.items())
        for s in range(3)
    ]
    report, figures = build(experiment(models=("resnet50",)), runs, now=5.0)

    assert [r.label for r in report.rows] == ["lr 0.001", "lr 0.01", "lr 0.1"]
    assert set(figures) == {"curves.png", "sweep.png"}
    assert any("smallest tried" in d for d in report.verdict.details)


def test_each_data_set_has_its_curves() -> None:
    runs = [*six(), run(7, "resnet50", 0.5, 0, dataset="a/b")]
    _, figures = build(experiment(dataset=("digits", "a/b")), runs, now=5.0)

    assert set(figures) == {"curves-digits.png", "curves-a_b.png"}


def test_nothing_finished_is_still_a_report() -> None:
    report, figures = build(experiment(), [failed(1, "resnet50", 0, "oom_gpu")], now=5.0)
    empty, _ = build(experiment(), [], now=5.0)

    assert report.verdict.headline == "No run on digits gave a result: 1 failed"
    assert figures == {}
    assert empty.rows == ()
    assert "oom_gpu" in to_markdown(report)
    assert summary_lines(empty)


def test_the_wished_metric_is_found_by_its_everyday_name() -> None:
    assert choose_metric("accuracy", six()) == ("val_acc", True)
    assert choose_metric("throughput", six()) == ("samples_per_s", True)
    assert choose_metric("loss", six()) == ("val_loss", True)
    assert choose_metric(None, six()) == ("val_acc", True)
    assert choose_metric("mIoU", six()) == ("val_acc", False)


def test_a_metric_that_nobody_reported_is_said_so() -> None:
    report, _ = build(experiment(metric="miou"), six(), now=5.0)

    assert report.warnings[0] == "No run reported miou; judged by val acc instead."


def test_a_chinese_request_gets_a_chinese_report() -> None:
    report, _ = build(experiment(text="对比ResNet50和EfficientNet"), six(), now=5.0)

    assert report.language == "zh"
    assert "resnet50 优于 efficientnet_b0" in report.verdict.headline
