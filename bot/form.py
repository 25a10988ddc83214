"""The form that corrects a plan: what it holds, and the plan that its values make. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema

from lab.language import Phrasebook, is_chinese
from lab.plan import PRIORITIES, Assumed, Plan, Scalar, number
from lab.planwords import arithmetic, in_words
from lab.schema import complaint

Kind = Literal["text", "one", "several"]
"""A line to type in, a menu, a menu with several choices."""
Values = Mapping[str, str | tuple[str, ...]]
"""What somebody entered, by field."""

MODELS, DATASET, SEEDS, EPOCHS, STEPS, PRIORITY = "models", "dataset", "axes.seed", "epochs", "max_steps", "priority"
MOST_SEEDS = 1000
MOST_AXES = 20
MOST_OPTIONS = 100
MOST_CHARS = 3000
"""Of a line to type in, as Slack has it."""
_COMMAS = re.compile(r"[,;\n，；、]+")
WORDS = Phrasebook(
    {
        "models": ("Models", "模型"),
        "datasets": ("Data sets", "数据集"),
        "seeds": ("Seeds", "种子"),
        "epochs": ("Epochs", "轮数"),
        "steps": ("Steps", "步数"),
        "priority": ("Priority", "优先级"),
        "lr": ("Learning rate", "学习率"),
        "names_hint": ("Names, with commas between them.", "名称，用逗号分开。"),
        "seeds_hint": (
            "How many (3), or which ones (0, 5, 7; a single one as 5,).",
            "几个（3），或哪几个（0, 5, 7；单独一个写成 5,）。",
        ),
        "axis_hint": ("One value, or several with commas.", "一个值，或用逗号分开的几个。"),
        "too_many": (
            "That makes {runs}, and {most} at once is the limit (limits.max_runs).",
            "这样是 {runs}，而一次最多 {most} 个（limits.max_runs）。",
        ),
        "cannot_be": ("{value} cannot be: {why}.", "不能是 {value}：{why}。"),
        "none": ("Say at least one.", "至少写一个。"),
        "twice": ("{value} stands there twice.", "{value} 写了两次。"),
        "no_number": ("{value!r} is no whole number.", "{value!r} 不是整数。"),
        "not_whole": ("{value} is no whole number.", "{value} 不是整数。"),
        "out_of_range": ("{value} is not between {least} and {most}.", "{value} 不在 {least} 和 {most} 之间。"),
        "not_a_number": ("{value!r} is no number; write 0.001 or 1e-3.", "{value!r} 不是数；请写 0.001 或 1e-3。"),
        "not_finite": ("{value} is no finite number.", "{value} 不是有限的数。"),
        "none_of": ("{value!r} is none of {options}.", "{value!r} 不在 {options} 之中。"),
        "no_model": (
            "No model that can be trained here is called {name!r}.{near}",
            "这里没有叫 {name!r} 的可训练模型。{near}",
        ),
        "near": (" Near that name: {names}.", "名称相近的有：{names}。"),
    }
)


@dataclass(frozen=True)
class Around:
    """What a form has to know of the lab.

    Attributes:
        datasets: names of the data sets that are present.
        params: JSON schema of the plan's template; empty where no host is up.
        max_runs: the most runs of one experiment.
    """

    datasets: Sequence[str] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    max_runs: int = 200


@dataclass(frozen=True)
class Entry:
    """One field of the form, with what it holds at first."""

    name: str
    """As in Plan.assumed: `models`, `axes.lr`; also the id of its block."""
    label: str
    kind: Kind
    value: str | tuple[str, ...]
    options: tuple[str, ...] = ()
    hint: str = ""


class _Wrong(Exception):
    """What was entered is no value of its field: a sentence of WORDS, with what it is about."""

    def __init__(self, key: str, **fields: object) -> None:
        super().__init__(key)
        self.key, self.fields = key, fields


class Faults(Exception):
    """Values that make no plan: a sentence for each field that is at fault."""

    def __init__(self, by_field: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {why}" for name, why in by_field.items()))
        self.by_field = dict(by_field)


def entries(plan: Plan, around: Around) -> list[Entry]:
    """The fields of the form for this plan, in the order in which they are shown."""
    zh = is_chinese(plan.request_text)
    label, names = WORDS.say("models", zh), ", ".join(plan.models)
    found = [Entry(MODELS, label, "text", names, hint=WORDS.say("names_hint", zh))]
    datasets = tuple(sorted({*around.datasets, *plan.datasets}, key=lambda name: (name not in plan.datasets, name)))[
        :100
    ]
    if datasets:
        found.append(Entry(DATASET, WORDS.say("datasets", zh), "several", plan.datasets, datasets))
    seeds = plan.axes.get("seed")
    if isinstance(seeds, tuple) and seeds:
        label, hint = WORDS.say("seeds", zh), WORDS.say("seeds_hint", zh)
        found.append(Entry(SEEDS, label, "text", _seeds_text(seeds), hint=hint))
    if plan.epochs is not None or plan.max_steps is not None:
        name, key = (EPOCHS, "epochs") if plan.max_steps is None else (STEPS, "steps")
        label = WORDS.say(key, zh)
        found.append(Entry(name, label, "text", str(plan.epochs if plan.max_steps is None else plan.max_steps)))
    found += [_axis_entry(name, axis, around, zh) for name, axis in _editable(plan).items()]
    found.append(Entry(PRIORITY, WORDS.say("priority", zh), "one", plan.priority, PRIORITIES))
    return [entry for entry in found if len(entry.value) <= MOST_CHARS or isinstance(entry.value, tuple)]


def left_out(plan: Plan, around: Around) -> list[str]:
    """What of the plan has no field and can only be changed by a sentence: ranges, and lists too long to type."""
    there = {entry.name for entry in entries(plan, around)}
    zh = is_chinese(plan.request_text)
    return [in_words(plan, name, zh) for name in (MODELS, *(f"axes.{axis}" for axis in plan.axes)) if name not in there]


def corrected(plan: Plan, values: Values, around: Around) -> Plan:
    """The plan with these values in place of its own; what was entered anew is no longer assumed.

    Args:
        values: of all fields or some; the others stay.

    Raises:
        Faults: says for each field what is wrong with it.
    """
    zh = is_chinese(plan.request_text)
    faults: dict[str, str] = {}
    changed: dict[str, Any] = {}
    for name, read in _readers(plan, around, zh).items():
        if name in values:
            try:
                changed[name] = read(values[name])
            except _Wrong as wrong:
                faults[name] = WORDS.say(wrong.key, zh, **wrong.fields)
    if not faults:
        new = _with(plan, changed)
        if new.n_runs <= around.max_runs:
            return new
        most = max(changed, key=lambda name: len(changed[name]) if isinstance(changed[name], tuple) else 0)
        faults[most] = WORDS.say("too_many", zh, runs=arithmetic(new, zh), most=around.max_runs)
    raise Faults(faults)


def difference(old: Plan, new: Plan) -> list[str]:
    """What the new plan says otherwise, for people: `5 seeds`, `lr 0.01`."""
    names = [MODELS, DATASET, EPOCHS, STEPS, PRIORITY, *(f"axes.{name}" for name in new.axes)]
    return [_bare(new, name) for name in names if _held(old, name) != _held(new, name)]


def _bare(plan: Plan, name: str) -> str:
    return in_words(plan.model_copy(update={"assumed": ()}), name, is_chinese(plan.request_text))


def _readers(plan: Plan, around: Around, zh: bool) -> dict[str, Callable[[Any], Any]]:
    """For each field, how what was entered becomes its value; raises _Wrong."""
    readers: dict[str, Callable[[Any], Any]] = {
        MODELS: lambda value: _distinct(pieces(value)),
        DATASET: lambda value: _dataset(tuple(value)),
        SEEDS: lambda value: _seeds(str(value)),
        EPOCHS: lambda value: _whole(str(value), 1, 100_000),
        STEPS: lambda value: _whole(str(value), 1, 1_000_000_000),
        PRIORITY: lambda value: _one_of(str(value), PRIORITIES),
    }
    return readers | {
        f"axes.{name}": lambda value, name=name, axis=axis: _axis(name, axis, value, around, zh)
        for name, axis in _editable(plan).items()
    }


def _with(plan: Plan, changed: Mapping[str, Any]) -> Plan:
    """The plan with the fields that differ; assumptions and notes about those are gone."""
    new = {name: value for name, value in changed.items() if value != _held(plan, name)}
    axes = {**plan.axes, **{name[5:]: value for name, value in new.items() if name.startswith("axes.")}}
    fields = {name: value for name, value in new.items() if not name.startswith("axes.")}
    assumed: tuple[Assumed, ...] = tuple(a for a in plan.assumed if a.field not in new)
    notes = tuple(note for note in plan.notes if not any(name[5:] in note for name in new if name.startswith("axes.")))
    return Plan.model_validate({**dict(plan), **fields, "axes": axes, "assumed": assumed, "notes": notes})


def _held(plan: Plan, name: str) -> Any:
    return plan.axes.get(name[5:]) if name.startswith("axes.") else getattr(plan, name)


def _editable(plan: Plan) -> dict[str, tuple[Scalar, ...]]:
    """The axes with fields of their own: lists of values, seeds apart."""
    found = {name: axis for name, axis in plan.axes.items() if name != "seed" and isinstance(axis, tuple)}
    return dict(list(found.items())[:MOST_AXES])


def _axis_entry(name: str, axis: tuple[Scalar, ...], around: Around, zh: bool) -> Entry:
    label = WORDS.say("lr", zh) if name == "lr" else name.replace("_", " ").capitalize()
    options = _options(name, around)
    texts = tuple(number(value) for value in axis)
    if options:
        return Entry(f"axes.{name}", label, "several", texts, tuple(dict.fromkeys((*options, *texts))))
    return Entry(f"axes.{name}", label, "text", ", ".join(texts), hint=WORDS.say("axis_hint", zh))


def _options(name: str, around: Around) -> tuple[str, ...]:
    """The values that the template takes, where they can be listed."""
    schema = around.params.get("properties", {}).get(name, {})
    listed = (True, False) if schema.get("type") == "boolean" else schema.get("enum", ())
    return tuple(number(value) for value in listed)[:MOST_OPTIONS]


def _axis(name: str, axis: tuple[Scalar, ...], value: Any, around: Around, zh: bool) -> tuple[Scalar, ...]:
    texts = _distinct(tuple(value) if isinstance(value, tuple) else pieces(str(value)))
    schema = around.params.get("properties", {}).get(name)
    values = tuple(_scalar(text, axis[0], schema) for text in texts)
    if schema is not None:
        for one in values:
            for error in jsonschema.Draft202012Validator(schema).iter_errors(one):
                raise _Wrong("cannot_be", value=number(one), why=complaint(error, zh))
    return values


def _scalar(text: str, like: Scalar, schema: Mapping[str, Any] | None) -> Scalar:
    """The value as the template wants it, else of the kind that the plan has there."""
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    kind = (schema or {}).get("type") or kinds[type(like)]
    match kind:
        case "boolean":
            return bool(json.loads(_one_of(text, ("true", "false"))))
        case "integer":
            return _whole(text, -(2**53), 2**53)
        case "number":
            return _real(text)
    return text


def pieces(text: str) -> tuple[str, ...]:
    """The entries of a list that somebody typed."""
    return tuple(piece.strip() for piece in _COMMAS.split(text) if piece.strip())


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        raise _Wrong("none")
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise _Wrong("twice", value=twice)
    return values


def _dataset(names: tuple[str, ...]) -> str | tuple[str, ...]:
    chosen = _distinct(names)
    return chosen[0] if len(chosen) == 1 else chosen


def _seeds_text(seeds: tuple[Scalar, ...]) -> str:
    if seeds == tuple(range(len(seeds))):
        return str(len(seeds))
    return ", ".join(number(seed) for seed in seeds) + ("," if len(seeds) == 1 else "")


def _seeds(text: str) -> tuple[int, ...]:
    """A number counts them, a list names them."""
    if not _COMMAS.search(text.strip()):
        return tuple(range(_whole(text, 1, MOST_SEEDS)))
    return tuple(_whole(piece, 0, 2**32 - 1) for piece in _distinct(pieces(text)))


def _whole(text: str, least: int, most: int) -> int:
    try:
        value = float(text)
    except ValueError:
        raise _Wrong("no_number", value=text.strip()) from None
    if not math.isfinite(value) or value != int(value):
        raise _Wrong("not_whole", value=text.strip())
    if not least <= value <= most:
        raise _Wrong("out_of_range", value=text.strip(), least=least, most=most)
    return int(value)


def _real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _Wrong("not_a_number", value=text.strip()) from None
    if not math.isfinite(value):
        raise _Wrong("not_finite", value=text.strip())
    return value


def _one_of(text: str, options: Sequence[str]) -> Any:
    if text not in options:
        raise _Wrong("none_of", value=text, options=", ".join(options))
    return text
