# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""From a message to what it says, without a model."""

from __future__ import annotations

import re

from agent import catalog
from agent.reader import changes, commands, dangers, intents, names, searches, tuning
from agent.reader.counts import Counts
from agent.reader.draft import Draft, draft_of, unread
from agent.reader.intents import Facts, Intent
from agent.reader.judgement import judge, judge_names
from agent.reader.numbers import FLAGS, spell_out
from agent.reader.questions import ask, own_script, size, vague
from agent.reader.reading import PreviousPlan, Reading
from agent.reader.text import clean, has_words
from agent.reader.wording import say
from lab.language import is_chinese
from lab.plan import MAX_RUNS, PRIORITIES, Axis, Budget, Priority, few

MOST_CHARACTERS = 4000
"""Slack cuts a message at 4,000 characters; a longer text is a pasted file, not a request."""
NUMERALS = re.compile(r"\d+|[零一二两三四五六七八九十百千万亿]+|[百千万亿]", FLAGS)
MOST_NUMBERS = 250
"""More numbers than this are a pasted table; the patterns for lists take the square of their count."""
ONLY_TONIGHT = re.compile(r"^(?:tonight|today|this evening|今晚|今天|今夜|晚上|overnight)$", FLAGS)
AGAIN = re.compile(
    r"\b(?:re-?run|again|redo|repeat|reproduce|replicate|retry|resume|continue|once more|restart|same)\b|\b(?:go(?:ing)? )?back(?: to)?\b|\bundo\b|\brevert\b|回到|恢复|用回|撤销|退回|改回|重(?:新)?(?:跑|来|试|训)|复现|重现|再(?:跑|来|试|训)|继续|恢复|一样"
    r"|nochmal|de nuevo|otra vez|encore|もう一度|다시",
    FLAGS,
)
"""Asks for the same once more, so that a plan without a change is meant."""
KEPT = ("max_steps", "gpus_per_run", "metric", "search", "trials", "prune", "budget", "deadline", "mode")
"""Fields that a change of a plan keeps unless it states them."""


def read(raw: str, previous: PreviousPlan | None = None, most_runs: int = MAX_RUNS) -> Reading:
    """What the message says; with a previous plan, a change comes back as the whole resulting plan."""
    text = spell_out(clean(raw))
    chinese = is_chinese(text[:MOST_CHARACTERS])
    early = _unreadable(text, chinese) or _refused(raw, text, chinese)
    if early:
        return early
    draft = draft_of(text, chinese, previous)
    searches.settle(draft, previous)
    judge(draft, previous)
    given = {*draft.axes, *draft.told, *draft.expected} | ({"epochs"} if draft.counts.epochs else set())
    searched = draft.around.search in searches.DRAWS
    draft.tunes = tuning.wanted(draft.page, given, closely=False, searched=searched)
    draft.tunes_closely = tuning.wanted(draft.page, given, closely=True)
    if draft.tunes == () and "seed" in draft.axes and tuning.OVER_SEEDS.search(text):
        draft.tunes = None
    _best(draft, previous)
    intent, sure = intents.choose(text, _facts(draft, previous))
    if own_script(text) and (intent in intents.PLANNING or not sure):
        draft.doubt("own_script")
        intent = "clarify"
    if intent not in intents.PLANNING or _elsewhere(draft, intent, previous):
        return _command(draft, intent, sure, previous)
    return _plan(draft, intent, previous, most_runs)


def _best(draft: Draft, previous: PreviousPlan | None) -> None:
    """`the best lr from that`: which value that was, the thread's plan does not say."""
    axis = tuning.found(draft.page) if previous is not None else None
    if axis is None or previous is None:
        return
    draft.tunes = tuple(name for name in draft.tunes or () if name != axis) or None
    draft.tunes_closely = tuple(name for name in draft.tunes_closely or () if name != axis) or None
    if isinstance(held := previous.values().get(axis), tuple) and len(held) > 1 and axis not in draft.axes:
        tried = ", ".join(few(held))
        draft.questions.append(say("which_best", draft.chinese, id=previous.id or "that plan", axis=axis, values=tried))


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
    return None if has_words(text) else Reading(intent="chitchat", small_talk="chitchat", chinese=chinese)


def _refused(raw: str, text: str, chinese: bool) -> Reading | None:
    key = dangers.refusal(text) or dangers.refusal(raw.replace("`", " "))
    if key is None and dangers.others_runs(text):
        key = "refuse_others"
    return Reading(intent="refuse", refusal=say(key, chinese), chinese=chinese) if key else None


