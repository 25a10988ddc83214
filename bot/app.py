"""The bot's process: Slack's events in, the courier's messages out. `overnight bot` runs `main`."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

from pydantic import SecretStr
from slack_bolt import App, BoltResponse
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_bolt.authorization import AuthorizeResult
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from bot.conversation import Conversation
from bot.courier import Courier
from bot.listeners import listen
from bot.listeners.buttons import clicked_in
from bot.listeners.intake import Intake
from bot.listeners.words import in_chinese
from bot.render.answer import said
from bot.web import Web
from bot.whispers import Whispers
from lab import beacons, store
from lab.errors import ConfigError, OperatorError, OvernightError, StoreAwayError
from lab.settings import Settings

log = logging.getLogger(__name__)

CONNECTIONS = 2
"""Socket Mode connections: while Slack renews one, the other listens."""
T = TypeVar("T")

CONCURRENCY = 5
PING_S = 5.0
TIMEOUT_S = 15
WATCH_S = 5.0
SLACK = "Slack"
"""What the alarm calls the service."""
RETRY_S = (1.0, 2.0, 5.0, 15.0, 30.0)


def web_client(settings: Settings) -> WebClient:
    """A client for Slack, or for the simulator that slack.api_url names. Raises ConfigError without a token."""
    token = _token(settings.slack.bot_token, "bot_token", "xoxb-")
    return WebClient(token, base_url=_api_url(settings), timeout=TIMEOUT_S)


def _api_url(settings: Settings) -> str:
    url = settings.slack.api_url
    return url if url.endswith("/") else f"{url}/"


def who_am_i(client: WebClient) -> AuthorizeResult:
    """The bot as Slack knows it.

    Raises:
        ConfigError: Slack refuses the token.
        OSError, SlackClientError: Slack does not answer.
    """
    try:
        me = client.auth_test()
    except SlackApiError as error:
        code = str(error.response.get("error") or "") if isinstance(error.response.data, dict) else ""
        if error.response.status_code == 429 or error.response.status_code >= 500 or not code:
            raise
        raise ConfigError("slack.bot_token", _refused(code, "bot", "OAuth & Permissions")) from None
    return AuthorizeResult(
        enterprise_id=me.get("enterprise_id"),
        team_id=me.get("team_id"),
        bot_user_id=me.get("user_id"),
        bot_id=me.get("bot_id"),
        bot_token=client.token,
    )


def check(settings: Settings) -> tuple[str | None, list[OvernightError]]:
    """The bot's name in Slack, and what is wrong with either token; both are tried, no connection is left open."""
    name: str | None = None
    wrong: list[OvernightError] = []
    try:
        name = _tried(settings, lambda: _named(web_client(settings)))
    except (ConfigError, OperatorError) as error:
        wrong.append(error)
    try:
        token = _token(settings.slack.app_token, "app_token", "xapp-")
        client = WebClient(base_url=_api_url(settings), timeout=TIMEOUT_S)
        _tried(settings, lambda: client.apps_connections_open(app_token=token))
    except (ConfigError, OperatorError) as error:
        wrong += [error] if str(error) not in map(str, wrong) else []  # Slack that does not answer is said once
    return name, wrong


def _named(client: WebClient) -> str:
    who_am_i(client)
    return str(client.auth_test().get("user") or "")


def _tried(settings: Settings, call: Callable[[], T]) -> T:
    """What Slack answered. Raises ConfigError, OperatorError."""
    try:
        return call()
    except SlackApiError as error:
        _raise_if_refused(error)
        raise OperatorError(f"{settings.slack.api_url} answers {error.response.get('error')!r}") from None
    except (OSError, SlackClientError) as error:
        raise OperatorError(f"{settings.slack.api_url} does not answer ({type(error).__name__})") from None


def _raise_if_refused(error: SlackApiError) -> None:
    """Raises ConfigError when Slack does not take the app token."""
    code = str(error.response.get("error") or "")
    if code in ("invalid_auth", "not_authed", "account_inactive", "token_revoked", "not_allowed_token_type"):
        raise ConfigError("slack.app_token", _refused(code, "app", "Basic Information")) from None


def build(settings: Settings, client: WebClient, me: AuthorizeResult, whispers: Whispers) -> App:
    """The bolt app with its listeners. An event is acknowledged when its listener has recorded it, not before."""
    app = App(
        name="overnight",
        client=WebClient(base_url=client.base_url, timeout=client.timeout),  # bolt gives it the token of `me`
        authorize=lambda: me,
        process_before_response=True,
        request_verification_enabled=False,
    )
    client_ = store.connect(settings, patient=False)
    intake = Intake(client_, whispers, str(me.bot_user_id), settings.admins, settings.limits.max_runs)
    listen(app, intake)
    app.error(_on_error(whispers))
    return app


