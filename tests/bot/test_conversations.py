"""Threads of three turns and more, in both languages: the real bot and the real agent, runs played by the test.

Every number of an answer must be one that the ledger or the runs' metrics hold.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent import desk, intake
from agent.desk import Desk
from bot.outbox import Posted
from lab import hosts
from lab.card import Card, DataSet, Host, HostCards
from lab.plan import Plan
from lab.run import Experiment, Request, RequestState, RunResult
from tests.bot.conftest import ALICE, BOT, LAB, Scene
from workers.templates import TEMPLATES

OPENING = {
    "en": "compare resnet18 vs resnet34 on digits, lr 0.01, 3 seeds, 4 epochs",
    "zh": "对比 resnet18 和 resnet34，数据集 digits，学习率 0.01，3 个种子，4 轮",
}


@dataclass
class Thread:
    """One thread of Alice's with the bot."""

    scene: Scene
    root: str = ""
    asked: list[Request] = field(default_factory=list)

    def say(self, text: str) -> str:
        """Alice writes, the agent answers; what the newest message of the thread reads."""
        ts = self.scene.slack.say(LAB, ALICE, f"{BOT} {text}", self.root or None)
        self.root = self.root or ts
        self.scene.wait(lambda: len(self.scene.requests(self.root)) > len(self.asked), "the request")
        request = self.scene.requests(self.root)[-1]
        self.asked.append(request)
        intake.answer(request.id)
        answer = self.scene.ledger.request(request.id).answer
        assert answer is not None
        subject, kind = (answer.experiment_id, "plan") if answer.experiment_id else (request.id, "answer")
        posted = Posted(self.scene.client)
        shown: str = self.scene.wait(lambda: posted.get(str(subject), kind), f"an answer to {text!r}")
        return self.scene.slack.shown(self.scene.slack.message(LAB, shown))

    @property
    def experiment(self) -> Experiment:
        """The newest experiment of the thread."""
        return self.scene.ledger.experiments_in(self.asked[0].conversation)[-1]

    @property
    def plan(self) -> Plan:
        return self.experiment.plan

    def approve(self) -> Experiment:
        return self.scene.ledger.approve(self.experiment.id, ALICE)

    def finish(self, numbers: range, accuracy: Callable[[int], float] = lambda n: 0.9 + n / 1000) -> None:
        """These runs end with an accuracy of their own, and a falling loss."""
        experiment = self.experiment.id
        for number in numbers:
            fence = self.scene.start(f"{experiment}/{number}")
            curve: list[tuple[float, float | None]] = [(e, 2.0 / e + number / 100) for e in (1.0, 2.0, 3.0, 4.0)]
            metrics: dict[str, float | None] = {"val_acc": accuracy(number), "val_loss": curve[-1][1]}
            result = RunResult(metrics=metrics, curves={"val_loss": curve, "val_acc": [(4.0, accuracy(number))]})
            self.scene.ledger.finish(f"{experiment}/{number}", fence, result)


