"""Who holds a card until when: a claim in one script on Redis' clock, renewed by the holder, fenced by a number."""

from __future__ import annotations

import json

from lab.errors import LeaseRefused
from lab.run import Record, RunState
from lab.store import PREFIX, Client


class Lease(Record):
    """A run's hold on its cards; it ends by itself when it is not renewed."""

    run_id: str
    fence: int
    cards: tuple[str, ...]
    holder: str
    """Name of the worker."""


_CLAIM = """
local run = KEYS[1]
local state = redis.call('HGET', run, 'state')
if state ~= ARGV[1] then return {'refused', state or 'unknown'} end
if redis.call('HGET', run, 'dispatches') ~= ARGV[2] then return {'refused', 'bound anew'} end
for i = 2, #KEYS do
  local held = redis.call('GET', KEYS[i])
  if held then return {'held', held} end
end
local fence = redis.call('HINCRBY', run, 'fence', 1)
for i = 2, #KEYS do
  redis.call('SET', KEYS[i], cjson.encode({run_id = ARGV[3], fence = fence, holder = ARGV[4]}), 'PX', ARGV[5])
end
return {'ok', tostring(fence)}
"""
_RENEW = """
for i = 1, #KEYS do
  local held = redis.call('GET', KEYS[i])
  if not held then return 0 end
  local lease = cjson.decode(held)
  if lease.run_id ~= ARGV[1] or tostring(lease.fence) ~= ARGV[2] then return 0 end
end
for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[3]) end
return 1
"""
_RELEASE = """
for i = 1, #KEYS do
  local held = redis.call('GET', KEYS[i])
  if held then
    local lease = cjson.decode(held)
    if lease.run_id == ARGV[1] and tostring(lease.fence) == ARGV[2] then redis.call('DEL', KEYS[i]) end
  end
end
return 1
"""


def key(card: str) -> str:
    """Redis key of a card's lease."""
    return f"{PREFIX}lease:{card}"


class Leases:
    """Claims, renews and releases; every call is atomic and safe to repeat.

    Time is Redis' own (PX expiry), so a jump of a host's clock changes nothing.
    """

    def __init__(self, client: Client, lease_s: float) -> None:
        self.client = client
        self.lease_ms = round(lease_s * 1000)
        self._claim = client.register_script(_CLAIM)
        self._renew = client.register_script(_RENEW)
        self._release = client.register_script(_RELEASE)

    def claim(self, run_id: str, dispatch: int, cards: tuple[str, ...], holder: str) -> Lease:
        """The run's next attempt is the caller's: the fence is raised and all its cards are leased, or nothing is.

        Raises:
            LeaseRefused: the run was not dispatched with this number (ended, cancelled, bound anew), or a card is held.
        """
        keys = [f"{PREFIX}run:{run_id}", *map(key, cards)]
        args = [json.dumps(RunState.DISPATCHED), str(dispatch), run_id, holder, self.lease_ms]
        verdict, detail = self._claim(keys=keys, args=args)
        if verdict != "ok":
            raise LeaseRefused(run_id, f"not claimed, {verdict}: {detail}")
        return Lease(run_id=run_id, fence=int(detail), cards=cards, holder=holder)

    def renew(self, lease: Lease) -> bool:
        """True when the lease is good for another period; False when it ran out or went to somebody else."""
        return bool(self._renew(keys=[*map(key, lease.cards)], args=[lease.run_id, str(lease.fence), self.lease_ms]))

    def release(self, lease: Lease) -> None:
        """The cards are free, if this lease still held them."""
        self._release(keys=[*map(key, lease.cards)], args=[lease.run_id, str(lease.fence)])

    def held(self, card: str) -> dict[str, str | int] | None:
        """run_id, fence and holder of the card's lease; None when nobody holds it."""
        raw = self.client.get(key(card))
        return dict(json.loads(raw)) if raw else None
