"""A lock by which at most one process does a job for the whole lab; it runs out when its holder dies."""

from __future__ import annotations

import os
import uuid

from lab.store import PREFIX, Client

LEADER_S = 10.0
"""A leader that died is replaced after so long; a leader renews well within it."""

DISPATCH = "dispatch"
"""The job of the dispatcher."""


def leader_key(job: str) -> str:
    """Redis key of the lock; it is there while somebody leads."""
    return f"{PREFIX}leader:{job}"


_RENEW = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Leadership:
    """At most one holder; two for a moment must do no harm, so what a leader writes is compared and set.

    Args:
        job: what is led: `alerts`.
        hold_s: how long a hold lasts.
    """

    def __init__(self, client: Client, job: str, hold_s: float = LEADER_S) -> None:
        self.name = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._key = leader_key(job)
        self._hold_ms = round(hold_s * 1000)
        self._renew = client.register_script(_RENEW)
        self._release = client.register_script(_RELEASE)

    def hold(self) -> bool:
        """True when this one leads for the next `hold_s`."""
        return bool(self._renew(keys=[self._key], args=[self.name, self._hold_ms]))

    def release(self) -> None:
        """Another one may lead at once."""
        self._release(keys=[self._key], args=[self.name])
