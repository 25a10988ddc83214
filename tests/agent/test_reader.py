"""The reader on any text: it never fails, never invents, and counts runs as products."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.reader import PreviousPlan, read
from agent.reader.numbers import chinese, spell_out, written
from agent.reader.text import clean
from agent.understand import Defaults, asked_runs, batch, to_case, understand
from lab.plan import Plan, Range

MODELS = ["resnet18", "vgg16", "densenet121", "vit_small_patch16_224", "swin_tiny_patch4_window7_224"]
DATASETS = ["cifar10", "svhn", "food101", "stl10"]
RATES = ["0.1", "0.03", "1e-3", "3e-4", "5e-05"]
PREVIOUS = PreviousPlan(id="exp-5", models=("resnet18", "vgg16"), dataset="svhn", axes={"lr": [0.1], "seed": [0, 1]})


def subset(values: list[str], most: int = 3) -> st.SearchStrategy[list[str]]:
    """A few different values in any order."""
    return st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True)


@settings(max_examples=150, deadline=None)
@given(
    models=subset(MODELS),
    dataset=st.sampled_from(DATASETS),
    rates=subset(RATES),
    batches=subset(["16", "48", "64", "100"]),
    seeds=st.integers(1, 5),
    epochs=st.integers(1, 90),
    chinese_form=st.booleans(),
)
def test_the_number_of_runs_is_the_product(
    models: list[str],
    dataset: str,
    rates: list[str],
    batches: list[str],
    seeds: int,
    epochs: int,
    chinese_form: bool,
) -> None:
    """Whatever the sizes of the lists, every value arrives and the runs are counted from them."""
    if chinese_form:
        text = (
            f"对比 {'、'.join(models)}，数据集 {dataset}，学习率 {'、'.join(rates)}，"
            f"batch {'/'.join(batches)}，{seeds} 个种子，{epochs} 轮"
        )
    else:
        text = (
            f"compare {' vs '.join(models)} on {dataset}, lr {', '.join(rates)}, "
            f"batch size {' and '.join(batches)}, {seeds} seeds, {epochs} epochs"
        )

    plan = understand(text).plan

    assert plan is not None
    assert set(plan.models) == set(models)
    assert plan.dataset == dataset
    assert plan.axes["lr"] == tuple(float(r) for r in rates)
    assert plan.axes["batch_size"] == tuple(int(b) for b in batches)
    assert plan.axes["seed"] == tuple(range(seeds))
    assert plan.epochs == epochs
    assert plan.n_runs == len(models) * len(rates) * len(batches) * seeds


WORDS = st.sampled_from(
    [
        "train", "compare", "resnet18", "vgg16", "cifar10", "on", "with", "lr", "batch", "seeds", "seed", "3",
        "0.1", "1e-3", "64", "epochs", "steps", "学习率", "批量", "种子", "两个", "轮",
        "rerun", "cancel", "why", "gpu", "卡",
        "now", ",", ".", ":", "/", "-", "and", "和", "from", "to", "换成", "去掉",
        "mixup", "without", "half", "double",
        "2x", "exp-5", "run", "every", "night", "2h",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=14).map(" ".join)), follows=st.booleans())
def test_any_text_gets_one_reply_and_no_invented_number(text: str, follows: bool) -> None:
    """Every number of a plan is in the text or in the thread, or the plan says that it was assumed."""
    previous = PREVIOUS if follows else None

    understood = understand(text, previous)

    assert understood.reply
    if understood.plan is not None:
        assert ungrounded(understood.plan, text, previous) == []


def ungrounded(plan: Plan, text: str, previous: PreviousPlan | None) -> list[str]:
    """Fields with numbers that nobody wrote and that are not listed as assumed."""
    told = written(clean(text))
    if previous is not None:
        told += [float(v) for axis in previous.values().values() if isinstance(axis, tuple) for v in axis]
    found = []
    for name, axis in plan.axes.items():
        if plan.why(f"axes.{name}") or name == "seed" or isinstance(axis, Range):
            continue
        numbers = [v for v in axis if isinstance(v, int | float) and not isinstance(v, bool) and v != 0]
        derived = plan.notes or previous is not None
        if not derived and not all(any(math.isclose(n, t, rel_tol=1e-6) for t in told) for n in numbers):
            found.append(name)
    counts = (("epochs", plan.epochs), ("max_steps", plan.max_steps))
    found += [f for f, n in counts if n and not plan.why(f) and previous is None and float(n) not in told]
    return found


def test_slacks_artefacts_are_undone() -> None:
    """Entities, links, mentions, quotes, full-width forms, code spans; a dash between numbers is a range."""
    raw = "<@U1> “resnet18” on <http://cifar10.py|cifar10>, lr １e-5 – 1e-3 &amp; `bs` ＝ 64 <!here>"

    assert clean(raw) == '@U1 "resnet18" on cifar10, lr 1e-5 ~ 1e-3 & bs = 64'


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("lr from 1e-3 to 1e-5", (1e-3, 1e-4, 1e-5)),
        ("lr from 3e-4 to 1e-2", (3e-4, 1e-3, 3e-3, 1e-2)),
        ("lr 10^-4 to 10^-2", (1e-4, 1e-3, 1e-2)),
    ],
)
def test_a_range_becomes_a_grid_and_the_plan_says_so(text: str, values: tuple[float, ...]) -> None:
    """Nobody wrote the values in between, so the card has to show them."""
    plan = understand(f"resnet18 on svhn, {text}").plan

    assert plan is not None
    assert plan.axes["lr"] == values
    assert "grid" in plan.notes[0]


def test_steps_have_no_float_noise() -> None:
    """0.1 to 0.5 in steps of 0.1 ends at 0.5 and holds 0.3, not 0.30000000000000004."""
    plan = understand("resnet18 on svhn, dropout 0.1 to 0.5 in steps of 0.1").plan

    assert plan is not None
    assert repr(plan.axes["dropout"]) == "(0.1, 0.2, 0.3, 0.4, 0.5)"


@pytest.mark.parametrize(
    ("text", "number"), [("十二", 12), ("一万", 10_000), ("两万五千", 25_000), ("一百零三", 103), ("三", 3)]
)
def test_chinese_numerals(text: str, number: int) -> None:
    """A step count of ten thousand is written 一万."""
    assert chinese(text) == number


def test_an_ellipsis_is_written_out() -> None:
    """Only where the steps or the ratios lead to the end."""
    assert spell_out("0.01, 0.02, ..., 0.05") == "0.01, 0.02, 0.03, 0.04, 0.05"
    assert spell_out("1, 2, ..., 16") == ", ".join(str(i) for i in range(1, 17))
    assert spell_out("1, 3, ..., 10") == "1, 3, ..., 10"


@pytest.mark.parametrize("text", ["", " ", "🎉🎉🎉", "!!!", "x" * 20_000, "resnet18 " * 3000, "1 " * 1900, "一" * 3999])
def test_hopeless_texts_get_one_polite_reply(text: str) -> None:
    """Empty, emoji only, or far too long: an answer, and no plan."""
    understood = understand(text)

    assert understood.plan is None
    assert understood.reply
    assert understood.intent in ("clarify", "chitchat")


def test_a_typo_is_answered_with_the_nearest_names() -> None:
    """The plan may be shown, and cannot start."""
    understood = understand("compare resnet50 and efficentnet_b0 on cifar10")

    assert not understood.may_start
    assert "efficientnet_b0" in (understood.question or "")


def test_a_name_with_a_shell_fragment_is_refused() -> None:
    """Nothing is executed, and nothing of it becomes a name."""
    understood = understand("train resnet18 on cifar10; rm -rf /data")

    assert understood.intent == "refuse"
    assert understood.plan is None


def test_a_change_that_changes_nothing_is_asked_about() -> None:
    """Better a question than the same plan once more."""
    understood = understand("batch lr please change", PREVIOUS)

    assert not understood.may_start


def test_numbers_that_were_not_used_are_shown() -> None:
    """Whatever the reader could not place stands on the plan card."""
    plan = understand("train resnet18 on cifar10, flux 0.77").plan

    assert plan is not None
    assert "not used: 0.77" in plan.notes


def test_what_the_trainer_uses_is_stated_or_assumed() -> None:
    """Learning rate, batch size, epochs, seed and data set are never silent."""
    understood = understand("compare ResNet50 vs EfficientNet")

    plan = understood.plan
    assert plan is not None
    assert {"axes.lr", "axes.batch_size", "epochs", "axes.seed", "dataset", "models"} <= {a.field for a in plan.assumed}
    assert plan.n_runs == 6
    assert asked_runs(plan) == 2


def test_without_a_default_data_set_it_is_asked_for() -> None:
    """A lab that names none does not want one guessed."""
    understood = understand("compare resnet18 and vgg16", defaults=Defaults(dataset=None))

    assert not understood.may_start
    assert understood.question


def test_batch_answers_each_line() -> None:
    """The scorer's form: one JSON object in, one out."""
    lines = ['{"id": "a", "text": "train resnet18 on svhn", "context": null, "requester": "U1"}', ""]

    answers = list(batch(lines, Defaults()))

    assert len(answers) == 1
    assert '"id": "a"' in answers[0]


