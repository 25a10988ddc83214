"""Alerts in Slack: one message each, brought up to date, with buttons that do what they say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bot.courier import alert_notes, operators
from keeper import alerts as engine
from keeper.alerts import Policy
from keeper.rules import Finding, load_rules
from lab.alert import Alert, Alerts, AlertState, Board, Outcome
from lab.events import Event
from lab.settings import AlertSettings, Settings
from tests.bot.conftest import ALICE, BEN, LAB, Scene

CHANNEL = "C0ALERTS"
RULES = {rule.name: rule for rule in load_rules({})[0]}
POLICY = Policy(group_s=0.0, silence_s=60.0, repeat_s=3600.0)


@dataclass
class Lab:
    """A bot whose alerts go to a channel, and an engine whose clock the test turns."""

    scene: Scene
    channel: str
    now: float

    @property
    def alerts(self) -> Alerts:
        return Alerts(self.scene.client)

    def find(self, rule: str, verdict: Any = "firing", later_s: float = 0.0, **labels: str) -> Alert:
        """The rule finds this now, or `later_s` from now."""
        self.now += later_s
        labels = {"host": "node07", "card": "GPU-1", "index": "1", **labels}
        finding = Finding(
            RULES[rule],
            labels.get("run") or labels["card"],
            verdict,
            labels,
            f"GPU {labels['index']}: fell <off> the bus",
            f"{labels['host']} has lost cards",
            "`nvidia-smi` tells more",
            labels.get("conversation", ""),
        )
        self.step([finding])
        return next(a for a in self.alerts.board().alerts.values() if a.fingerprint == finding.fingerprint)

    def step(self, findings: list[Finding]) -> None:
        def decide(board: Board) -> Outcome:
            return engine.step(board, findings, POLICY, self.now)

        self.alerts.change(decide)

    def root(self, word: str) -> dict[str, Any]:
        """The one message of the channel with this word."""

        def found() -> list[dict[str, Any]]:
            return [m for m in self.roots() if word in self.scene.slack.shown(m)]

        self.scene.wait(found, f"a message with {word!r}")
        assert len(found()) == 1
        return found()[0]

    def roots(self) -> list[dict[str, Any]]:
        return [m for m in self.scene.slack.messages(self.channel) if m.get("thread_ts", m["ts"]) == m["ts"]]


@pytest.fixture
def lab(alone: Scene) -> Iterator[Lab]:
    """Alerts go to the lab's channel."""
    alone.settings = alone.settings.model_copy(update={"alerts": AlertSettings(channel=LAB)})
    with alone.bot():
        yield Lab(alone, LAB, time.time())


def test_an_alert_is_one_message_that_ends_as_resolved(lab: Lab) -> None:
    """A channel with a message for every change is a channel that everybody mutes."""
    alert = lab.find("card_lost")
    root = lab.root("node07 has lost cards")
    before = lab.scene.slack.shown(root)
    lab.find("card_lost", later_s=1, card="GPU-2", index="2")
    for card in ("GPU-1", "GPU-2"):
        lab.find("card_lost", "clear", later_s=30, card=card)
    lab.scene.wait(lambda: "resolved" in lab.scene.now(root, LAB), "the end")
    lab.scene.wait(lambda: len(lab.scene.slack.thread(LAB, root["ts"])) == 2, "the line in the thread")

    assert "critical: node07 has lost cards" in before
    assert "fell &lt;off&gt; the bus" in before
    assert "nvidia-smi" in before
    assert "[Acknowledge]" in before
    assert "Acknowledge" not in lab.scene.now(root, LAB)
    assert len(lab.roots()) == 1
    assert lab.alerts.alert(alert.id).state is AlertState.RESOLVED


def test_somebody_looks_after_it_and_is_named(lab: Lab) -> None:
    """Then nobody else needs to, and no reminder comes."""
    alert = lab.find("card_lost")
    root = lab.root("has lost cards")
    lab.scene.slack.press(LAB, root["ts"], "alert_acknowledge", BEN)
    lab.scene.wait(lambda: "acknowledged by <@U0BEN>" in lab.scene.now(root), "the name")
    lab.scene.slack.press(LAB, root["ts"], "alert_acknowledge", ALICE, as_seen=root)
    said = lab.scene.wait(lambda: lab.scene.whispered(root["ts"]), "the refusal")

    assert lab.alerts.alert(alert.id).state is AlertState.ACKNOWLEDGED
    assert "[Acknowledge]" not in lab.scene.now(root)
    assert said == [f"{alert.id} is acknowledged already."]


