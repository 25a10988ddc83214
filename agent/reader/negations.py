# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""What a message says not to use: names, words and numbers behind `not`, `without`, `instead of`, 不要, 除了, 而不是."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.reader import axes as axis_table
from agent.reader.numbers import COUNT, FLAGS, LIST, NUMBER, count, value, values
from agent.reader.page import Page
from lab.plan import Scalar


def _rx(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, FLAGS)


NEVER = r"(?:do not|don'?t|dont|never|cannot|can'?t|shouldn'?t|must not|mustn'?t|should not|does not|doesn'?t|won'?t|will not)"
RATHER = r"instead of|in place of|rather than|而不是|而非|不是|并非|代替|取代|替代"
CUE = (
    rf"(?:(?<!why )(?<!or )(?<!if )(?<!and )\bnot|(?<!and )(?<!or )(?<!& )(?<!vs )(?<!vs\. )\bwithout|(?<!and )(?<!or )(?<!& )(?<!vs )(?<!vs\. )(?<!/)\bw/o|\b{NEVER}|\bno(?:ne of)?|\bexcept(?:ing)?(?: for)?|\bexclud(?:e|ing)|\b(?:anything|all|everything) but(?! (?:use|with|run|try|change|set|for|on|at)\b)|"
    rf"\b(?:instead of|in place of|rather than)|\bavoid(?:ing)?|\bskip(?:ping)?|\bdrop(?:ping)?|\bomit(?:ting)?|\bleave out|\bremove|\bminus|\bohne|\bsans|\bsin|\bsem|"
    r"不(?:要|用|跑|使用|想用|能用|需要|考虑|是|在|选)|而不是|而非|并非|别(?:再)?(?:用|跑|在|选|试|加)|勿用|无需|排除|去掉|剔除|除(?:了|去|开)?|跳过|代替|取代|替代)"
)
FILL = r"(?:\s*(?:\b(?:to|the|a|an|any|use|using|run|running|try|trying|include|including|train|training|test|testing|compare|comparing|on|with|want|need|for|models?|data ?sets?|optimi[sz]ers?|like)\b|再|用|跑|在|试|加|做|使用|模型|数据集?|优化器|那个|这个))*\s*"
ANY = _rx(CUE)
BEFORE = _rx(rf"(?P<cue>{CUE}){FILL}$")
AFTER = _rx(
    r"^\s*(?:的)?(?:那个|那组|这组|那一组|这个|那些)?\s*(?:(?:就|都|也)?(?:先)?(?:不(?:用|要|需要)(?:再)?(?:对比|比|跑|训练?|试|用)?了?|不跑了?|别跑了?|别用了?|去掉|删掉|排除|除外)|(?:is|are) (?:out|excluded|not (?:needed|wanted)))\s*(?:吧|了)?(?=$|[\s,.;!?])(?!\s*[A-Za-z])"
    r"|^\s*[?,.-]*\s*(?:no,? wait\b|wait,? no\b|no,|scratch that|不对|哦不|啊不|说错了)(?=.{0,20}[A-Za-z])"
)
FAILED = (
    r"(?:(?:did|does|do)(?: ?n'?t| not) (?:really |seem to )?(?:work|converge|help|train|learn|go well|do well)|diverge[sd]?|fail(?:s|ed)|(?:is|was) (?:no good|bad|useless|terrible|unstable|too (?:slow|big|large|heavy))|sucks?|blew up"
    r"|(?:效果)?(?:不行|不好用|不好|不收敛|没用|没效果|太差|太慢|太大|发散了?|炸了|崩了))"
)
"""What people say of something that they are about to replace."""
DISMISSED = _rx(
    rf"^\s*(?:just |really |也|都|就|效果)?\s*{FAILED}[^,.;!?\n]{{0,30}}[\s,.;!?]*(?:so|then|let'?s|please|pls|那就?|所以|还是)*\s*(?:use|try|run|go with|switch to|take|换成?|改用|改成|换用|用|试)"
)
"""`adam didn't work, use sgd`"""
BESIDES = _rx(r"^[^.;]{0,24}?(?:还|也|再|又|另外|同时)")
"""After 除了 it means `as well as`."""
LINK = _rx(r"\s*(?:,?\s*\b(?:or|nor|and)\b|和|与|跟|或者?|以及|及|/)\s*(?:the |on )?")
COMMA = _rx(r"\s*,\s*(?:the |on )?")
LISTS = _rx(r"^(?:except|exclud|除)")
"""Cues whose lists go on after a comma."""
MENTIONED = _rx(r"^\s*(?:is|are|was|were|has|have|太|是|已经|坏|有问题)")
"""After a name it tells something about it, and asks for nothing."""
BROKEN = r"(?!\s*(?:%|sure|times|x\b|more|less|hours?|hrs?|h\b|min|minutes?|[GM]i?B|小时|分钟|倍|次|点))"
UNITS = {
    "epochs": r"epochs?|轮",
    "max_steps": r"steps?|iters?|iterations?|步",
    "seed": r"(?:random )?seeds?|个?(?:随机)?种子",
    "gpus_per_run": r"gpus?|cards?|张?卡",
}
NO_COUNT = {
    name: _rx(
        rf"(?:(?<!why )\bnot|{RATHER}|\b{NEVER}(?: (?:use|run|do|train|want))?(?: for)?|不要|不用|别(?:用|跑))\s*(?:the\s+|for\s+)?(?P<n>{COUNT})\s*-?\s*(?:个)?\s*(?:{unit})(?![A-Za-z])(?:\s*,?\s*(?:but|而是|用|要)\s*(?P<new>{COUNT})(?![\d.]|\s*[A-Za-z个张轮步]))?"
    )
    for name, unit in UNITS.items()
}
"""`not 3 epochs but 5`"""
TOO_MUCH = {
    name: _rx(
        rf"(?P<n>{COUNT})\s*-?\s*(?:个)?\s*(?:{unit})(?![A-Za-z])\s*(?:(?:is|are|was|takes?|seems?|sounds?|looks?)\s+)?(?:(?:a bit|way|far|much|really|maybe)\s+)*(?:too (?:long|many|much|few|short|little|slow)|not enough|overkill|太(?:多|长|久|少|短|慢)|(?:好像|有点|也)?(?:不够|有点[多长久少短]))(?:了|吧)?[^\d,.;]{{0,20}}[\s,.;:!-]*(?:just|so|then|let'?s|maybe|please|pls|how about|what about|那就?|还是)*\s*(?:do|use|make it|go with|try|run|set|train|cut|reduce|change)?(?:\s*(?:it|that|this))?\s*(?:to|for|跑|用|改成?|换成?|来|就)?\s*(?P<new>{COUNT})(?!\s*(?:%|x\b|runs?|hours?|{'|'.join(u for n, u in UNITS.items() if n != name)}))"
    )
    for name, unit in UNITS.items()
}
"""`30 epochs is too long, do 10`"""
SEED = r"(?:random )?seeds?|(?:随机)?种子"
KEYS = {a.name: a.keys for a in axis_table.AXES if a.name not in ("alpha", "fold", "gamma")} | {"seed": SEED}
NEW = r"\s*,?\s*(?:but|use|using|try|run|take|用|而是|换成?|改成|改用|试)\s*(?:a |the |an )?"
REPLACED = {
    name: _rx(
        rf"(?:(?<![A-Za-z0-9])(?:{keys})(?![A-Za-z])[\s:=]*(?:应该|要|should be|is|be)?\s*{CUE}{FILL}|{CUE}{FILL}(?<![A-Za-z0-9])(?:{keys})(?![A-Za-z])[\s:=]*(?:of\s+)?)(?P<old>{LIST}){NEW}(?:(?:{keys})[\s:=]*(?:of\s+)?)?(?P<new>{LIST})"
    )
    for name, keys in KEYS.items()
}
"""`lr not 0.1 but 0.01`, `instead of batch 64 use 128`"""
NO_AXIS = {
    name: _rx(
        rf"{CUE}{FILL}(?:(?<![A-Za-z0-9])(?:{keys})(?![A-Za-z])[\s:=]*(?:of\s+)?(?P<list>{LIST})|(?P<list2>{LIST})\s*(?:的|for the|as the|as)?\s*(?<![A-Za-z0-9])(?:{keys})(?![A-Za-z]))"
    )
    for name, keys in KEYS.items()
}
"""`don't use lr 0.1`, `不要用 0.1 的学习率`"""
NO_NUMBER = _rx(
    rf"(?:\bbut not|(?<=\d )not|(?<=\d, )not|\bexcept(?: for)?|\bexcluding|(?<=\d )without|(?<=\d, )without|{RATHER}|\b(?:leave out|omit|skip|drop|remove)|除了|不要|别用|去掉)\s*(?:the\s+|use\s+|用)?(?P<list>{LIST}){BROKEN}(?!\s*(?:{'|'.join(UNITS.values())}))"
)
"""`lr 0.1 to 1e-4 but not 0.01`, `batch 64 rather than 128`: the axis is the one that has the number."""

