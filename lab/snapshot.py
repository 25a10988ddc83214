"""Everything that Overnight keeps in Redis, taken at one moment and put back into an empty one."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import redis

from lab.errors import OperatorError
from lab.store import PREFIX, Client

FLEETING = ("lease:", "leader:", "host:", "cards:", "names:", "forecast")
"""What is true only while its process lives. RQ's queues stay behind too: the leader fills them from the ledger."""
FIGURES = f"{PREFIX}figure:"
"""Never change, and stand before the report that names them; so they need not be taken at the same moment."""
CHUNK = 500

# One script, so that no record is taken without its index. The server does nothing else meanwhile: 0.2 s for ten
# thousand runs of 10 kB.
_TAKE = """
local taken = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local left = false
  for i = 2, #ARGV do
    if string.sub(key, 1, #ARGV[i]) == ARGV[i] then left = true end
  end
  if not left then
    taken[#taken + 1] = {key, redis.call('DUMP', key), redis.call('PTTL', key)}
  end
end
return taken
"""


@dataclass(frozen=True)
class Entry:
    """One key with its value as Redis serialises it."""

    key: bytes
    value: bytes
    ttl_ms: int
    """0 for a key that does not expire."""

    def line(self) -> bytes:
        """The entry as a line of JSON."""
        text = {"key": self.key.decode(), "ttl_ms": self.ttl_ms, "value": base64.b64encode(self.value).decode()}
        return json.dumps(text, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Entry:
        """The entry of a line. Raises ValueError where it is none, or none of ours."""
        found = json.loads(line)
        if not isinstance(found, dict) or not str(found.get("key")).startswith(PREFIX):
            raise ValueError("not a key of Overnight")
        return cls(found["key"].encode(), base64.b64decode(found["value"], validate=True), int(found["ttl_ms"]))


def take(raw: Client) -> Iterator[Entry]:
    """Every key that outlives the processes, all at one moment, then the figures; for a client that does not decode.

    Raises:
        OperatorError: Redis does not allow it to this user.
    """
    try:
        left = [*(f"{PREFIX}{kind}" for kind in FLEETING), FIGURES]
        taken = raw.eval(_TAKE, 0, PREFIX, *left)
        figures = list(raw.scan_iter(f"{FIGURES}*", count=1000))
    except redis.exceptions.ResponseError as error:
        raise OperatorError(f"Redis gives no backup: {error}; its user needs EVAL, KEYS, DUMP and PTTL") from None
    yield from (Entry(key, value, max(0, ttl_ms)) for key, value, ttl_ms in taken)
    for start in range(0, len(figures), CHUNK):
        with raw.pipeline(transaction=False) as pipe:
            for key in figures[start : start + CHUNK]:
                pipe.dump(key).pttl(key)
            replies = pipe.execute()
        for key, value, ttl_ms in zip(figures[start:], replies[::2], replies[1::2], strict=False):
            if value is not None:
                yield Entry(key, value, max(0, ttl_ms))


def is_empty(raw: Client) -> bool:
    """True when Redis holds nothing of Overnight's."""
    return next(iter(raw.scan_iter(f"{PREFIX}*", count=1000)), None) is None


def put_back(raw: Client, entries: Iterable[Entry]) -> int:
    """The entries stand in Redis, which held nothing of ours; their number. When one is refused, none stand there.

    Raises:
        OperatorError: this server does not read what that one wrote.
    """
    keys: list[bytes] = []
    try:
        with raw.pipeline(transaction=False) as pipe:
            for entry in entries:
                pipe.restore(entry.key, entry.ttl_ms, entry.value)
                keys.append(entry.key)
                if len(pipe) >= CHUNK:
                    pipe.execute()
            pipe.execute()
    except (redis.exceptions.ResponseError, ValueError) as error:
        for start in range(0, len(keys), CHUNK):
            raw.delete(*keys[start : start + CHUNK])
        raise OperatorError(f"the records cannot be put back ({error}); nothing was written") from None
    return len(keys)
