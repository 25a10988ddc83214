"""A plan printed as a sentence is understood as the same plan: so `again` in a report repeats it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.again import all_again, reusable
from agent.reader.choices import WORDS
from agent.understand import understand
from lab.plan import MAX_RUNS, Axis, Budget, Plan, Point, Range
from lab.planwords import sentence
from lab.run import Run

MODELS = ("resnet18", "vgg16", "densenet121", "efficientnet_b0", "vit_small_patch16_224", "mobilenetv3_large_100")
DATASETS = ("cifar10", "svhn", "food101", "stl10", "digits", "imagenet100", "tiny_imagenet")
FLOATS: dict[str, tuple[float, float]] = {
    "lr": (1e-7, 1.0),
    "weight_decay": (0.0, 1.0),
    "dropout": (0.0, 0.8),
    "momentum": (0.0, 0.99),
    "label_smoothing": (0.0, 0.5),
    "drop_path": (0.0, 0.5),
    "mixup_alpha": (0.0, 2.0),
    "cutmix_alpha": (0.0, 2.0),
    "grad_clip": (0.1, 10.0),
    "warmup_ratio": (0.0, 0.5),
    "data_fraction": (0.01, 1.0),
}
INTS: dict[str, tuple[int, int]] = {
    "batch_size": (1, 4096),
    "image_size": (16, 512),
    "warmup_epochs": (0, 50),
    "warmup_steps": (0, 5000),
    "grad_accum_steps": (1, 64),
    "lora_rank": (1, 256),
    "n_layers": (1, 48),
    "max_length": (16, 4096),
    "early_stopping_patience": (1, 50),
}
TOGGLES = ("mixup", "cutmix", "ema", "augmentation", "pretrained", "freeze_backbone", "compile", "swa")
SCHEDULERS = ("cosine", "onecycle", "multistep")


def several(values: st.SearchStrategy[float]) -> st.SearchStrategy[tuple[float, ...]]:
    """One to four different values."""
    return st.lists(values, min_size=1, max_size=4, unique=True).map(tuple)


def floats(low: float, high: float) -> st.SearchStrategy[float]:
    """Values as people choose them: at most four digits, no noise."""
    return st.floats(low, high, allow_nan=False).map(lambda v: float(f"{v:.4g}")).filter(lambda v: low <= v <= high)


@st.composite
def axes(draw: st.DrawFn) -> dict[str, Axis]:
    """A few axes of every kind, as a plan holds them."""
    found: dict[str, Axis] = {
        "lr": draw(several(floats(*FLOATS["lr"]))),
        "batch_size": draw(several(st.integers(*INTS["batch_size"]))),
        "seed": draw(st.one_of(st.integers(1, 9).map(lambda n: tuple(range(n))), several(st.integers(0, 3000)))),
    }
    for name in draw(
        st.lists(
            st.sampled_from([*FLOATS, *INTS, *TOGGLES, "optimizer", "precision", "scheduler"]), max_size=4, unique=True
        )
    ):
        if name in found:
            continue
        if name in FLOATS:
            found[name] = draw(several(floats(*FLOATS[name])))
        elif name in INTS:
            found[name] = draw(several(st.integers(*INTS[name])))
        elif name in TOGGLES:
            if not {f"{name}_alpha", name.removesuffix("_alpha")} & set(found):
                found[name] = draw(st.sampled_from([(True,), (False,), (False, True)]))
        elif name == "scheduler":
            found[name] = draw(several(st.sampled_from(SCHEDULERS)))  # type: ignore[arg-type]
        else:
            words = [w for w in WORDS[name] if w != "amp"]
            found[name] = draw(several(st.sampled_from(words)))  # type: ignore[arg-type]
    for toggle in ("mixup", "cutmix"):
        if f"{toggle}_alpha" in found:
            found.pop(toggle, None)
    return found


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A grid of any size that one experiment may have."""
    by_steps = draw(st.booleans())
    return Plan(
        models=tuple(draw(st.lists(st.sampled_from(MODELS), min_size=1, max_size=3, unique=True))),
        dataset=draw(
            st.one_of(
                st.sampled_from(DATASETS),
                st.lists(st.sampled_from(DATASETS), min_size=2, max_size=3, unique=True).map(tuple),
            )
        ),
        axes=draw(axes()),
        epochs=None if by_steps else draw(st.integers(1, 2000)),
        max_steps=draw(st.integers(1, 500_000)) if by_steps else None,
        gpus_per_run=draw(st.integers(1, 8)),
        priority=draw(st.sampled_from(["low", "normal", "high"])),
        metric=draw(st.sampled_from([None, "val_acc", "val_loss", "f1", "throughput"])),
        budget=draw(st.sampled_from([None, Budget(gpu_hours=12.0)])),
        anew=draw(st.booleans()),
    )


