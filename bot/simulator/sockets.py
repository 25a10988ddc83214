"""Socket Mode: connections of the app, envelopes sent to it, acks, redelivery, and the order to reconnect."""

import asyncio
import itertools
import json
import logging
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import WSCloseCode, WSMsgType, web

from bot.simulator.refusal import Json, SlackRefusal
from bot.simulator.workspace import APP

log = logging.getLogger(__name__)

EnvelopeKind = Literal["events_api", "slash_commands", "interactive"]


@dataclass(frozen=True)
class Ack:
    """One acknowledged envelope. All times are monotonic seconds.

    `latency_s` counts from the sending of this attempt, `since_event_s` from what the person did. `event` is the type
    of the event (`app_mention`, `message`, `message.message_changed`), the command or the type of the interaction.
    """

    envelope_id: str
    kind: EnvelopeKind
    event: str
    ts: str
    attempt: int
    happened_s: float
    sent_s: float
    acked_s: float
    late: bool

    @property
    def latency_s(self) -> float:
        return self.acked_s - self.sent_s

    @property
    def since_event_s(self) -> float:
        return self.acked_s - self.happened_s


@dataclass(eq=False)
class Delivery:
    """One payload on its way to the app, over all its attempts. `answer` is what the app sent with its ack."""

    kind: EnvelopeKind
    event: str
    ts: str
    payload: Json
    happened_s: float
    attempts: int = 0
    state: Literal["under_way", "acked", "given_up"] = "under_way"
    answer: Json = field(default_factory=dict)
    then: Callable[["Delivery"], None] | None = None


@dataclass(eq=False)
class _Attempt:
    delivery: Delivery
    number: int
    sent_s: float
    outcome: "asyncio.Future[Literal['acked', 'closed']]"
    late: bool = False


@dataclass(eq=False)
class _Connection:
    id: int
    socket: web.WebSocketResponse
    transport: asyncio.Transport | None
    attempts: dict[str, _Attempt] = field(default_factory=dict)
    retiring: bool = False


