"""/gpu-monitor: every card, whoever publishes it, within Slack's limits."""

from __future__ import annotations

import time

from bot.render.cards import cards
from bot.simulator.limits import slack_limits
from bot.simulator.validation import check_message
from lab import hosts
from lab.card import Card, HostCards
from tests.bot.conftest import ALICE, LAB, Scene


def published(host: str, count: int, name: str = "NVIDIA H200") -> HostCards:
    now = time.time()
    made = tuple(
        Card(uuid=f"GPU-{host}-{i}", index=i, name=name, host=host, simulated=True, read_at=now) for i in range(count)
    )
    return HostCards(host=host, cards=made, simulated=True, published_at=now)


def test_the_command_shows_cards_and_its_button_looks_again(scene: Scene) -> None:
    """Asked before every run; the first answer must not be the last."""
    scene.slack.command("/gpu-monitor", user=ALICE)
    nobody = scene.wait(lambda: [e for e in scene.slack.ephemerals if "No host publishes" in str(e)], "the sentence")
    hosts.publish_cards(scene.client, published("a", 2))
    scene.slack.press(LAB, nobody[0]["ts"], "cards_refresh", ALICE)
    shown = scene.wait(lambda: [e for e in scene.slack.ephemerals if "← FREE" in scene.slack.shown(e)], "the cards")
    hosts.withdraw_cards(scene.client, "a")

    text = scene.slack.shown(shown[0])
    assert shown[0]["ts"] == nobody[0]["ts"]
    assert "Simulated cards: they train on the CPU." in text
    assert text.count("← FREE") == 2
    assert "[Refresh]" in text


def test_many_cards_fit_slack_in_few_messages() -> None:
    """64 cards with long and hostile names; not one is left out."""
    many = [published(f"host-{i}", 8, "`<!channel>` & " * 5) for i in range(8)]
    made = cards(many, {}, time.time())
    for message in made:
        check_message(message.text, list(message.blocks), None, slack_limits(), updating=True)

    shown = "".join(block["text"]["text"] for m in made for block in m.blocks if block["type"] == "section")
    assert shown.count("← FREE") == 64
    assert len(made) <= 5
    assert "<!" not in shown
