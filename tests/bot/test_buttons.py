"""Anyone can press a button, twice, and after a restart; the ledger moves once and refusals are said aloud."""

from __future__ import annotations

from lab.run import ExperimentState
from tests.bot.conftest import ALICE, BEN, LAB, Scene


def test_a_second_press_starts_nothing_and_says_so(scene: Scene) -> None:
    """The card on a slow phone still shows Run."""
    root, experiment, card = scene.planned()
    scene.slack.press(LAB, card["ts"], "run", ALICE)
    scene.wait(lambda: "Approved by" in scene.now(card), "the approval")
    scene.slack.press(LAB, card["ts"], "run", ALICE, as_seen=card)
    said = scene.wait(lambda: scene.whispered(root), "the whisper")

    assert said == [f"{experiment.id} was approved already by <@{ALICE}>; nothing more was started."]
    assert len(scene.ledger.runs(experiment.id)) == 4


def test_only_who_asked_can_press_run(scene: Scene) -> None:
    """Somebody else's GPU-hours are not for a bystander to spend."""
    root, experiment, card = scene.planned()
    scene.slack.press(LAB, card["ts"], "run", BEN)
    said = scene.wait(lambda: scene.whispered(root, BEN), "the whisper")

    assert said == [f"Only <@{ALICE}>, who asked for {experiment.id}, can start it."]
    assert scene.ledger.experiment(experiment.id).state is ExperimentState.PROPOSED
    assert "[Run]" in scene.now(card)


def test_a_cancelled_plan_has_no_buttons_and_cannot_run(scene: Scene) -> None:
    """No is an answer; an old copy of the card does not change it."""
    root, experiment, card = scene.planned()
    scene.slack.press(LAB, card["ts"], "cancel", ALICE)
    scene.wait(lambda: f"Cancelled by <@{ALICE}>; nothing ran." in scene.now(card), "the card")
    scene.slack.press(LAB, card["ts"], "run", ALICE, as_seen=card)
    said = scene.wait(lambda: scene.whispered(root), "the whisper")

    assert said == [f"{experiment.id} is cancelled already, so it cannot be approved."]
    assert "[Run]" not in scene.now(card)
    assert len(scene.slack.thread(LAB, root)) == 2


def test_what_runs_is_cancelled_from_its_progress_card(scene: Scene) -> None:
    """With a question before, since hours are lost by a slip of the thumb."""
    root, experiment, plan = scene.planned()
    scene.slack.press(LAB, plan["ts"], "run", ALICE)
    card = scene.card(root, "cancel_experiment")
    assert card["blocks"][-1]["elements"][0]["confirm"]["title"]["text"] == f"Cancel {experiment.id}?"
    scene.slack.press(LAB, card["ts"], "cancel_experiment", ALICE)
    scene.wait(lambda: "cancelled, 0 of 4 done" in scene.now(card), "the card")

    assert scene.ledger.experiment(experiment.id).state is ExperimentState.CANCELLED
    assert "cancel_experiment" not in str(scene.slack.message(LAB, card["ts"]))


def test_a_stale_cancel_of_a_plan_does_not_stop_what_runs(scene: Scene) -> None:
    """The plan's Cancel asked about a plan; runs are cancelled only where the question about them is asked."""
    root, experiment, card = scene.planned()
    scene.slack.press(LAB, card["ts"], "run", ALICE)
    scene.wait(lambda: "Approved by" in scene.now(card), "the approval")
    scene.slack.press(LAB, card["ts"], "cancel", ALICE, as_seen=card)
    said = scene.wait(lambda: scene.whispered(root), "the whisper")

    assert "was approved already" in said[0]
    assert scene.ledger.experiment(experiment.id).state is ExperimentState.APPROVED
