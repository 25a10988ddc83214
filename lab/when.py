# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Moments as people name them: `for 2 hours`, `until tonight`, `till Monday 9am`, `到明天早上`; and as clocks show them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta

MORNING, EVENING = 8, 20
"""Hours at which a morning and an evening begin, on this machine's clock."""

_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "half an": 0.5, "半": 0.5, "一": 1, "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "八": 8, "十": 10}  # fmt: skip
_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800, "分": 60, "小": 3600, "钟": 3600, "天": 86_400, "日": 86_400, "周": 604_800, "星": 604_800}  # fmt: skip
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAYS_ZH = "一二三四五六日"

LENGTH = re.compile(
    r"(?<![a-z\d:])(?P<n>\d+(?:\.\d+)?(?=\s*[^\s\d.])|(?:half an|an?|one|two|three)(?=\s)|半|[一两二三四五六八十])\s*(?:个)?\s*(?P<unit>minutes?|mins?|m\b|hours?|hrs?|h\b|days?|d\b|weeks?|分钟|小时|钟头|天|日(?!期)|周|星期)",
    re.IGNORECASE,
)
CLOCK = re.compile(
    r"(?<!\d)(?P<h>\d{1,2})(?::(?P<min>\d{2}))?\s*(?P<half>am|pm)\b|(?<!\d)(?P<h24>\d{1,2}):(?P<min24>\d{2})(?!\d)|(?P<part>早上|上午|下午|晚上|今晚|明晚)?\s*(?P<zh>\d{1,2})\s*[点时](?P<zhhalf>半)?|(?:until|till?|at|by)\s+(?P<bare>\d{1,2})(?![\d:]|\s*(?:h|m|d|w|am|pm|min|hour|day|week))",
    re.IGNORECASE,
)
WEEKDAY = re.compile(
    r"\b(?P<en>mon|tue|wed|thu|fri|sat|sun)(?:day|s|sday|nesday|rs|rsday|urday)?\b|(?:周|星期|礼拜)(?P<zh>[一二三四五六日天])",
    re.IGNORECASE,
)
UNTIL = re.compile(r"\b(?:until|till?|up to|to(?= \d))\b|到|直到|为止|之前", re.IGNORECASE)


def moment(text: str, now: datetime) -> datetime | None:
    """The end that the words name, after `now` and on its clock; None when they name none."""
    low = text.lower()
    ends = list(UNTIL.finditer(low))
    if ends and (tail := low[ends[-1].start() :]) != low and (at := moment(tail, now)):
        return at
    if found := LENGTH.search(low):
        number = found["n"]
        return now + timedelta(seconds=(_NUMBERS.get(number) or float(number)) * _UNITS[found["unit"][0]])
    day, named = _day(low, now)
    hour = _hour(low)
    if hour is not None:
        at = day.replace(hour=hour[0], minute=hour[1])
        return at if at > now else at + timedelta(days=7 if named == "weekday" else 1)
    return _part_of_day(low, named, day, now)


def _part_of_day(low: str, named: str, day: datetime, now: datetime) -> datetime | None:
    midnight = _midnight(now)
    if re.search(r"tonight|this evening|今晚|今夜|晚上", low) and named in ("", "today"):
        evening = midnight.replace(hour=EVENING)
        if UNTIL.search(low) and now < evening:
            return evening
        return midnight + timedelta(days=now.hour >= MORNING, hours=MORNING)
    if re.search(r"week-?ends?|周末", low):
        return midnight + timedelta(days=7 - now.weekday(), hours=MORNING)
    if named == "today":
        return midnight + timedelta(days=1)
    if named:
        at = day.replace(hour=EVENING if re.search(r"evening|night|晚", low) else MORNING)
        return at if at > now else at + timedelta(days=7)
    if re.search(r"\bmorning\b|早上|早晨|overnight", low):
        at = midnight.replace(hour=MORNING)
        return at if at > now else at + timedelta(days=1)
    if re.search(r"\bnoon\b|中午", low):
        at = midnight.replace(hour=12)
        return at if at > now else at + timedelta(days=1)
    return None


def _day(low: str, now: datetime) -> tuple[datetime, str]:
    """The day that the words name, and which way: today, tomorrow, a weekday; today and nothing where none is."""
    today = _midnight(now)
    if re.search(r"day after tomorrow|后天", low):
        return today + timedelta(days=2), "tomorrow"
    if re.search(r"\btomorrow\b|\btmrw?\b|明天|明早|明晚|明日", low):
        return today + timedelta(days=1), "tomorrow"
    if re.search(r"\btoday\b|今天|今日|end of (?:the )?day", low):
        return today, "today"
    if re.search(r"next week|下周(?![一二三四五六日天])", low):
        return today + timedelta(days=7 - now.weekday()), "weekday"
    if found := WEEKDAY.search(low):
        zh = found["zh"] and found["zh"].replace("天", "日")
        wanted = _DAYS_ZH.index(zh) if zh else _DAYS.index(found["en"].lower())
        ahead = (wanted - now.weekday()) % 7 + (
            7 if "下周" in low and (wanted - now.weekday()) % 7 + now.weekday() < 7 else 0
        )
        return today + timedelta(days=ahead), "weekday"
    return today, ""


def _hour(low: str) -> tuple[int, int] | None:
    found = CLOCK.search(low)
    if found is None:
        return None
    hour = int(found["h"] or found["h24"] or found["zh"] or found["bare"])
    minute = int(found["min"] or found["min24"] or (30 if found["zhhalf"] else 0))
    late = (
        found["half"] == "pm"
        or found["part"] in ("下午", "晚上", "今晚", "明晚")
        or re.search(r"今晚|明晚|晚上|下午", low)
    )
    if late and hour < 12:
        hour += 12
    elif found["half"] == "am" and hour == 12:
        hour = 0
    return (hour, minute) if hour < 24 and minute < 60 else (0, 0) if hour == 24 else None


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


STAMP = re.compile(r"@\{(\d{1,11})\}")


def stamp(at: float) -> str:
    """A moment in a text of which the writer does not know on whose clock it is read; `stamped` puts it there."""
    return f"@{{{round(at)}}}"


def stamped(text: str, clock: Callable[[float], str]) -> str:
    """The text with its stamps as the reader's clock shows them."""
    return STAMP.sub(lambda found: clock(float(found[1])), text)


def clock(at: float, now: float | None = None) -> str:
    """A moment on this machine's clock: `04:10`, `Tue 04:10` within a week, else `2026-12-24 04:10`."""
    there, today = datetime.fromtimestamp(at), datetime.fromtimestamp(time.time() if now is None else now)
    days = abs((there.date() - today.date()).days)
    return there.strftime("%H:%M" if days == 0 else "%a %H:%M" if days < 7 else "%Y-%m-%d %H:%M")
