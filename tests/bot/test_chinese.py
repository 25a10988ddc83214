"""A thread in Chinese holds no English sentence: cards, dialogs, complaints, whispers, notices, questions, report."""

from __future__ import annotations

from typing import Any

import pytest

from agent import reporting
from lab import names
from tests.bot.conftest import ALICE, BEN, LAB
from tests.bot.test_conversations import Thread, thread  # noqa: F401  the fixture
from tests.bot.test_edits import opened, send
from tests.language import english
from workers import copies, disk
from workers.budget import told as budget_told

ASKED = "对比 resnet18 和 resnet34，数据集 digits，学习率 0.01，4 轮"
TERMS = ("val acc", "val loss", "batch size", "Batch size", "file exp")
"""They stay as they are; the last is the simulator's mark of an upload."""


def all_shown(thread: Thread) -> str:  # noqa: F811
    """Everything that anybody reads of the bot in the thread now, the one-person messages too."""
    slack, root = thread.scene.slack, thread.root
    said = [slack.shown(m) for m in slack.thread(LAB, root) if m.get("user") not in (ALICE, BEN)]
    return "\n".join([*said, *thread.scene.whispered(root), *thread.scene.whispered(root, BEN)])


def left_in_english(text: str) -> list[str]:
    for term in TERMS:
        text = text.replace(term, "")
    return english(text)


def test_a_night_in_chinese_has_no_english_sentence(
    thread: Thread,  # noqa: F811
    request: pytest.FixtureRequest,
) -> None:
    """From the plan over its corrections, refusals and troubles to the report."""
    scene, slack = thread.scene, thread.scene.slack
    names.publish(scene.client, {names.squash(name): name for name in ("resnet18", "resnet34", "resnet50")})
    request.addfinalizer(lambda: scene.client.delete(names.KEY))
    thread.say(ASKED)
    experiment, shown = thread.experiment, scene.card(thread.root, "'run'")
    slack.press(LAB, shown["ts"], "run", BEN)
    scene.wait(lambda: scene.whispered(thread.root, BEN), "the refusal")
    complaints = complained(thread, shown)
    thread.approve()
    for action in ("cancel", "edit"):
        slack.press(LAB, shown["ts"], action, ALICE, as_seen=shown)
    scene.wait(lambda: len(scene.whispered(thread.root)) == 2, "two refusals")
    thread.say("2")
    troubles(thread)
    thread.finish(range(1, experiment.n_runs + 1))
    reporting.write(experiment.id, 1)
    scene.wait(lambda: scene.find(thread.root, "report.md") or "curves.png" in all_shown(thread), "the report")
    text = all_shown(thread)

    assert "修改" in complaints
    assert left_in_english(complaints) == []
    assert left_in_english(text) == []
    for part in ("磁盘满了", "暂缓了", "预算", "没有这个编号的方案"):
        assert part in text


def complained(thread: Thread, shown: dict[str, Any]) -> str:  # noqa: F811
    """The words of the dialog, and what it complains of."""
    scene = thread.scene
    view = opened(scene, shown)
    send(scene, view, models="resnet5O", axes_lr="fast", axes_batch_size="0", epochs="0", axes_seed="2.5")
    errors: dict[str, str] = scene.wait(
        lambda: scene.slack.views and scene.slack.views[-1].get("errors"), "the complaints"
    )
    scene.slack.close_view(view["id"])
    assert set(errors) == {"models", "axes.lr", "axes.batch_size", "epochs", "axes.seed"}
    return "\n".join([words_of(view), *errors.values()])


def words_of(view: dict[str, Any]) -> str:
    """Title, buttons, labels and hints of a dialog."""
    texts = [view["title"]["text"], view["submit"]["text"], view["close"]["text"]]
    for block in view["blocks"]:
        texts += [part["text"] for key in ("label", "hint") if (part := block.get(key))]
        texts += [element.get("text", "") for element in block.get("elements", [])]
    return "\n".join(texts)


def troubles(thread: Thread) -> None:  # noqa: F811
    """What workers and leader tell a thread, in the texts that they make."""
    ledger, experiment = thread.scene.ledger, thread.experiment
    first, second, *_ = ledger.runs(experiment.id)
    failed = first.model_copy(update={"cause": "import_error", "message": "ModuleNotFoundError: timm", "advice": "no"})
    ledger.notice(experiment.id, "held:1", copies.held_text(failed, [second], "", chinese=True))
    ledger.notice(experiment.id, "disk:a", disk.notice("a", thread.scene.settings, chinese=True))
    ledger.notice(experiment.id, "budget:1", budget_told(experiment, [second.id], experiment.n_runs, "未运行：预算"))
    thread.scene.wait(lambda: "预算" in all_shown(thread), "the notices")


@pytest.mark.parametrize(
    "asked",
    [
        "对比 resnet18 和 resnet34，数据集 imagenet，4 轮",
        "训练 resnet18，digits，每个 run 4 张卡，4 轮",
        "训练 resnet18，digits，学习率 -1，4 轮",
        "在 digits 上随机搜索 resnet18 的学习率",
        "网格搜索学习率 1e-5 到 1e-2，resnet18，digits，最多 0.001 个 GPU 小时",
        "在 0.001 个 GPU 小时内找到 resnet18 最好的学习率，digits，9 轮",
        "重试 exp-9999",
        "第三个",
        "进度怎么样",
        "取消",
    ],
)
def test_what_cannot_start_is_told_in_chinese(thread: Thread, asked: str) -> None:  # noqa: F811
    """A question in another language is easily taken for a fault."""
    assert thread.say(asked)
    assert left_in_english(all_shown(thread)) == []
