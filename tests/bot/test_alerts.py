"""Alerts in Slack: one message each, brought up to date, with buttons that do what they say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from keeper import alerts as engine
from keeper.alerts import Policy
from keeper.rules import Finding, load_rules
from lab.alert import Alert, Alerts, AlertState, Board, Outcome
from lab.settings import AlertSettings
from tests.bot.conftest import LAB, Scene

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
