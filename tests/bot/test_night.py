"""One night in a thread: message, plan card, Run, progress, report; once each, whatever is restarted."""

from __future__ import annotations

from bot.app import Bot
from tests.bot.conftest import ALICE, LAB, Scene
from tests.bot.made import PNG, report


def test_a_message_becomes_a_report_in_its_thread(scene: Scene) -> None:
    """The main job of the bot, with the other processes played by the test."""
    root, experiment, plan = scene.planned()
    shown = scene.slack.shown(plan)
    assert "4 runs = 2 models x 2 seeds, about 4 min on 3 cards, 0.2 GPU-h, rough: no history yet" in shown
    assert "digits (the only data set on these hosts)" in shown
    assert "3 epochs, lr 0.001, 2 seeds (the lab's default)" in shown

    scene.slack.press(LAB, plan["ts"], "run", ALICE)
    scene.wait(lambda: f"Approved by <@{ALICE}>" in scene.now(plan), "the approval")
    assert "'run'" not in str(scene.slack.message(LAB, plan["ts"]))
    assert len(scene.ledger.runs(experiment.id)) == 4

    card = scene.card(root, "cancel_experiment")
    fence = scene.start(f"{experiment.id}/1")
    scene.progress(f"{experiment.id}/1", fence, 2)
    scene.wait(lambda: "epoch 2/3, val acc 0.200" in scene.now(card), "the progress")
    scene.finish(f"{experiment.id}/1", fence)
    for number in (2, 3, 4):
        scene.finish(f"{experiment.id}/{number}")
    made = report(experiment.id)
    scene.ledger.save_report(experiment.id, 1, made.model_dump_json(), {"curves.png": PNG})
    verdict = scene.card(root, "resnet50 is better")
    files = scene.card(root, "report.md]")
    scene.wait(lambda: "4 of 4 done" in scene.now(card), "the last state")

    assert "cancel_experiment" not in str(scene.slack.message(LAB, card["ts"]))
    assert "val acc, mean ± sd" in scene.slack.shown(verdict)
    assert "0.953 ± 0.013" in scene.slack.shown(verdict)
    assert "again:" in scene.slack.shown(verdict)
    assert [f["name"] for f in files["files"]] == ["curves.png", "report.md"]
    assert len(scene.slack.thread(LAB, root)) == 5, scene.slack.transcript(LAB)


def test_a_bot_that_was_away_edits_the_same_messages_and_says_what_it_missed_once(alone: Scene) -> None:
    """Bots are restarted at night; people see one card each, with its last state."""
    with alone.bot():
        root, experiment, plan = alone.planned()
    alone.ledger.approve(experiment.id, ALICE)
    with alone.bot():
        card = alone.card(root, "cancel_experiment")
    for number in (1, 2, 3, 4):
        alone.finish(f"{experiment.id}/{number}")
    alone.ledger.save_report(experiment.id, 1, report(experiment.id).model_dump_json(), {"curves.png": PNG})
    with alone.bot():
        alone.card(root, "report.md]")
        alone.wait(lambda: "4 of 4 done" in alone.now(card), "the last state")

    assert "Approved by" in alone.now(plan)
    assert len(alone.slack.thread(LAB, root)) == 5, alone.slack.transcript(LAB)


def test_two_bots_in_a_row_leave_nothing_behind(alone: Scene) -> None:
    """Stopping is clean: no connection stays open, no thread keeps talking."""
    with alone.bot() as bot:
        alone.slack.wait_connected(2)
        assert bot.connections == 2
    alone.wait(lambda: alone.slack.connections == 0, "the connections to close")

    assert isinstance(bot, Bot)
    assert bot.connections == 0
