"""The plan card: what would run, how long, what was assumed and why, and the buttons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from bot.render.message import Block, Message, actions, button, context, message, section
from bot.render.text import cut, escape, name, person, shorten
from lab.estimate import duration
from lab.plan import Assumed, Axis, Plan, Range, number
from lab.report import metric_name
from lab.run import Estimate, Experiment, ExperimentState

T = TypeVar("T")

RUN, CANCEL = "run", "cancel"

MOST_VALUES = 8
ASSUMED_CHARS = 800
UNLESS = "unless said otherwise"
_AXES = {"lr": "lr", "batch_size": "batch size", "seed": "seed", "weight_decay": "weight decay"}


def plan_card(experiment: Experiment, note: str | None = None, ended_by: str | None = None) -> Message:
    """The card; its buttons are there only while the experiment is merely proposed.

    Args:
        note: said in small print, such as that the language model did not answer.
        ended_by: who cancelled it, if that is known.
    """
    plan = experiment.plan
    title = shorten(name(plan.title(), 200), 400)
    lines = [f"*{experiment.id}*: {title}", shorten(_size(plan, experiment.estimate), 400)]
    lines += [f"with: {shorten(stated, 500)}"] if (stated := _stated(plan)) else []
    lines += [f"assumed: {assumed}"] if (assumed := _assumed(plan)) else []
    body = "\n".join(lines)
    proposed = experiment.state is ExperimentState.PROPOSED
    said = escape(cut(" ".join(plan.notes), 800))
    state = _state(experiment, ended_by)
    return message(
        "\n".join(part for part in (body, said, state) if part),
        section(body),
        context(said, escape(note or "")),
        _buttons(experiment.id) if proposed else context(state),
    )


def _buttons(experiment_id: str) -> Block:
    run = button("Run", RUN, experiment_id, style="primary")
    return actions(run, button("Cancel", CANCEL, experiment_id))


def _state(experiment: Experiment, ended_by: str | None) -> str:
    match experiment.state:
        case ExperimentState.PROPOSED:
            return ""
        case ExperimentState.EXPIRED:
            return "Expired: nobody pressed Run in time. Ask again to get a new plan."
        case ExperimentState.AWAITING_SECOND_APPROVAL:
            return "Waits for a second approval."
        case ExperimentState.CANCELLED if not experiment.approved_by:
            return f"Cancelled by {person(ended_by)}; nothing ran." if ended_by else "Cancelled; nothing ran."
    return f"Approved by {person(experiment.approved_by)}." if experiment.approved_by else ""


def _size(plan: Plan, estimate: Estimate | None) -> str:
    if estimate is None:
        return f"{escape(plan.arithmetic())}; how long it takes is not known yet"
    cards = f"{estimate.cards} card{'' if estimate.cards == 1 else 's'}"
    basis = f" ({escape(estimate.basis)})" if estimate.basis else ""
    took = f"about {duration(estimate.wall_s)} on {cards}, {gpu_hours(estimate.gpu_hours)} GPU-h"
    return f"{escape(plan.arithmetic())}, {took}{basis}"


def gpu_hours(hours: float) -> str:
    """GPU-hours as people read them: 12, 0.2, 0.01."""
    return f"{hours:.0f}" if hours >= 10 else f"{hours:.1f}" if hours >= 0.095 else f"{hours:.1g}"


def _stated(plan: Plan) -> str:
    """The values that the message gave, and all those that vary."""
    parts = [", ".join(name(m) for m in _few(plan.models))] if len(plan.models) > 3 else []
    parts += [_axis(key, axis) for key, axis in plan.axes.items() if plan.why(f"axes.{key}") is None]
    for field in ("epochs", "max_steps", "gpus_per_run", "metric"):
        phrase = _phrase(plan, field)
        if phrase and plan.why(field) is None and not (field == "gpus_per_run" and plan.gpus_per_run == 1):
            parts.append(phrase)
    if plan.priority != "normal":
        parts.append(f"priority {plan.priority}")
    if plan.budget and plan.budget.gpu_hours:
        parts.append(f"at most {number(plan.budget.gpu_hours)} GPU-h")
    return "; ".join(parts)


def _assumed(plan: Plan) -> str:
    """What the message did not say, things with one reason together; a long list is cut and counted."""
    reasons: dict[str, list[str]] = {}
    for item in plan.assumed:
        phrase = _phrase(plan, item.field) or name(item.field.removeprefix("axes."), 30)
        reasons.setdefault(_reason(plan, item), []).append(shorten(phrase, 120))
    said: list[str] = []
    for reason, phrases in reasons.items():
        said.append(f"{', '.join(_few(list(dict.fromkeys(phrases))))} ({name(reason, 120)})")
        if len(", ".join(said)) > ASSUMED_CHARS:
            break
    more = sum(len(phrases) for phrases in list(reasons.values())[len(said) :])
    return shorten(", ".join(said), 2 * ASSUMED_CHARS) + (f", and {more} more" if more else "")


def _reason(plan: Plan, item: Assumed) -> str:
    """The reason without the value, which stands before it, so that things with one reason come together."""
    axis = plan.axes.get(item.field.removeprefix("axes."))
    value = number(axis[0]) if isinstance(axis, tuple) and len(axis) == 1 else ""
    if item.reason.endswith(UNLESS):
        return UNLESS
    return item.reason.removesuffix(f", {value}") if value else item.reason


def _phrase(plan: Plan, field: str) -> str | None:
    """A field with its value as people say it; None when it has none."""
    if field.removeprefix("axes.") in plan.axes:
        key = field.removeprefix("axes.")
        axis = plan.axes[key]
        if key == "seed" and isinstance(axis, tuple) and plan.why(field) is not None:
            return f"{len(axis)} seed{'' if len(axis) == 1 else 's'}"
        return _axis(key, axis)
    match field:
        case "dataset":
            return ", ".join(name(d) for d in _few(plan.datasets)) or None
        case "models":
            return ", ".join(name(m) for m in _few(plan.models)) or None
        case "epochs":
            return f"{plan.epochs} epoch{'' if plan.epochs == 1 else 's'}" if plan.epochs else None
        case "max_steps":
            return f"{plan.max_steps} steps" if plan.max_steps else None
        case "gpus_per_run":
            return f"{plan.gpus_per_run} card{'' if plan.gpus_per_run == 1 else 's'} a run"
        case "metric":
            return f"metric {name(metric_name(plan.metric))}" if plan.metric else None
        case "priority":
            return f"{plan.priority} priority"
        case "template":
            return f"template {name(plan.template)}"
        case _:
            return None


def _axis(key: str, axis: Axis) -> str:
    label = _AXES.get(key, name(key.replace("_", " ")))
    if isinstance(axis, Range):
        return f"{label} {number(axis.low)} to {number(axis.high)} ({axis.scale})"
    return f"{label} {', '.join(name(number(v)) for v in _few(axis))}"


def _few(values: Sequence[T]) -> list[T | str]:
    """The first values, and how many more there are."""
    more = len(values) - MOST_VALUES
    return [*values[:MOST_VALUES], *([f"and {more} more"] if more > 0 else [])]
