"""Answers that are words: a question, a refusal, a reply, an error."""

from __future__ import annotations

from bot.render.alert import clock
from bot.render.message import Message, actions, button, context, message, plain
from bot.render.text import cut, escape, name, person
from lab.estimate import gpu_hours
from lab.run import Answer, Experiment, ExperimentState
from lab.when import stamped

PICK = "pick"
"""Action of the buttons of designs, with the design's number behind it."""
BUTTON_CHARS = 75
"""Of a button's label (Slack, Block Kit reference)."""
NOTHING_SAID = "I have no answer to that; please say it in other words."
HOW_TO_ANSWER = "To answer, mention me in this thread."
STORE_AWAY = (
    "I cannot take requests right now: my store is away. Nothing was started, and Slack hands me your message again for"
    " a few minutes; if I have not answered by then, please send it again."
)
STORE_AWAY_PRESS = "I cannot do that right now: my store is away. Nothing was changed; please press again in a minute."
STORE_AWAY_CARDS = "I cannot say what the cards do right now: my store is away. Please ask again in a minute."
WENT_WRONG = (
    "Something went wrong on my side, and nothing was changed. Please try again; reference for the operator: {}."
)


def words(answer: Answer, in_channel: bool) -> Message:
    """The answer's text, what is to be said beside it in small print below."""
    shown = plain(stamped(escape(answer.text), clock) or NOTHING_SAID)
    how = HOW_TO_ANSWER if answer.kind == "question" and in_channel else ""
    return message(shown.text, *shown.blocks, context(escape(answer.note or ""), how))


def choices(answer: Answer, request_id: str) -> Message:
    """The designs in words, a button with the figures for each."""
    shown = words(answer, in_channel=False)
    labels = [
        f"{n}: {design.name}, {design.plan.n_runs} runs, {gpu_hours(design.estimate.gpu_hours)} GPU-h"
        for n, design in enumerate(answer.designs, start=1)
    ]
    buttons = [
        button(cut(label, BUTTON_CHARS), f"{PICK}_{n}", f"design {n} of {request_id}", "primary" if n == 1 else None)
        for n, label in enumerate(labels, start=1)
    ]
    return message(shown.text, *shown.blocks, actions(*buttons))


def not_yours(experiment: Experiment, what: str) -> Message:
    """Said to whoever presses a button of somebody else's experiment."""
    return plain(f"Only {person(experiment.owner)}, who asked for {experiment.id}, can {what} it.")


def too_late(experiment: Experiment, what: str) -> Message:
    """Said to whoever presses a button whose time is over."""
    match experiment.state:
        case ExperimentState.PROPOSED:
            return plain(f"{experiment.id} cannot be {what} right now; please press again.")
        case ExperimentState.APPROVED | ExperimentState.RUNNING:
            by = f" by {person(experiment.approved_by)}" if experiment.approved_by else ""
            return plain(f"{experiment.id} was approved already{by}; nothing more was started.")
        case ExperimentState.AWAITING_SECOND_APPROVAL:
            return plain(f"{experiment.id} waits for its second approval.")
        case ExperimentState.EXPIRED:
            return plain(f"{experiment.id} has expired, so it cannot be {what}. Ask again to get a new plan.")
        case state:
            return plain(f"{experiment.id} is {state.value} already, so it cannot be {what}.")


def gone(subject: str) -> Message:
    return plain(f"There is no {name(subject, 40)} any more.")


def runs_already(experiment: Experiment) -> Message:
    """Said to whoever edits a message after its plan was approved."""
    return plain(
        f"You changed the message behind {experiment.id}, which is {experiment.state.value} already; the change does"
        " nothing to it. Please write a new message for what should be different."
    )


def went_on(experiment: Experiment) -> Message:
    """Said to whoever deletes a message after its plan was approved."""
    return plain(
        f"You deleted the message behind {experiment.id}, which is {experiment.state.value} already and is not stopped"
        f" by that. To stop it: `cancel {experiment.id}`, or Cancel on its card."
    )
