"""The plan card: what would run, how long, what was assumed and why, and the buttons."""

from __future__ import annotations

from collections.abc import Sequence

from bot.render.alert import clock
from bot.render.edit import EDIT, shortcuts
from bot.render.message import Block, Message, actions, button, context, message, section
from bot.render.text import cut, escape, name, person, shorten
from lab.estimate import words
from lab.plan import Plan, few
from lab.run import Experiment, ExperimentState
from lab.when import stamped

RUN, CANCEL = "run", "cancel"

ASSUMED_CHARS = 800
PART_CHARS = 300


def plan_card(
    experiment: Experiment, note: str | None = None, ended_by: str | None = None, datasets: Sequence[str] = ()
) -> Message:
    """The card; its buttons are there only while the experiment is merely proposed.

    Args:
        note: said in small print, such as that the language model did not answer.
        ended_by: who cancelled it, if that is known.
        datasets: names of those that are present, for the buttons that choose another.
    """
    plan = experiment.plan
    title = shorten(name(plan.title(), 200), 400)
    lines = [f"*{experiment.id}*: {title}", escape(cut(f"{plan.arithmetic()}, {words(experiment.estimate)}", 400))]
    lines += [f"with: {shorten(stated, 500)}"] if (stated := _stated(plan)) else []
    lines += [f"assumed: {assumed}"] if (assumed := _assumed(plan)) else []
    body = "\n".join(lines)
    proposed = experiment.state is ExperimentState.PROPOSED
    remarks = experiment.estimate.remarks if experiment.estimate else ()
    said = stamped(escape(cut(" ".join((*remarks, *plan.notes)), 800)), clock)
    state = _state(experiment, ended_by)
    return message(
        "\n".join(part for part in (body, said, state) if part),
        section(body),
        context(said, escape(note or ""), _edited(experiment)),
        _buttons(experiment.id) if proposed else context(state),
        shortcuts(experiment, datasets) if proposed else None,
    )


def _buttons(experiment_id: str) -> Block:
    run = button("Run", RUN, experiment_id, style="primary")
    return actions(run, button("Edit", EDIT, experiment_id), button("Cancel", CANCEL, experiment_id))


def _edited(experiment: Experiment) -> str:
    return f"Edited by {person(experiment.edited_by)}." if experiment.edited_by else ""


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


def _stated(plan: Plan) -> str:
    """The values that the message gave."""
    models = [", ".join(few(plan.models))] if len(plan.models) > 3 else []  # the title merely counts them
    return "; ".join(name(part, PART_CHARS) for part in [*models, *plan.stated()])


def _assumed(plan: Plan) -> str:
    """What the message did not say, and why it is so; a long list is cut and counted."""
    parts = [name(part, PART_CHARS) for part in plan.assumptions_in_words()]
    shown = next((n for n in range(1, len(parts)) if len("; ".join(parts[:n])) > ASSUMED_CHARS), len(parts))
    more = len(parts) - shown
    return "; ".join(parts[:shown]) + (f"; and {more} more" if more else "")