@pytest.fixture
def thread(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Thread:
    """A new thread; a host with digits and three cards is up, and no language model is set."""
    here = Desk(scene.settings, scene.client, scene.ledger)
    monkeypatch.setattr(desk, "current", lambda: here)
    schemas = {name: template.schema() for name, template in TEMPLATES.items()}
    sets = tuple(DataSet(name=n, present=True, train_samples=1437, image_size=32) for n in ("digits", "cifar10"))
    hosts.publish_host(scene.client, Host(host="a", version="0", templates=schemas, datasets=sets, speed_flops=1e10))
    cards = tuple(Card(uuid=f"G{i}", index=i, name="L20", host="a", read_at=time.time()) for i in range(3))
    hosts.publish_cards(scene.client, HostCards(host="a", cards=cards, published_at=time.time()))
    return Thread(scene)


def _axes(plan: Plan) -> dict[str, Any]:
    return {name: axis for name, axis in plan.axes.items() if name in ("lr", "batch_size", "seed")}


CHANGES: dict[str, tuple[dict[str, str], Callable[[Plan], Any], Any]] = {
    "rerun with a change": (
        {"en": "rerun it at half the learning rate", "zh": "学习率减半再跑一次"},
        lambda plan: (plan.axes["lr"], plan.epochs),
        ((0.005,), 4),
    ),
    "remove a model": ({"en": "without resnet34", "zh": "resnet34 不要了"}, lambda plan: plan.models, ("resnet18",)),
    "add a model": (
        {"en": "also add resnet50", "zh": "再加一个 resnet50"},
        lambda plan: plan.models,
        ("resnet18", "resnet34", "resnet50"),
    ),
    "more seeds": (
        {"en": "two more seeds please", "zh": "再加两个种子"},
        lambda plan: plan.axes["seed"],
        (0, 1, 2, 3, 4),
    ),
    "more epochs": ({"en": "5 more epochs", "zh": "再多跑 5 轮"}, lambda plan: plan.epochs, 9),
    "another batch": ({"en": "with batch 96", "zh": "batch 换成 96"}, lambda plan: plan.axes["batch_size"], (96,)),
}


@pytest.mark.parametrize("language", OPENING)
@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_edits_the_plan_of_its_thread(thread: Thread, kind: str, language: str) -> None:
    """The first plan, a change of it, and back to the first: all else stays as it was, and nothing starts unasked."""
    texts, look, wanted = CHANGES[kind]
    thread.say(OPENING[language])
    first = thread.plan

    card = thread.say(texts[language])

    assert look(thread.plan) == wanted
    changed = {name for name in _axes(first) if _axes(first)[name] != _axes(thread.plan)[name]}
    assert len(changed) + (thread.plan.models != first.models) + (thread.plan.epochs != first.epochs) == 1
    assert str(thread.plan.n_runs) in card
    assert thread.experiment.approved_at is None

    thread.say({"en": "go back to the first one", "zh": "回到第一个方案"}[language])

    assert (thread.plan.models, _axes(thread.plan), thread.plan.epochs) == (first.models, _axes(first), first.epochs)
    assert len(thread.scene.ledger.experiments_in(thread.asked[0].conversation)) == 3


@pytest.mark.parametrize("language", OPENING)
def test_one_run_is_stopped_and_the_others_go_on(thread: Thread, language: str) -> None:
    """Plan, start, stop one; asked again, the thread says that there is nothing left of it to stop."""
    thread.say(OPENING[language])
    experiment = thread.approve()
    stop = {"en": "stop run 2", "zh": "停掉第 2 个 run"}[language]

    said = thread.say(stop)

    assert f"{experiment.id}/2" in said
    states = {run.number: run.state.value for run in thread.scene.ledger.runs(experiment.id)}
    assert states.pop(2) == "cancelled"
    assert set(states.values()) == {"queued"}

    again = thread.say(stop)

    assert {"en": "Nothing to cancel", "zh": "没有可取消的"}[language] in again


@pytest.mark.parametrize("language", OPENING)
def test_why_a_run_failed_is_told_with_evidence_and_advice(thread: Thread, language: str) -> None:
    """Cause, the deciding line, what was tried and what the person can do: all of it from the ledger."""
    thread.say(OPENING[language])
    experiment = thread.approve()
    fence = thread.scene.start(f"{experiment.id}/2")
    evidence = "CUDA out of memory. Tried to allocate 2.50 GiB"
    thread.scene.ledger.fail(f"{experiment.id}/2", fence, "oom_gpu", evidence, advice="use a smaller batch")

    said = thread.say({"en": "why did run 2 fail?", "zh": "run 2 为什么挂了？"}[language])

    assert "oom_gpu" in said
    assert evidence in said
    assert {"en": "what you can do: use a smaller batch", "zh": "你可以：显存不足"}[language] in said

    status = thread.say({"en": "what is the status?", "zh": "现在进度怎么样？"}[language])

    assert {"en": "1 of 6 runs done, 1 of them failed", "zh": "6 个 run 完成 1 个（其中 1 个失败）"}[language] in status


@pytest.mark.parametrize("language", OPENING)
def test_curves_and_the_gap_are_told_from_the_metrics(thread: Thread, language: str) -> None:
    """The loss as measured, and a verdict that comes from the report; no number that nobody measured."""
    from agent import report as reports

    thread.say(OPENING[language])
    experiment = thread.approve()
    thread.finish(range(1, 7), lambda n: 0.95 + n / 1000 if n % 2 else 0.80 + n / 1000)

    drawn = thread.say({"en": "just the validation loss as a plot", "zh": "只画一下验证集 loss"}[language])

    lines = [line for line in drawn.splitlines() if "█" in line]
    assert len(lines) == 6
    for number, line in enumerate(lines, 1):
        first, last = 2.0 + number / 100, 0.5 + number / 100
        assert re.findall(r"\d\.\d{3}", line) == [f"{first:.3f}", f"{last:.3f}", f"{last:.3f}"]

    runs = thread.scene.ledger.runs(experiment.id)
    built, figures = reports.build(thread.scene.ledger.experiment(experiment.id), runs, time.time())
    thread.scene.ledger.save_report(experiment.id, 1, built.model_dump_json(), figures)
    thread.scene.card(thread.root, "report.md]")
    said = thread.say({"en": "is that gap real?", "zh": "这个差距是真的吗？"}[language])

    assert built.verdict.headline in said
    assert {"en": "better", "zh": "优于"}[language] in said


ENGLISH = re.compile(
    r"\b(?:the|and|runs?|models|seeds|epochs|assumed|about|done|left|queued|waiting|approved|by|nothing|cancel|only|with)\b",
    re.IGNORECASE,
)
KEPT = re.compile(r"\b\d+ 个 run\b|每个 run|exp-\d+(?:/\d+)?|`[^`]*`|按 Run|run\b(?= (?:完成|\d))", re.IGNORECASE)


def test_a_chinese_thread_reads_chinese(thread: Thread) -> None:
    """Plan card, progress, answers and refusals; names, units and buttons' ids stay."""
    thread.say(OPENING["zh"])
    thread.approve()
    thread.scene.card(thread.root, "cancel_experiment")
    thread.say("进度")
    thread.say("停掉第 2 个 run")
    thread.say("停掉第 2 个 run")
    thread.say("取消 exp-999999")
    thread.say("把小王的任务停掉")

    shown = [thread.scene.slack.shown(m) for m in thread.scene.slack.thread(LAB, thread.root)[1:]]
    english = {text: ENGLISH.findall(KEPT.sub("", text)) for text in shown}
    assert {text: words for text, words in english.items() if words} == {}


def test_all_requests_have_an_answer(thread: Thread) -> None:
    """The same thread in a row of everything: no turn is left without an answer."""
    for text in (OPENING["en"], "batch 96", "undo that", "thanks!", "what can you do?", "any free gpus?"):
        thread.say(text)

    assert {request.state for request in thread.scene.requests(thread.root)} == {RequestState.ANSWERED}
