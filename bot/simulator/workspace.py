"""The state of the pretended Slack: people, conversations, messages, files, and every change to them in order."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal

from bot.simulator.refusal import Json, NoSuchThing

ChangeKind = Literal[
    "posted", "edited", "deleted", "ephemeral", "ephemeral_gone", "reaction", "view", "home", "channel"
]

TEAM = "T0LAB"
APP = "A0OVERNIGHT"
SLACKBOT = "USLACKBOT"
BURIED = "This message was deleted."
_OUTLIVES = ("team", "ts", "thread_ts", "reply_count", "reply_users", "latest_reply")
"""What a tombstone keeps of the message whose place it takes."""


@dataclass(frozen=True)
class User:
    """Somebody who can write: a person, or the bot."""

    id: str
    name: str
    real_name: str
    is_bot: bool = False
    bot_id: str | None = None


@dataclass(frozen=True)
class Channel:
    """A conversation. `person` is the human of a direct message with the bot, None in a channel."""

    id: str
    name: str
    topic: str = ""
    person: str | None = None
    bot_is_member: bool = True
    is_archived: bool = False

    @property
    def is_im(self) -> bool:
        return self.person is not None


@dataclass
class StoredFile:
    """An upload. It is visible only when `shared`: completed, not merely sent."""

    id: str
    name: str
    title: str
    length: int
    user: str
    data: bytes | None = None
    alt_text: str = ""
    shared: bool = False
    channels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Change:
    """Something that happened. `at_s` is monotonic: latencies are counted from it."""

    seq: int
    kind: ChangeKind
    channel: str
    body: Json
    before: Json | None = None
    actor: str = ""
    at_s: float = 0.0


BOT = User("U0BOT", "overnight", "Overnight", is_bot=True, bot_id="B0BOT")
PEOPLE = (
    User("U0ALICE", "alice", "Alice Moreau"),
    User("U0BEN", "ben", "Ben Okafor"),
    User("U0CHEN", "chen", "Chen Wei"),
)
CHANNELS = (
    Channel("C0LAB", "lab-gpus", "Experiments of the night: ask @overnight"),
    Channel("C0ALERTS", "gpu-alerts", "What the watch has to say"),
    Channel("C0PRIVATE", "without-the-bot", "Nobody invited the bot here", bot_is_member=False),
)


class Workspace:
    """One Slack workspace with one app in it. Every method may be called from any thread.

    Messages are stored as Slack shows them, and handed out as copies. `changed` is notified after each change;
    watchers are called in order, under the lock, and must only hand the change on.
    """

    def __init__(
        self, bot: User = BOT, people: tuple[User, ...] = PEOPLE, channels: tuple[Channel, ...] = CHANNELS
    ) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.bot = bot
        self.users = {user.id: user for user in (*people, bot)}
        self.channels = {channel.id: channel for channel in channels}
        self.files: dict[str, StoredFile] = {}
        self.ephemerals: list[Json] = []
        self.views: dict[str, Json] = {}
        self.homes: dict[str, Json] = {}
        self._messages: dict[str, dict[str, Json]] = {channel.id: {} for channel in channels}
        self._watchers: list[Callable[[Change], None]] = []
        self._seq = itertools.count(1)
        self._ids = itertools.count(1)
        self._last_ts = 0
        for person in people:
            self.open_im(person.id)

    # -- identity -------------------------------------------------------------------------------------------------

    def new_id(self, prefix: str) -> str:
        """An id nothing else has, such as `F0000007`."""
        return f"{prefix}{next(self._ids):07d}"

    def new_ts(self) -> str:
        """A message time that is later than every other one, in Slack's form `1700000000.000100`."""
        with self.changed:
            self._last_ts = max(self._last_ts + 100, int(time.time() * 1_000_000))
            return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def user(self, user: str) -> User:
        if user not in self.users:
            raise NoSuchThing(f"no user {user!r}; there are {', '.join(sorted(self.users))}")
        return self.users[user]

    def channel(self, channel: str) -> Channel:
        """The conversation with this id or name (`C0LAB`, `lab-gpus`, `#lab-gpus`). Raises NoSuchThing."""
        found = self.find_channel(channel)
        if found is None:
            raise NoSuchThing(f"no channel {channel!r}; there are {', '.join(sorted(self.channels))}")
        return found

    def find_channel(self, channel: str) -> Channel | None:
        if channel in self.channels:
            return self.channels[channel]
        name = channel.removeprefix("#")
        return next((c for c in self.channels.values() if c.name == name and not c.is_im), None)

    def open_im(self, person: str) -> Channel:
        """The direct message of the bot with this person, made on first use."""
        with self.changed:
            user = self.user(person)
            im_id = f"D{user.id.removeprefix('U')}"
            if im_id not in self.channels:
                self.channels[im_id] = Channel(im_id, user.name, person=user.id)
                self._messages[im_id] = {}
                self._happened("channel", im_id, {"channel": im_id})
            return self.channels[im_id]

    # -- reading --------------------------------------------------------------------------------------------------

    def messages(self, channel: str) -> list[Json]:
        """All messages of a conversation, replies among them, oldest first."""
        with self.changed:
            return deepcopy(list(self._messages[self.channel(channel).id].values()))

    def find(self, channel: str, ts: str) -> Json | None:
        with self.changed:
            return deepcopy(self._messages.get(channel, {}).get(ts))

    def message(self, channel: str, ts: str) -> Json:
        """The message, or NoSuchThing."""
        found = self.find(self.channel(channel).id, ts)
        if found is None:
            raise NoSuchThing(f"no message {ts!r} in {channel}")
        return found

    def thread(self, channel: str, ts: str) -> list[Json]:
        """The root and its replies, oldest first; empty when there is no such root."""
        return [m for m in self.messages(channel) if m["ts"] == ts or m.get("thread_ts") == ts]

    # -- changing -------------------------------------------------------------------------------------------------

    def watch(self, watcher: Callable[[Change], None]) -> None:
        with self.changed:
            self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[Change], None]) -> None:
        with self.changed:
            self._watchers.remove(watcher)

    def post(self, channel: str, message: Json) -> Json:
        """The message stands in the channel under a new ts; its thread's root counts it."""
        with self.changed:
            stored = {"type": "message", "team": TEAM, **deepcopy(message), "ts": self.new_ts()}
            self._messages[channel][stored["ts"]] = stored
            self._count_reply(channel, stored)
            self._happened("posted", channel, stored, actor=stored["user"])
            return deepcopy(stored)

    def edit(self, channel: str, ts: str, change: Json, actor: str) -> Json:
        """The message has the new fields; a field set to None is gone."""
        with self.changed:
            stored = self._messages[channel][ts]
            before = deepcopy(stored)
            stored.update(deepcopy(change))
            for key in [key for key, value in change.items() if value is None]:
                del stored[key]
            stored["edited"] = {"user": actor, "ts": self.new_ts()}
            self._happened("edited", channel, stored, before=before, actor=actor)
            return deepcopy(stored)

    def delete(self, channel: str, ts: str, actor: str) -> None:
        """The message is gone; where it has replies, a tombstone stands in its place and holds them together."""
        with self.changed:
            if self._messages[channel][ts].get("reply_count"):
                self._bury(channel, ts, actor)
                return
            gone = self._messages[channel].pop(ts)
            root = self._messages[channel].get(gone.get("thread_ts", ""))
            if root is not None:
                root["reply_count"] = max(0, root.get("reply_count", 0) - 1)
            self._happened("deleted", channel, {"ts": ts}, before=gone, actor=actor)

    def _bury(self, channel: str, ts: str, actor: str) -> None:
        """As Slack does it: the app hears of a change to a message of the subtype `tombstone`."""
        before = self._messages[channel][ts]
        kept = {name: before[name] for name in _OUTLIVES if name in before}
        tombstone = {
            "type": "message",
            "subtype": "tombstone",
            "hidden": True,
            "user": SLACKBOT,
            "text": BURIED,
            **kept,
        }
        self._messages[channel][ts] = tombstone
        self._happened("edited", channel, tombstone, before=before, actor=actor)

    def react(self, channel: str, ts: str, name: str, user: str, *, remove: bool = False) -> bool:
        """Whether the reaction was there before the call; afterwards it is there, or gone."""
        with self.changed:
            stored = self._messages[channel][ts]
            reactions: list[Json] = stored.setdefault("reactions", [])
            entry = next((r for r in reactions if r["name"] == name), None)
            present = entry is not None and user in entry["users"]
            if present == (not remove):
                return present
            if entry is None:
                entry = {"name": name, "users": [], "count": 0}
                reactions.append(entry)
            entry["users"] = [u for u in entry["users"] if u != user] if remove else [*entry["users"], user]
            entry["count"] = len(entry["users"])
            stored["reactions"] = [r for r in reactions if r["users"]]
            body = {"ts": ts, "reaction": name, "removed": remove, "message": deepcopy(stored)}
            self._happened("reaction", channel, body, actor=user)
            return present

    def whisper(self, channel: str, user: str, message: Json) -> Json:
        """The message is shown to one person only, and no history keeps it."""
        with self.changed:
            stored = {"type": "message", **deepcopy(message), "channel": channel, "to": user, "ts": self.new_ts()}
            stored["is_ephemeral"] = True
            self.ephemerals.append(stored)
            self._happened("ephemeral", channel, stored)
            return deepcopy(stored)

    def unwhisper(self, ts: str, replacement: Json | None = None) -> None:
        """The ephemeral message is gone, or shows the replacement. Unknown ones are let be."""
        with self.changed:
            for stored in [e for e in self.ephemerals if e["ts"] == ts]:
                if replacement is None:
                    self.ephemerals.remove(stored)
                    self._happened("ephemeral_gone", stored["channel"], {"ts": ts, "to": stored["to"]})
                else:
                    stored.pop("blocks", None)
                    stored.update(deepcopy(replacement))
                    self._happened("ephemeral", stored["channel"], stored)

    def show_view(self, view: Json) -> None:
        with self.changed:
            self.views[view["id"]] = deepcopy(view)
            self._happened("view", "", {"user": view["user"], "view": view})

    def close_view(self, view_id: str) -> Json:
        """The view is closed and returned. Raises NoSuchThing."""
        with self.changed:
            if view_id not in self.views:
                raise NoSuchThing(f"no open view {view_id!r}")
            view = self.views.pop(view_id)
            self._happened("view", "", {"user": view["user"], "closed": view_id})
            return view

    def show_home(self, user: str, view: Json) -> None:
        with self.changed:
            self.homes[user] = deepcopy(view)
            self._happened("home", "", {"user": user, "view": view})

    def notify(self) -> None:
        """Whoever waits looks again: something outside the messages changed."""
        with self.changed:
            self.changed.notify_all()

    def _count_reply(self, channel: str, reply: Json) -> None:
        root = self._messages[channel].get(reply.get("thread_ts") or "")
        if root is None or root is reply:
            return
        root["thread_ts"] = root["ts"]
        root["reply_count"] = root.get("reply_count", 0) + 1
        root["reply_users"] = sorted({*root.get("reply_users", []), reply["user"]})
        root["latest_reply"] = reply["ts"]

    def _happened(
        self, kind: ChangeKind, channel: str, body: Json, *, before: Json | None = None, actor: str = ""
    ) -> None:
        change = Change(next(self._seq), kind, channel, deepcopy(body), before, actor, time.monotonic())
        for watcher in list(self._watchers):
            watcher(change)
        self.changed.notify_all()


def buttons(blocks: list[Json]) -> Iterator[tuple[str, Json]]:
    """Every element with an action_id, as (block_id, element)."""
    for block in blocks:
        candidates = [*block.get("elements", []), block.get("accessory"), block.get("element")]
        for element in candidates:
            if isinstance(element, dict) and "action_id" in element:
                yield block.get("block_id", ""), element