def _facts(draft: Draft, previous: PreviousPlan | None) -> Facts:
    told, around = draft.counts, draft.around
    words = [a for a, axis in draft.axes.items() if isinstance(axis, tuple) and isinstance(axis[0], bool | str)]
    numbers = [a for a in draft.axes if a not in words and a != "seed"]
    both = [a for a in numbers if a.endswith("_alpha") and draft.axes[a] and _has_zero(draft.axes[a])]
    several = [a for a in numbers if a not in both and size(draft.axes[a]) > 1]
    schedule = around.schedule or {}
    settings = bool(draft.axes or draft.told or draft.changes.anything or around.priority or draft.denied.anything)
    settings = settings or (previous is not None and draft.tunes_closely is not None)
    settings = settings or (around.deadline is not None and not intents.QUESTION.search(draft.page.text))
    return Facts(
        models=len(draft.names.models),
        datasets=len(draft.names.datasets),
        many=bool(several) or bool(draft.expected),
        many_words=bool(both) or any(size(draft.axes[a]) > 1 for a in words),
        settings=settings or told.anything,
        unknown=any(kind == "model" for kind, _ in draft.names.unknown),
        previous=previous is not None,
        schedule=bool(set(schedule) - {"at"}) or ("at" in schedule and not ONLY_TONIGHT.match(str(schedule["at"]))),
        search=around.search is not None,
        renames=previous is not None and not set(draft.names.models) <= set(previous.models),
        excludes=bool(draft.denied.anything or draft.changes.kept),
        tunes=(draft.tunes_closely if previous is not None else draft.tunes) is not None,
    )  # fmt: skip


def _elsewhere(draft: Draft, intent: Intent, previous: PreviousPlan | None) -> bool:
    """True for a change of an experiment, or a comparison with one, whose plan is not at hand."""
    if previous is not None:
        return False
    named = commands.named(draft.page.text)
    if intent == "compare" and len(draft.names.models) == 1 and named:
        return True
    return not draft.names.models and (intent == "modify" or (intent == "evaluate" and named is not None))


def _varies(axes: dict[str, Axis]) -> bool:
    return any(size(axis) > 1 for name, axis in axes.items() if name != "seed")


def _has_zero(axis: Axis) -> bool:
    return isinstance(axis, tuple) and 0.0 in axis and len(axis) == 2


def _command(draft: Draft, intent: Intent, sure: bool, previous: PreviousPlan | None) -> Reading:
    text = draft.page.text
    models = tuple(draft.names.models)
    if previous is not None:
        held = previous.models
        models = tuple(m for m in changes.changed_members(held, draft.names, text))
    target = commands.target(intent, text, previous, models)
    questions: tuple[str, ...] = ()
    if _elsewhere(draft, intent, previous):
        questions = (*draft.doubts, say("plan_elsewhere", draft.chinese, id=target))
    elif intent == "clarify":
        questions = (*draft.doubts, *(() if draft.doubts else (vague(draft, previous),)))
    return Reading(
        intent=intent,
        sure=sure,
        target=target,
        args=commands.arguments(intent, text),
        metric=draft.around.metric,
        questions=questions,
        small_talk=intents.small_talk(text) if intent == "chitchat" else None,
        chinese=draft.chinese,
        left=draft.page.left,
    )


def _plan(draft: Draft, intent: Intent, previous: PreviousPlan | None, most_runs: int) -> Reading:
    judge_names(draft)
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
        prune=around.prune,
        budget=_budget(told),
        priority=_priority(around.priority),
        deadline=around.deadline,
        schedule=around.schedule,
        mode=around.mode,
        runs_told=told.runs_told,
        hints=_hints(draft),
        denied={k: tuple(v) for k, v in draft.denied.values.items()},
        target=commands.target(intent, draft.page.text, previous, ()) if intent == "modify" else None,
        chinese=draft.chinese,
        left=draft.page.left,
    )
    if not _varies(draft.axes) and not unread(draft):
        stated = stated.model_copy(update={"tunes": draft.tunes if intent == "sweep" else draft.tunes_closely})
    if previous is not None and intent == "evaluate" and not stated.models:
        stated = stated.model_copy(update={"models": previous.models, "datasets": stated.datasets or previous.datasets})
    if previous is not None and intent in ("modify", "schedule"):
        stated = _changed(draft, stated, previous)
        if _unchanged(stated, previous) and not AGAIN.search(draft.page.text) and intent == "modify":
            draft.doubt("what_change", id=previous.id or "it")
    stated = _depths(stated)
    if intent == "sweep" and stated.tunes is None and draft.tunes is not None and not _varies(draft.axes):
        draft.questions.append(say("what_to_tune", draft.chinese, list=", ".join(draft.tunes) or "lr"))
    ask(draft, stated, most_runs)
    if draft.doubts:
        intent = "clarify"
    questions = (*draft.doubts, *draft.questions)
    if unused := unread(draft):
        draft.note("note_unused", list=", ".join(unused))
    return stated.model_copy(update={"intent": intent, "notes": tuple(draft.notes), "questions": questions})


def _unchanged(stated: Reading, previous: PreviousPlan) -> bool:
    """True when the change changes nothing: the reader did not understand it."""
    kept = all(getattr(stated, k) == getattr(previous, k) for k in (*KEPT, "epochs"))
    named = stated.models == previous.models and stated.datasets == previous.datasets
    return (
        not stated.tunes
        and kept
        and named
        and stated.axes == previous.values()
        and stated.priority == _priority(previous.priority)
    )


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
    alone = {"axes.lr": "a number without a name, read as lr"} if draft.alone else {}
    return hints | alone | ({"models": "; ".join(families)} if families else {})


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
