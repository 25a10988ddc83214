"""What becomes a request: a mention or a direct message, once; and what does not."""

from __future__ import annotations

import json
import time

import pytest

from bot.listeners.words import typed
from bot.simulator import Simulator
from lab.run import Answer, ExperimentState, RequestState
from lab.settings import Settings
from tests.bot.conftest import ALICE, BEN, BOT, ESTIMATE, LAB, PLAN, Scene, settings_for


def test_a_mention_that_arrives_twice_and_again_is_one_request(valkey: Settings, alone: Scene) -> None:
    """Slack sends a mention as app_mention and as message, and both again when the ack is late."""
    with Simulator(ack_timeout_s=0.001, redelivery_s=(0.0, 0.1, 0.1)) as impatient:
        scene = Scene(impatient, settings_for(impatient, data_dir=valkey.data_dir, redis_url=alone.settings.redis_url))
        with scene.bot():
            ts, request = scene.ask(f"{BOT} compare ResNet50 &amp; EfficientNet, acc &gt; 0.9")
            scene.wait(lambda: sum(d.attempts for d in impatient.deliveries) >= 6, "redeliveries")
            time.sleep(0.3)

            assert len(scene.requests(ts)) == 1
            assert request.text == "compare ResNet50 & EfficientNet, acc > 0.9"
            assert request.user == ALICE


def test_a_direct_message_needs_no_mention_and_is_answered_in_its_thread(scene: Scene) -> None:
    """People write to the bot as to a colleague."""
    im = scene.slack.im(ALICE)
    ts, request = scene.ask("what runs?", im)
    scene.ledger.answer(request.id, Answer(kind="reply", text="nothing <!channel> & `more`", note="the model is away"))
    reply = scene.card(ts, "nothing", im)

    assert scene.slack.shown(reply).splitlines() == ["nothing &lt;!channel&gt; &amp; `more`", "the model is away"]
    assert "<!" not in reply["text"]


def test_talk_among_people_is_no_request(scene: Scene) -> None:
    """The bot hears every message of its channels; without its name they are none of its business."""
    ts = scene.slack.say(LAB, ALICE, "compare ResNet50 vs EfficientNet")
    scene.slack.say(LAB, BEN, f"I would ask <@{ALICE}>", ts)
    asked, _ = scene.ask()

    assert scene.requests(ts) == []
    assert len(scene.requests(asked)) == 1


def test_a_mention_in_a_thread_belongs_to_that_thread(scene: Scene) -> None:
    """`same but with lr 3e-4` is about the plan above it."""
    root, _ = scene.ask()
    scene.slack.say(LAB, ALICE, f"{BOT} same but with lr 3e-4", root)
    scene.wait(lambda: len(scene.requests(root)) == 2, "the second request")

    assert scene.requests(root)[1].text == "same but with lr 3e-4"


def test_an_edited_request_replaces_its_plan_while_that_waits(scene: Scene) -> None:
    """A typo is corrected where it stands; the plan with the typo must not be run by mistake."""
    root, experiment, card = scene.planned()
    scene.slack.edit(LAB, root, f"{BOT} compare ResNet18 vs EfficientNet")
    scene.wait(lambda: len(scene.requests(root)) == 2, "the new request")
    scene.wait(lambda: "Cancelled by" in scene.now(card), "the old card")

    assert scene.ledger.experiment(experiment.id).state == "cancelled"
    assert scene.requests(root)[1].text == "compare ResNet18 vs EfficientNet"


def test_an_edit_after_approval_changes_nothing_and_says_so(scene: Scene) -> None:
    """What runs is what was approved."""
    root, experiment, _ = scene.planned()
    scene.ledger.approve(experiment.id, ALICE)
    scene.slack.edit(LAB, root, f"{BOT} compare ResNet18 vs EfficientNet")
    said = scene.wait(lambda: scene.whispered(root), "the whisper")

    assert f"{experiment.id}, which is approved already" in said[0]
    assert len(scene.requests(root)) == 1


