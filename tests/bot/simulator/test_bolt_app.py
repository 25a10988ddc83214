"""The real slack-bolt and slack-sdk against the simulator, as the bot uses them."""

import threading
from typing import Any

import pytest
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient

from bot.simulator import Simulator

RUN = {"type": "button", "action_id": "run", "text": {"type": "plain_text", "text": "Run"}, "value": "exp-1"}
PLAN: list[dict[str, Any]] = [
    {"type": "section", "text": {"type": "mrkdwn", "text": "*exp-1*"}},
    {"type": "actions", "elements": [RUN]},
]


@pytest.fixture(autouse=True)
def _quiet(app: App, connected: SocketModeHandler) -> None:
    """Messages that no test listens to are still acknowledged, so that they are not redelivered."""

    @app.event("message")
    def other(event: dict[str, Any]) -> None:
        return None


def test_mention_becomes_a_thread_whose_button_is_pressed(slack: Simulator, app: App) -> None:
    """The bot's main path: a mention, a plan in its thread, a press, the plan edited in place."""

    @app.event("app_mention")
    def plan(event: dict[str, Any], client: WebClient) -> None:
        client.chat_postMessage(channel=event["channel"], thread_ts=event["ts"], text="plan", blocks=PLAN)

    @app.action("run")
    def run(ack: Any, body: dict[str, Any], client: WebClient) -> None:
        ack()
        place = {"channel": body["channel"]["id"], "ts": body["message"]["ts"]}
        client.chat_update(**place, text=f"{body['actions'][0]['value']} by {body['user']['id']}")

    ts = slack.say("C0LAB", "U0ALICE", "<@U0BOT> compare resnet50 and vit")
    card = slack.wait_for(lambda: slack.thread("C0LAB", ts)[1:])[0]
    slack.press("C0LAB", card["ts"], "run", user="U0BEN")
    slack.wait_for(lambda: "edited" in slack.message("C0LAB", card["ts"]))

    assert slack.shown(card) == "*exp-1*\n[Run]"
    after = slack.message("C0LAB", card["ts"])
    assert after["text"] == "exp-1 by U0BEN"
    assert "blocks" not in after, "an update without blocks takes them away"
    assert slack.message("C0LAB", ts)["reply_count"] == 1


def test_a_deleted_message_leaves_a_tombstone_where_it_had_replies(slack: Simulator, app: App) -> None:
    """Slack tells of the one as `message_deleted`, of the other as a change; a bot that knows one misses half."""
    told: list[tuple[str, str | None]] = []

    @app.middleware
    def hear(body: dict[str, Any], next: Any) -> None:
        event = body["event"]
        if "previous_message" in event:
            told.append((event["subtype"], (event.get("message") or {}).get("subtype")))
        next()

    alone, root = (slack.say("C0LAB", "U0ALICE", text) for text in ("alone", "root"))
    reply = slack.say("C0LAB", "U0BEN", "reply", root)
    for ts in (alone, root):
        slack.delete("C0LAB", ts)
    slack.wait_for(lambda: len(told) == 2)

    assert told == [("message_deleted", None), ("message_changed", "tombstone")]
    assert [m["ts"] for m in slack.messages("C0LAB")] == [root, reply]
    assert slack.transcript("C0LAB") == "slackbot: This message was deleted.\n    ben: reply"


def test_one_mention_arrives_as_mention_and_as_message(slack: Simulator, app: App) -> None:
    """Slack sends both with different event_ids; a bot that claims only event_ids answers twice."""
    seen: list[tuple[str, str, str]] = []

    @app.middleware
    def note(body: dict[str, Any], next: Any) -> None:
        seen.append((body["event"]["type"], body["event"]["ts"], body["event_id"]))
        next()

    @app.event("app_mention")
    def mention() -> None:
        return None

    ts = slack.say("C0LAB", "U0ALICE", "<@U0BOT> hello")
    slack.wait_for(lambda: len(seen) == 2)

    assert {(kind, at) for kind, at, _ in seen} == {("app_mention", ts), ("message", ts)}
    assert len({event_id for _, _, event_id in seen}) == 2


def test_direct_message_and_edit_arrive(slack: Simulator, app: App) -> None:
    """In a direct message there is no app_mention; an edit comes as message_changed with the text before it."""
    seen: list[dict[str, Any]] = []

    @app.middleware
    def note(body: dict[str, Any], next: Any) -> None:
        seen.append(body["event"])
        next()

    im = slack.im("U0ALICE")
    ts = slack.say(im, "U0ALICE", "<@U0BOT> status")
    slack.edit(im, ts, "list")
    slack.wait_for(lambda: len(seen) == 2)

    said, changed = sorted(seen, key=lambda event: event["event_ts"])
    assert (said["type"], said["channel_type"]) == ("message", "im")
    assert changed["subtype"] == "message_changed"
    assert (changed["previous_message"]["text"], changed["message"]["text"]) == ("<@U0BOT> status", "list")


