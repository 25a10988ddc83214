# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""From a message to what it says, without a model."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from agent import catalog
from agent.reader import axes as axis_table
from agent.reader import changes, choices, circumstances, commands, counts, dangers, intents, names
from agent.reader.circumstances import Circumstances
from agent.reader.counts import Counts
from agent.reader.intents import Facts, Intent
from agent.reader.names import Names
from agent.reader.numbers import FLAGS, NUMBER, spell_out
from agent.reader.page import Page
from agent.reader.reading import PreviousPlan, Reading
from agent.reader.text import clean, has_words, is_chinese
from agent.reader.wording import say
from lab.plan import MAX_RUNS, PRIORITIES, Axis, Budget, Priority, Range

MOST_CHARACTERS = 4000
"""Slack cuts a message at 4,000 characters; a longer text is a pasted file, not a request."""
NUMERALS = re.compile(r"\d+|[零一二两三四五六七八九十百千万亿]+|[百千万亿]", FLAGS)
MOST_NUMBERS = 250
"""More numbers than this are a pasted table; the patterns for lists take the square of their count."""
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
ONLY_TONIGHT = re.compile(r"^(?:tonight|today|this evening|今晚|今天|今夜|晚上|overnight)$", FLAGS)
OWN_DATA = re.compile(
    r"\b(?:my|our|own|custom|private|new|internal)\s+(?:\w+\s+){0,2}(?:data|data ?sets?|images)\b|(?:我|我们|自己|咱们|新|私有|自定义)的?[^,.;]{0,6}(?:数据集?|图片)",
    FLAGS,
)  # fmt: skip
"""Data that only the asker knows the name of: the lab's usual set must not stand for it."""
AGAIN = re.compile(
    r"\b(?:re-?run|again|redo|repeat|retry|resume|continue|once more|restart|same)\b|重(?:新)?(?:跑|来|试|训)|再(?:跑|来|试|训)|继续|恢复|一样"
    r"|nochmal|de nuevo|otra vez|encore|もう一度|다시",
    FLAGS,
)
"""Asks for the same once more, so that a plan without a change is meant."""
KEPT = ("max_steps", "gpus_per_run", "metric", "search", "trials", "budget", "deadline", "mode")
"""Fields that a change of a plan keeps unless it states them."""


@dataclass
class Draft:
    """Everything found on one page, before it is judged."""

    page: Page
    chinese: bool
    names: Names = field(default_factory=Names)
    counts: Counts = field(default_factory=Counts)
    around: Circumstances = field(default_factory=Circumstances)
    changes: changes.Changes = field(default_factory=changes.Changes)
    told: dict[str, axis_table.Told] = field(default_factory=dict)
    axes: dict[str, Axis] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """Questions about what cannot be: the request is not understood as a plan until they are answered."""
    questions: list[str] = field(default_factory=list)
    """Questions that leave the plan standing, though it must not start."""
    expected: dict[str, int] = field(default_factory=dict)
    """Counts of values of an axis whose values nobody gave."""

    def doubt(self, key: str, **fields: object) -> None:
        """Ask about something that cannot be."""
        sentence = say(key, self.chinese, **fields)
        if sentence not in self.doubts:
            self.doubts.append(sentence)


def read(raw: str, previous: PreviousPlan | None = None, most_runs: int = MAX_RUNS) -> Reading:
    """What the message says; with a previous plan, a change comes back as the whole resulting plan."""
    text = spell_out(clean(raw))
    chinese = is_chinese(text[:MOST_CHARACTERS])
    early = _unreadable(text, chinese) or _refused(raw, text, chinese)
    if early:
        return early
    draft = _draft(text, chinese, previous)
    _judge_counts(draft)
    _judge_axes(draft)
    _judge_seeds(draft)
    _judge_goal(draft)
    intent, sure = intents.choose(text, _facts(draft, previous))
    if intent not in intents.PLANNING:
        return _command(draft, intent, sure, previous)
    return _plan(draft, intent, previous, most_runs)