def test_an_alert_is_silenced_by_its_buttons_and_says_until_when(lab: Lab) -> None:
    """One hour, or until the morning."""
    alert = lab.find("disk_low")
    root = lab.root("node07")
    lab.scene.slack.press(LAB, root["ts"], "alert_silence_1h", BEN)
    lab.scene.wait(lambda: "silenced until" in lab.scene.now(root), "the silence")
    option = {"selected_option": {"value": f"{alert.id} monday", "text": {"type": "plain_text", "text": "Monday"}}}
    lab.scene.slack.press(LAB, root["ts"], "alert_silence_until", BEN, chosen=option)
    lab.scene.wait(lambda: len(lab.alerts.board().silences) == 2, "the second silence")
    first, second = sorted(lab.alerts.board().silences.values(), key=lambda s: s.at)

    assert first.until - first.at == pytest.approx(3600, abs=1)
    assert time.localtime(second.until)[6:7] == (0,)
    assert time.localtime(second.until).tm_hour == 8
    assert "by <@U0BEN>" in lab.scene.now(root)


def test_a_dying_card_cannot_be_silenced(lab: Lab) -> None:
    """It can be acknowledged."""
    lab.find("card_lost")
    shown = lab.scene.slack.shown(lab.root("has lost cards"))

    assert "[Acknowledge]" in shown
    assert "Silence" not in shown


def test_a_runs_alert_stands_in_its_thread_and_shows_the_run(lab: Lab) -> None:
    """Whoever asked for the run reads it there, once, however often it fails."""
    scene = lab.scene
    thread, experiment, _ = scene.planned()
    scene.ledger.approve(experiment.id, ALICE)
    run = f"{experiment.id}/1"
    scene.ledger.fail(run, scene.start(run), "oom", "CUDA out of memory")
    labels = {"run": run, "experiment": experiment.id, "cause": "oom", "conversation": experiment.conversation}
    for _ in range(5):
        lab.find("run_failed", "happened", **labels)
    card = scene.card(thread, "alert_show_run")
    scene.slack.press(LAB, card["ts"], "alert_show_run", ALICE)
    said = scene.wait(lambda: scene.whispered(thread), "the run")
    lab.now += 61
    lab.step([])
    scene.wait(lambda: "x5 since" in scene.now(card), "the count")

    assert said[0].startswith(f"{run} resnet50 seed 0: failed: oom, card 0 of host\nCUDA out of memory")
    assert sum("alert_show_run" in str(m.get("blocks")) for m in scene.slack.thread(LAB, thread)) == 1


def test_what_was_held_back_is_said_when_a_silence_ends(lab: Lab) -> None:
    """Where it was asked for."""
    scene = lab.scene
    thread, request = scene.ask()
    lab.alerts.be_quiet("host", "node07", lab.now + 600, ALICE, lab.now, request.conversation)
    lab.find("disk_low")
    lab.find("disk_low", "clear", later_s=60)
    lab.now += 600
    lab.step([])
    scene.card(thread, "Held back: node07 has lost cards")

    assert len(lab.roots()) == 1


def test_without_a_channel_each_admin_gets_a_direct_message(alone: Scene) -> None:
    """And its buttons work there."""
    alone.settings = alone.settings.model_copy(update={"admins": (ALICE, "root", BEN)})
    with alone.bot():
        for user in (ALICE, BEN):
            lab = Lab(alone, alone.slack.im(user), time.time())
            alert = lab.find("card_lost")
            assert "has lost cards" in alone.slack.shown(lab.root("has lost cards"))
        root = lab.root("has lost cards")
        alone.slack.press(lab.channel, root["ts"], "alert_acknowledge", BEN)
        alone.wait(lambda: "acknowledged" in alone.now(root, lab.channel), "the acknowledgement")

    assert lab.alerts.alert(alert.id).acknowledged_by == BEN