class Bot:
    """The whole bot in this process: `with Bot(settings):` or start and stop.

    Args:
        stopping: set by whoever wants the bot to stop waiting for Slack; `stop` sets it too.

    Raises:
        ConfigError: a token is missing, or Slack refuses it (on start).
    """

    def __init__(self, settings: Settings, stopping: threading.Event | None = None) -> None:
        self._settings = settings
        self._app_token = _token(settings.slack.app_token, "app_token", "xapp-")
        self._client = web_client(settings)
        self._handlers: list[SocketModeHandler] = []
        self._stopping = stopping or threading.Event()
        self._watch = threading.Thread(target=self._watch_connections, name="connections", daemon=True)
        self._store = store.connect(settings, patient=False)
        web = Web(self._client)
        self.whispers = Whispers(web)
        self.courier = Courier(settings, web)

    def start(self) -> Self:
        """The bot listens and speaks; waits as long as Slack cannot be reached."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self) -> None:
        me = self._persistently("auth.test", lambda: who_am_i(self._client))
        if me is None:
            return
        log.info("bot: %s in team %s", me.bot_user_id, me.team_id)
        app = build(self._settings, self._client, me, self.whispers)
        self.whispers.start()
        self.courier.start()
        for _ in range(CONNECTIONS):
            handler = SocketModeHandler(app, self._app_token, ping_interval=PING_S, concurrency=CONCURRENCY)
            self._handlers.append(handler)
            self._persistently("Socket Mode", lambda: self._connect(handler))  # noqa: B023
        self._watch.start()

    def stop(self) -> None:
        """Nothing is listened to any more, what was being said is said; the rest waits in Redis."""
        self._stopping.set()
        self.courier.stop()
        with contextlib.suppress(*store.AWAY):
            beacons.forget(self._store, SLACK)
        for handler in self._handlers:
            _hang_up(handler)
        for handler in self._handlers:
            handler.close()  # type: ignore[no-untyped-call]
        self.whispers.stop()

    @property
    def connections(self) -> int:
        """Open Socket Mode connections."""
        return sum(handler.client.is_connected() for handler in self._handlers)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _connect(self, handler: SocketModeHandler) -> None:
        try:
            handler.connect()  # type: ignore[no-untyped-call]
        except SlackApiError as error:
            _raise_if_refused(error)
            raise

    def _tell(self, connections: int) -> None:
        """The watch over the lab knows whether Slack can be reached."""
        with contextlib.suppress(*store.AWAY):
            beacons.tell(self._store, SLACK, None if connections else "no connection", time.time(), WATCH_S)

    def _persistently(self, what: str, work: Callable[[], Any]) -> Any:
        """What `work` returns, tried until Slack answers; None when the bot is stopped before that."""
        tries = 0
        while not self._stopping.is_set():
            try:
                return work()
            except (OSError, SlackClientError) as error:
                wait_s = RETRY_S[min(tries, len(RETRY_S) - 1)]
                log.warning("bot: %s: Slack does not answer (%s), again in %.0f s", what, type(error).__name__, wait_s)
                tries += 1
                self._stopping.wait(wait_s)
        return None

    def _watch_connections(self) -> None:
        """Log and alarm are told when connections are lost and when they are back; the SDK itself reconnects."""
        before = len(self._handlers)
        self._tell(before)
        while not self._stopping.wait(WATCH_S):
            now = self.connections
            self._tell(now)
            if now != before:
                log.log(logging.INFO if now else logging.ERROR, "bot: %d of %d connections", now, len(self._handlers))
            before = now


def main(settings: Settings) -> None:
    """The bot runs until SIGTERM or SIGINT. Raises ConfigError when a token is missing or refused."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    with Bot(settings, stopping) as bot:
        log.info("bot: %d connections", bot.connections)
        stopping.wait()
    log.info("bot: stopped")


def _hang_up(handler: SocketModeHandler) -> None:
    """The connection's threads are awake and will end; without this the SDK's close waits seconds for each."""
    client = handler.client
    client.closed = True
    client.auto_reconnect_enabled = False
    client.message_queue.put(None)
    sock = client.current_session.sock if client.current_session else None
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _on_error(whispers: Whispers) -> Callable[..., BoltResponse | None]:
    def on_error(error: Exception, body: dict[str, Any]) -> BoltResponse | None:
        """An event stays unacknowledged, so that Slack brings it again; a click gets an answer."""
        if isinstance(error, StoreAwayError):
            return None
        reference = uuid4().hex[:8]
        log.error("listener failed, reference %s", reference, exc_info=error)
        if body.get("type") == "block_actions":
            place: Conversation = clicked_in(body)
            whispers.whisper(place, body["user"]["id"], said("went_wrong", in_chinese(body), reference=reference))
            return BoltResponse(status=200)
        return None

    return on_error


def _token(token: SecretStr | None, key: str, prefix: str) -> str:
    variable = f"SLACK_{key.upper()}"
    if token is None or not token.get_secret_value():
        raise ConfigError(f"slack.{key}", f"is missing; set it, or {variable}, to the token that begins with {prefix}")
    if not token.get_secret_value().startswith(prefix):
        raise ConfigError(f"slack.{key}", f"wanted the token that begins with {prefix} (also read from {variable})")
    return token.get_secret_value()


def _refused(code: str, kind: str, page: str) -> str:
    return f"Slack refuses it ({code}); copy the {kind} token anew from {page} of api.slack.com/apps"
