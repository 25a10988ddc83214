"""The meter of the language model: tokens and money by day (UTC), of the lab and of each person, and daily budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from lab import tally
from lab.run import Spent
from lab.settings import ModelSettings
from lab.store import PREFIX, Client

KEPT_S = 400 * 86_400
LAB = ""
"""Stands for all persons together."""


def count(client: Client, person: str, spent: Spent, now: float) -> None:
    """The calls of one request are on the meter of the day, the lab's and the person's."""
    if not spent.calls:
        return
    key = _key(_day(now))
    with client.pipeline() as pipe:
        for who in (LAB, person):
            for field in tally.MODEL_COUNTS:
                pipe.hincrby(key, f"{field} {who}", getattr(spent, field))
            if spent.money is not None:
                pipe.hincrbyfloat(key, f"money {who}", round(spent.money, 8))
        pipe.expire(key, KEPT_S)
        tally.count_model(pipe, spent)
        pipe.execute()


def spent(client: Client, since: float, now: float) -> dict[str, Spent]:
    """What was spent on the days from `since` to `now`, both included, by person; under LAB the sum."""
    first, last = _day(since), _day(now)
    days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    with client.pipeline(transaction=False) as pipe:
        for day in days:
            pipe.hgetall(_key(day))
        found: dict[str, Spent] = {}
        for fields in pipe.execute():
            for who, part in _read(fields).items():
                found[who] = found.get(who, Spent()) + part
    return found


@dataclass(frozen=True)
class Budget:
    """A budget of tokens a day."""

    whose: Literal["lab", "person"]
    tokens: int


def used_up(client: Client, person: str, settings: ModelSettings, now: float) -> Budget | None:
    """The daily budget that is used up, the lab's before the person's; None while there is something left of both."""
    if settings.daily_tokens is None and settings.daily_tokens_person is None:
        return None
    today = spent(client, now, now)
    if settings.daily_tokens is not None and today.get(LAB, Spent()).tokens >= settings.daily_tokens:
        return Budget("lab", settings.daily_tokens)
    own = settings.daily_tokens_person
    return Budget("person", own) if own is not None and today.get(person, Spent()).tokens >= own else None


def first_word(client: Client, person: str, now: float) -> bool:
    """True once a day for each person: then is the time to say that a budget is used up."""
    return bool(client.set(f"{PREFIX}meter:told:{_day(now):%Y-%m-%d}:{person}", 1, nx=True, ex=2 * 86_400))


def words(found: Spent) -> str:
    """`3 calls, 4,210 tokens (some 900 estimated), 0.0021 in money`; without prices the money is not known."""
    text = f"{found.calls} call{'' if found.calls == 1 else 's'}, {found.tokens:,} tokens"
    if found.estimated:
        text += f" ({found.estimated:,} of them estimated)"
    return text + ("" if found.money is None else f", {found.money:.4g} in the lab's money")


def _read(fields: Mapping[str, str]) -> dict[str, Spent]:
    """Each person's part of a day; fields of other versions are passed over."""
    parts: dict[str, dict[str, float]] = {}
    for name, value in fields.items():
        field, _, who = name.partition(" ")
        parts.setdefault(who, {})[field] = float(value) if field == "money" else int(value)
    return {who: Spent.model_validate(part) for who, part in parts.items()}


def _day(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _key(day: datetime) -> str:
    return f"{PREFIX}meter:{day:%Y-%m-%d}"
