"""A plan is corrected by click: the dialog and the shortcuts, who may use them, and what is said when nobody can."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent import desk, intake
from agent.desk import Desk
from bot.render.answer import WORDS
from lab import hosts, names
from lab.card import DataSet, Host
from lab.run import Answer, Experiment, ExperimentState, Request, RequestState
from tests.bot.conftest import ALICE, BEN, ESTIMATE, LAB, PLAN, Scene, settings_for
from workers.templates import TEMPLATES


@pytest.fixture(autouse=True)
def _lab(scene: Scene) -> Iterator[None]:
    """A host with two data sets, and an agent that has published its models."""
    schemas = {name: template.schema() for name, template in TEMPLATES.items()}
    sets = (DataSet(name="digits", present=True), DataSet(name="cifar10", present=True))
    hosts.publish_host(scene.client, Host(host="a", version="0", templates=schemas, datasets=sets))
    known = ("resnet50", "efficientnet_b0", "resnet18")
    names.publish(scene.client, {names.squash(name): name for name in known})
    yield
    hosts.withdraw_host(scene.client, "a")
    scene.client.delete(names.KEY)


def opened(scene: Scene, card: dict[str, Any], user: str = ALICE) -> dict[str, Any]:
    """The dialog that Edit opens."""
    before = len(scene.slack.views)
    scene.slack.press(LAB, card["ts"], "edit", user)
    scene.wait(lambda: len(scene.slack.views) > before, "the dialog")
    return scene.slack.views[-1]


def button(card: dict[str, Any], label: str) -> str:
    """The action_id of the button with this label."""
    elements = [e for b in card["blocks"] if b["type"] == "actions" for e in b["elements"]]
    found: str = next(e["action_id"] for e in elements if e["text"]["text"] == label)
    return found


def send(scene: Scene, view: dict[str, Any], **typed: str) -> None:
    """The dialog is sent with these fields (`axes_lr` for `axes.lr`) typed anew."""
    values = {
        name.replace("_", ".", 1) if name.startswith("axes_") else name: {
            "value": {"type": "plain_text_input", "value": text}
        }
        for name, text in typed.items()
    }
    scene.slack.submit(view["id"], values)


def edit_of(scene: Scene, root: str) -> Request:
    """The request that came of a click in this thread."""
    found = [r for r in scene.requests(root) if r.edit is not None]
    assert len(found) == 1
    return found[0]


def revised(scene: Scene, root: str, experiment: Experiment) -> Experiment:
    """The agent has taken the correction."""
    scene.wait(lambda: [r for r in scene.requests(root) if r.edit], "the edit")
    request = edit_of(scene, root)
    assert request.edit is not None
    made = scene.ledger.revise(request.id, experiment.id, request.edit.revision, request.edit.plan, ESTIMATE)
    assert made is not None
    return made


def test_the_dialog_holds_the_plan_and_its_values_become_the_card(scene: Scene) -> None:
    """The whole way: Edit, a field typed anew, the same message with another plan, and Run runs that one."""
    root, experiment, card = scene.planned()
    view = opened(scene, card)
    held = {b["block_id"]: b["element"].get("initial_value") for b in view["blocks"] if b["type"] == "input"}
    assert held["axes.lr"] == "0.001"
    assert held["axes.seed"] == "2"
    assert held["models"] == "resnet50, efficientnet_b0"

    send(scene, view, axes_lr="0.01, 3e-4", models="ResNet-18")
    scene.wait(lambda: not scene.slack.views, "the end of the dialog")
    revised(scene, root, experiment)
    scene.wait(lambda: "resnet18 on digits" in scene.now(card), "the card")

    shown = scene.now(card)
    assert f"Edited by <@{ALICE}>." in shown
    assert "0.01, 0.0003" in shown
    assert "4 runs = 2 learning rates x 2 seeds" in shown
    assert edit_of(scene, root).text == f"{experiment.id}: resnet18, lr 0.01, 0.0003"
    assert len(scene.slack.thread(LAB, root)) == 2, "nothing is posted beside the card"
    scene.slack.press(LAB, card["ts"], "run", ALICE)
    scene.wait(lambda: len(scene.ledger.runs(experiment.id)) == 4, "the runs")
    assert {run.point.model for run in scene.ledger.runs(experiment.id)} == {"resnet18"}


def test_the_real_agent_puts_the_correction_on_the_card(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing played: the listener's request, the agent's check and estimate, the courier's edit of the card."""
    monkeypatch.setattr(desk, "current", lambda: Desk(scene.settings, scene.client, scene.ledger))
    root, experiment, card = scene.planned()
    send(scene, opened(scene, card), epochs="5")
    scene.wait(lambda: [r for r in scene.requests(root) if r.edit], "the edit")
    intake.answer(edit_of(scene, root).id)
    scene.wait(lambda: "5 epochs" in scene.now(card), "the card")

    assert "no host is up" not in scene.now(card)
    assert scene.ledger.experiment(experiment.id).plan.why("epochs") is None
    assert scene.ledger.experiment(experiment.id).plan.why("axes.seed") is not None


