"""/gpu-monitor: every card, whoever publishes it, within Slack's limits."""

from __future__ import annotations

import time

from bot.render.cards import MOST_MESSAGES, cards
from bot.simulator.limits import slack_limits
from bot.simulator.validation import check_message
from lab import freecards, hosts
from lab.card import Card, HostCards
from lab.cardtable import CardUse
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


def test_who_asks_for_a_free_card_is_told_in_person_and_once(scene: Scene) -> None:
    """By the button, from a channel; the answer at once says what will happen."""
    scene.slack.command("/gpu-monitor", user=ALICE)
    hosts.publish_cards(scene.client, published("b", 1).model_copy(update={"problem": "no driver"}))
    scene.slack.command("/gpu-monitor", user=ALICE)
    shown = scene.wait(
        lambda: [e for e in scene.slack.ephemerals if "[Tell me when a card is free]" in scene.slack.shown(e)],
        "the button",
    )
    scene.slack.press(LAB, shown[-1]["ts"], "cards_tell", ALICE)
    scene.wait(lambda: [e for e in scene.slack.ephemerals if "told once" in scene.slack.shown(e)], "the promise")
    (wish,) = freecards.wishes(scene.client)
    free = published("b", 1).cards
    freecards.tell(scene.client, wish, free)
    freecards.tell(scene.client, wish, free)
    direct = scene.slack.im(ALICE)
    scene.wait(lambda: [m for m in scene.slack.messages(direct) if "Free now" in scene.slack.shown(m)], "the word")
    hosts.withdraw_cards(scene.client, "b")

    assert wish.user == ALICE
    said = [scene.slack.shown(m) for m in scene.slack.messages(direct) if "Free now" in scene.slack.shown(m)]
    assert said == ["Free now: GPU 0 of b (NVIDIA H200)."]


def test_whose_the_runs_are_and_how_old_the_readings_stands_below() -> None:
    """The table itself has the form that people know."""
    uses = {
        "GPU-a-0": CardUse("exp-3/1", "resnet50", 7, 600.0, ALICE),
        "GPU-a-1": CardUse("exp-4/1", "vit", owner="ann"),
    }
    now = time.time()
    (made,) = cards([published("a", 3)], uses, now + 2)
    small = " ".join(element["text"] for b in made.blocks if b["type"] == "context" for element in b["elements"])

    assert "training exp-3/1 resnet50 (PID 7), about 10 min left" in made.blocks[0]["text"]["text"]
    assert f"exp-3: <@{ALICE}>, exp-4: ann" in small
    assert "Read 2 s ago." in small


def test_what_does_not_fit_is_counted() -> None:
    """Never cut in silence."""
    many = [published(f"host-{i}", 8, "x" * 60) for i in range(80)]
    made = cards(many, {}, time.time())
    shown = sum(str(block).count("← ") for m in made for block in m.blocks if block["type"] == "section")
    said = str(made[-1].blocks)

    assert len(made) == MOST_MESSAGES
    assert f"{640 - shown} more cards do not fit here; `overnight cards` shows them all." in said


def test_many_cards_fit_slack_in_few_messages() -> None:
    """64 cards with long and hostile names, each with a run of somebody else's; not one is left out."""
    many = [published(f"host-{i}", 8, "`<!channel>` & " * 5) for i in range(8)]
    made = cards(many, {}, time.time())
    uses = {
        f"GPU-host-{i}-{j}": CardUse(f"exp-{8 * i + j}/1", "efficientnet_b0", 4711, 3600.0, f"U0PERSON{i}{j}")
        for i in range(8)
        for j in range(8)
    }
    for message in cards(many, uses, time.time()):
        check_message(message.text, list(message.blocks), None, slack_limits(), updating=True)
    for message in made:
        check_message(message.text, list(message.blocks), None, slack_limits(), updating=True)

    shown = "".join(block["text"]["text"] for m in made for block in m.blocks if block["type"] == "section")
    assert shown.count("← FREE") == 64
    assert len(made) <= 5
    assert "<!" not in shown
