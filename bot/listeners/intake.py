"""What all listeners share: the ledger within reach, whispers, and what to do while the store is away."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import TypeVar

from redis.exceptions import RedisError

from bot.conversation import Conversation
from bot.render.answer import said
from bot.whispers import Whispers
from lab.errors import StoreAwayError
from lab.ledger import Ledger
from lab.plan import MAX_RUNS
from lab.store import Client

log = logging.getLogger(__name__)
T = TypeVar("T")

BREATHE_S = 1.0
"""After a failed call the store counts as away for so long: many messages at once must not each wait for it."""


class Intake:
    """Hands what people want to the ledger. Any thread may call; a call takes at most some 2 seconds.

    Attributes:
        bot_user: the bot's own user id, whose mention is a call for it.
        admins: user ids of those who may change what others asked for.
        max_runs: the most runs of one experiment.
    """

    def __init__(
        self, client: Client, whispers: Whispers, bot_user: str, admins: Collection[str] = (), max_runs: int = MAX_RUNS
    ) -> None:
        self.client = client
        self.ledger = Ledger(client)
        self.whispers = whispers
        self.bot_user = bot_user
        self.admins = admins
        self.max_runs = max_runs
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._away_until = 0.0

    def reach(self, work: Callable[[], T]) -> T:
        """What `work` returns with the store within reach. Raises StoreAwayError at once or after 2 s."""
        if time.monotonic() < self._away_until:
            raise StoreAwayError("the store did not answer a moment ago")
        try:
            done = work()
        except RedisError as error:
            self._away_until = time.monotonic() + BREATHE_S
            log.warning("intake: the store is away (%s)", type(error).__name__)
            raise StoreAwayError(f"the store does not answer ({type(error).__name__})") from None
        if self._told:
            with self._lock:
                self._told.clear()
        return done

    def say_away(self, place: Conversation, *, chinese: bool) -> None:
        """The thread reads that no requests are taken; once, until the store has been back."""
        with self._lock:
            if place.name in self._told:
                return
            self._told.add(place.name)
        self.whispers.post(place, said("away", chinese))
