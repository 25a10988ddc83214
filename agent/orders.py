# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Reads short orders on what exists: `pause exp-12`, `retry exp-12/3`, `取消 exp-12`, `cancel everything of mine`.

Only a message that is nothing but the order counts; whatever else it says makes it a request for the reader.
"""

from __future__ import annotations

import re

from lab.orders import MINE, Order, Verb
from lab.plan import Priority

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
    r"|我(?:的)?(?:所有|全部)?(?:还)?(?:在)?(?:排队|等待)(?:中|的|中的)?(?:的)?(?:任务|run|runs|实验)?"
    r"|所有我(?:的)?(?:还)?(?:在)?(?:排队|等待)(?:中|的|中的)?(?:的)?(?:任务|run|runs|实验)?)"
    r"|run\s*#?(?P<here>\d+)"
    r"|(?P<this>it|this|that|this one|它|这个|这个实验)?"
)
EXPERIMENT = re.compile(r"exp-\d+(?:\s*/\s*\d+)?", re.IGNORECASE)
TAIL = r"\s*(?:please|pls|thanks|now|吧|一下|谢谢)?\s*[.!。！]*"
HIGHER = r"(?P<level>raise|increase|lower|decrease|提高|降低)"
LEVELS: dict[str, Priority] = {
    **dict.fromkeys(("high", "highest", "urgent", "raise", "increase", "高", "最高", "紧急", "提高"), "high"),
    **dict.fromkeys(("low", "lowest", "lower", "decrease", "低", "最低", "降低"), "low"),
    **dict.fromkeys(("normal", "普通", "正常"), "normal"),
}
LEVEL = r"(?P<level>highest|high|urgent|lowest|low|normal|最高|最低|高|低|普通|正常|紧急)"

PATTERNS: dict[Verb, tuple[re.Pattern[str], ...]] = {
    verb: (
        re.compile(rf"{POLITE}(?:{words})\s*(?:the\s+)?(?:{SUBJECT}){TAIL}", re.IGNORECASE),
        re.compile(
            rf"{POLITE}(?:先)?(?:把|将)?\s*(?:{SUBJECT})\s*(?:都|全都|全部)?\s*(?:先|给我)?(?:{words})掉?{TAIL}",
            re.IGNORECASE,
        ),
    )
    for verb, words in VERBS.items()
}
PAUSED = re.compile(
    rf"{POLITE}(?:{VERBS['resume']})\s*(?:(?:everything|all)(?: of mine| (?:of )?my(?: paused)? (?:runs|jobs|experiments)| (?:that )?i paused)(?: that(?:'s| is| are) paused)?|(?:all )?my paused (?:runs|jobs|experiments)|我(?=.*(?:所有|全部|暂停))(?:的)?(?:所有|全部)?(?:已)?(?:暂停(?:了)?的?)?(?:所有|全部)?(?:任务|run|runs|实验)){TAIL}",
    re.IGNORECASE,
)
"""Resume is for what is paused, which nobody would call queued."""
PRIORITY = (
    re.compile(rf"{POLITE}(?:(?:set|bump|put|give|make|mark|move)\s+)?(?:{SUBJECT})\s*(?:to|at|on|as)?\s*{LEVEL}(?:\s+prio(?:rity)?)?{TAIL}", re.IGNORECASE),
    re.compile(rf"{POLITE}(?:{SUBJECT})(?:'s)?\s*prio(?:rity)?\s*(?:to|=|:|is)?\s*{LEVEL}{TAIL}", re.IGNORECASE),
    re.compile(rf"{POLITE}(?:(?:set|change|make)\s+)?(?:the\s+)?prio(?:rity)?\s+(?:(?:of|for)\s+)?(?:{SUBJECT})\s*(?:to|=|:|as)?\s*{LEVEL}{TAIL}", re.IGNORECASE),
    re.compile(rf"{POLITE}(?:把|将)?\s*(?:{SUBJECT})\s*(?:的)?优先级?(?:改|设|调|提|降)?(?:为|成|到)?\s*{LEVEL}{TAIL}", re.IGNORECASE),
    re.compile(rf"{POLITE}(?:把|将)?\s*(?:{SUBJECT})\s*(?:改|设|调|提|升|降)(?:为|成|到)?\s*{LEVEL}(?:优先级?)?{TAIL}", re.IGNORECASE),
    re.compile(rf"{POLITE}{HIGHER}\s*(?:the\s+)?prio(?:rity)?\s+of\s+(?:{SUBJECT}){TAIL}", re.IGNORECASE),
    re.compile(rf"{POLITE}{HIGHER}\s*(?:{SUBJECT})\s*(?:的优先级|'s\s+prio(?:rity)?){TAIL}", re.IGNORECASE),
)  # fmt: skip


def read_order(text: str, here: str | None) -> Order | None:
    """The order that the message is; None when it is none, or names nothing where nothing is understood.

    Args:
        here: the experiment of the conversation, for orders that name none; None when it has none.
    """
    bare = " ".join(text.strip().strip("`").split())
    if PAUSED.fullmatch(bare):
        return Order("resume", MINE)
    for verb, patterns in PATTERNS.items():
        for match in (pattern.fullmatch(bare) for pattern in patterns):
            if subject := match and _subject(match, here):
                return Order(verb, subject)
    for pattern in PRIORITY:
        match = pattern.fullmatch(bare)
        subject = match and _subject(match, here)
        if match and subject:
            return Order("priority", subject, LEVELS[match["level"].lower()])
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
