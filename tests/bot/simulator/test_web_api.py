"""The Web API's answers to what is wrong: tokens, arguments, other people's messages, faults and rate limits."""

import json
import time
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.simulator import Simulator
from bot.simulator.limits import RateLimits
from bot.simulator.rates import Rates

BAR = [{"type": "section", "text": {"type": "mrkdwn", "text": "bar"}}]


def error_of(client: WebClient, method: str, **arguments: Any) -> str:
    """The code with which Slack refuses the call."""
    with pytest.raises(SlackApiError) as caught:
        client.api_call(method, json=arguments)
    return str(caught.value.response["error"])


@pytest.mark.parametrize(
    ("token", "code"), [("", "not_authed"), ("xoxb-wrong", "invalid_auth"), ("app", "not_allowed_token_type")]
)
def test_wrong_token_is_refused(slack: Simulator, token: str, code: str) -> None:
    """A mixed-up configuration is seen in the first call."""
    given = slack.app_token if token == "app" else token

    assert error_of(WebClient(token=given, base_url=slack.api_url), "chat.postMessage", channel="C0LAB") == code


@pytest.mark.parametrize(
    ("method", "arguments", "code"),
    [
        ("chat.startStream", {}, "unknown_method"),
        ("chat.postMessage", {"channel": "C404", "text": "x"}, "channel_not_found"),
        ("chat.postMessage", {"channel": "C0PRIVATE", "text": "x"}, "not_in_channel"),
        ("chat.postMessage", {"channel": "C0LAB"}, "no_text"),
        ("chat.postMessage", {"channel": "C0LAB", "blocks": "{"}, "invalid_blocks_format"),
        ("chat.postMessage", {"channel": "C0LAB", "text": "x", "thread_ts": 1.5}, "invalid_arguments"),
        ("chat.postMessage", {"channel": "C0LAB", "text": "x", "thread_ts": "1700000000.000100"}, "thread_not_found"),
        ("chat.update", {"channel": "C0LAB", "ts": "1700000000.000100", "text": "x"}, "message_not_found"),
        ("conversations.replies", {"channel": "C0LAB", "ts": "1700000000.000100"}, "thread_not_found"),
        ("reactions.add", {"channel": "C0LAB", "timestamp": "1700000000.000100", "name": "x"}, "message_not_found"),
        ("users.info", {"user": "U404"}, "user_not_found"),
        ("views.open", {"trigger_id": "1", "view": {"type": "home", "blocks": []}}, "invalid_arguments"),
        ("files.completeUploadExternal", {"files": [{"id": "F404"}]}, "file_not_found"),
    ],
)
def test_call_is_refused(client: WebClient, method: str, arguments: dict[str, Any], code: str) -> None:
    """Each with Slack's own code and HTTP status 200."""
    assert error_of(client, method, **arguments) == code


def test_other_peoples_messages_are_not_edited(slack: Simulator, client: WebClient) -> None:
    """A bot edits only what it said."""
    ts = slack.say("C0LAB", "U0ALICE", "mine")

    assert error_of(client, "chat.update", channel="C0LAB", ts=ts, text="yours") == "cant_update_message"
    assert error_of(client, "chat.delete", channel="C0LAB", ts=ts) == "cant_delete_message"


def test_reply_to_a_reply_is_refused(slack: Simulator, client: WebClient) -> None:
    """Slack would make an orphaned thread of it, which nobody sees."""
    root = slack.say("C0LAB", "U0ALICE", "root")
    reply = slack.say("C0LAB", "U0BEN", "reply", thread_ts=root)

    code = error_of(client, "chat.postMessage", channel="C0LAB", text="x", thread_ts=reply)
    assert code == "cannot_reply_to_message"


def test_complaints_name_the_place(client: WebClient) -> None:
    """The bot logs response_metadata.messages, so they have Slack's form."""
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}]
    with pytest.raises(SlackApiError) as caught:
        client.chat_postMessage(channel="C0LAB", text="x", blocks=blocks)

    assert caught.value.response["response_metadata"]["messages"] == [
        "[ERROR] must be less than 3001 characters [json-pointer:/blocks/0/text/text]"
    ]


def test_form_body_is_read_like_json(slack: Simulator) -> None:
    """Older clients and curl send forms, with blocks as JSON in a field."""
    fields = {"token": slack.bot_token, "channel": "#lab-gpus", "text": "t", "blocks": json.dumps(BAR)}
    with urlopen(f"{slack.api_url}chat.postMessage", urlencode(fields).encode(), timeout=5) as answer:
        assert json.load(answer)["ok"] is True

    (message,) = slack.messages("C0LAB")
    assert message["blocks"][0]["text"]["text"] == "bar"
    assert message["blocks"][0]["block_id"], "Slack fills in what is missing"


