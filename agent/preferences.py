# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""A person's preferences: what somebody says again and again is assumed where a message is silent, and shown as such.

They are counted anew from lab/habits for each request, so that there is nothing to go stale. They never outrank what
the message or the plan of its thread says, nor what it excludes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.reader.reading import PreviousPlan, Reading
from lab import habits
from lab.habits import FIELDS, Value
from lab.language import is_chinese
from lab.plan import Axis, number
from lab.store import Client

USES = 3
"""A value becomes a preference when it was said so often ..."""
WINDOW = 5
"""... in the last so many approved plans that said the field at all: habits change, and the old ones go by themselves."""
USUAL = "your usual"
"""Why a value was assumed that is a preference."""

Usual = Mapping[str, Value]
"""Field (`dataset`, `axes.lr`; of seeds their number) to the value that is usual."""


def usual(uses: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """The preferences in what was said, newest first."""
    found: dict[str, Value] = {}
    for field in FIELDS:
        said = [use[field] for use in uses if field in use][:WINDOW]
        for value, times in Counter(said).most_common(1):
            if times >= USES:
                found[field] = value
    return found


def usable(preferred: Usual, present: Collection[str] | None) -> dict[str, Value]:
    """The preferences without data sets that no host has any more; all of them where it is not known (None)."""
    return {
        field: v for field, v in preferred.items() if field != "dataset" or present is None or _names(v) <= set(present)
    }


def fill(reading: Reading, previous: PreviousPlan | None, preferred: Usual) -> Reading:
    """The reading with preferences where the message is silent, each with the reason USUAL.

    The thread's plan is never filled up, nor what is only evaluated; nor an axis whose best value is asked for.
    """
    if (
        reading.intent == "evaluate"
        or reading.mode
        or (previous is not None and reading.intent in ("modify", "schedule"))
    ):
        return reading
    taken = {field: value for field, value in preferred.items() if _silent(reading, field)}
    axes: dict[str, Axis] = {field[5:]: _axis(field, v) for field, v in taken.items() if field.startswith("axes.")}
    update: dict[str, Any] = {field: v for field, v in taken.items() if field in ("epochs", "metric")}
    if "dataset" in taken:
        update["datasets"] = tuple(sorted(_names(taken["dataset"])))
    hints = {**dict.fromkeys(taken, USUAL), **reading.hints}
    return reading.model_copy(update={**update, "axes": {**reading.axes, **axes}, "hints": hints})


def _silent(reading: Reading, field: str) -> bool:
    """True where a preference may speak."""
    name = field.removeprefix("axes.")
    if name in reading.denied or name in reading.axes:
        return False
    match field:
        case "dataset":
            return not reading.datasets
        case "epochs":
            return reading.epochs is None and reading.max_steps is None
        case "metric":
            return reading.metric is None
        case "axes.seed":
            return reading.search in (None, "grid")
    return reading.tunes is None


def _axis(field: str, value: Value) -> Axis:
    if field == "axes.seed":
        return tuple(range(int(value))) if isinstance(value, int) else (0,)
    return (value,) if not isinstance(value, tuple) else value


def _names(value: Value) -> set[str]:
    return set(value) if isinstance(value, tuple) else {str(value)}


# -- what people say about them ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wish:
    """What somebody wants of his preferences.

    Attributes:
        forget: True to forget, False to see them.
        field: the one that is meant; None for all.
    """

    forget: bool = False
    field: str | None = None


WORDS: dict[str, tuple[str, str, str]] = {
    "dataset": ("data set", "数据集", r"data ?sets?|数据集?"),
    "axes.seed": ("number of seeds", "种子数", r"(?:number of )?seeds?|种子数?"),
    "epochs": ("epochs", "轮数", r"(?:number of )?epochs?|轮数|训练轮数"),
    "metric": ("metric", "指标", r"metrics?|指标"),
    "axes.batch_size": ("batch size", "batch 大小", r"batch(?: ?sizes?)?|bs|批(?:次|量)?大小|batch ?大小"),
    "axes.lr": ("learning rate", "学习率", r"learning rates?|lrs?|学习率"),
    "axes.optimizer": ("optimizer", "优化器", r"optimi[sz]ers?|优化器"),
    "axes.precision": ("precision", "精度", r"precision|训练精度|精度"),
}
"""What a field is called in English and in Chinese, and all the ways in which people call it."""
_FIELD = "|".join(f"(?P<f{index}>{pattern})" for index, (_, _, pattern) in enumerate(WORDS.values()))
_THEM = r"preferences?|habits?|defaults|usual (?:settings|values)"
_POLITE = r"(?:(?:please|pls|can you|could you|请|麻烦|帮我)[ ,，]*)?"
_TAIL = r"(?:[ ,，]*(?:please|pls|now|thanks|吧|一下|了|谢谢))*[ ]*[.!?。！？]*"
_SHOW = re.compile(
    rf"{_POLITE}(?:what do you (?:remember|know) (?:about|of) me|what (?:are|were) my (?:{_THEM})|(?:(?:show|list|tell)(?: me)? )?(?:all )?my (?:{_THEM})"
    rf"|你(?:都)?(?:记得|记住|知道)(?:了)?我(?:的)?(?:什么|哪些|啥)(?:习惯|偏好)?|(?:查看|看看|显示|列出)?我的(?:习惯|偏好)(?:是什么|有哪些|呢)?|我有(?:什么|哪些)(?:习惯|偏好)){_TAIL}",
    re.IGNORECASE,
)
_FORGET = re.compile(
    rf"{_POLITE}(?:(?:forget|delete|clear|reset|erase)(?: about)? (?:(?:all )?(?:of )?my (?P<all>{_THEM})|(?P<me>(?:everything )?(?:you (?:know|remember) )?about me)|my (?:usual |preferred |favou?rite |default )?(?:{_FIELD}))"
    rf"|(?:忘掉|忘记|忘了|清除|清空|删除|删掉)(?:所有|全部)?我(?:的|常用的?|习惯的?|平时的?)*(?:(?P<zh>习惯|偏好|一切)|(?:{_FIELD.replace('?P<f', '?P<z')}))){_TAIL}",
    re.IGNORECASE,
)


def read_wish(text: str) -> Wish | None:
    """What the message wants of the preferences; None where it is about anything else, or more than that."""
    bare = " ".join(text.strip().strip("`").split())
    if _SHOW.fullmatch(bare):
        return Wish()
    match = _FORGET.fullmatch(bare)
    if match is None:
        return None
    named = [f for index, f in enumerate(WORDS) if match[f"f{index}"] or match[f"z{index}"]]
    return Wish(forget=True, field=named[0] if named else None)


def grant(client: Client, person: str, wish: Wish, text: str, present: Collection[str] | None) -> str:
    """The wish is granted; returns what to say, in the language of `text`.

    Args:
        present: names of the data sets on the hosts that are up; None where none is.
    """
    chinese = is_chinese(text)
    if not wish.forget:
        return remembered(habits.uses(client, person), present, chinese)
    known = habits.forget(client, person, wish.field)
    what = WORDS[wish.field][chinese] if wish.field else ("习惯" if chinese else "preferences")
    if chinese:
        return f"已忘掉你的{what}。" if known else f"我本来就没有记住你的{what}。"
    return f"Forgotten: your {what}." if known else f"I remembered nothing of your {what}."


def remembered(uses: Sequence[Mapping[str, Value]], present: Collection[str] | None, chinese: bool) -> str:
    """What is usual, what it comes from, and how to have it forgotten."""
    preferred = usual(uses)
    idle = preferred.keys() - usable(preferred, present).keys()
    lines = [_line(field, value, field in idle, chinese) for field, value in preferred.items()]
    if chinese:
        rule = f"一个取值在你最近 {WINDOW} 个提到它的已批准计划里出现 {USES} 次，就成为你的习惯；消息没说时采用，并标明“你的习惯”。"
        if not lines:
            return f"还没有习惯（记录了 {len(uses)} 个计划）。{rule}"
        return "\n".join(["你常用的：", *lines, rule, "发“忘掉我的习惯”全部忘掉，或只忘一项，如“忘掉我常用的数据集”。"])
    rule = f"A value is your usual one when {USES} of your last {WINDOW} approved plans that said it had it; I take it where a message is silent, and say so."
    if not lines:
        return f"Nothing is usual yet; I have kept what you said in {_plans(len(uses))}. {rule}"
    how = "`forget my preferences` forgets all of it, `forget my usual data set` one."
    return "\n".join(["Your usual:", *lines, rule, how])


def _plans(n: int) -> str:
    return f"{n} approved plan{'' if n == 1 else 's'}"


def _line(field: str, value: Value, idle: bool, chinese: bool) -> str:
    words = "、".join(_shown(value)) if chinese else ", ".join(_shown(value))
    note = ("（现在没有机器有它，所以不采用）" if chinese else " (not used: no host that is up has it)") if idle else ""
    return f"- {WORDS[field][chinese]}{'：' if chinese else ': '}{words}{note}"


def _shown(value: Value) -> Iterable[str]:
    return [number(v) for v in value] if isinstance(value, tuple) else [number(value)]