def test_an_edit_before_the_answer_leaves_one_plan(scene: Scene) -> None:
    """The agent was slow; a plan of the words that are gone would stand beside the new one."""
    root, first = scene.ask()
    scene.slack.edit(LAB, root, f"{BOT} compare ResNet18 vs EfficientNet")
    scene.wait(lambda: len(scene.requests(root)) == 2, "the new request")
    late = scene.ledger.propose(first.id, PLAN, ESTIMATE, Answer(kind="plan"))
    experiment = scene.propose(scene.requests(root)[1])
    scene.card(root, "'run'")

    assert late is None
    assert scene.ledger.request(first.id).answer == Answer(kind="withdrawn")
    assert [m for m in scene.slack.thread(LAB, root)[1:] if experiment.id not in scene.slack.shown(m)] == []


def test_a_deleted_request_withdraws_its_plan(scene: Scene) -> None:
    """Slack tells of a tombstone, since the plan card is a reply; the card stays and says what became of it."""
    root, experiment, card = scene.planned()
    scene.slack.delete(LAB, root)
    scene.wait(lambda: f"Cancelled by <@{ALICE}>; nothing ran." in scene.now(card), "the card")

    assert scene.ledger.experiment(experiment.id).state is ExperimentState.CANCELLED
    assert '"tombstone"' in json.dumps([d.payload["event"] for d in scene.slack.deliveries if d.kind == "events_api"])
    assert len(scene.requests(root)) == 1
    assert "[Run]" not in scene.now(card)


def test_a_request_deleted_before_its_answer_gets_none(scene: Scene) -> None:
    """Without a reply the message is just gone, and nothing may appear in its place."""
    root, request = scene.ask()
    scene.slack.delete(LAB, root)
    scene.wait(lambda: scene.ledger.request(request.id).state is RequestState.ANSWERED, "the end of the request")
    asked, _ = scene.ask()
    scene.propose(scene.requests(asked)[0])
    scene.card(asked, "'run'")  # by then anything about the first would have been said

    assert scene.ledger.request(request.id).answer == Answer(kind="withdrawn")
    assert scene.slack.thread(LAB, root) == []


def test_deleting_the_message_of_what_runs_stops_nothing_and_says_so(scene: Scene) -> None:
    """Hours of work are not lost by tidying up a channel."""
    root, experiment, _ = scene.planned()
    scene.ledger.approve(experiment.id, ALICE)
    scene.slack.delete(LAB, root)
    said = scene.wait(lambda: scene.whispered(root), "the whisper")

    assert f"{experiment.id}, which is approved already and is not stopped" in said[0]
    assert scene.ledger.experiment(experiment.id).state is ExperimentState.APPROVED


def test_a_deleted_answer_of_the_bot_withdraws_nothing(scene: Scene) -> None:
    """An admin tidies up; the plan was the asker's to withdraw."""
    _, experiment, card = scene.planned()
    scene.slack.workspace.delete(LAB, card["ts"], BEN)
    asked, _ = scene.ask()

    assert scene.requests(asked)
    assert scene.ledger.experiment(experiment.id).state is ExperimentState.PROPOSED


@pytest.mark.parametrize("text", ["", ":fire: :fire:", "x" * 11_000])
def test_odd_texts_are_requests_like_others(scene: Scene, text: str) -> None:
    """The bot judges nothing; the agent answers emoji, nothing at all, and novels."""
    _, request = scene.ask(f"{BOT} {text}")

    assert request.text == text


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("<@U0BOT|overnight> run <http://train.py|train.py>", "run train.py"),
        ("see <https://x.org/a?b=1&amp;c> in <#C1|lab>", "see https://x.org/a?b=1&c in #lab"),
        ("<@U0BEN> and <@U0BOT>", "<@U0BEN> and"),
        ("a &lt;b&gt; <!here>", "a <b> <!here>"),
    ],
)
def test_what_slack_made_of_the_words_is_undone(text: str, meant: str) -> None:
    """The reader sees what was typed, not what Slack turned into links."""
    assert typed(text, "U0BOT") == meant
