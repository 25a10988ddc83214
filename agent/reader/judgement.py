# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""What cannot be: values, counts, goals and names that no experiment can have become doubts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from agent import catalog
from agent.reader import axes as axis_table
from agent.reader import negations
from agent.reader.choices import AXIS_WORDS
from agent.reader.draft import Draft
from agent.reader.numbers import COUNT, FLAGS, NUMBER, Interval, count, value
from agent.reader.reading import PreviousPlan
from agent.reader.wording import GRIDS, say
from lab.plan import MAX_RUNS, Axis, Scalar, number

MOST_EPOCHS = 100_000
MOST_STEPS = 1_000_000_000
MOST_CARDS = 64
ACCURACY = re.compile(
    r"(?P<a>\d+(?:\.\d+)?)\s*%\s*(?:of\s*)?(?:\w+\s+)?(?:acc|accuracy|top-?1|precision|recall|f1|准确率|精度|正确率)|(?:\bto|reach|hit|达到|到)\s*(?P<c>\d+(?:\.\d+)?)\s*%|(?:acc(?:uracy)?|top-?1|准确率|精度|正确率|f1)[^\d%,.;]{0,24}(?P<b>\d+(?:\.\d+)?)\s*%",
    FLAGS,
)
PAST = re.compile(
    r"\b(?:by|before|until|at|on|for|due)\s+(?:yesterday|last (?:week|night|month|monday|tuesday|wednesday|thursday|friday|year))|昨天(?:[^,.;]{0,6})(?:之?前|开始|跑完)|上周(?:[^,.;]{0,4})(?:之?前|跑完)",
    FLAGS,
)


TIMES_TOLD = re.compile("[次遍]")
"""`跑三遍` counts seeds, unless a search is asked for."""


def judge(draft: Draft, previous: PreviousPlan | None) -> None:
    """Counts, axes, seeds and goals that can be are settled; the others are asked about."""
    _counts(draft)
    _axes(draft)
    _seeds(draft)
    if draft.pairs is not None:
        axis = axis_table.BY_NAME[draft.pairs.axis]
        draft.axes[axis.name] = tuple(dict.fromkeys(axis_table.typed(axis, v) for v in draft.pairs.values.values()))
    _denials(draft, previous)
    _goal(draft)
    _twice(draft)
    _limits(draft)
    if previous is None:
        _named_counts(draft)
    _unusual(draft)


NAMED_COUNTS = {
    kind: re.compile(
        rf"(?<![-./\w])(?P<n>{COUNT})\s*(?:个|种|款)?\s*(?:different |不同的?)?(?:{words})(?![A-Za-z])(?!\s*(?:each|per|a|every)\b)", FLAGS
    )
    for kind, words in (
        ("models", "models|networks|architectures|backbones|模型|网络"),
        ("dataset", "data ?sets|数据集"),
        *((axis, AXIS_WORDS[axis]) for axis in ("optimizer", "loss", "activation", "precision", "scheduler")),
    )
}  # fmt: skip
KINDS = {"models": ("models", "模型"), "dataset": ("data sets", "数据集"), "optimizer": ("optimizers", "优化器"), "loss": ("losses", "损失函数"), "activation": ("activations", "激活函数"), "precision": ("precisions", "精度"), "scheduler": ("schedules", "学习率策略")}  # fmt: skip
MOST_NAMES = 12
"""A larger number in front of such a word counts something else."""


def _named_counts(draft: Draft) -> None:
    """`3 models: resnet18 and resnet34`: what is counted and what is named has to agree."""
    for kind, pattern in NAMED_COUNTS.items():
        match = pattern.search(draft.page.left)
        named = _named(draft, kind)
        if match is None or len(named) < 2 or not 2 <= (n := count(match["n"])) <= MOST_NAMES:
            continue
        draft.page.cross(*match.span("n"))
        if n != len(named):
            what = KINDS[kind][draft.chinese]
            draft.doubt("names_differ", n=n, m=len(named), kind=what, list=", ".join(named))