class Sockets:
    """The app's end of Socket Mode. Everything but the counters belongs to the server's event loop."""

    def __init__(self, ack_timeout_s: float, redelivery_s: tuple[float, ...], max_connections: int) -> None:
        self.acks: list[Ack] = []
        self.deliveries: list[Delivery] = []
        self.delay_s = 0.0
        self.on_change: Callable[[], None] = lambda: None
        self._ack_timeout_s = ack_timeout_s
        self._redelivery_s = redelivery_s
        self._max_connections = max_connections
        self._tickets: set[str] = set()
        self._connections: list[_Connection] = []
        self._turn = itertools.count()
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        return len([c for c in self._connections if not c.retiring])

    def ticket(self) -> str:
        """A password for one connection. Raises SlackRefusal when the app has too many already."""
        if self.count >= self._max_connections:
            raise SlackRefusal("too_many_websockets")
        ticket = secrets.token_urlsafe(16)
        self._tickets.add(ticket)
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Whether the ticket was good; it is used up by the call."""
        if ticket not in self._tickets:
            return False
        self._tickets.remove(ticket)
        return True

    async def serve(self, socket: web.WebSocketResponse, transport: asyncio.Transport | None) -> None:
        """The connection was greeted, listened to until it closed, and is forgotten."""
        connection = _Connection(next(self._numbers), socket, transport)
        await socket.send_json(self._hello())
        self._connections.append(connection)
        log.info("connection %d: open, %d in all", connection.id, self.count)
        self.on_change()
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._receive(connection, message.data)
        finally:
            self._forget(connection)

    def deliver(self, delivery: Delivery) -> None:
        """The delivery is under way; call it on the loop."""
        self.deliveries.append(delivery)
        task = asyncio.get_running_loop().create_task(self._carry(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def disconnect(self, reason: str) -> None:
        """Every connection was told to reconnect and then closed, as Slack does about once an hour."""
        for connection in list(self._connections):
            connection.retiring = True
            await connection.socket.send_json(
                {"type": "disconnect", "reason": reason, "debug_info": {"host": "simulator"}}
            )
        for connection in list(self._connections):
            if connection.retiring:
                await connection.socket.close()

    async def drop(self) -> None:
        """Every connection is cut without a word, as by a broken network."""
        for connection in list(self._connections):
            connection.retiring = True
            if connection.transport is not None:
                connection.transport.abort()
            self._forget(connection)

    async def shut(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for connection in list(self._connections):
            await connection.socket.close(code=WSCloseCode.GOING_AWAY)

    def _hello(self) -> Json:
        return {
            "type": "hello",
            "num_connections": self.count + 1,
            "connection_info": {"app_id": APP},
            "debug_info": {"host": "simulator", "build_number": 1, "approximate_connection_time": 18060},
        }

    def _receive(self, connection: _Connection, text: str) -> None:
        try:
            body = json.loads(text)
        except ValueError:
            log.warning("connection %d: what arrived is no JSON", connection.id)
            return
        attempt = connection.attempts.pop(str(body.get("envelope_id")), None)
        if attempt is None:
            log.info("connection %d: ack of the unknown envelope %s", connection.id, body.get("envelope_id"))
            return
        self._record(str(body["envelope_id"]), attempt)
        if not attempt.late and not attempt.outcome.done():
            attempt.delivery.answer = body.get("payload") or {}
            attempt.outcome.set_result("acked")

    def _record(self, envelope_id: str, attempt: _Attempt) -> None:
        delivery = attempt.delivery
        self.acks.append(
            Ack(
                envelope_id,
                delivery.kind,
                delivery.event,
                delivery.ts,
                attempt.number,
                delivery.happened_s,
                attempt.sent_s,
                time.monotonic(),
                attempt.late,
            )
        )
        self.on_change()

    def _forget(self, connection: _Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        log.info("connection %d: closed, %d left", connection.id, self.count)
        for attempt in connection.attempts.values():
            if not attempt.outcome.done():
                attempt.outcome.set_result("closed")
        self.on_change()

    async def _carry(self, delivery: Delivery) -> None:
        waits_s = (0.0, *self._redelivery_s) if delivery.kind == "events_api" else (0.0,)
        reason = ""
        for number, wait_s in enumerate(waits_s):
            await asyncio.sleep(wait_s + (self.delay_s if number == 0 else 0.0))
            delivery.attempts = number + 1
            outcome = await self._attempt(delivery, number, reason)
            if outcome == "acked":
                break
            reason = "timeout" if outcome == "timeout" else "connection_failed"
            log.info("%s %s: attempt %d: %s", delivery.event, delivery.ts, number, reason)
        delivery.state = "acked" if outcome == "acked" else "given_up"
        if delivery.then is not None:
            delivery.then(delivery)
        self.on_change()

    async def _attempt(self, delivery: Delivery, number: int, reason: str) -> str:
        connections = [c for c in self._connections if not c.retiring and not c.socket.closed]
        if not connections:
            return "nobody"
        connection = connections[next(self._turn) % len(connections)]
        envelope_id = str(uuid.uuid4())
        attempt = _Attempt(delivery, number, time.monotonic(), asyncio.get_running_loop().create_future())
        connection.attempts[envelope_id] = attempt
        try:
            await connection.socket.send_json(_envelope(envelope_id, delivery, number, reason))
            return await asyncio.wait_for(asyncio.shield(attempt.outcome), self._ack_timeout_s)
        except TimeoutError:
            attempt.late = True
            return "timeout"
        except ConnectionError:
            return "closed"


def _envelope(envelope_id: str, delivery: Delivery, number: int, reason: str) -> Json:
    envelope: Json = {
        "envelope_id": envelope_id,
        "type": delivery.kind,
        "accepts_response_payload": delivery.kind != "events_api",
        "payload": delivery.payload,
    }
    if delivery.kind == "events_api":
        envelope["retry_attempt"] = number
        envelope["retry_reason"] = reason
    return envelope
