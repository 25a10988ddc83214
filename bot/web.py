"""The one door to Slack's Web API: its budgets are kept, its pauses honoured, its refusals told apart."""

from __future__ import annotations

import http.client
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.webhook import WebhookClient

from bot.conversation import Conversation
from bot.render.message import Block, Message, section
from bot.render.text import shorten

log = logging.getLogger(__name__)

POSTS_PER_S = 1.0
POST_BURST = 4
UPDATES_PER_MINUTE = 50
UPDATE_BURST = 10
PAUSE_S = 30
"""After a 429 that does not say how long."""
PLAIN_CHARS = 2_900
METADATA_EVENT = "overnight_message"
PAGES = 10

PERMANENT = frozenset(
    {
        "channel_not_found",
        "not_in_channel",
        "is_archived",
        "thread_not_found",
        "cannot_reply_to_message",
        "message_not_found",
        "cant_update_message",
        "edit_window_closed",
        "restricted_action",
        "restricted_action_read_only_channel",
        "restricted_action_thread_only_channel",
        "user_not_in_channel",
        "user_not_found",
        "missing_scope",
        "no_permission",
        "messages_tab_disabled",
        "expired_trigger_id",
        "exchanged_trigger_id",
        "invalid_trigger_id",
        "invalid_arguments",
    }
)
"""Trying again cannot help; said once in the log and given up."""
UNSHOWABLE = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_too_long", "msg_blocks_too_long", "no_text"})
"""The message is at fault, not the place: the same goes out as plain text."""


class Later(Exception):
    """Slack does not take it now; try again after `wait_s`.

    `unsure` when the call may have taken effect all the same; `slack_spoke` when Slack answered with an error that may
    last, such as one that is not listed here.
    """

    def __init__(self, wait_s: float, why: str, *, unsure: bool = False, slack_spoke: bool = False) -> None:
        super().__init__(f"{why}, again in {wait_s:.1f} s")
        self.wait_s = wait_s
        self.why = why
        self.unsure = unsure
        self.slack_spoke = slack_spoke


class Refused(Exception):
    """Slack will never take it."""

    def __init__(self, error: str, where: str) -> None:
        super().__init__(f"{error} in {where}")
        self.error = error
        self.where = where


@dataclass(frozen=True)
class File:
    """Something to upload."""

    name: str
    title: str
    content: bytes
    alt_text: str = ""