def _named(draft: Draft, kind: str) -> list[str]:
    if kind in ("models", "dataset"):
        return draft.names.models if kind == "models" else draft.names.datasets
    axis = draft.axes.get(kind)
    return [str(v) for v in axis] if isinstance(axis, tuple) else []


MOSTLY: dict[str, tuple[float, float]] = {
    "lr": (1e-7, 1.0),
    "batch_size": (1, 16_384),
    "weight_decay": (0.0, 1.0),
    "dropout": (0.0, 0.8),
    "momentum": (0.0, 0.999),
    "label_smoothing": (0.0, 0.5),
    "image_size": (16, 1024),
    "epochs": (1, 2000),
}
"""What values mostly lie between; one outside is possible, and more often a slip of the hand."""
JOINED = re.compile(
    rf"\s*(?:,|/|{negations.LINK.pattern}|\bvs\.?|\bversus\b|\bagainst\b|\bwith\b|\bto\b|对比|比|,\s*(?:and|or))\s*",
    FLAGS,
)


LIMIT = {
    name: re.compile(
        rf"(?<![A-Za-z0-9])(?:{axis_table.BY_NAME[name].keys})(?![A-Za-z])\s*(?:(?:must|should|has to|needs to|may|can(?:not|'t)?|必须|要|不能|不得)\s*(?:not\s*)?(?:be\s*|exceed\s*)?)(?P<how>below|under|less than|at most|smaller than|above|over|more than|at least|larger than|greater than|<=?|>=?|小于|低于|不超过|大于|高于|超过)?\s*(?P<n>{NUMBER})",
        FLAGS,
    )
    for name in ("lr", "batch_size", "weight_decay", "dropout")
}
"""`lr must be below 0.01`"""
ABOVE = re.compile(r"above|over|more|at least|larger|greater|>|大于|高于", FLAGS)
NEVER_ABOVE = re.compile(r"not\b|n't\b|不", FLAGS)


def _limits(draft: Draft) -> None:
    """Values that the message itself rules out become doubts."""
    for name, pattern in LIMIT.items():
        match = pattern.search(draft.page.text)
        axis = draft.axes.get(name)
        if match is None or not match["how"] or not isinstance(axis, tuple):
            continue
        least = bool(ABOVE.search(match["how"])) and not NEVER_ABOVE.search(match[0])
        limit = float(value(match["n"]))
        broken = [v for v in axis if not isinstance(v, str) and v != limit and (v < limit if least else v > limit)]
        if broken:
            draft.doubt("bad_value", what=name, value=shown(broken))


def _twice(draft: Draft) -> None:
    """A model or data set listed twice runs once, and the plan says so."""
    spans = sorted(draft.names.spans)
    for (_, end, name), (start, _, following) in pairwise(spans):
        if name == following and start > end and JOINED.fullmatch(draft.page.text[end:start]):
            draft.note("note_twice", names=name)


def _unusual(draft: Draft) -> None:
    """Values that are possible, but hardly ever meant, are pointed out."""
    told = dict(draft.axes)
    if draft.counts.epochs is not None:
        told.setdefault("epochs", (draft.counts.epochs,))
    for name, (low, high) in MOSTLY.items():
        axis = told.get(name, ())
        numbers = [v for v in axis if isinstance(v, int | float)] if isinstance(axis, tuple) else [axis.low, axis.high]
        if odd := [v for v in numbers if not low <= v <= high]:
            draft.note("note_unusual", what=name, value=shown(odd), low=number(low), high=number(high))