SWAPS = (
    _rx(rf"(?P<new>{NUMBER})\s*,?\s*(?:\bnot|{RATHER})\s*(?P<old>{NUMBER}){BROKEN}(?!\s*(?:{'|'.join(UNITS.values())}))"),
    _rx(rf"(?:{RATHER}|\bnot|不要|不用|别用)\s*(?P<old>{NUMBER}){NEW}(?P<new>{NUMBER})(?!\s*(?:{'|'.join(UNITS.values())}))"),
)  # fmt: skip
"""`use 64 instead of 128`, in a thread whose plan has 128 somewhere."""


@dataclass
class Denied:
    """What a message says not to use."""

    values: dict[str, list[Scalar]] = field(default_factory=dict)
    """`models`, `dataset`, `epochs`, or an axis, to the values that were excluded."""
    swapped: list[tuple[float | int, float | int]] = field(default_factory=list)
    """(old, new) of numbers whose axis only the thread tells."""
    numbers: list[float | int] = field(default_factory=list)
    """Excluded numbers whose axis only the rest of the message (or the thread) tells."""
    replaced: dict[str, axis_table.Told] = field(default_factory=dict)
    """Axis to what shall be used instead."""
    counts: dict[str, float | int] = field(default_factory=dict)
    """The same for `epochs`, `max_steps`, `seed` and `gpus_per_run`."""

    def add(self, name: str, value: Scalar) -> None:
        """Note one excluded value."""
        held = self.values.setdefault(name, [])
        if value not in held:
            held.append(value)

    @property
    def anything(self) -> bool:
        """True when the message excludes something."""
        return bool(self.values or self.numbers or self.swapped)


