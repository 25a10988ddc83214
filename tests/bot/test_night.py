"""One night in a thread: message, plan card, Run, progress, report; once each, whatever Slack repeats."""

from __future__ import annotations

from lab.report import Report, Row, Verdict
from tests.bot.conftest import ALICE, LAB, Scene

REPORT = Report(
    experiment_id="exp-1",
    title="resnet50 against efficientnet_b0 on digits",
    verdict=Verdict(headline="resnet50 is better", details=("both were still improving",)),
    rows=(Row(label="resnet50", model="resnet50", n_ok=3, n=3, mean=0.953, sd=0.013, low=0.92, high=0.98),),
    metric="val_acc",
    n_ok=4,
    gpu_hours=0.19,
    peak_memory_bytes=2 * 2**30,
    again="overnight ask 'compare ResNet50 vs EfficientNet'",
    figures=("curves.png",),
)
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 100


def test_a_message_becomes_a_report_in_its_thread(scene: Scene) -> None:
    """The main job of the bot, with the other processes played by the test."""
    with scene.bot():
        root, experiment, plan = scene.planned()
        shown = scene.slack.shown(plan)
        assert "4 runs = 2 models x 2 seeds, about 4 min on 3 cards, 0.2 GPU-h (rough: no history yet)" in shown
        assert "digits (the only data set on these hosts)" in shown
        assert "3 epochs, lr 0.001, 2 seeds (the lab's default)" in shown

        scene.slack.press(LAB, plan["ts"], "run", ALICE)
        scene.wait(lambda: "Approved by" in scene.slack.shown(scene.slack.message(LAB, plan["ts"])), "approval")
        assert "'run'" not in str(scene.slack.message(LAB, plan["ts"]))
        assert len(scene.ledger.runs(experiment.id)) == 4

        card = scene.card(root, "experiment_cancel")
        fence = scene.start("exp-1/1")
        scene.progress("exp-1/1", fence, 2)
        scene.wait(lambda: "epoch 2/3, val acc 0.200" in scene.slack.shown(scene.slack.message(LAB, card["ts"])))
        scene.finish("exp-1/1", fence)
        for number in (2, 3, 4):
            scene.finish(f"exp-1/{number}")
        scene.ledger.save_report("exp-1", 1, REPORT.model_dump_json(), {"curves.png": PNG})
        scene.card(root, "resnet50 is better")
        scene.wait(lambda: len(scene.slack.files) == 2, "the files")
        scene.wait(lambda: "4 of 4 done" in scene.slack.shown(scene.slack.message(LAB, card["ts"])), "the last state")

    assert "experiment_cancel" not in str(scene.slack.message(LAB, card["ts"]))
    assert [f.name for f in scene.slack.files] == ["curves.png", "report.md"]
    replies = scene.slack.thread(LAB, root)[1:]
    assert len(replies) == 4, scene.slack.transcript(LAB)
    assert "0.953 ± 0.013" in scene.slack.shown(replies[2])
    assert "again:" in scene.slack.shown(replies[2])