def _unreadable(text: str, chinese: bool) -> Reading | None:
    if len(text) > MOST_CHARACTERS:
        question = say("too_long", chinese, n=len(text), most=MOST_CHARACTERS)
        return Reading(intent="clarify", questions=(question,), chinese=chinese)
    numbers = len(NUMERALS.findall(text))
    if numbers > MOST_NUMBERS:
        question = say("many_numbers", chinese, n=numbers, most=MOST_NUMBERS)
        return Reading(intent="clarify", questions=(question,), chinese=chinese)
    if not text:
        return Reading(intent="clarify", questions=(say("empty", chinese),), chinese=chinese)
    return None if has_words(text) else Reading(intent="chitchat", chinese=chinese)


def _refused(raw: str, text: str, chinese: bool) -> Reading | None:
    key = dangers.refusal(text) or dangers.refusal(raw.replace("`", " "))
    if key is None and dangers.others_runs(text):
        key = "refuse_others"
    return Reading(intent="refuse", refusal=say(key, chinese), chinese=chinese) if key else None


def _draft(text: str, chinese: bool, previous: PreviousPlan | None) -> Draft:
    page = Page(text)
    draft = Draft(page, chinese)
    later = bool(re.search(r"schedul|定时|空|idle|开始|start|跑|补|run", text, FLAGS))
    draft.names = names.read(page)
    for pattern in (commands.EXPERIMENT, commands.RUN):
        if previous is not None or pattern is commands.EXPERIMENT:
            _cross_targets(page, pattern)
    if previous is not None:
        draft.changes = changes.read(page, previous)
        changes.names(page, draft.names, previous, draft.changes)
    draft.around = circumstances.read(page, later)
    draft.counts = counts.read(page)
    draft.told = axis_table.read(page)
    draft.axes.update(choices.read(page))
    _strengths(draft)
    if previous is not None:
        changes.values(page, previous, draft.changes)
    names.unknown(page, draft.names)
    return draft


def _strengths(draft: Draft) -> None:
    """`with and without mixup (alpha 0.2)`: the strength stands for `on`, and 0 for `off`."""
    told = draft.told.get("alpha")
    for toggle in ("mixup", "cutmix"):
        if told is not None and told.numbers and toggle in draft.axes:
            both = draft.axes.pop(toggle) == choices.TURNS["both"]
            draft.axes[f"{toggle}_alpha"] = ((0.0,) if both else ()) + told.numbers
            draft.told.pop("alpha", None)
            return


def _unread(draft: Draft) -> list[str]:
    """Numbers that nobody could read, so that the plan card can say so."""
    spans = [m for m in re.finditer(NUMBER, draft.page.left, FLAGS) if not m[0].startswith(("-", "+"))]
    return [draft.page.text[m.start() : m.end()].strip() for m in spans]


def _cross_targets(page: Page, pattern: re.Pattern[str]) -> None:
    for match in list(page.find(pattern)):
        if not circumstances.AFTER.search(page.text[max(0, match.start() - 12) : match.end()]):
            page.cross(*match.span())


def _judge_counts(draft: Draft) -> None:
    """Numbers with a unit that no experiment can have become doubts."""
    told = draft.counts
    if told.trials is not None and draft.around.search not in ("random", "bayesian") and "次" in draft.page.text:
        told.seeds = told.trials if told.trials > 1 and told.seeds is None and not told.seed_values else told.seeds
        told.trials = None
    limits = (("epochs", MOST_EPOCHS), ("max_steps", MOST_STEPS), ("gpus", MOST_CARDS), ("trials", MOST_STEPS))
    for name, most in limits:
        number = getattr(told, name)
        if number is not None and not (float(number).is_integer() and 1 <= number <= most):
            draft.doubt("bad_value", what=name, value=f"{number:g}")
            setattr(told, name, None)
    for name, number in told.axes.items():
        draft.axes[name] = (number,)
    if told.epochs_several:
        draft.axes["epochs"] = tuple(told.epochs_several)
    for name in ("gpu_hours", "wall_hours"):
        number = getattr(told, name)
        if number is not None and number <= 0:
            draft.doubt("bad_value", what=name, value=f"{number:g}")
            setattr(told, name, None)


