"""Socket Mode: acks and their times, redelivery, reconnects, several connections."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import websocket
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient

from bot.simulator import Simulator


@pytest.fixture
def slack() -> Iterator[Simulator]:
    """A simulator that waits 0.3 s for an ack and redelivers after 0, 0.2 and 0.3 s."""
    with Simulator(ack_timeout_s=0.3, redelivery_s=(0.0, 0.2, 0.3)) as simulator:
        yield simulator


def link(slack: Simulator) -> websocket.WebSocket:
    """A bare connection, after the hello."""
    url = WebClient(token=slack.app_token, base_url=slack.api_url).apps_connections_open(app_token=slack.app_token)
    socket = websocket.create_connection(url["url"], timeout=5, suppress_origin=True)
    assert json.loads(socket.recv())["type"] == "hello"
    return socket


def received(socket: websocket.WebSocket) -> dict[str, Any]:
    return dict(json.loads(socket.recv()))


def test_unacknowledged_event_comes_again_with_its_event_id(slack: Simulator) -> None:
    """Slack tries four times; the same event_id is what the bot deduplicates by."""
    socket = link(slack)
    slack.say("C0LAB", "U0ALICE", "hello")
    envelopes = [received(socket) for _ in range(4)]

    assert [e["retry_attempt"] for e in envelopes] == [0, 1, 2, 3]
    assert [e["retry_reason"] for e in envelopes] == ["", "timeout", "timeout", "timeout"]
    assert len({e["payload"]["event_id"] for e in envelopes}) == 1
    slack.wait_for(lambda: slack.deliveries[0].state == "given_up")
    socket.close()


def test_ack_ends_the_redelivery_and_is_timed(slack: Simulator) -> None:
    """The benchmark reads event-to-ack times from here."""
    socket = link(slack)
    ts = slack.say("C0LAB", "U0ALICE", "hello")
    envelope = received(socket)
    socket.send(json.dumps({"envelope_id": envelope["envelope_id"]}))
    (ack,) = slack.wait_for(lambda: slack.acks)

    assert (ack.event, ack.ts, ack.attempt, ack.late) == ("message", ts, 0, False)
    assert 0 < ack.latency_s <= ack.since_event_s < 0.3
    slack.wait_for(lambda: slack.deliveries[0].state == "acked")
    socket.close()


def test_late_ack_is_noted_and_does_not_count(slack: Simulator) -> None:
    """An ack after the limit comes too late: Slack has sent the event again."""
    socket = link(slack)
    slack.say("C0LAB", "U0ALICE", "hello")
    first, second = received(socket), received(socket)
    socket.send(json.dumps({"envelope_id": first["envelope_id"]}))
    socket.send(json.dumps({"envelope_id": second["envelope_id"]}))
    slack.wait_for(lambda: len(slack.acks) == 2)

    assert [ack.late for ack in slack.acks] == [True, False]
    socket.close()


def test_event_of_a_broken_connection_goes_to_the_other(slack: Simulator) -> None:
    """Nothing is lost when a connection breaks between delivery and ack."""
    first = link(slack)
    slack.say("C0LAB", "U0ALICE", "hello")
    lost = received(first)
    second = link(slack)
    first.close()
    again = received(second)

    assert again["payload"]["event_id"] == lost["payload"]["event_id"]
    assert (again["retry_attempt"], again["retry_reason"]) == (1, "connection_failed")
    second.close()


def test_app_reconnects_after_disconnect_and_after_a_cut(slack: Simulator, app: App) -> None:
    """Slack asks for a reconnect about once an hour, and networks break."""
    seen: list[str] = []

    @app.event("message")
    def note(event: dict[str, Any]) -> None:
        seen.append(event["text"])

    handler = SocketModeHandler(app, slack.app_token, ping_interval=0.1)  # five failed pings, and the cut is noticed
    handler.connect()
    slack.wait_connected()
    slack.disconnect()
    slack.wait_for(lambda: len([c for c in slack.calls if c.method == "apps.connections.open"]) == 2)
    slack.wait_connected()
    slack.say("C0LAB", "U0ALICE", "one")
    slack.wait_for(lambda: seen == ["one"])
    slack.drop_connections()
    assert slack.connections == 0
    slack.wait_connected()
    slack.say("C0LAB", "U0ALICE", "two")

    slack.wait_for(lambda: seen == ["one", "two"])
    handler.client.auto_reconnect_enabled = False
    slack.drop_connections()
    handler.close()


def test_command_without_ack_tells_the_person(slack: Simulator) -> None:
    """The trap of five blocked listeners: a command never acknowledged is an error that people see."""
    socket = link(slack)
    slack.command("/gpu-monitor")
    (told,) = slack.wait_for(lambda: slack.ephemerals)

    assert "operation_timeout" in told["text"]
    socket.close()


def test_ticket_opens_one_connection(slack: Simulator) -> None:
    """A URL that somebody else saw is of no use to them."""
    url = WebClient(base_url=slack.api_url).apps_connections_open(app_token=slack.app_token)["url"]
    websocket.create_connection(url, timeout=5, suppress_origin=True).close()

    with pytest.raises(websocket.WebSocketBadStatusException):
        websocket.create_connection(url, timeout=5, suppress_origin=True)