def denied(text: str, start: int, end: int) -> str | None:
    """The words that say not to use what stands from `start` to `end`; None when nothing does."""
    cue = BEFORE.search(text[max(0, start - 60) : start])
    if cue and not (cue["cue"].startswith("除") and BESIDES.match(text[end:])):
        return cue["cue"]
    after = AFTER.match(text[end:]) or DISMISSED.match(text[end:])
    return after[0] if after else None


def sort(text: str, spans: Sequence[tuple[int, int, str]]) -> tuple[list[str], list[str]]:
    """The stated and the excluded names, each in order; one that is both stands in both lists."""
    stated: list[str] = []
    excluded: list[str] = []
    cue, last = None, 0
    for start, end, name in sorted(spans):
        own = denied(text, start, end)
        between = text[last:start]
        goes_on = cue and (LINK.fullmatch(between) or (LISTS.match(cue) and COMMA.fullmatch(between)))
        cue = own or (cue if goes_on else None)
        last = end
        if own and AFTER.match(text[end:]):
            excluded += _linked_before(text, spans, start)
        if cue:
            excluded.append(name)
        elif not (name in excluded and MENTIONED.match(text[end:])):
            stated.append(name)
    behind = {n for n in excluded if n in stated and not any(s[2] == n and denied(text, *s[:2]) for s in spans)}
    return list(dict.fromkeys(n for n in stated if n not in behind)), list(dict.fromkeys(excluded))


def _linked_before(text: str, spans: Sequence[tuple[int, int, str]], start: int) -> list[str]:
    """The names that end right before `start` and are joined to what stands there: `A 和 B 不要`."""
    names = []
    for begin, end, name in sorted(spans, reverse=True):
        if end <= start and LINK.fullmatch(text[end:start]):
            names.append(name)
            start = begin
    return names


def read(page: Page, follows: bool = False) -> Denied:
    """Every excluded number on the page; what was used is crossed out.

    Args:
        follows: a thread has a plan, in which a bare number can be looked up.
    """
    found = Denied()
    for name, pattern in TOO_MUCH.items():
        for match in page.take_all(pattern):
            found.add(name, count(match["n"]))
            found.counts[name] = count(match["new"])
    if not ANY.search(page.left):
        return found
    for name, pattern in NO_COUNT.items():
        for match in page.take_all(pattern):
            found.add(name, count(match["n"]))
            if match["new"]:
                found.counts[name] = count(match["new"])
    for name, pattern in REPLACED.items():
        if swap := page.take(pattern):
            found.replaced[name] = axis_table.Told(tuple(values(swap["new"])), text=swap[0])
            for number in values(swap["old"]):
                found.add(name, number)
    for name, pattern in NO_AXIS.items():
        for match in page.take_all(pattern):
            for number in values(match["list"] or match["list2"]):
                found.add(name, number)
    for pattern in SWAPS if follows else ():
        for match in page.take_all(pattern):
            found.swapped.append((value(match["old"]), value(match["new"])))
    for match in page.take_all(NO_NUMBER):
        found.numbers += values(match["list"])
    return found