class Bucket:
    """A token bucket: `burst` calls at once, then `per_s` of them a second; closed while Slack asks for a pause."""

    def __init__(self, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock()
        self._closed_until = 0.0

    def wait_s(self, keep: float = 0.0) -> float:
        """0 when a token can be taken and `keep` of them stay, else the seconds until that."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_s)
        self._at = now
        lacking = max(0.0, 1 + keep - self._tokens) / self._per_s
        return max(lacking, self._closed_until - now, 0.0)

    def take(self) -> None:
        self._tokens -= 1

    def close(self, seconds: float) -> None:
        self._closed_until = max(self._closed_until, self._clock() + seconds)


class Web:
    """Calls to Slack as the courier makes them. Any thread may call; nothing waits but for the network.

    Every method raises Later, or Refused when trying again cannot help.
    """

    def __init__(self, client: WebClient, clock: Callable[[], float] = time.monotonic) -> None:
        client.retry_handlers.clear()  # the default one repeats a post whose answer was lost, which doubles it
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._posts: dict[str, Bucket] = {}
        self._steady: dict[str, Bucket] = {}
        """Of what nobody waits for in a conversation: no burst in a channel that many read."""
        self._updates = Bucket(UPDATES_PER_MINUTE / 60, UPDATE_BURST, clock)

    def post(self, place: Conversation, message: Message, mark: str | None = None, *, steady: bool = False) -> str:
        """The message stands in the thread, or in the channel for a place without one; returns its ts.

        Args:
            mark: a hidden name by which `find` finds it.
            steady: at most one of these a second a channel, however few there were before.
        """
        self._book(self._bucket(place.channel), *([self._steady_bucket(place.channel)] if steady else []))
        metadata = {"event_type": METADATA_EVENT, "event_payload": {"mark": mark}} if mark else None

        def send(text: str, blocks: Sequence[Block]) -> Any:
            return self._client.chat_postMessage(
                channel=place.channel,
                thread_ts=place.root or None,
                text=text,
                blocks=blocks,
                metadata=metadata,
                unfurl_links=False,
                unfurl_media=False,
            )

        return str(self._show(send, message, place.channel, self._bucket(place.channel))["ts"])

    def update(self, channel: str, ts: str, message: Message, keep: float = 0.0) -> None:
        """The message reads so now. `keep` leaves so many of the updates of this minute to what matters more."""
        self._book(self._updates, keep=keep)

        def send(text: str, blocks: Sequence[Block]) -> Any:
            return self._client.chat_update(channel=channel, ts=ts, text=text, blocks=blocks)

        self._show(send, message, channel, self._updates)

    def upload(self, place: Conversation, files: Sequence[File], comment: str) -> None:
        """The files stand in the thread, in one message."""
        bucket = self._bucket(place.channel)
        self._book(bucket)
        uploads = [
            {"filename": f.name, "title": f.title, "content": f.content, "alt_txt": f.alt_text or f.title}
            for f in files
        ]
        self._call(
            lambda: self._client.files_upload_v2(
                file_uploads=uploads, channel=place.channel, thread_ts=place.root, initial_comment=comment
            ),
            place.channel,
            bucket,
        )

    def whisper(self, place: Conversation, user: str, message: Message) -> None:
        """Only this person sees the message, until the window is closed."""
        bucket = self._bucket(place.channel)
        self._book(bucket)

        def send(text: str, blocks: Sequence[Block]) -> Any:
            return self._client.chat_postEphemeral(
                channel=place.channel, user=user, thread_ts=place.root, text=text, blocks=blocks
            )

        self._show(send, message, place.channel, bucket)

    def respond(self, url: str, message: Message, *, replace: bool = False) -> None:
        """The answer to a command or a button, for one person; `replace` puts it in place of what was there."""

        def send() -> Any:
            answer = WebhookClient(url, timeout=10).send(
                text=message.text, blocks=list(message.blocks), response_type="ephemeral", replace_original=replace
            )
            if answer.status_code != 200:
                log.warning("a response_url was refused: %s %s", answer.status_code, answer.body[:200])
            return answer

        self._call(send, "a response_url", Bucket(1, 1, self._clock))

    def open_view(self, trigger: str, view: Block) -> None:
        """The dialog is open before whoever pressed a button less than 3 s ago; later it is Refused."""
        self._call(
            lambda: self._client.views_open(trigger_id=trigger, view=view), "a dialog", Bucket(1, 1, self._clock)
        )

    def direct(self, user: str) -> str:
        """The channel of the direct messages with this person."""
        opened = self._call(lambda: self._client.conversations_open(users=user), user, Bucket(1, 1, self._clock))
        return str(opened["channel"]["id"])

    def find(self, place: Conversation, mark: str) -> str | None:
        """The ts of the message of the thread, or of the channel, that carries this mark, or a file with this title.

        None when there is none, or no way to look.
        """
        cursor: str | None = None
        for _ in range(PAGES):
            try:
                page = self._call(lambda: self._replies(place, cursor), place.channel, Bucket(1, 1, self._clock))  # noqa: B023
            except Refused:
                return None
            for message in page.get("messages") or []:
                if mark in _marks(message):
                    return str(message["ts"])
            cursor = (page.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                break
        return None

    def _replies(self, place: Conversation, cursor: str | None) -> Any:
        if not place.root:
            return self._client.conversations_history(
                channel=place.channel, cursor=cursor, limit=200, include_all_metadata=True
            )
        return self._client.conversations_replies(
            channel=place.channel, ts=place.root, cursor=cursor, limit=200, include_all_metadata=True
        )

    def _bucket(self, channel: str) -> Bucket:
        with self._lock:
            if channel not in self._posts:
                self._posts[channel] = Bucket(POSTS_PER_S, POST_BURST, self._clock)
            return self._posts[channel]

    def _steady_bucket(self, channel: str) -> Bucket:
        with self._lock:
            return self._steady.setdefault(channel, Bucket(POSTS_PER_S, 1, self._clock))

    def _book(self, *buckets: Bucket, keep: float = 0.0) -> None:
        with self._lock:
            wait_s = max(bucket.wait_s(keep) for bucket in buckets)
            if wait_s > 0:
                raise Later(wait_s, "its share of calls is used up")
            for bucket in buckets:
                bucket.take()

    def _show(self, send: Callable[..., Any], message: Message, channel: str, bucket: Bucket) -> Any:
        """The message is sent; where its blocks are refused, its text alone with the buttons it had."""
        try:
            return self._call(lambda: send(message.text, list(message.blocks)), channel, bucket)
        except _Unshowable as error:
            log.error("Slack refuses a message in %s: %s %s", channel, error.error, "; ".join(error.messages))
        text, blocks = _plainly(message)
        try:
            return self._call(lambda: send(text, blocks), channel, bucket)
        except _Unshowable as error:
            raise Refused(error.error, channel) from None

    def _call(self, send: Callable[[], Any], where: str, bucket: Bucket) -> Any:
        try:
            return send()
        except SlackApiError as error:
            raise self._reason(error, where, bucket) from None
        except (OSError, http.client.HTTPException, SlackClientError) as error:
            raise Later(1.0, f"Slack does not answer ({type(error).__name__})", unsure=True) from None

    def _reason(self, error: SlackApiError, where: str, bucket: Bucket) -> Exception:
        response: Any = error.response
        code = str(response.get("error") or "") if isinstance(getattr(response, "data", None), dict) else ""
        if response.status_code == 429 or code in ("ratelimited", "rate_limited"):
            pause_s = _retry_after(response.headers)
            with self._lock:
                bucket.close(pause_s)
            log.warning("Slack asks for a pause of %.0f s in %s", pause_s, where)
            return Later(pause_s, f"Slack asks for a pause in {where}")
        if code in UNSHOWABLE:
            return _Unshowable(code, list((response.get("response_metadata") or {}).get("messages") or []))
        if code in PERMANENT:
            return Refused(code, where)
        unsure = response.status_code >= 500
        return Later(2.0, code or f"HTTP {response.status_code}", unsure=unsure, slack_spoke=not unsure)


class _Unshowable(Exception):
    def __init__(self, error: str, messages: list[str]) -> None:
        super().__init__(error)
        self.error = error
        self.messages = messages


def _marks(message: dict[str, Any]) -> list[str]:
    payload = (message.get("metadata") or {}).get("event_payload") or {}
    return [str(payload.get("mark")), *(str(file.get("title")) for file in message.get("files") or [])]


def _plainly(message: Message) -> tuple[str, list[Block]]:
    text = shorten(message.text, PLAIN_CHARS)
    return text, [section(text or "-"), *(block for block in message.blocks if block["type"] == "actions")]


def _retry_after(headers: Any) -> float:
    for key, value in dict(headers or {}).items():
        if str(key).lower() == "retry-after":
            first = value[0] if isinstance(value, list) else value
            return float(first) if str(first).isdigit() else PAUSE_S
    return PAUSE_S