def test_a_channel_that_refuses_the_bot_does_not_hide_an_alert(alone: Scene) -> None:
    """Nobody invited it, or somebody archived the channel: the admins read it instead, and its end too."""
    wrong = AlertSettings(channel="C0PRIVATE")
    alone.settings = alone.settings.model_copy(update={"admins": (BEN,), "alerts": wrong})
    with alone.bot():
        lab = Lab(alone, alone.slack.im(BEN), time.time())
        lab.find("card_lost")
        root = lab.root("has lost cards")
        lab.find("card_lost", "clear", later_s=60)
        alone.wait(lambda: "resolved" in alone.now(root, lab.channel), "the end")


def test_a_bot_that_starts_anew_posts_nothing_again(alone: Scene) -> None:
    """Nor does a post whose answer was lost stand there twice."""
    alone.settings = alone.settings.model_copy(update={"alerts": AlertSettings(channel=LAB)})
    lab = Lab(alone, LAB, time.time())
    with alone.bot():
        alone.slack.fault("chat.postMessage", hang_up=True, after=True)
        lab.find("card_lost")
        lab.root("has lost cards")
        alone.wait(lambda: not alone.client.exists("on:slack:outbox", "on:slack:outbox:sending"), "an empty outbox")
    lab.find("card_lost", later_s=1, card="GPU-2", index="2")
    with alone.bot():
        lab.now += 61
        lab.step([])
        root = lab.root("has lost cards")
        alone.wait(lambda: "GPU 2" in alone.now(root), "the second card")

    assert len(lab.roots()) == 1


def test_what_is_over_while_slack_is_away_is_not_posted(alone: Scene) -> None:
    """A call in the morning about what was well by midnight helps nobody; what lasts is posted."""
    alone.settings = alone.settings.model_copy(update={"alerts": AlertSettings(channel=LAB)})
    lab = Lab(alone, LAB, time.time())
    lab.find("card_lost")
    lab.find("card_lost", "clear", later_s=10)
    lab.find("disk_low", host="node08")
    with alone.bot():
        lab.root("node08")
        alone.wait(lambda: not alone.client.exists("on:slack:outbox", "on:slack:outbox:sending"), "an empty outbox")

    assert len(lab.roots()) == 1


def test_hostile_words_and_many_members_make_a_message_that_slack_takes(lab: Lab) -> None:
    """Names come from hosts, drivers and people."""
    nasty = "<!channel> *bold* `code` & " + "x" * 4000
    found = [
        Finding(RULES["card_lost"], f"GPU-{n}", "firing", {"host": "node07", "card": f"GPU-{n}"}, nasty, nasty, nasty)
        for n in range(60)
    ]
    lab.step(found)
    lab.scene.wait(lab.roots, "the message")
    root = lab.roots()[0]

    assert len(root["blocks"]) > 1, "it went out as plain text: Slack refused its blocks"
    assert "<!channel" not in str(root["blocks"])
    assert "and 32 more" in lab.scene.slack.shown(root)


def test_routes(settings: Settings) -> None:
    """The thread of the experiment, else the channel, else the admins that Slack knows, else nobody."""
    here = Event(kind="alert.firing", subject="al-1", conversation="slack:T:C0LAB:1.2")
    terminal = Event(kind="alert.firing", subject="al-1", conversation="terminal:alice:1")
    channel = settings.model_copy(update={"alerts": AlertSettings(channel=CHANNEL), "admins": (ALICE,)})
    admins = settings.model_copy(update={"admins": (ALICE, "root")})

    assert [n.place.name for n in alert_notes(here, operators(channel))] == ["slack:T:C0LAB:1.2"]
    assert [n.place.name for n in alert_notes(terminal, operators(channel))] == [f"slack::{CHANNEL}:"]
    assert [n.place.name for n in alert_notes(terminal, operators(admins))] == [f"slack::{ALICE}:"]
    assert alert_notes(terminal, operators(settings)) == []
    assert alert_notes(Event(kind="run.failed", subject="exp-1/1"), operators(channel)) == []
