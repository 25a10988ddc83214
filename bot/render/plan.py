"""The plan card: what would run, how long, what was assumed and why, and the buttons."""

from __future__ import annotations

from collections.abc import Sequence

from bot.render.alert import clock
from bot.render.edit import EDIT, shortcuts
from bot.render.message import Block, Message, actions, button, context, message, section
from bot.render.text import cut, escape, name, person, shorten
from bot.render.words import WORDS, chinese
from lab import planwords, reuse
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
    zh = chinese(experiment)
    title = shorten(name(planwords.title(plan, zh), 200), 400)
    size = WORDS.say("comma", zh).join((planwords.arithmetic(plan, zh), words(experiment.estimate, chinese=zh)))
    lines = [f"*{experiment.id}*: {title}", escape(cut(size, 400))]
    lines += [escape(reused)] if (reused := reuse.words(experiment.reused, experiment.n_runs, zh)) else []
    lines += [WORDS.say("with", zh, list=shorten(stated, 500))] if (stated := _stated(plan, zh)) else []
    lines += [WORDS.say("assumed", zh, list=assumed)] if (assumed := _assumed(plan, zh)) else []
    body = "\n".join(lines)
    proposed = experiment.state is ExperimentState.PROPOSED
    remarks = experiment.estimate.remarks if experiment.estimate else ()
    said = stamped(escape(cut(" ".join((*remarks, *plan.notes)), 800)), clock)
    state = _state(experiment, ended_by)
    return message(
        "\n".join(part for part in (body, said, state) if part),
        section(body),
        context(said, escape(note or ""), _edited(experiment)),
        _buttons(experiment.id, zh) if proposed else context(state),
        shortcuts(experiment, datasets) if proposed else None,
    )


def _buttons(experiment_id: str, zh: bool) -> Block:
    run = button(WORDS.say("run", zh), RUN, experiment_id, style="primary")
    edit, cancel = (WORDS.say("edit", zh), EDIT), (WORDS.say("cancel", zh), CANCEL)
    return actions(run, *(button(label, action, experiment_id) for label, action in (edit, cancel)))


def _edited(experiment: Experiment) -> str:
    if not experiment.edited_by:
        return ""
    return WORDS.say("edited", chinese(experiment), who=person(experiment.edited_by))


def _state(experiment: Experiment, ended_by: str | None) -> str:
    zh = chinese(experiment)
    match experiment.state:
        case ExperimentState.PROPOSED:
            return ""
        case ExperimentState.EXPIRED:
            return WORDS.say("expired", zh)
        case ExperimentState.AWAITING_SECOND_APPROVAL:
            return WORDS.say("second", zh)
        case ExperimentState.CANCELLED if not experiment.approved_by:
            return WORDS.say("cancelled_by", zh, who=person(ended_by)) if ended_by else WORDS.say("nothing_ran", zh)
    return WORDS.say("approved", zh, who=person(experiment.approved_by)) if experiment.approved_by else ""


def _stated(plan: Plan, zh: bool) -> str:
    """The values that the message gave."""
    models = [", ".join(few(plan.models))] if len(plan.models) > 3 else []  # the title merely counts them
    parts = [name(part, PART_CHARS) for part in [*models, *planwords.stated(plan, zh)]]
    return WORDS.say("semicolon", zh).join(parts)


def _assumed(plan: Plan, zh: bool) -> str:
    """What the message did not say, and why it is so; a long list is cut and counted."""
    parts = [name(part, PART_CHARS) for part in planwords.assumptions(plan, zh)]
    shown = next((n for n in range(1, len(parts)) if len("; ".join(parts[:n])) > ASSUMED_CHARS), len(parts))
    more = len(parts) - shown
    return WORDS.say("semicolon", zh).join(parts[:shown]) + (WORDS.say("and_more", zh, n=more) if more else "")