def test_batch_answers_a_broken_line_with_an_error_and_goes_on() -> None:
    """Line by line: one that is no case has its error, and the others their answers."""
    lines = [
        "{",
        "[]",
        '{"id": "b"}',
        '{"text": "gpus"}',
        '{"id": "c", "text": "gpus", "context": {"previous_plan": {"epochs": "x"}}}',
    ]

    answers = [json.loads(line) for line in batch([*lines, '{"id": "d", "text": "gpus"}'], Defaults())]

    assert [a.get("id") for a in answers] == [None, None, "b", None, "c", "d"]
    assert all(a["error"] for a in answers[:-1])
    assert answers[-1]["intent"] == "gpu_status"


def test_a_case_lists_everything_assumed() -> None:
    """Every value of the plan that nobody stated is named."""
    case = to_case("a", understand("train resnet18 on svhn, lr 0.1"))

    assert set(case["assumed"]) == {"axes.batch_size", "axes.seed", "epochs", "gpus_per_run", "priority"}
    assert case["plan"]["n_runs"] == 1


def test_a_plan_of_the_ledger_can_be_changed() -> None:
    """PreviousPlan.of keeps what was assumed, so that it stays marked."""
    plan = understand("compare resnet18 and vgg16 on svhn, lr 0.1").plan
    assert plan is not None

    changed = understand("batch 换成 96", PreviousPlan.of(plan, "exp-3", "finished")).plan

    assert changed is not None
    assert changed.axes["batch_size"] == (96,)
    assert changed.axes["lr"] == (0.1,)
    assert changed.why("axes.seed")
    assert changed.why("axes.lr") is None
    assert changed.why("axes.batch_size") is None


def test_reading_loads_no_torch() -> None:
    """The agent's processes stay small: neither torch, timm nor openai is loaded to read a message."""
    code = (
        "import sys, agent.understand as u; u.understand('train resnet18 on svhn');"
        "print({'torch', 'timm', 'openai'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


def test_the_same_text_reads_the_same() -> None:
    """Reading is pure."""
    assert read("resnet18 vs vgg16 on svhn") == read("resnet18 vs vgg16 on svhn")
