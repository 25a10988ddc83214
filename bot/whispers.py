"""What is said at once to one person, or while the store is away: kept in memory, worthless after a minute."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from bot.conversation import Conversation
from bot.render.message import Message
from bot.web import Later, Refused, Web

log = logging.getLogger(__name__)

WORTH_S = 60.0
MOST = 500

Say = Callable[[Web], None]


class Whispers:
    """A thread that says things in the order in which listeners hand them over; a listener never waits for it."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._queue: queue.Queue[tuple[float, Say] | None] = queue.Queue(MOST)
        self._thread = threading.Thread(target=self._run, name="whispers", daemon=True)
        self._stopping = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What was handed over is said, unless Slack does not take it now."""
        self._stopping.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(5)

    def say(self, say: Say) -> None:
        """`say` is called soon with the door to Slack; dropped, and logged, when hundreds wait."""
        try:
            self._queue.put_nowait((time.monotonic(), say))
        except queue.Full:
            log.warning("whispers: %d wait already, one is dropped", MOST)

    def whisper(self, place: Conversation, user: str, message: Message) -> None:
        self.say(lambda web: web.whisper(place, user, message))

    def post(self, place: Conversation, message: Message) -> None:
        self.say(lambda web: _post(web, place, message))

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            at, say = item
            try:
                self._say(at, say)
            except Exception:
                log.exception("whispers: one could not be said")

    def _say(self, at: float, say: Say) -> None:
        while True:
            try:
                return say(self._web)
            except Refused as error:
                return log.warning("whispers: given up, %s", error)
            except Later as error:
                if error.unsure or time.monotonic() + error.wait_s - at > WORTH_S or self._stopping.wait(error.wait_s):
                    return log.warning("whispers: dropped, %s", error)


def _post(web: Web, place: Conversation, message: Message) -> None:
    web.post(place, message)