def same(wanted: Plan, got: Plan) -> list[str]:
    """What differs, field by field."""
    fields = (
        "models",
        "datasets",
        "epochs",
        "max_steps",
        "gpus_per_run",
        "priority",
        "metric",
        "budget",
        "search",
        "trials",
        "anew",
    )
    found = [
        f"{f}: {getattr(got, f)} not {getattr(wanted, f)}" for f in fields if getattr(got, f) != getattr(wanted, f)
    ]
    for name in {*wanted.axes, *got.axes}:
        old, new = wanted.axes.get(name), got.axes.get(name)
        if isinstance(old, Range) or isinstance(new, Range):
            equal = old == new
        else:
            equal = (
                old is not None
                and new is not None
                and len(old) == len(new)
                and all(_close(a, b) for a, b in zip(old, new, strict=True))
            )
        found += [] if equal else [f"axes.{name}: {new} not {old}"]
    return found


def _close(a: object, b: object) -> bool:
    if isinstance(a, float | int) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-15)
    return a == b


@settings(max_examples=300, deadline=None)
@given(plan=plans().filter(lambda plan: plan.n_runs <= MAX_RUNS), chinese=st.booleans())
def test_a_plan_printed_as_a_sentence_is_the_same_plan(plan: Plan, chinese: bool) -> None:
    """`again: overnight ask ...` must repeat the experiment and not something like it."""
    text = sentence(plan, chinese)

    got = understand(text, defaults=None).plan

    assert got is not None, text
    assert same(plan, got) == [], text
    assert got.n_runs == plan.n_runs


@settings(max_examples=150, deadline=None)
@given(
    low=floats(1e-6, 1e-3),
    ratio=st.integers(2, 5000),
    trials=st.integers(2, 200),
    search=st.sampled_from(["random", "bayesian"]),
    chinese=st.booleans(),
)
def test_a_search_printed_as_a_sentence_is_the_same_search(
    low: float, ratio: int, trials: int, search: str, chinese: bool
) -> None:
    """The ranges stay ranges, and the number of runs is the number of trials."""
    plan = Plan(
        models=("resnet18",),
        dataset="svhn",
        axes={
            "lr": Range(low=low, high=float(f"{low * ratio:.6g}")),
            "dropout": Range(low=0.0, high=0.5, scale="linear"),
            "batch_size": (64,),
            "seed": (0,),
        },
        epochs=5,
        search=search,  # type: ignore[arg-type]
        trials=trials,
    )
    text = sentence(plan, chinese)

    got = understand(text).plan

    assert got is not None, text
    assert same(plan, got) == [], text
    assert got.n_runs == trials


@pytest.mark.parametrize(
    "text",
    [
        "run all again",
        "please run everything again, with 4 seeds",
        "run it all again",
        "two more seeds, and rerun all of them",
        "retrain everything from scratch",
        "redo the whole thing",
        "compare resnet18 and resnet34 on digits; don't reuse old results",
        "全部重跑",
        "加两个种子，全部重新跑",
        "所有的run都再跑一遍",
        "重新训练全部",
        "不要复用旧结果",
    ],
)
def test_run_all_again_asks_for_every_run(text: str) -> None:
    """A lab that doubts its old numbers wants new ones, not those once more."""
    assert all_again(text)


@pytest.mark.parametrize(
    "text",
    [
        "two more seeds please",
        "run exp-12 again with 5 seeds",
        "same again but with lr 3e-4",
        "compare all resnets on digits",
        "train everything for 3 epochs",
        "retry the failed ones",
        "再加两个种子",
        "再跑两个种子",
        "所有模型都跑 3 轮",
        "重跑 exp-12，lr 换成 3e-4",
    ],
)
def test_a_change_asks_for_what_is_new(text: str) -> None:
    """The usual follow-up; training the old runs once more would be GPU time for nothing."""
    assert not all_again(text)


@pytest.mark.parametrize(
    ("text", "n_there", "anew"),
    [
        ("run it again", 2, True),
        ("reproduce exp-12", 2, True),
        ("再跑一次", 2, True),
        ("run exp-12 again with 2 seeds", 1, False),
        ("compare resnet18 and resnet34 on digits", 2, False),
    ],
)
def test_a_repetition_of_what_is_all_there_is_run(text: str, n_there: int, anew: bool) -> None:
    """`Again` with nothing new would otherwise start nothing, which is not what the person asked for."""
    plan = Plan(models=("resnet18",), axes={"seed": (0, 1)}, request_text=text)
    point = Point(model="resnet18", dataset=None, params={})
    found = Run(id="exp-1/1", experiment_id="exp-1", number=1, point=point, template="vision", queued_at=0.0)
    there = dict.fromkeys(range(1, n_there + 1), found)

    settled, same = reusable(plan, there)

    assert settled.anew is anew
    assert same == ({} if anew else there)
