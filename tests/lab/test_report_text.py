"""The report's text: digits that the data supports, and Markdown that foreign text cannot break."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.report import (
    FailedRun,
    Report,
    Row,
    Verdict,
    again_command,
    decimals,
    format_interval,
    format_pm,
    higher_is_better,
    is_share,
    metric_name,
    summary_lines,
    to_markdown,
    used,
)


def report(**fields: object) -> Report:
    row = Row(label="resnet50", model="resnet50", dataset="digits", params={"lr": 0.001}, n_ok=3, n=3)
    row = row.model_copy(update={"mean": 0.9553, "sd": 0.0045, "low": 0.94, "high": 1.02, "best": 0.96, "best_seed": 2})
    base = {
        "experiment_id": "exp-12",
        "title": "resnet50 on digits",
        "verdict": Verdict(headline="resnet50 reached 0.955", details=("3 seeds.",)),
        "rows": (row,),
        "metric": "val_acc",
        "n_ok": 3,
        "n_failed": 1,
        "failed": (FailedRun(run_id="exp-12/4", label="a|b", cause="nan_loss", message="<script> *x*"),),
        "gpu_hours": 0.19,
        "peak_memory_bytes": int(1.9 * 2**30),
        "again": "overnight ask 'compare a `b`'",
        "figures": ("curves.png",),
    }
    return Report.model_validate(base | fields)


@pytest.mark.parametrize(
    ("mean", "sd", "text"),
    [
        (0.95312, 0.0131, "0.953 ± 0.013"),
        (0.64131, 0.0802, "0.64 ± 0.08"),
        (12345.6, 234.0, "12350 ± 230"),
        (0.95, 0.0, "0.950 ± 0.000"),
        (0.5, None, "0.500"),
        (1234.5, None, "1230"),
        (-0.00001, 0.1, "0.00 ± 0.10"),
        (None, None, "-"),
    ],
)
def test_numbers_have_the_digits_that_their_spread_supports(mean: float | None, sd: float | None, text: str) -> None:
    assert format_pm(mean, sd) == text


@given(st.floats(-1e9, 1e9), st.one_of(st.none(), st.floats(0, 1e9)))
def test_every_number_has_a_text(mean: float, sd: float | None) -> None:
    assert "nan" not in format_pm(mean, sd)
    assert -6 <= decimals(sd, mean) <= 6


def test_an_accuracy_is_shown_within_its_range_though_computed_without() -> None:
    assert format_interval(0.94, 1.02, share=True) == "0.94 to 1.00"
    assert format_interval(0.94, 1.02) == "0.94 to 1.02"
    assert report().rows[0].high == 1.02
    assert "0.94 to 1.00" in to_markdown(report())


def test_metrics_know_their_direction_and_their_range() -> None:
    lower = ("val_loss", "perplexity", "latency_ms", "error_rate", "train_time_s", "rmse")
    higher = ("val_acc", "samples_per_s", "miou", "f1", "throughput")

    assert not any(map(higher_is_better, lower))
    assert all(map(higher_is_better, higher))
    assert is_share("val_acc")
    assert not is_share("val_loss")
    assert [metric_name(m) for m in ("val_acc", "latency_ms", "samples_per_s")] == [
        "val acc",
        "latency (ms)",
        "samples per s",
    ]


def test_markdown_is_a_document_of_its_own() -> None:
    text = to_markdown(report())

    assert text.startswith("# exp-12: resnet50 on digits\n\n**resnet50 reached 0.955**\n\n- 3 seeds.\n\n| model |")
    assert "| resnet50 | digits | 0.001 | 3 of 3 | 0.955 ± 0.004 | 0.94 to 1.00 | 0.960 (seed 2) | - |" in text
    assert "![curves](curves.png)" in text
    assert "3 ok, 1 failed; 0.19 GPU-h, peak 1.9 GiB." in text
    assert "```sh\novernight ask 'compare a `b`'\n```" in text


def test_foreign_text_cannot_break_the_markdown() -> None:
    text = to_markdown(report(title="a|b\n# <b>bold</b> [x](http://y) @all"))

    assert "\\<script\\> \\*x\\*" in text
    assert text.splitlines()[0] == "# exp-12: a\\|b \\# \\<b\\>bold\\</b\\> \\[x\\](http://y) \\@all"


def test_the_code_block_outlasts_backticks_in_the_command() -> None:
    assert "````sh\novernight ask '```'\n````" in to_markdown(report(again="overnight ask '```'"))


def test_simulated_cards_and_host_memory_are_named() -> None:
    assert used(report(memory_kind="host", simulated=True)) == "0.19 GPU-h, peak 1.9 GiB host memory, simulated cards"
    assert used(report(peak_memory_bytes=None, gpu_hours=0)) == "0.00 GPU-h"


def test_plain_lines_carry_the_same_facts() -> None:
    lines = summary_lines(report())

    assert lines[0] == "resnet50 reached 0.955"
    assert "  resnet50  val acc 0.955 ± 0.004, 3 of 3 seeds, 95 % interval 0.94 to 1.00" in lines
    assert "  exp-12/4 failed: nan_loss: <script> *x*" in lines
    assert lines[-1] == "again: overnight ask 'compare a `b`'"


@given(st.text(max_size=60))
def test_the_command_gives_a_shell_back_the_words(text: str) -> None:
    command = again_command(text, "resnet50")
    words = shlex.split(command)

    assert "\n" not in command
    assert words[:2] == ["overnight", "ask"]
    assert len(words) == (4 if words[2] == "--" and len(words) == 4 else 3)


def test_a_text_that_looks_like_an_option_is_no_option() -> None:
    assert again_command("--yes", "x") == "overnight ask -- --yes"
    assert again_command("", "resnet50 on digits") == "overnight ask 'resnet50 on digits'"
