"""What the alarm saw of late, kept in Redis, so that a new alarm judges the same windows as the one before it."""

from __future__ import annotations

import json
import logging

from keeper.judge import Judge, Values
from lab.store import PREFIX, Client

log = logging.getLogger(__name__)

KEY = f"{PREFIX}alert:samples"


def keep(client: Client, judge: Judge, interval_s: float, at: float, values: Values) -> None:
    """The values of this look are kept for as long as the judge's longest window."""
    most = round(judge.window_s / interval_s) + 1
    with client.pipeline() as pipe:
        pipe.rpush(KEY, json.dumps([at, values]))
        pipe.ltrim(KEY, -most, -1)
        pipe.expire(KEY, max(1, round(judge.window_s)))
        pipe.execute()


def recall(client: Client, judge: Judge) -> None:
    """The judge, which has judged nothing yet, knows what was seen before."""
    seen: dict[float, Values] = {}  # two alarms may have looked at one moment
    for text in client.lrange(KEY, 0, -1):
        try:
            at, values = json.loads(text)
        except ValueError as error:  # of another version
            log.debug("what was seen before cannot be read: %s", error)
            continue
        seen[at] = values
    for at in sorted(seen):
        judge.recall(at, seen[at])
