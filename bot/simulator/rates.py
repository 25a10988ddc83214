"""When a Web API call fails: faults set by a test, and Slack's rate limits where they are switched on."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from bot.simulator.limits import RateLimits


@dataclass
class Fault:
    """What happens to the next `times` calls of `method` (`*` is any), instead of or around the call itself.

    `error` is answered with ok false, `retry_after_s` with HTTP 429, `status` as that HTTP status. `hang_up` closes the
    connection without an answer; with `after` the call takes effect first, so that only the answer is lost. `delay_s`
    comes before all of it.
    """

    method: str
    times: int = 1
    error: str | None = None
    retry_after_s: int | None = None
    status: int | None = None
    delay_s: float = 0.0
    hang_up: bool = False
    after: bool = False


class Bucket:
    """A token bucket: `burst` calls at once, then one every `1 / per_s` seconds."""

    def __init__(self, per_s: float, burst: float, clock: Callable[[], float]) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._at_s = clock()

    def take(self) -> int:
        """0 when a token was taken, else the whole seconds after which there will be one."""
        now_s = self._clock()
        self._tokens = min(self._burst, self._tokens + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._tokens >= 1:
            self._tokens -= 1
            return 0
        return math.ceil((1 - self._tokens) / self._per_s)


class Rates:
    """One bucket a channel for posts, one for all updates, one a method for the rest. Any thread may call."""

    def __init__(self, limits: RateLimits, *, enforced: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.enforced = enforced
        self._limits = limits
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add_fault(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def clear_faults(self) -> None:
        with self._lock:
            self._faults.clear()

    def fault_for(self, method: str) -> Fault | None:
        """The oldest fault that waits for this method; the call uses up one of its times."""
        with self._lock:
            for fault in self._faults:
                if fault.method in (method, "*"):
                    fault.times -= 1
                    if fault.times <= 0:
                        self._faults.remove(fault)
                    return fault
            return None

    def wait_s(self, method: str, channel: str) -> int:
        """0 when the call may go ahead, else the Retry-After in seconds."""
        if not self.enforced or method in ("auth.test", "api.test", "apps.connections.open"):
            return 0
        with self._lock:
            posting = method in ("chat.postMessage", "chat.postEphemeral", "files.completeUploadExternal")
            key = f"post:{channel}" if posting else method
            if key not in self._buckets:
                self._buckets[key] = self._new_bucket(method, posting)
            return self._buckets[key].take()

    def _new_bucket(self, method: str, posting: bool) -> Bucket:
        if posting:
            return Bucket(self._limits.posts_per_s, self._limits.post_burst, self._clock)
        per_minute = self._limits.updates_per_minute if method == "chat.update" else self._limits.others_per_minute
        return Bucket(per_minute / 60, per_minute, self._clock)
