"""Anyone can press a button, twice, and after a restart; the ledger moves once and refusals are said aloud."""

from __future__ import annotations

from lab.report import FailedRun
from lab.run import ExperimentState, RunState
from tests.bot import made
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


def test_an_expired_plan_says_so_and_cannot_run(scene: Scene) -> None:
    """The card of last week is still there; a press on an old copy of it must not start what nobody looked at again."""
    root, experiment, card = scene.planned()
    scene.ledger.expire(experiment.id)
    scene.wait(lambda: "Expired: nobody pressed Run in time" in scene.now(card), "the card")
    scene.slack.press(LAB, card["ts"], "run", ALICE, as_seen=card)
    said = scene.wait(lambda: scene.whispered(root), "the whisper")

    assert said == [f"{experiment.id} has expired, so it cannot be approved. Ask again to get a new plan."]
    assert "[Run]" not in scene.now(card)
    assert scene.ledger.experiment(experiment.id).state is ExperimentState.EXPIRED


def test_what_runs_is_cancelled_from_its_progress_card(scene: Scene) -> None:
    """With a question before, since hours are lost by a slip of the thumb."""
    root, experiment, plan = scene.planned()
    scene.slack.press(LAB, plan["ts"], "run", ALICE)
    card = scene.card(root, "cancel_experiment")
    assert card["blocks"][-1]["elements"][-1]["confirm"]["title"]["text"] == f"Cancel {experiment.id}?"
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


def test_what_runs_is_paused_and_resumed_from_its_progress_card(scene: Scene) -> None:
    """The cards are needed for something else for an hour; nothing of it is lost."""
    root, experiment, plan = scene.planned()
    scene.slack.press(LAB, plan["ts"], "run", ALICE)
    card = scene.card(root, "pause_experiment")
    scene.slack.press(LAB, card["ts"], "pause_experiment", ALICE)
    said = scene.wait(lambda: scene.whispered(root), "the whisper")
    scene.wait(lambda: "[Resume]" in scene.now(card), "the card")

    assert said == [f"{experiment.id}: 4 paused."]
    assert {run.state for run in scene.ledger.runs(experiment.id)} == {RunState.PAUSED}
    scene.slack.press(LAB, card["ts"], "resume_experiment", ALICE)
    scene.wait(lambda: {r.state for r in scene.ledger.runs(experiment.id)} == {RunState.QUEUED}, "the runs")


def test_a_stranger_cannot_pause_what_somebody_else_runs(scene: Scene) -> None:
    """Only its owner or an admin."""
    root, experiment, plan = scene.planned()
    scene.slack.press(LAB, plan["ts"], "run", ALICE)
    card = scene.card(root, "pause_experiment")
    scene.slack.press(LAB, card["ts"], "pause_experiment", BEN)
    said = scene.wait(lambda: scene.whispered(root, BEN), "the whisper")

    assert "only its owner or an admin" in said[0]
    assert {run.state for run in scene.ledger.runs(experiment.id)} == {RunState.QUEUED}


def test_what_failed_is_retried_from_the_report(scene: Scene) -> None:
    """One click in the morning, and only what failed runs again."""
    root, experiment, plan = scene.planned()
    scene.slack.press(LAB, plan["ts"], "run", ALICE)
    scene.wait(lambda: len(scene.ledger.runs(experiment.id)) == 4, "the runs")
    for number in (1, 2, 3):
        scene.finish(f"{experiment.id}/{number}")
    scene.ledger.fail(f"{experiment.id}/4", scene.start(f"{experiment.id}/4"), "user_code", "boom")
    failed = FailedRun(run_id=f"{experiment.id}/4", label="m", cause="user_code", message="boom")
    shown = made.report(experiment.id).model_copy(update={"failed": (failed,), "figures": ()})
    scene.ledger.save_report(experiment.id, 1, shown.model_dump_json(), {})
    card = scene.card(root, "retry_failed")
    scene.slack.press(LAB, card["ts"], "retry_failed", ALICE)
    said = scene.wait(lambda: scene.whispered(root), "the whisper")

    assert said == [f"Once more: {experiment.id}/4 as {experiment.id}/5. A new revision of the report follows."]
    assert scene.ledger.run(f"{experiment.id}/5").retry_of == f"{experiment.id}/4"


def test_a_notice_stands_once_in_the_thread(scene: Scene) -> None:
    """Told once, though the courier may hear of it twice."""
    root, experiment, _ = scene.planned()
    scene.ledger.notice(experiment.id, "stopped:resnet18 lr 0.1", "Stopped: <resnet18> failed three times.")
    scene.ledger.notice(experiment.id, "stopped:resnet18 lr 0.1", "Stopped: <resnet18> failed three times.")
    scene.card(root, "Stopped")

    shown = [scene.slack.shown(m) for m in scene.slack.thread(LAB, root)]
    assert sum("failed three times" in text for text in shown) == 1