def test_values_that_make_no_plan_are_said_in_the_dialog(scene: Scene) -> None:
    """It stays open with what was typed; nothing is asked of the agent before it is right."""
    root, experiment, card = scene.planned()
    view = opened(scene, card)
    send(scene, view, models="resnet5O", axes_lr="fast", epochs="0")
    errors = scene.wait(lambda: scene.slack.views and scene.slack.views[-1].get("errors"), "the errors")

    assert errors == {
        "models": "No model that can be trained here is called 'resnet5O'. Near that name: resnet50, resnet18.",
        "axes.lr": "'fast' is no number; write 0.001 or 1e-3.",
        "epochs": "0 is not between 1 and 100000.",
    }
    assert [r for r in scene.requests(root) if r.edit] == []
    scene.slack.close_view(view["id"])
    assert scene.ledger.experiment(experiment.id).plan_revision == 0


def test_a_shortcut_corrects_what_was_assumed_at_one_click_once(scene: Scene) -> None:
    """Two taps of a nervous thumb are one wish."""
    root, experiment, card = scene.planned()
    scene.wait(lambda: "[5 seeds]" in scene.now(card), "the shortcuts")
    assert "[1 seed] [3 seeds] [5 seeds] [on cifar10]" in scene.now(card)
    for _ in range(2):
        scene.slack.press(LAB, card["ts"], button(card, "5 seeds"), ALICE)
    made = revised(scene, root, experiment)

    assert made.plan.axes["seed"] == (0, 1, 2, 3, 4)
    assert made.plan.why("axes.seed") is None
    assert made.plan.why("epochs") is not None
    scene.wait(lambda: "5 seeds]" not in scene.now(card), "the card without shortcuts for seeds")
    assert "[on cifar10]" in scene.now(card)


def test_another_data_set_is_one_click_away(scene: Scene) -> None:
    """The one assumption that costs a whole night when it is wrong."""
    root, experiment, card = scene.planned()
    scene.slack.press(LAB, card["ts"], button(card, "on cifar10"), ALICE)

    assert revised(scene, root, experiment).plan.dataset == "cifar10"


def test_a_stranger_can_neither_edit_nor_use_shortcuts(scene: Scene) -> None:
    """Nor send a dialog that somebody else opened."""
    root, experiment, card = scene.planned()
    for action in ("edit", button(card, "5 seeds")):
        scene.slack.press(LAB, card["ts"], action, BEN)
    scene.wait(lambda: len(scene.whispered(root, BEN)) == 2, "two whispers")

    assert set(scene.whispered(root, BEN)) == {f"Only <@{ALICE}>, who asked for {experiment.id}, can edit it."}
    assert [v for v in scene.slack.views if v["user"] == BEN] == []
    assert len(scene.requests(root)) == 1