def _denials(draft: Draft, previous: PreviousPlan | None) -> None:
    """Excluded values leave the ranges and the thread's axes that hold them; one that is also named is a doubt."""
    held = previous.values() if previous is not None else {}
    told = draft.denied
    _swaps(draft, held)
    for excluded_number in told.numbers:
        for name, axis in (held | draft.axes).items():
            counted = name == "seed" and not draft.counts.seed_values
            if isinstance(axis, tuple) and excluded_number in axis and not counted:
                told.add(name, excluded_number)
    for kind, named in (("models", draft.names.models), ("dataset", draft.names.datasets)):
        if both := [n for n in told.values.get(kind, ()) if n in named]:
            draft.doubt("in_and_out", name=", ".join(map(str, both)))
    for name, excluded in told.values.items():
        stated = draft.axes.get(name)
        if isinstance(stated, tuple):
            _leave_out(draft, name, stated, excluded)
            _in_place(draft, name, stated, excluded, held.get(name))
        elif isinstance(old := held.get(name), tuple) and set(old) & set(excluded):
            draft.changes.kept[name] = left = [v for v in old if v not in excluded]
            if not left:
                draft.doubt("which_instead", axis=name, values=shown(excluded))


def _swaps(draft: Draft, held: dict[str, Axis]) -> None:
    """`64 instead of 128`: the axis of the thread's plan that has 128 takes 64 in its place."""
    for old, new in draft.denied.swapped:
        homes = [n for n, axis in held.items() if isinstance(axis, tuple) and old in axis and n in axis_table.BY_NAME]
        for name in homes[:1] if len(homes) == 1 else ():
            axis = axis_table.BY_NAME[name]
            if not axis.allows(new):
                draft.doubt("bad_value", what=name, value=number(new))
                continue
            values = held[name]
            assert isinstance(values, tuple)
            draft.changes.settled.add(name)
            draft.axes[name] = tuple(axis_table.typed(axis, new) if v == old else v for v in values)


def _in_place(draft: Draft, name: str, stated: tuple[Scalar, ...], excluded: list[Scalar], old: Axis | None) -> None:
    """`adamw instead of adam`, where the thread has sgd and adam: sgd stays."""
    if not isinstance(old, tuple) or not set(old) & set(excluded):
        return
    draft.changes.settled.add(name)
    if len(old) > 1 and not set(stated) & set(old):
        rest = [v for v in old if v not in excluded]
        draft.axes[name] = (*rest, *stated)


def _leave_out(draft: Draft, name: str, axis: tuple[Scalar, ...], excluded: list[Scalar]) -> None:
    left = tuple(v for v in axis if v not in excluded)
    ranged = name == "seed" or (name in draft.told and draft.told[name].interval is not None)
    if left and left != axis and ranged:
        draft.axes[name] = left
    elif left != axis:
        draft.doubt("in_and_out", name=f"{name} {shown([v for v in axis if v in excluded])}")


def shown(numbers: Iterable[Scalar]) -> str:
    """The values as people write them."""
    return ", ".join(number(v) for v in numbers)


def _counts(draft: Draft) -> None:
    """Numbers with a unit that no experiment can have become doubts."""
    told = draft.counts
    if (
        told.trials is not None
        and draft.around.search not in ("random", "bayesian")
        and TIMES_TOLD.search(draft.page.text)
    ):
        told.seeds = told.trials if told.trials > 1 and told.seeds is None and not told.seed_values else told.seeds
        told.trials = None
    limits = (("epochs", MOST_EPOCHS), ("max_steps", MOST_STEPS), ("gpus", MOST_CARDS), ("trials", MOST_STEPS))
    for name, most in limits:
        number = getattr(told, name)
        if number is not None and not (float(number).is_integer() and 1 <= number <= most):
            draft.doubt("bad_value", what=name, value=f"{number:g}")
            setattr(told, name, None)
    draft.axes.update(told.axes)
    if told.epochs_several:
        draft.axes["epochs"] = tuple(told.epochs_several)
    for name in ("gpu_hours", "wall_hours"):
        number = getattr(told, name)
        if number is not None and number <= 0:
            draft.doubt("bad_value", what=name, value=f"{number:g}")
            setattr(told, name, None)


