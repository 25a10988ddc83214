"""Corrections of a plan by click: the dialog behind Edit, and buttons for what is corrected most."""

from __future__ import annotations

import logging
import re
from typing import Any

from slack_bolt import Ack, App

from bot import form
from bot.conversation import Conversation
from bot.form import Around, Faults, Values
from bot.listeners.buttons import clicked_in
from bot.listeners.intake import Intake
from bot.listeners.words import in_chinese
from bot.render import edit
from bot.render.answer import WORDS, gone, not_yours, said, too_late
from bot.render.message import Block, Message, plain
from bot.render.words import chinese
from bot.web import Refused, Web
from lab import hosts, names
from lab.errors import StoreAwayError, UnknownRecord
from lab.language import is_chinese
from lab.plan import Plan
from lab.run import Edit, Experiment, ExperimentState

log = logging.getLogger(__name__)


def listen(app: App, intake: Intake) -> None:
    """A click is acknowledged whatever comes of it; values that make no plan are said in the dialog."""

    @app.action(edit.EDIT)
    def on_edit(ack: Ack, body: dict[str, Any]) -> None:
        ack()
        open_form(body, intake)

    @app.action(re.compile(rf"^{edit.SET}"))
    def on_set(ack: Ack, body: dict[str, Any]) -> None:
        ack()
        press(body, intake)

    @app.view(edit.SAVE)
    def on_save(ack: Ack, body: dict[str, Any], view: Block) -> None:
        errors = save(body, view, intake)
        if errors:
            ack(response_action="errors", errors=errors)
        else:
            ack()


def open_form(body: dict[str, Any], intake: Intake) -> None:
    """The form is on its way to whoever may use it; anybody else reads why not."""
    user, place, trigger = body["user"]["id"], clicked_in(body), str(body["trigger_id"])
    found = _open_plan(str(body["actions"][0].get("value") or ""), user, intake, in_chinese(body))
    if isinstance(found, Message):
        intake.whispers.whisper(place, user, found)
        return
    try:
        around = intake.reach(lambda: _around(found.plan, intake))
    except StoreAwayError:
        intake.whispers.whisper(place, user, said("away_press", in_chinese(body)))
        return
    view = edit.dialog(found, form.entries(found.plan, around), form.left_out(found.plan, around))
    zh = chinese(found)
    intake.whispers.say(lambda web: _show(web, trigger, view, place, user, zh))


def _show(web: Web, trigger: str, view: Block, place: Conversation, user: str, zh: bool) -> None:
    try:
        web.open_view(trigger, view)
    except Refused as refused:
        log.warning("edit: %s", refused)
        too_slow = refused.error.endswith("trigger_id")
        web.whisper(place, user, said("too_slow" if too_slow else "went_wrong", zh, reference="views.open"))


def press(body: dict[str, Any], intake: Intake) -> None:
    """The one field of the button is corrected, once however often it is pressed; or the person reads why not."""
    user, place = body["user"]["id"], clicked_in(body)
    experiment_id, values = edit.chosen(str(body["actions"][0]["value"]))
    found = _open_plan(experiment_id, user, intake, in_chinese(body))
    if isinstance(found, Message):
        intake.whispers.whisper(place, user, found)
        return
    try:
        _correct(found, values, user, intake)
    except Faults as faults:
        intake.whispers.whisper(place, user, plain(" ".join(faults.by_field.values())))
    except StoreAwayError:
        intake.whispers.whisper(place, user, said("away_press", in_chinese(body)))


def save(body: dict[str, Any], view: Block, intake: Intake) -> dict[str, str]:
    """The plan is corrected as the dialog says; else a sentence for each field that is at fault, by its block_id."""
    experiment_id, revision = edit.edited(view)
    values = edit.entered(view)
    first = next(iter(values), form.MODELS)
    found = _open_plan(experiment_id, body["user"]["id"], intake, in_chinese(body))
    if isinstance(found, Message):
        return {first: found.text}
    if found.plan_revision != revision:
        return {first: WORDS.say("edited_meanwhile", chinese(found), id=experiment_id)}
    try:
        _correct(found, values, body["user"]["id"], intake)
    except Faults as faults:
        return faults.by_field
    except StoreAwayError:
        return {first: WORDS.say("away_press", in_chinese(body))}
    return {}


def _open_plan(experiment_id: str, user: str, intake: Intake, zh: bool) -> Experiment | Message:
    """The experiment whose plan this person may correct now, or what stands in the way."""
    try:
        experiment = intake.reach(lambda: intake.ledger.experiment(experiment_id))
    except StoreAwayError:
        return said("away_press", zh)
    except UnknownRecord:
        return gone(experiment_id, zh)
    if user != experiment.owner and user not in intake.admins:
        return not_yours(experiment, "edit")
    return experiment if experiment.state is ExperimentState.PROPOSED else too_late(experiment, "edited")


def _around(plan: Plan, intake: Intake) -> Around:
    """What the hosts have at this moment."""
    up = hosts.hosts(intake.client)
    schema = next((host.templates[plan.template] for host in up if plan.template in host.templates), {})
    present = {dataset.name for host in up for dataset in host.datasets if dataset.present}
    return Around(tuple(sorted(present)), schema, intake.max_runs)


def _correct(experiment: Experiment, values: Values, user: str, intake: Intake) -> None:
    """The correction is with the agent, which checks it against the hosts and estimates it anew.

    Raises:
        Faults: the values make no plan.
        StoreAwayError: the store is away, and nothing was changed.
    """
    plan = intake.reach(lambda: _new_plan(experiment.plan, values, intake))
    said = form.difference(experiment.plan, plan)
    if not said:
        return
    change = Edit(experiment_id=experiment.id, revision=experiment.plan_revision, plan=plan)
    text = f"{experiment.id}: {', '.join(said)}"
    claim = f"edit:{experiment.id}:{experiment.plan_revision}:{text}"
    request = intake.reach(
        lambda: intake.ledger.submit(text, user, experiment.conversation, claims=[claim], edit=change)
    )
    if request is not None:
        log.info("%s: %s edits %s", request.id, user, text)


def _new_plan(plan: Plan, values: Values, intake: Intake) -> Plan:
    named, faults = _named(values, plan, intake)
    try:
        corrected = form.corrected(plan, named, _around(plan, intake))
    except Faults as others:
        raise Faults({**others.by_field, **faults}) from None
    if faults:
        raise Faults(faults)
    return corrected


def _named(values: Values, plan: Plan, intake: Intake) -> tuple[Values, dict[str, str]]:
    """The values with each model by its proper name, and what is wrong with the models."""
    entered = values.get(form.MODELS)
    if not isinstance(entered, str) or plan.template != "vision":
        return values, {}
    called = form.pieces(entered)
    proper = names.find(intake.client, called) or {name: name for name in called}
    unknown = next((name for name in called if proper[name] is None), None)
    if unknown is None:
        return {**values, form.MODELS: ", ".join(str(proper[name]) for name in called)}, {}
    near = names.nearest(intake.client, unknown)
    zh = is_chinese(plan.request_text)
    hint = form.WORDS.say("near", zh, names=", ".join(near)) if near else ""
    return values, {form.MODELS: form.WORDS.say("no_model", zh, name=unknown, near=hint)}
