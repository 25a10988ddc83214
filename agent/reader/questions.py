# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""What has to be asked: what is missing, grids larger than told or allowed, and messages too vague to act on."""

from __future__ import annotations

import math
import re

from agent import grids
from agent.reader import commands
from agent.reader.draft import Draft
from agent.reader.numbers import FLAGS
from agent.reader.reading import PreviousPlan, Reading
from agent.reader.wording import say
from lab.plan import Axis, Range, number

OWN_DATA = re.compile(
    r"\b(?:my|our|own|custom|private|new|internal)\s+(?:\w+\s+){0,2}(?:data|data ?sets?|images)\b|(?:我|我们|自己|咱们|新|私有|自定义)的?[^,.;]{0,6}(?:数据集?|图片)",
    FLAGS,
)  # fmt: skip
"""Data that only the asker knows the name of: the lab's usual set must not stand for it."""

IMPROVES = re.compile(
    r"\b(?:make|get)\b.{0,40}\b(?:better|faster|stronger|smaller|to work)\b|\bimprove\b|\bspeed up\b|提升|优化(?!器)|变(?:好|快|强)|更(?:快|好|准)|快一?点|好一?点",
    FLAGS,
)
"""A wish without a word on how."""
DISTILS = re.compile(r"\bdistill(?:ation|ing|ed)?\b|\bteacher\b.{0,60}\bstudent\b|蒸馏", FLAGS)

HAN_DATA = re.compile(
    r"[\u4e00-\u9fff]{2,}(?<!这个)(?<!那个)(?<!同样)(?<!一样)(?<!样的)(?<!同一)(?<!一个)(?<!哪个)(?<!什么)(?<!其他)(?<!其它)(?<!他的)(?<!所有)(?<!全部)(?<!整个)(?<!多个)(?<!几个)(?<!两个)(?<!三个)(?<!四个)(?<!默认)(?<!原来)(?<!来的)(?<!前的)(?<!公开)(?<!标准)(?<!验证)(?<!测试)(?<!训练)(?<!不同)(?<!同的)(?<!上的)(?<!上述)(?<!合成)(?<!随机)(?<!换个)(?<!别的)数据集(?!\s*[:=为是叫用]?\s*[A-Za-z])",
    FLAGS,
)
"""`人脸数据集`: a set that is told by what is in it, which no list knows."""

OWN_SCRIPT = re.compile(
    r"(?:\b(?:run|train|use|using|execute|launch|start|try|submit|with|by|python3?|bash|sh|torchrun)\b|训练?|跑|用|执行|运行|提交|启动)[^.;?\n]{0,30}?(?<![\w/])[\w./\-]*\w\.(?:py|sh|ipynb)\b"
    r"|\b(?:my|our|own|custom)\s+(?:own\s+)?(?:\w+\s+)?(?:scripts?|code|notebooks?|training loop|repo|python file|model class|program)\b|(?:自己|我们?|我们的?|自定义|自己写)的?[^,.;]{0,6}(?:脚本|代码|训练程序)",
    FLAGS,
)
TRACE = re.compile(r"Traceback|\w*Error\b|\bline \d+|报错", FLAGS)


def own_script(text: str) -> bool:
    """True when the text wants a program of the asker's own to be run; a pasted error is none."""
    return bool(OWN_SCRIPT.search(text)) and not TRACE.search(text)