def _judge_axes(draft: Draft) -> None:
    """Ranges become grids (or stay ranges for a search); values that cannot be become doubts."""
    draws = draft.around.search in ("random", "bayesian")
    for name, told in draft.told.items():
        axis = axis_table.BY_NAME[name]
        if told.interval is not None:
            _judge_range(draft, axis, told, draws)
            continue
        if not told.numbers:
            draft.expected[name] = told.expected or 0
            continue
        bad = [n for n in told.numbers if not axis.allows(n)]
        if bad:
            draft.doubt("bad_value", what=name, value=", ".join(f"{n:g}" for n in bad))
            continue
        if told.expected is not None and told.expected != len(told.numbers):
            draft.doubt("values_differ", n=told.expected, m=len(told.numbers), axis=name)
        draft.axes[name] = tuple(axis_table.typed(axis, n) for n in told.numbers)


def _judge_range(draft: Draft, axis: axis_table.Axis, told: axis_table.Told, draws: bool) -> None:
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
        shown = ", ".join(f"{p:g}" for p in points)
        draft.notes.append(f"{axis.name} from {interval.low:g} to {interval.high:g} became {how}: {shown}")


def _judge_seeds(draft: Draft) -> None:
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


def _judge_goal(draft: Draft) -> None:
    for match in ACCURACY.finditer(draft.page.text):
        percent = float(match["a"] or match["b"] or match["c"])
        if percent > 100:
            draft.doubt("bad_accuracy", value=f"{percent:g}")
    if PAST.search(draft.page.text):
        draft.doubt("past")


def _facts(draft: Draft, previous: PreviousPlan | None) -> Facts:
    told, around = draft.counts, draft.around
    words = [a for a, axis in draft.axes.items() if isinstance(axis, tuple) and isinstance(axis[0], bool | str)]
    numbers = [a for a in draft.axes if a not in words and a != "seed"]
    both = [a for a in numbers if a.endswith("_alpha") and draft.axes[a] and _has_zero(draft.axes[a])]
    several = [a for a in numbers if a not in both and _size(draft.axes[a]) > 1]
    schedule = around.schedule or {}
    settings = bool(draft.axes or draft.told or draft.changes.anything or around.priority)
    return Facts(
        models=len(draft.names.models),
        datasets=len(draft.names.datasets),
        many=bool(several) or bool(draft.expected),
        many_words=bool(both) or any(_size(draft.axes[a]) > 1 for a in words),
        settings=settings or told.anything,
        unknown=any(kind == "model" for kind, _ in draft.names.unknown),
        previous=previous is not None,
        schedule=bool(set(schedule) - {"at"}) or ("at" in schedule and not ONLY_TONIGHT.match(str(schedule["at"]))),
        search=around.search is not None,
    )  # fmt: skip


def _has_zero(axis: Axis) -> bool:
    return isinstance(axis, tuple) and 0.0 in axis and len(axis) == 2


def _size(axis: Axis) -> int:
    return 2 if isinstance(axis, Range) else len(axis)


def _command(draft: Draft, intent: Intent, sure: bool, previous: PreviousPlan | None) -> Reading:
    text = draft.page.text
    models = tuple(draft.names.models)
    if previous is not None:
        held = previous.models
        models = tuple(m for m in changes.changed_members(held, draft.names, text))
    target = commands.target(intent, text, previous, models)
    questions: tuple[str, ...] = ()
    if intent == "clarify":
        questions = (*draft.doubts, *(() if draft.doubts else (_vague(draft, previous),)))
    return Reading(
        intent=intent,
        sure=sure,
        target=target,
        args=commands.arguments(intent, text),
        metric=draft.around.metric,
        questions=questions,
        chinese=draft.chinese,
        left=draft.page.left,
    )