def _axes(draft: Draft) -> None:
    """Ranges become grids (or stay ranges for a search); values that cannot be become doubts."""
    draws = draft.around.search in ("random", "bayesian")
    for name, told in draft.told.items():
        axis = axis_table.named(name)
        if told.interval is not None:
            _range(draft, axis, told, draws)
            continue
        if not told.numbers:
            draft.expected[name] = told.expected or 0
            continue
        if draws and len(told.numbers) == 2 and "[" in told.text and told.numbers[0] != told.numbers[1]:
            ends = sorted(float(n) for n in told.numbers)
            _range(draft, axis, replace(told, interval=Interval(ends[0], ends[1])), draws)
            continue
        bad = [n for n in told.numbers if not axis.allows(n)]
        if bad:
            draft.doubt("bad_value", what=name, value=", ".join(f"{n:g}" for n in bad))
            continue
        if told.expected is not None and told.expected != len(told.numbers):
            draft.doubt("values_differ", n=told.expected, m=len(told.numbers), axis=name)
        draft.axes[name] = tuple(axis_table.typed(axis, n) for n in told.numbers)


def _range(draft: Draft, axis: axis_table.Axis, told: axis_table.Told, draws: bool) -> None:
    interval = told.interval
    assert interval is not None
    if not (axis.allows(interval.high) and axis.allows(interval.low)):
        draft.doubt("bad_value", what=axis.name, value=f"{interval.low:g} to {interval.high:g}")
        return
    if interval.low == interval.high:
        draft.axes[axis.name] = (axis_table.typed(axis, interval.low),)
        return
    if draws and not interval.step:
        draft.axes[axis.name] = axis_table.as_range(axis, interval)
        return
    points, how = axis_table.expand(axis, interval)
    if interval.descending:
        points = points[::-1]
    draft.axes[axis.name] = tuple(axis_table.typed(axis, p) for p in points)
    if how:
        ends = {"low": f"{interval.low:g}", "high": f"{interval.high:g}"}
        listed = ", ".join(f"{p:g}" for p in points)
        draft.note("note_grid", axis=axis.name, how=GRIDS[how] if draft.chinese else how, list=listed, **ends)


def _seeds(draft: Draft) -> None:
    told = draft.counts
    if told.seeds is not None and told.seed_values and told.seeds != len(told.seed_values):
        shown = ", ".join(str(s) for s in told.seed_values)
        draft.doubt("seeds_differ", n=f"{told.seeds:g}", m=len(told.seed_values), list=shown)
    elif any(s < 0 for s in told.seed_values):
        draft.doubt("bad_value", what="seed", value=", ".join(str(s) for s in told.seed_values))
    elif told.seed_values:
        draft.axes["seed"] = told.seed_values
    elif told.seeds is not None and not (float(told.seeds).is_integer() and told.seeds >= 1):
        draft.doubt("bad_value", what="seeds", value=f"{told.seeds:g}")
    elif told.seeds is not None and told.seeds > MAX_RUNS:
        draft.expected["seed"] = int(told.seeds)
    elif told.seeds is not None:
        draft.axes["seed"] = tuple(range(int(told.seeds)))


def _goal(draft: Draft) -> None:
    for match in ACCURACY.finditer(draft.page.text):
        percent = float(match["a"] or match["b"] or match["c"])
        if percent > 100:
            draft.doubt("bad_accuracy", value=f"{percent:g}")
    if PAST.search(draft.page.text):
        draft.doubt("past")


def judge_names(draft: Draft) -> None:
    """Typos become doubts with the nearest names; a data set that resembles none is taken as the lab's own."""
    for kind, name in draft.names.unknown:
        near = catalog.nearest(name, "model" if kind == "model" else "dataset", likeness=0.6)
        if kind == "dataset" and not catalog.nearest(name, "dataset", 1, likeness=0.7):
            if not draft.names.datasets:
                draft.names.datasets.append(name)
                draft.note("note_own_dataset", name=name)
            continue
        if kind == "model" and not near and draft.names.models:
            continue
        hint = say("near", draft.chinese, names=", ".join(near)) if near else say("no_near", draft.chinese)
        draft.doubt("unknown_model" if kind == "model" else "unknown_dataset", name=name, near=hint)
