"""The wish to end, made by a signal and heard at once by whoever waits."""

from __future__ import annotations

import contextlib
import queue
import signal
from collections.abc import Callable


class Stop:
    """A wish to end that a signal handler may make.

    `threading.Event` will not do: its `set`, called by a handler while the same thread is inside `wait`, can find the
    lock taken by the very thread it interrupted. `SimpleQueue.put` is re-entrant.
    """

    def __init__(self) -> None:
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.at_once: Callable[[], object] | None = None
        """Called when the end is asked for, by the signal handler itself, for what may not wait for a blocking call."""
        self.asked = False

    def ask(self, *_: object) -> None:
        """From now on `asked` is true and every wait returns at once; fits as a signal handler."""
        self.asked = True
        self._wakeups.put(None)
        if self.at_once is not None:
            self.at_once()

    def wait(self, seconds: float) -> bool:
        """Whether the end was asked for, after at most this long."""
        if not self.asked:
            with contextlib.suppress(queue.Empty):
                self._wakeups.get(timeout=max(0.0, seconds))
        return self.asked

    def on_signals(self) -> Stop:
        """SIGTERM and SIGINT ask for the end; only the main thread may call this."""
        signal.signal(signal.SIGTERM, self.ask)
        signal.signal(signal.SIGINT, self.ask)
        return self