def _vague(draft: Draft, previous: PreviousPlan | None) -> str:
    text = draft.page.text
    if re.search(r"faster|better|quick|improve|speed|optimi|快|好|优化|提升", text, FLAGS):
        return say("faster", draft.chinese)
    if previous is not None:
        return say("what_change", draft.chinese, id=previous.id or "it")
    if re.search(r"again|rerun|re-run|same|再|重|一样|改|换", text, FLAGS) or commands.EXPERIMENT.search(text):
        return say("which_experiment", draft.chinese)
    return say("what", draft.chinese)


def _plan(draft: Draft, intent: Intent, previous: PreviousPlan | None, most_runs: int) -> Reading:
    _judge_names(draft)
    told, around = draft.counts, draft.around
    stated = Reading(
        intent=intent,
        models=tuple(draft.names.models),
        datasets=tuple(draft.names.datasets),
        axes=draft.axes,
        epochs=_int(told.epochs),
        max_steps=_int(told.max_steps),
        gpus_per_run=_int(told.gpus),
        metric=around.metric,
        search=around.search,
        trials=_int(told.trials),
        budget=_budget(told),
        priority=_priority(around.priority),
        deadline=around.deadline,
        schedule=around.schedule,
        mode=around.mode,
        runs_told=told.runs_told,
        hints=_hints(draft),
        target=commands.target(intent, draft.page.text, previous, ()) if intent == "modify" else None,
        chinese=draft.chinese,
        left=draft.page.left,
    )
    if previous is not None and intent == "evaluate" and not stated.models:
        stated = stated.model_copy(update={"models": previous.models, "datasets": stated.datasets or previous.datasets})
    if previous is not None and intent in ("modify", "schedule"):
        stated = _changed(draft, stated, previous)
        if _unchanged(stated, previous) and not AGAIN.search(draft.page.text) and intent == "modify":
            draft.doubt("what_change", id=previous.id or "it")
    stated = _depths(stated)
    _ask(draft, stated, most_runs)
    if draft.doubts:
        intent = "clarify"
    questions = (*draft.doubts, *draft.questions)
    if unread := _unread(draft):
        draft.notes.append(f"not used: {', '.join(unread)}")
    return stated.model_copy(update={"intent": intent, "notes": tuple(draft.notes), "questions": questions})


def _unchanged(stated: Reading, previous: PreviousPlan) -> bool:
    """True when the change changes nothing: the reader did not understand it."""
    kept = all(getattr(stated, k) == getattr(previous, k) for k in (*KEPT, "epochs"))
    named = stated.models == previous.models and stated.datasets == previous.datasets
    return kept and named and stated.axes == previous.values() and stated.priority == _priority(previous.priority)


def _int(number: int | float | None) -> int | None:
    return None if number is None else int(number)


def _priority(word: str | None) -> Priority | None:
    return next((p for p in PRIORITIES if p == word), None)


def _budget(told: Counts) -> Budget | None:
    if told.gpu_hours is None and told.wall_hours is None:
        return None
    return Budget(gpu_hours=told.gpu_hours, wall_hours=told.wall_hours)


def _hints(draft: Draft) -> dict[str, str]:
    hints = {k: f"concluded from {v!r}" for k, v in draft.around.hints.items()}
    families = [f"{called!r} was read as {name}" for name, called in draft.names.families.items()]
    return hints | ({"models": "; ".join(families)} if families else {})