def test_an_admin_may_edit(valkey: Any, alone: Scene) -> None:
    """Whoever runs the lab corrects a plan while its owner sleeps."""
    url = alone.settings.redis_url
    admin = Scene(alone.slack, settings_for(alone.slack, data_dir=valkey.data_dir, redis_url=url, admins=(BEN,)))
    with admin.bot():
        root, experiment, card = admin.planned()
        send(admin, opened(admin, card, BEN), epochs="9")

        assert revised(admin, root, experiment).edited_by == BEN


@pytest.mark.parametrize("state", [ExperimentState.APPROVED, ExperimentState.CANCELLED, ExperimentState.EXPIRED])
def test_what_no_longer_waits_is_not_edited(scene: Scene, state: ExperimentState) -> None:
    """The button of an old copy, and the dialog that was open meanwhile, both say so."""
    root, experiment, card = scene.planned()
    view = opened(scene, card)
    moves = {"approved": scene.ledger.approve, "cancelled": scene.ledger.cancel}
    if state is ExperimentState.EXPIRED:
        scene.ledger.expire(experiment.id)
    else:
        moves[state.value](experiment.id, ALICE)
    scene.slack.press(LAB, card["ts"], "edit", ALICE, as_seen=card)
    said = scene.wait(lambda: scene.whispered(root), "the whisper")
    send(scene, view, epochs="9")
    errors = scene.wait(lambda: scene.slack.views and scene.slack.views[-1].get("errors"), "the error")

    assert experiment.id in said[0]
    assert list(errors.values()) == said
    assert len(scene.requests(root)) == 1
    scene.slack.close_view(view["id"])


def test_two_dialogs_at_once_do_not_overwrite_each_other(scene: Scene) -> None:
    """The second was filled in over a plan that is no more."""
    root, experiment, card = scene.planned()
    first, second = opened(scene, card), opened(scene, card)
    send(scene, first, epochs="9")
    revised(scene, root, experiment)
    send(scene, second, epochs="4")
    shown = scene.wait(lambda: scene.slack.views and scene.slack.views[-1].get("errors"), "the error")

    assert "was edited by somebody else meanwhile" in str(shown)
    assert scene.ledger.experiment(experiment.id).plan.epochs == 9
    scene.slack.close_view(second["id"])


def test_a_dialog_that_slack_opens_no_more_is_asked_for_again(alone: Scene) -> None:
    """A trigger lives 3 seconds; a silent button would be pressed until somebody gives up."""
    with alone.bot():
        root, _, card = alone.planned()
        alone.slack.fault("views.open", error="expired_trigger_id")
        alone.slack.press(LAB, card["ts"], "edit", ALICE)
        said = alone.wait(lambda: alone.whispered(root), "the whisper")

    assert said == [WORDS.say("too_slow", False)]


def test_an_edit_that_the_agent_refuses_is_said_in_the_thread(scene: Scene) -> None:
    """What the form cannot know: the card stays, and the sentence stands below it."""
    root, experiment, card = scene.planned()
    send(scene, opened(scene, card), epochs="9")
    scene.wait(lambda: [r for r in scene.requests(root) if r.edit], "the edit")
    refused = Answer(kind="question", text=f"No host can do that.\n{experiment.id} stays as it was.")
    scene.ledger.answer(edit_of(scene, root).id, refused)

    assert "stays as it was" in scene.slack.shown(scene.card(root, "No host can do that"))
    assert scene.ledger.experiment(experiment.id).plan.epochs == 3
    assert scene.ledger.request(edit_of(scene, root).id).state is RequestState.ANSWERED


def test_hostile_names_stay_words_in_the_dialog(scene: Scene) -> None:
    """Models, data sets and axes come from people and hosts."""
    evil = "<!channel> *x* `y` " + "z" * 100
    plan = PLAN.model_copy(update={"models": (evil,), "dataset": evil})
    root, request = scene.ask()
    scene.propose(request, plan)
    view = opened(scene, scene.card(root, "'run'"))

    assert "<!channel>" not in json.dumps([b for b in view["blocks"] if b["type"] == "context"])
    assert view["blocks"][0]["element"]["initial_value"] == evil
    scene.slack.close_view(view["id"])
