# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Reads short orders on what exists: `pause exp-12`, `retry exp-12/3`, `取消 exp-12`, `cancel everything of mine`.

Only a message that is nothing but the order counts; whatever else it says makes it a request for the reader.
"""

from __future__ import annotations

import re
from typing import cast

from lab.orders import MINE, Order, Verb
from lab.plan import PRIORITIES, Priority

VERBS: dict[Verb, str] = {
    "cancel": r"cancel|stop|kill|abort|取消|停止|停掉|终止|停",
    "pause": r"pause|hold|suspend|暂停",
    "resume": r"resume|continue|unpause|go on with|继续|恢复",
    "retry": r"retry|re-?run(?: the)? failed(?: runs?)?(?: of| in)?|重试|重跑失败的?",
}
POLITE = r"(?:please|pls|kindly|can you|could you|请|麻烦|帮我|帮忙)?\s*"
SUBJECT = (
    r"(?P<experiment>exp-\d+)(?:\s*/\s*(?P<run>\d+)|\s*(?:的\s*)?run\s*#?(?P<run_en>\d+)|\s*(?:的\s*)?第\s*(?P<run_zh>\d+)\s*个?(?:\s*run)?)?"
    r"|(?P<mine>(?:everything|all)(?: of mine| my runs| i have)?(?: that(?:'s| is| are))?(?: still)?(?: in the queue| queued| waiting)"
    r"|(?:all |every(?:thing)? )?(?:of )?my (?:queued|waiting) (?:runs|jobs)"
    r"|我(?:的)?(?:所有|全部)?(?:还)?(?:在)?(?:排队|等待)(?:中|的|中的)?(?:的)?(?:任务|run|runs|实验)?)"
    r"|run\s*#?(?P<here>\d+)"
    r"|(?P<this>it|this|that|this one|它|这个|这个实验)?"
)
EXPERIMENT = re.compile(r"exp-\d+(?:\s*/\s*\d+)?", re.IGNORECASE)
TAIL = r"\s*(?:please|pls|thanks|now|吧|一下|谢谢)?\s*[.!。！]*"
LEVELS = {"高": "high", "低": "low", "普通": "normal", "正常": "normal"}

PATTERNS: dict[Verb, re.Pattern[str]] = {
    verb: re.compile(rf"{POLITE}(?:{words})\s*(?:the\s+)?(?:{SUBJECT}){TAIL}", re.IGNORECASE)
    for verb, words in VERBS.items()
}
PRIORITY = (
    re.compile(rf"{POLITE}(?:(?:set|bump|put|give)\s+)?(?:{SUBJECT})\s*(?:to|at|on)?\s*(?P<level>high|low|normal)(?:\s+prio(?:rity)?)?{TAIL}", re.IGNORECASE),
    re.compile(rf"{POLITE}prio(?:rity)?\s+(?:of\s+)?(?:{SUBJECT})\s*(?:to|=|:)?\s*(?P<level>high|low|normal){TAIL}", re.IGNORECASE),
    re.compile(rf"{POLITE}(?:把\s*)?(?:{SUBJECT})\s*(?:的)?优先级(?:改|设|调)?(?:为|成|到)?\s*(?P<level>高|低|普通|正常|high|low|normal){TAIL}", re.IGNORECASE),
)  # fmt: skip


def read_order(text: str, here: str | None) -> Order | None:
    """The order that the message is; None when it is none, or names nothing where nothing is understood.

    Args:
        here: the experiment of the conversation, for orders that name none; None when it has none.
    """
    bare = " ".join(text.strip().strip("`").split())
    for verb, pattern in PATTERNS.items():
        match = pattern.fullmatch(bare)
        subject = match and _subject(match, here)
        if subject:
            return Order(verb, subject)
    for pattern in PRIORITY:
        match = pattern.fullmatch(bare)
        subject = match and _subject(match, here)
        if match and subject:
            level = match["level"].lower()
            level = LEVELS.get(level, level)
            return Order("priority", subject, cast(Priority, level)) if level in PRIORITIES else None
    return None


PARTED = re.compile(r"\s*(?:[;,；，、\n]|\band\b|\bthen\b|\band then\b|和|以及|然后|并且?)+\s*", re.IGNORECASE)


def read_orders(text: str, here: str | None) -> tuple[Order, ...]:
    """Every order of a message that is nothing but orders: `cancel exp-1; cancel exp-2`, `取消 exp-1 和 exp-2`.

    A part without a verb has that of the part before it. Empty where any part is no order.
    """
    whole = read_order(text, here)
    if whole is not None:
        return (whole,)
    found: list[Order] = []
    for part in (p for p in PARTED.split(" ".join(text.strip().strip("`").split(" "))) if p):
        bare = EXPERIMENT.fullmatch(part) and found
        order = read_order(f"{found[-1].verb} {part}" if bare else part, here if not found else None)
        if order is None or (bare and found[-1].verb == "priority"):
            return ()
        found.append(order)
    return tuple(found)


def _subject(match: re.Match[str], here: str | None) -> str | None:
    """`exp-12`, `exp-12/3` or MINE; None when the message means something that is not there."""
    if match["mine"]:
        return MINE
    if match["experiment"]:
        number = match["run"] or match["run_en"] or match["run_zh"]
        return match["experiment"].lower() + (f"/{int(number)}" if number else "")
    if here is None:
        return None
    return f"{here}/{int(match['here'])}" if match["here"] else here