def _judge_names(draft: Draft) -> None:
    """Typos become doubts with the nearest names; a data set that resembles none is taken as the lab's own."""
    for kind, name in draft.names.unknown:
        near = catalog.nearest(name, "model" if kind == "model" else "dataset", likeness=0.6)
        if kind == "dataset" and not catalog.nearest(name, "dataset", 1, likeness=0.7):
            if not draft.names.datasets:
                draft.names.datasets.append(name)
                draft.notes.append(f"{name} is in no catalogue; it has to be a data set of the lab's own hosts")
            continue
        if kind == "model" and not near and draft.names.models:
            continue
        hint = say("near", draft.chinese, names=", ".join(near)) if near else say("no_near", draft.chinese)
        draft.doubt("unknown_model" if kind == "model" else "unknown_dataset", name=name, near=hint)


def _depths(reading: Reading) -> Reading:
    """`resnet, depth 18 and 34` names two models."""
    depths = reading.axes.get("depth")
    if not isinstance(depths, tuple) or len(reading.models) != 1:
        return reading
    sized = names.SIZED.match(reading.models[0])
    members = [catalog.model(f"{sized['stem']}{d}") for d in depths] if sized else []
    if not members or not all(members):
        return reading
    rest = {k: v for k, v in reading.axes.items() if k != "depth"}
    hints = {k: v for k, v in reading.hints.items() if k != "models"}
    return reading.model_copy(update={"models": tuple(str(m) for m in members), "axes": rest, "hints": hints})


def _changed(draft: Draft, stated: Reading, previous: PreviousPlan) -> Reading:
    """The whole plan that comes of the change; what the previous plan assumed stays assumed."""
    told = draft.changes
    for name in told.missing:
        draft.doubt("not_in_plan", id=previous.id or "that plan", name=name)
    axes = changes.changed_axes(previous.values(), stated.axes, told, draft.page.text)
    if draft.counts.seeds_added:
        axes["seed"] = changes.more_seeds(axes.get("seed"), draft.counts.seeds_added)
    epochs = stated.epochs or _int(told.moved.get("epochs")) or previous.epochs
    if epochs and draft.counts.epochs_added:
        epochs += draft.counts.epochs_added
    scaled = {k: told.scale.get(k, 1.0) for k in ("epochs", "max_steps", "gpus_per_run")}
    held = {k: getattr(stated, k) or getattr(previous, k) for k in KEPT}
    for name in ("max_steps", "gpus_per_run"):
        held[name] = max(1, round(held[name] * scaled[name])) if held[name] else held[name]
    return stated.model_copy(
        update={
            "models": changes.changed_names(previous.models, stated.models, told),
            "datasets": changes.changed_names(previous.datasets, stated.datasets, told),
            "axes": axes,
            "epochs": max(1, round(epochs * scaled["epochs"])) if epochs else None,
            "priority": stated.priority or _priority(previous.priority),
            **held,
        }
    )


def _ask(draft: Draft, stated: Reading, most_runs: int) -> None:
    """Questions about what is missing, and about grids that are larger than told or allowed."""
    draws = stated.search in ("random", "bayesian")
    total = max(1, len(stated.models)) * max(1, len(stated.datasets)) * math.prod(draft.expected.values() or [1])
    if draws:
        total *= (stated.trials or 1) * _size(stated.axes.get("seed", (0,)))
    else:
        total *= math.prod(_size(a) for a in stated.axes.values())
    if total > most_runs:
        draft.doubt("too_many", n=f"{total:,}", most=most_runs)
        return
    for name, number in draft.expected.items():
        draft.questions.append(say("values_missing", draft.chinese, n=number or "", axis=name))
    if stated.runs_told and stated.models and stated.runs_told != total:
        draft.notes.append(f"the message counts {stated.runs_told} runs, the grid has {total}")
        draft.questions.append(say("runs_differ", draft.chinese, told=stated.runs_told, n=total))
    if draws and stated.trials is None:
        draft.questions.append(say("how_many_trials", draft.chinese))
    if not stated.models and not draft.doubts:
        draft.doubt("which_model")
    if not stated.datasets and OWN_DATA.search(draft.page.text):
        draft.questions.append(say("which_dataset", draft.chinese))