def test_ephemeral_and_reaction_and_permalink(slack: Simulator, client: WebClient) -> None:
    """The small calls work, and a second equal reaction is refused as Slack does."""
    ts = slack.say("C0LAB", "U0ALICE", "hello")
    client.chat_postEphemeral(channel="C0LAB", user="U0ALICE", text="psst")
    client.reactions_add(channel="C0LAB", timestamp=ts, name="eyes")

    assert error_of(client, "reactions.add", channel="C0LAB", timestamp=ts, name="eyes") == "already_reacted"
    assert slack.message("C0LAB", ts)["reactions"] == [{"name": "eyes", "users": ["U0BOT"], "count": 1}]
    assert [e["text"] for e in slack.ephemerals] == ["psst"]
    link = client.chat_getPermalink(channel="C0LAB", message_ts=ts)["permalink"]
    assert link.endswith(f"/archives/C0LAB/p{ts.replace('.', '')}")


def test_history_is_paged_newest_first_without_replies(slack: Simulator, client: WebClient) -> None:
    """What a bot reads after a restart."""
    ts = [slack.say("C0LAB", "U0ALICE", str(number)) for number in range(3)]
    slack.say("C0LAB", "U0BEN", "reply", thread_ts=ts[0])

    first = client.conversations_history(channel="C0LAB", limit=2)
    rest = client.conversations_history(channel="C0LAB", cursor=first["response_metadata"]["next_cursor"])
    assert [m["text"] for m in first["messages"]] == ["2", "1"]
    assert [m["text"] for m in rest["messages"]] == ["0"]
    assert [m["text"] for m in client.conversations_replies(channel="C0LAB", ts=ts[0])["messages"]] == ["0", "reply"]


def test_response_url_works_five_times(slack: Simulator, client: WebClient) -> None:
    """A bot that reports a long training through it falls silent; the simulator shows that at once."""
    payload = slack.command("/gpu-monitor").payload
    request = Request(payload["response_url"], json.dumps({"text": "x"}).encode(), {"Content-Type": "application/json"})
    for _ in range(5):
        urlopen(request, timeout=5).close()

    with pytest.raises(HTTPError) as caught:
        urlopen(request, timeout=5)
    assert (caught.value.code, json.load(caught.value)["error"]) == (404, "used_url")


def test_trigger_works_once(slack: Simulator, client: WebClient) -> None:
    """A trigger is for one modal."""
    view = {"type": "modal", "title": {"type": "plain_text", "text": "t"}, "blocks": BAR}
    trigger = slack.command("/edit").payload["trigger_id"]
    client.views_open(trigger_id=trigger, view=view)

    assert error_of(client, "views.open", trigger_id=trigger, view=view) == "exchanged_trigger_id"


def test_faults_happen_as_often_as_asked(slack: Simulator, client: WebClient) -> None:
    """Error, rate limit and a lost answer, then all is well again."""
    slack.fault("chat.postMessage", error="internal_error")
    assert error_of(client, "chat.postMessage", channel="C0LAB", text="x") == "internal_error"

    slack.fault("chat.postMessage", retry_after_s=7)
    with pytest.raises(SlackApiError) as caught:
        client.chat_postMessage(channel="C0LAB", text="x")
    assert (caught.value.response.status_code, caught.value.response.headers["Retry-After"]) == (429, "7")

    slack.fault("chat.postMessage", hang_up=True, after=True)
    unretried = WebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    with pytest.raises(OSError):  # noqa: PT011 - which of them depends on the moment of the hang-up
        unretried.chat_postMessage(channel="C0LAB", text="posted, but nobody knows")

    client.chat_postMessage(channel="C0LAB", text="last")
    assert [m["text"] for m in slack.messages("C0LAB")] == ["posted, but nobody knows", "last"]


def test_rate_limits_by_channel_and_for_all_updates(slack: Simulator) -> None:
    """Posts: a burst, then one a second in each channel. Updates: one budget for the workspace. Time is an argument."""
    now_s = 0.0
    limits = RateLimits(posts_per_s=1.0, post_burst=2, updates_per_minute=50, others_per_minute=100)
    rates = Rates(limits, enforced=True, clock=lambda: now_s)

    assert [rates.wait_s("chat.postMessage", "C1") for _ in range(3)] == [0, 0, 1]
    assert rates.wait_s("chat.postMessage", "C2") == 0
    assert sum(rates.wait_s("chat.update", f"C{n}") == 0 for n in range(60)) == 50
    now_s = 1.2
    assert rates.wait_s("chat.postMessage", "C1") == 0
    assert [rates.wait_s("chat.update", "C1") for _ in range(2)] == [0, 2]


def test_enforced_rates_answer_429(slack: Simulator, client: WebClient) -> None:
    """The outbox is tried against the real status and header."""
    slack.enforce_rates()
    for _ in range(5):
        client.chat_postMessage(channel="C0LAB", text="x")

    with pytest.raises(SlackApiError) as caught:
        client.chat_postMessage(channel="C0LAB", text="x")
    assert caught.value.response.headers["Retry-After"] == "1"


def test_slow_api_is_slow(slack: Simulator, client: WebClient) -> None:
    """For tests of timeouts."""
    slack.slow(api_s=0.2)
    began_s = time.monotonic()
    client.auth_test()

    assert time.monotonic() - began_s >= 0.2
