"""The dialog that corrects a plan, what Slack hands back of it, and buttons for what is corrected most."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bot.form import Entry
from bot.render.message import Block, actions, button, context, label_text
from bot.render.text import cut, escape
from bot.render.words import WORDS, chinese
from lab.run import Experiment

EDIT, SAVE, SET = "edit", "save_edit", "set_"
"""The button, the dialog that it opens, and how the action_ids of the shortcuts begin."""
VALUE = "value"
"""action_id of every element; the block_id says which field it is."""
OPTION_CHARS = 75
HINT_CHARS = 300
SEEDS = (1, 3, 5)
MOST_DATASETS = 4
RARE = "synthetic"
"""The data set that is everywhere and that hardly anybody means."""


def shortcuts(experiment: Experiment, datasets: Sequence[str]) -> Block | None:
    """Buttons that correct what was assumed at one click: the number of seeds, the data set; None without any.

    Args:
        datasets: names of those that are present on the hosts.
    """
    plan, seeds, zh = experiment.plan, experiment.plan.axes.get("seed"), chinese(experiment)
    made: list[tuple[str, str, str]] = []
    if plan.why("axes.seed") is not None and isinstance(seeds, tuple):
        made += [
            (WORDS.say("seeds", zh, n=n, s="" if n == 1 else "s"), "axes.seed", str(n))
            for n in SEEDS
            if n != len(seeds)
        ]
    if plan.why("dataset") is not None:
        others = [name for name in datasets if name != RARE and name not in plan.datasets]
        made += [(cut(WORDS.say("on", zh, name=name), 60), "dataset", name) for name in others[:MOST_DATASETS]]
    buttons = [
        button(label, f"{SET}{index}", json.dumps([experiment.id, field, value], ensure_ascii=False))
        for index, (label, field, value) in enumerate(made)
    ]
    return actions(*buttons) if buttons else None


def chosen(value: str) -> tuple[str, dict[str, str | tuple[str, ...]]]:
    """The experiment that a shortcut is about, and the field with its new value."""
    experiment_id, field, text = json.loads(value)
    return str(experiment_id), {str(field): (str(text),) if field == "dataset" else str(text)}


def dialog(experiment: Experiment, fields: Sequence[Entry], left_out: Sequence[str]) -> Block:
    """The modal, every field holding what the plan has.

    Args:
        left_out: what of the plan has no field.
    """
    blocks: list[Block | None] = [_input(entry) for entry in fields]
    zh = chinese(experiment)
    listed = escape(cut(WORDS.say("semicolon", zh).join(left_out), 1_000))
    rest = WORDS.say("by_sentence", zh, list=listed) if left_out else ""
    blocks.append(context(rest))
    return {
        "type": "modal",
        "callback_id": SAVE,
        "private_metadata": json.dumps([experiment.id, experiment.plan_revision]),
        "title": label_text(WORDS.say("edit_title", zh, id=experiment.id)[:24]),
        "submit": label_text(WORDS.say("change_plan", zh)),
        "close": label_text(WORDS.say("leave_it", zh)),
        "blocks": [block for block in blocks if block is not None],
    }


def edited(view: Block) -> tuple[str, int]:
    """The experiment that the dialog is about, and the revision of its plan that was shown."""
    experiment_id, revision = json.loads(view["private_metadata"])
    return str(experiment_id), int(revision)


def entered(view: Block) -> dict[str, str | tuple[str, ...]]:
    """What stands in each field when the dialog is sent."""
    state = view["state"]["values"]
    return {name: _value(elements[VALUE]) for name, elements in state.items() if VALUE in elements}


def _value(element: dict[str, Any]) -> str | tuple[str, ...]:
    if "selected_options" in element:
        return tuple(str(option["value"]) for option in element["selected_options"] or ())
    if "selected_option" in element:
        return str((element["selected_option"] or {}).get("value") or "")
    return str(element.get("value") or "")


def _input(entry: Entry) -> Block:
    made: Block = {
        "type": "input",
        "block_id": entry.name,
        "label": label_text(entry.label),
        "element": _element(entry),
    }
    if entry.hint:
        made["hint"] = label_text(cut(entry.hint, HINT_CHARS))
    return made


def _element(entry: Entry) -> Block:
    if entry.kind == "text":
        text = entry.value if isinstance(entry.value, str) else ", ".join(entry.value)
        return {"type": "plain_text_input", "action_id": VALUE, "initial_value": text, "max_length": 3000}
    options = {value: {"text": label_text(cut(value, OPTION_CHARS)), "value": value} for value in entry.options}
    if entry.kind == "one":
        first = {"initial_option": options[str(entry.value)]}
        return {"type": "static_select", "action_id": VALUE, "options": list(options.values()), **first}
    chosen = [options[value] for value in entry.value if value in options]
    menu: Block = {"type": "multi_static_select", "action_id": VALUE, "options": list(options.values())}
    return {**menu, "initial_options": chosen} if chosen else menu
