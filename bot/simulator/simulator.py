"""The simulator as a synchronous program uses it: started with `with`, spoken to from any thread."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from copy import deepcopy
from types import TracebackType
from typing import Any, Self, TypeVar

from bot.simulator.limits import slack_limits
from bot.simulator.rates import Fault, Rates
from bot.simulator.reading import shown_text
from bot.simulator.refusal import Json
from bot.simulator.server import ApiCall, Server
from bot.simulator.sockets import Ack, Delivery
from bot.simulator.workspace import BOT, CHANNELS, PEOPLE, SLACKBOT, Channel, StoredFile, User, Workspace

T = TypeVar("T")

_LOOK_AGAIN_S = 0.05
"""A predicate may depend on more than the simulator sees, so `wait_for` looks at least this often."""


class Simulator:
    """A pretended Slack on a port of 127.0.0.1, in a thread of its own.

    `url` is the page with its token, `api_url` the base_url for a WebClient. Short `ack_timeout_s` and `redelivery_s`
    make tests of redelivery quick; `enforce_rates` switches Slack's rate limits on.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        ack_timeout_s: float | None = None,
        redelivery_s: tuple[float, ...] | None = None,
        enforce_rates: bool = False,
        bot: User = BOT,
        people: tuple[User, ...] = PEOPLE,
        channels: tuple[Channel, ...] = CHANNELS,
    ) -> None:
        limits = slack_limits()
        self.workspace = Workspace(bot, people, channels)
        self._port = port
        self._rates = Rates(limits.rate, enforced=enforce_rates)
        self._server = Server(
            self.workspace,
            limits,
            ack_timeout_s=limits.connection.ack_s if ack_timeout_s is None else ack_timeout_s,
            redelivery_s=tuple(limits.connection.redelivery_s) if redelivery_s is None else redelivery_s,
            rates=self._rates,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="simulator", daemon=True)

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """The server listens. Raises OSError when the port is taken."""
        self._thread.start()
        try:
            self._on_loop(self._server.start(self._port))
        except BaseException:
            self._end_loop()
            raise
        return self

    def stop(self) -> None:
        """Connections are closed, the port is free and the thread has ended."""
        if self._thread.is_alive():
            self._on_loop(self._server.stop())
            self._end_loop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- addresses ------------------------------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        return self._server.door.base_url

    @property
    def api_url(self) -> str:
        """The `base_url` of a slack_sdk WebClient, slash included."""
        return f"{self.base_url}/api/"

    @property
    def url(self) -> str:
        """The page for a browser. Whoever knows it can start runs."""
        return f"{self.base_url}/?token={self._server.door.page_token}"

    @property
    def still_url(self) -> str:
        """The page without live changes, for a screenshot: an open stream holds a headless browser's virtual time."""
        return f"{self.url}&live=off"

    def link(self, channel: str, ts: str, *, live: bool = True) -> str:
        """The page with this reply's thread open; `live` as in `url` and `still_url`."""
        page = self.url if live else self.still_url
        return page.replace("/?", f"/archives/{channel}/p{ts.replace('.', '')}?", 1)

    @property
    def bot_token(self) -> str:
        return self._server.door.bot_token

    @property
    def app_token(self) -> str:
        return self._server.door.app_token

    # -- what people do -------------------------------------------------------------------------------------------

    def say(self, channel: str, user: str, text: str, thread_ts: str | None = None) -> str:
        """Somebody wrote; the ts of the message. `text` is Slack's markup: `<@U0BOT>` mentions the bot."""
        return self._server.people.say(channel, user, text, thread_ts)

    def edit(self, channel: str, ts: str, text: str) -> None:
        """The author changed the message; the app hears `message_changed`."""
        self._server.people.edit(channel, ts, text)

    def delete(self, channel: str, ts: str) -> None:
        """The author deleted the message; the app hears `message_deleted`, or of a tombstone where it had replies."""
        self._server.people.delete(channel, ts)

    def react(self, channel: str, ts: str, name: str, user: str, *, remove: bool = False) -> None:
        self._server.people.react(channel, ts, name, user, remove=remove)

    def press(
        self,
        channel: str,
        ts: str,
        action_id: str,
        user: str = "U0ALICE",
        *,
        block_id: str | None = None,
        chosen: Json | None = None,
        as_seen: Json | None = None,
    ) -> Delivery:
        """Somebody pressed a button of a message, ephemeral ones included. Raises NoSuchThing if it is not there.

        `chosen` adds what a menu picked (`{"selected_option": {...}}`); `as_seen` is an older copy of the message, for
        a click on a button that has gone meanwhile.
        """
        return self._server.people.press(
            channel, ts, action_id, user, block_id=block_id, chosen=chosen, as_seen=as_seen
        )

    def command(self, name: str, text: str = "", user: str = "U0ALICE", channel: str = "C0LAB") -> Delivery:
        """Somebody typed a slash command, its slash included in the name."""
        return self._server.people.command(name, text, user, channel)

    def submit(self, view_id: str, values: Json) -> Delivery:
        """The open modal was sent with this state: block_id -> action_id -> {"type": ..., "value": ...}."""
        return self._server.people.submit(view_id, values)

    def press_in_view(self, view_id: str, action_id: str, *, chosen: Json | None = None) -> Delivery:
        return self._server.people.press_in_view(view_id, action_id, chosen=chosen)

    def close_view(self, view_id: str) -> None:
        self._server.people.close(view_id)

    # -- what there is to see -------------------------------------------------------------------------------------

    def messages(self, channel: str) -> list[Json]:
        """All messages of the conversation, replies among them, oldest first."""
        return self.workspace.messages(channel)

    def message(self, channel: str, ts: str) -> Json:
        return self.workspace.message(channel, ts)

    def thread(self, channel: str, ts: str) -> list[Json]:
        """The root and its replies, oldest first."""
        return self.workspace.thread(channel, ts)

    def im(self, user: str) -> str:
        """The id of the direct message between this person and the bot."""
        return self.workspace.open_im(user).id

    @property
    def ephemerals(self) -> list[Json]:
        """Messages for one person; `to` and `channel` say where. Those taken back are gone."""
        with self.workspace.changed:
            return deepcopy(self.workspace.ephemerals)

    @property
    def views(self) -> list[Json]:
        """The open modals, oldest first; `user` says whose."""
        with self.workspace.changed:
            return deepcopy(list(self.workspace.views.values()))

    def home(self, user: str) -> Json | None:
        with self.workspace.changed:
            return deepcopy(self.workspace.homes.get(user))

    @property
    def files(self) -> list[StoredFile]:
        """The completed uploads with their bytes, oldest first."""
        with self.workspace.changed:
            return [deepcopy(file) for file in self.workspace.files.values() if file.shared]

    @property
    def acks(self) -> list[Ack]:
        """Each acknowledged envelope with its times."""
        return list(self._server.sockets.acks)

    @property
    def deliveries(self) -> list[Delivery]:
        """All that was sent to the app, or was meant to be."""
        return list(self._server.sockets.deliveries)

    @property
    def calls(self) -> list[ApiCall]:
        """All Web API calls of the app, with when they came and how they ended."""
        return list(self._server.calls)

    @property
    def connections(self) -> int:
        """Open Socket Mode connections."""
        return self._server.sockets.count

    def shown(self, message: Json) -> str:
        """The words of a message as a reader sees them."""
        return shown_text(message)

    def transcript(self, channel: str) -> str:
        """The conversation as plain text, threads indented under their roots."""
        lines = []
        for root in [m for m in self.messages(channel) if m.get("thread_ts", m["ts"]) == m["ts"]]:
            for message in self.thread(channel, root["ts"]):
                indent = "" if message["ts"] == root["ts"] else "    "
                name = "slackbot" if message["user"] == SLACKBOT else self.workspace.user(message["user"]).name
                lines += [f"{indent}{name}: {line}" for line in shown_text(message).splitlines()]
        return "\n".join(lines)

    def export(self, channel: str | None = None, thread_ts: str | None = None) -> Json:
        """The workspace, one conversation or one thread, as JSON: messages, ephemerals and what files there are."""
        names = [self.workspace.channel(channel).id] if channel else list(self.workspace.channels)
        shared = [{"id": f.id, "name": f.name, "title": f.title, "bytes": f.length} for f in self.files]
        conversations = {name: self.thread(name, thread_ts) if thread_ts else self.messages(name) for name in names}
        whispers = [e for e in self.ephemerals if e["channel"] in names]
        return {"channels": conversations, "ephemerals": whispers, "files": shared}

    # -- waiting --------------------------------------------------------------------------------------------------

    def wait_for(self, predicate: Callable[[], T], timeout_s: float = 10.0, what: str = "") -> T:
        """The first truthy value of the predicate, asked after every change. Raises TimeoutError with transcripts."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            value = predicate()
            if value:
                return value
            if time.monotonic() >= deadline_s:
                raise TimeoutError(f"not within {timeout_s} s: {what or predicate}\n{self._everything()}")
            with self.workspace.changed:
                self.workspace.changed.wait(_LOOK_AGAIN_S)

    def wait_connected(self, count: int = 1, timeout_s: float = 10.0) -> None:
        """The app has at least this many Socket Mode connections."""
        self.wait_for(lambda: self.connections >= count, timeout_s, f"{count} connections of the app")

    def _everything(self) -> str:
        said = [(c.id, self.transcript(c.id)) for c in self.workspace.channels.values()]
        return "\n".join(f"--- {name}\n{text}" for name, text in said if text)

    # -- trouble --------------------------------------------------------------------------------------------------

    def fault(
        self,
        method: str,
        *,
        times: int = 1,
        error: str | None = None,
        retry_after_s: int | None = None,
        status: int | None = None,
        delay_s: float = 0.0,
        hang_up: bool = False,
        after: bool = False,
    ) -> None:
        """The next `times` calls of the method (`*` is any) go wrong; see `Fault` for how."""
        self._rates.add_fault(Fault(method, times, error, retry_after_s, status, delay_s, hang_up, after))

    def clear_faults(self) -> None:
        self._rates.clear_faults()

    def enforce_rates(self, on: bool = True) -> None:
        self._rates.enforced = on

    def slow(self, *, api_s: float = 0.0, events_s: float = 0.0) -> None:
        """Every API call and every first delivery takes this much longer, until it is called again."""
        self._server.api_delay_s = api_s
        self._server.sockets.delay_s = events_s

    def disconnect(self, reason: str = "refresh_requested") -> None:
        """The app was told to reconnect and its connections were closed."""
        self._on_loop(self._server.sockets.disconnect(reason))

    def drop_connections(self) -> None:
        """The app's connections broke without a word."""
        self._on_loop(self._server.sockets.drop())

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=15)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._loop.close()