def ask(draft: Draft, stated: Reading, most_runs: int) -> None:
    """Questions about what is missing, and about grids that are larger than told or allowed."""
    draws = stated.search in ("random", "bayesian")
    total = max(1, len(stated.models)) * max(1, len(stated.datasets)) * math.prod(draft.expected.values() or [1])
    if draws:
        total *= (stated.trials or 1) * size(stated.axes.get("seed", (0,)))
    else:
        total *= math.prod(size(a) for a in stated.axes.values())
    if total > most_runs:
        _too_many(draft, stated, total, most_runs)
        return
    if draft.pairs is not None and total > len(draft.pairs.values):
        own = ", ".join(f"{name} {number(v)}" for name, v in draft.pairs.values.items())
        draft.questions.append(say("pairs", draft.chinese, axis=draft.pairs.axis, list=own, n=total))
    for name, count in draft.expected.items():
        draft.questions.append(say("values_missing", draft.chinese, n=count or "", axis=name))
    if stated.runs_told and stated.models and stated.runs_told != total:
        draft.note("note_counts", told=stated.runs_told, n=total)
        draft.questions.append(say("runs_differ", draft.chinese, told=stated.runs_told, n=total))
    bare = not (draft.names.datasets or draft.axes or draft.told or draft.counts.anything or draft.around.schedule)
    if bare and stated.intent == "train" and IMPROVES.search(draft.page.text):
        draft.doubt("faster")
    if stated.models and DISTILS.search(draft.page.text):
        draft.questions.append(say("distils", draft.chinese, list=", ".join(stated.models)))
    if stated.intent == "compare" and stated.models and total == 1 and stated.tunes is None and not stated.runs_told:
        draft.questions.append(say("against_what", draft.chinese, name=stated.models[0]))
    if draft.counts.epochs and draft.counts.max_steps:
        steps = f"{draft.counts.max_steps:,}"
        draft.questions.append(say("epochs_or_steps", draft.chinese, epochs=draft.counts.epochs, steps=steps))
    if draws and stated.models and not any(isinstance(a, Range) or size(a) > 1 for a in stated.axes.values()):
        unusual = [axis for axis in draft.tunes or () if axis not in grids.RANGES]
        if unusual:
            draft.questions.append(say("search_range", draft.chinese, axis=", ".join(unusual)))
        elif draft.tunes is None:
            draft.questions.append(say("what_varies", draft.chinese))
    if stated.trials is not None and not draws:
        draft.note("note_unused", list=f"trials {stated.trials}")
    if draws and stated.trials is None:
        draft.questions.append(say("how_many_trials", draft.chinese))
    if not stated.models and not draft.doubts:
        draft.doubt("which_to_tune" if draft.tunes is not None and not stated.datasets else "which_model")
    unnamed = not stated.datasets and OWN_DATA.search(draft.page.text)
    if unnamed or (not draft.names.datasets and HAN_DATA.search(draft.page.text)):
        draft.questions.append(say("which_dataset", draft.chinese))


def _too_many(draft: Draft, stated: Reading, total: int, most_runs: int) -> None:
    """Seeds are asked about where fewer of them would do; else every factor is shown."""
    axes = {n: size(a) for n, a in stated.axes.items() if size(a) > 1} | {n: k for n, k in draft.expected.items() if k}
    seeds = axes.get("seed", 1)
    if total // seeds <= most_runs and seeds > 1:
        draft.doubt(
            "too_many_seeds", n=f"{total:,}", seeds=f"{seeds:,}", most=most_runs, fits=most_runs // (total // seeds)
        )
        return
    parts = [(len(stated.models), "models"), (len(stated.datasets), "data sets")]
    parts += [(stated.trials or 0, "trials")] + [(k, n) for n, k in axes.items()]
    how = " x ".join(f"{n:,} {what}" for n, what in parts if n > 1)
    draft.doubt("too_many", n=f"{total:,}", most=most_runs, how=how)


def vague(draft: Draft, previous: PreviousPlan | None) -> str:
    text = draft.page.text
    if draft.tunes is not None and previous is None and not commands.EXPERIMENT.search(text):
        return say("which_to_tune", draft.chinese)
    if re.search(r"faster|better|quick|improve|speed|optimi|快|好|优化|提升", text, FLAGS):
        return say("faster", draft.chinese)
    if previous is not None:
        return say("what_change", draft.chinese, id=previous.id or "it")
    if re.search(r"again|rerun|re-run|same|再|重|一样|改|换", text, FLAGS) or commands.EXPERIMENT.search(text):
        return say("which_experiment", draft.chinese)
    return say("what", draft.chinese)


def size(axis: Axis) -> int:
    """The number of values, at least; a range has more than one."""
    return 2 if isinstance(axis, Range) else len(axis)