def test_file_goes_up_and_comes_down(slack: Simulator, client: WebClient) -> None:
    """files_upload_v2 in three calls; the bytes are served back as an attachment."""
    ts = slack.say("C0LAB", "U0ALICE", "figures?")
    answer = client.files_upload_v2(
        channel="C0LAB", thread_ts=ts, content=b"\x89PNG\r\n\x1a\nrest", filename="c.png", initial_comment="here"
    )

    (file,) = slack.files
    assert (file.name, file.data, file.channels) == ("c.png", b"\x89PNG\r\n\x1a\nrest", ["C0LAB"])
    (reply,) = slack.thread("C0LAB", ts)[1:]
    assert reply["files"][0]["mimetype"] == "image/png"
    assert slack.shown(reply) == "here\n[file c.png]"
    assert answer["file"]["id"] == file.id


def test_slash_command_is_answered_in_private(slack: Simulator, app: App) -> None:
    """What goes with the ack and what goes to the response URL are both for the person alone."""

    @app.command("/gpu-monitor")
    def monitor(ack: Any, respond: Any, command: dict[str, Any]) -> None:
        ack("one moment")
        respond(f"cards for {command['user_name']}: {command['text']}")

    slack.command("/gpu-monitor", "all", user="U0BEN")
    slack.wait_for(lambda: len(slack.ephemerals) == 2)

    assert {(e["to"], e["text"]) for e in slack.ephemerals} == {
        ("U0BEN", "one moment"),
        ("U0BEN", "cards for ben: all"),
    }
    assert slack.messages("C0LAB") == []


def test_modal_opens_refuses_and_closes(slack: Simulator, app: App) -> None:
    """A modal needs a fresh trigger, stays open on errors, and hands its values over."""
    view = {
        "type": "modal",
        "callback_id": "edit",
        "title": {"type": "plain_text", "text": "Edit"},
        "submit": {"type": "plain_text", "text": "Save"},
        "blocks": [
            {
                "type": "input",
                "block_id": "lr",
                "label": {"type": "plain_text", "text": "lr"},
                "element": {"type": "plain_text_input", "action_id": "value"},
            }
        ],
    }
    saved: list[str] = []

    @app.command("/edit")
    def edit(ack: Any, body: dict[str, Any], client: WebClient) -> None:
        ack()
        client.views_open(trigger_id=body["trigger_id"], view=view)

    @app.view("edit")
    def save(ack: Any, view: dict[str, Any]) -> None:
        value = view["state"]["values"]["lr"]["value"]["value"]
        if value == "fast":
            ack(response_action="errors", errors={"lr": "a number, please"})
        else:
            saved.append(value)
            ack()

    def sent(value: str) -> None:
        slack.submit(shown["id"], {"lr": {"value": {"type": "plain_text_input", "value": value}}})

    slack.command("/edit")
    (shown,) = slack.wait_for(lambda: slack.views)
    sent("fast")
    slack.wait_for(lambda: slack.views[0].get("errors"))
    sent("3e-4")
    slack.wait_for(lambda: not slack.views)

    assert saved == ["3e-4"]


def test_button_of_an_older_view_of_the_message_still_arrives(slack: Simulator, app: App, client: WebClient) -> None:
    """Two people press at the same moment: the second click carries a button that has gone meanwhile."""
    pressed = threading.Event()

    @app.action("run")
    def run(ack: Any) -> None:
        ack()
        pressed.set()

    ts = str(client.chat_postMessage(channel="C0LAB", text="plan", blocks=PLAN)["ts"])
    seen = slack.message("C0LAB", ts)
    client.chat_update(channel="C0LAB", ts=ts, text="started")

    with pytest.raises(LookupError, match="no element 'run'"):
        slack.press("C0LAB", ts, "run")
    slack.press("C0LAB", ts, "run", as_seen=seen)
    assert pressed.wait(5)


def test_export_holds_the_conversation(slack: Simulator, client: WebClient) -> None:
    """The demo writes it to a file, so it must be JSON of the thread with its replies."""
    ts = slack.say("C0LAB", "U0ALICE", "hello")
    client.chat_postMessage(channel="C0LAB", thread_ts=ts, text="good evening")

    exported = slack.export("C0LAB", ts)

    assert [message["text"] for message in exported["channels"]["C0LAB"]] == ["hello", "good evening"]
    assert slack.transcript("C0LAB") == "alice: hello\n    overnight: good evening"
