# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Changes of a thread's plan: what is set, added, dropped, swapped or scaled, and the plan that comes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agent import catalog
from agent.reader import axes as axis_table
from agent.reader import negations
from agent.reader.choices import AXIS_WORDS
from agent.reader.names import Names
from agent.reader.numbers import COUNT, FLAGS, NUMBER, count, value
from agent.reader.page import Page
from agent.reader.reading import PreviousPlan
from lab.plan import Axis, Range, Scalar


def _rx(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, FLAGS)


DROP_BEFORE = _rx(
    r"(?:without|drop|remove|exclude|excluding|except(?: for)?|minus|skip|no|not|leave out|get rid of|ditch|scrap|kill|去掉|不要|不跑|别跑|删掉?|除了|移除|去除|排除|ohne|sans|sin)\s*(?:the\s+|那个|了)?$"
)
DROP_AFTER = _rx(
    r"^\s*(?:one|runs?|的)?\s*(?:那个|这个|模型|那组|的部分)?\s*(?:就|都|先)?\s*(?:去掉|不要了?|不跑了?|删了?|删掉|就?不用(?:了|跑)|别跑|out\b|weg\b)"
)
ADD_BEFORE = _rx(
    r"(?:\badd(?:ing)?|\balso(?: try| run| test| include| do| use| have| want)?|\bplus|\binclude|\b(?:throw|toss|put|bring|mix) in|\b(?:throw|toss|put)|\band also|\bas well as|\+|加(?:上|个|一?个|入|一组|一档|跑)?|再(?:加|来|跑|试|补)(?:上|个|一?个|一组|一档|一?下)?|也(?:跑|试|加|用|来)(?:一?下|上|个)?|补(?:上|一?个)?|多(?:加|试|跑)(?:一?个)?|另外(?:加|跑|试)?)\s*(?:the |a |an |one more |another )?(?:在|on|with|model|lr|rates?)?\s*$"
)
ADD_AFTER = _rx(r"^\s*(?:as well|too\b|also\b|也(?:加|跑|试|来|要)|加(?:上|进)|的?(?:学习率)?也)")
ONLY_AFTER = _rx(
    r"^\s*(?:的)?\s*(?:一个)?(?:就)?(?:够了|行了|可以了|就行|就好|就可以)|^\s*(?:alone|only|is enough|will do|suffices)\b"
)
ONLY_BEFORE = _rx(r"(?:\bonly|\bjust|只(?:跑|要|用|留|保留|训)?|仅|nur|solo)\s*(?:keep |run |the |with |use )?$")
SWAP_FROM = _rx(
    r"(?:\bswap|\breplace|\bchange|\bswitch|\bexchange|\binstead of|\brather than|把|将|用.{0,20}代替|from)\s*(?:out\s+|in\s+)?(?:the\s+)?(?:models?\s+|data ?sets?\s+|模型|数据集?)?(?:from\s+)?$"
)
SWAP_BETWEEN = _rx(
    rf"^\s*(?:one|的)?\s*(?:{negations.FAILED}[\s,.;!]*(?:so|then|let'?s|那就?|所以|还是)*\s*(?=换|改|用|use|try|run|switch|go with)|(?:就)?(?:不用跑了?|不用了?|不要了?|不跑了?|去掉|删掉)\s*,?\s*(?=换|改|替|用))?(?:with|for|by|to|into|(?:switch|change) to|go with|→|换成|改成|换为|改为|替换(?:成|为)|换|替换|变成|instead of|rather than|,?\s*而(?:不是|非)|代替|取代|not|,?\s*(?:use|run|try|take|用|跑))\s*(?:the\s+|a\s+)?$"
)
REVERSED_SWAP = _rx(r"instead of|rather than|而不是|而非|代替|取代|\bnot\b")

TIMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (_rx(r"(?P<key>{k})\s*(?:再|也)?\s*(?:减半|减少一半|降(?:低)?一半|砍半|除以二|halved|一半|折半)|(?:half|halve|一半|减半)\s*(?:of\s+)?(?:the\s+|my\s+|its\s+)?(?P<key2>{k})|cut\s+(?:the\s+|my\s+|its\s+)?(?P<key5>{k})\s*(?:in|by) half|(?:at|with|by)?\s*half\s+the\s+(?P<key3>{k})|(?P<key4>{k})\s*half (?:as|the)".replace("{k}", "KEY")), "0.5"),
    (_rx(r"(?P<key>KEY)\s*(?:再|也)?\s*(?:翻倍|加倍|翻一倍|翻番|提高一倍|增加一倍|乘以?[2二两]|doubled|twice (?:as|the))|(?:翻倍|加倍)\s*(?P<key3>KEY)|(?:double|twice|2x)\s+(?:of\s+)?(?:the\s+|my\s+|its\s+)?(?P<key2>KEY)"), "2"),
    (_rx(r"(?:quadruple|four times|4x)\s+(?:the\s+|my\s+)?(?P<key2>KEY)|(?P<key>KEY)\s*(?:翻四倍|变成四倍|quadrupled)"), "4"),
    (_rx(r"(?:triple|three times)\s+(?:the\s+)?(?P<key2>KEY)|(?P<key>KEY)\s*(?:tripled|变成三倍|翻三倍)"), "3"),
    (_rx(r"\bquarter\s+(?:of\s+)?(?:the\s+)?(?P<key2>KEY)|四分之一的?(?P<key3>KEY)|(?P<key>KEY)\s*(?:降到|变成|改成|为|是)?(?:原来的?)?四分之一"), "0.25"),
    (_rx(r"\b(?:a |one[- ])?third\s+(?:of\s+)?(?:the\s+)?(?P<key2>KEY)|三分之一的?(?P<key3>KEY)|(?P<key>KEY)\s*(?:降到|变成|改成|为|是)?(?:原来的?)?三分之一"), "/3"),
    (_rx(r"\b(?:a |one[- ])?tenth\s+(?:of\s+)?(?:the\s+)?(?P<key2>KEY)|十分之一的?(?P<key3>KEY)|(?P<key>KEY)\s*(?:降到|变成|改成|为|是)?(?:原来的?)?十分之一"), "0.1"),
    (_rx(r"(?P<key>KEY)\s*(?:再|要|给我|调)?\s*(?:小|低|降低?|减小|降)(?:了)?一个(?:数量级|量级)|(?:an\s+)?order of magnitude (?:lower|smaller|less)\s+(?P<key2>KEY)|(?P<key3>KEY)\s*(?:an\s+)?order of magnitude (?:lower|smaller)"), "0.1"),
    (_rx(r"(?P<key>KEY)\s*(?:再|要|给我|调)?\s*(?:大|高|提高?|增大|升)(?:了)?一个(?:数量级|量级)|(?:an\s+)?order of magnitude (?:higher|larger|bigger)\s+(?P<key2>KEY)|(?P<key3>KEY)\s*(?:an\s+)?order of magnitude (?:higher|larger)"), "10"),
    (_rx(rf"(?P<key>KEY)\s*(?:divided by|除以|缩小|/|÷)\s*(?P<div>{COUNT})\s*倍?(?![\d.e])|(?:cut|reduce|lower|decrease|divide|scale down)\s+(?:the\s+|my\s+)?(?P<key3>KEY)\s+by\s+(?:a factor of\s+)?(?P<div3>{COUNT})\s*x?(?![\d.e]|\s*%)|(?P<div2>{COUNT})\s*x\s*(?:lower|smaller|less)\s+(?P<key2>KEY)"), "/"),
    (_rx(rf"(?:increase|raise|multiply|scale up|boost|bump)\s+(?:up\s+)?(?:the\s+|my\s+)?(?P<key>KEY)\s+by\s+(?:a factor of\s+(?P<mul>{COUNT})|(?P<mul2>{COUNT})\s*(?:x\b|times\b))(?![\d.e]|\s*%)"), "*"),
    (_rx(r"(?P<key>KEY)\s*(?:x|\*|乘以?|times|放大|扩大)\s*(?P<mul>\d+(?:\.\d+)?)(?:\s*倍)?|(?P<mul2>\d+(?:\.\d+)?)\s*x\s*(?:the\s+|higher\s+|larger\s+|bigger\s+|more\s+)?(?P<key2>KEY)"), "*"),
)  # fmt: skip
SCALED = {
    name: [(re.compile(p.pattern.replace("KEY", rf"(?<![A-Za-z0-9])(?:{keys})(?![A-Za-z])"), FLAGS), how) for p, how in TIMES]
    for name, keys in (
        *((a.name, a.keys) for a in axis_table.AXES if a.name in ("lr", "batch_size", "weight_decay", "dropout", "image_size")),
        ("epochs", r"(?:number of )?epochs?|轮数|训练轮数|训练时长"),
        ("max_steps", r"(?:number of )?(?:training )?steps|步数"),
        ("gpus_per_run", r"(?:number of )?gpus?|卡数"),
    )
}  # fmt: skip
ARROW = {
    a.name: re.compile(
        rf"(?<![A-Za-z0-9])(?:{a.keys})(?![A-Za-z]){axis_table.GLUE}(?P<old>{NUMBER})\s*(?:→|to|改成|改为|换成|变成|变为|调到|降到|升到|到)\s*(?P<new>{NUMBER})(?!\s*(?:step|步长|{NUMBER}))",
        FLAGS,
    )
    for a in axis_table.AXES
}
EPOCH_ARROW = _rx(
    r"(?:epochs?|轮数)?\s*(?:from|从)?\s*(?P<old>\d+)\s*(?:→|to|改成|改为|换成|加到|到)\s*(?P<new>\d+)\s*(?:epochs?|轮)|(?:epochs?|轮数)\s*(?:from|从)?\s*(?P<old2>\d+)\s*(?:→|to|改成|改为|换成|加到|到)\s*(?P<new2>\d+)"
)
ADD_AXIS = _rx(
    r"(?:\badd(?:ing)?\b|\balso\b|\bplus\b|\bas well\b|\binclude\b|\btoo\b|加(?:上|个|一|入|到网格)?(?!倍)|再(?:加|来|试|跑|补)(?!一?[次遍])|也(?:试|跑|加)|补(?:上|一)|多(?:加|试))"
)
SET_AXIS = _rx(r"改|换|调(?:到|成|为)|instead|\bchange\b|\bswitch\b|\bset\b|→|\brerun\b")
DROP_AXIS = _rx(
    r"(?:\bwithout\b|\bdrop\b(?!out|[ _-]?path)|\bremove\b|\bexclude\b|\bexcept\b|\bskip\b|去掉|不要|删|除了|别跑)"
)


REMOVED = {
    name: _rx(
        rf"(?:\bwithout|\bdrop|\bremove|\bno|\bget rid of|\bturn off|去掉|不要|不用|关掉|删掉?)\s+?(?:the\s+|any\s+)?(?:(?:lr|cosine|step|data)\s+)?(?:{AXIS_WORDS[name]})(?![A-Za-z])(?!\s*[\d.])"
    )
    for name in ("scheduler", "augmentation")
}


@dataclass
class Changes:
    """Edits of the thread's plan that are no plain settings."""

    drop: list[str] = field(default_factory=list)
    add: list[str] = field(default_factory=list)
    only: list[str] = field(default_factory=list)
    swap: list[tuple[str, str]] = field(default_factory=list)
    scale: dict[str, float] = field(default_factory=dict)
    moved: dict[str, float | int] = field(default_factory=dict)
    """Axis to its new value, for `batch 64→32`."""
    kept: dict[str, list[Scalar]] = field(default_factory=dict)
    """Axis to the values that are left of it, for `only 2e-5` and `not 3e-5`."""
    settled: set[str] = field(default_factory=set)
    """Axes whose stated values are the whole of it, whatever else the message adds."""
    removed: list[str] = field(default_factory=list)
    """Axes of words that the plan had and that are not wanted any more: `no scheduler`."""
    missing: list[str] = field(default_factory=list)
    """What the message drops or swaps although the plan does not have it."""

    @property
    def anything(self) -> bool:
        """True when a number of the plan changes."""
        return bool(self.scale or self.moved or self.kept or self.removed)


def read(page: Page, previous: PreviousPlan) -> Changes:
    """Scalings and arrows, which have to be read before the axes are."""
    told = Changes()
    for name, patterns in SCALED.items():
        for pattern, how in patterns:
            if match := page.take(pattern):
                told.scale[name] = _factor(match, how)
                break
    for name, pattern in ARROW.items():
        match = pattern.search(page.left)
        if match and _holds(previous, name, value(match["old"])):
            page.cross(*match.span())
            told.moved[name] = value(match["new"])
    for name, pattern in REMOVED.items():
        if name in previous.axes and page.take(pattern):
            told.removed.append(name)
    match = EPOCH_ARROW.search(page.left)
    if match and previous.epochs == int(match["old"] or match["old2"]):
        page.cross(*match.span())
        told.moved["epochs"] = int(match["new"] or match["new2"])
    return told


ONLY_VALUE = _rx(
    rf"(?:\bonly|\bjust|只(?:跑|要|用|留|保留)?|仅)\s*(?:the\s+|keep\s+|run\s+)?(?P<v>{NUMBER})(?!\s*(?:seeds?|epochs?|gpus?|runs?|个|轮|张))"
)
NO_VALUE = _rx(
    rf"(?:\bwithout|\bdrop|\bskip|\bremove|\bno|\bnot|don'?t (?:do|run|use)|去掉|不要|别跑|不跑|删掉?)\s*(?:the\s+)?(?P<v>{NUMBER})(?!\s*(?:seeds?|epochs?|gpus?|runs?|个|轮|张))"
)

VALUE_NO = _rx(
    rf"(?P<v>{NUMBER})\s*(?:的|那个|这个)?\s*(?:就|都)?(?:不要了?|不用了?|不跑了?|别跑了?|去掉|删掉?|(?:can|could) go\b|is out\b)(?=$|[\s,.;!?])"
)
"""`0.1 就不要了`"""


BARE = _rx(
    rf"(?:\b(?:use|try|take|with|at|to|make it|go with)|用|试|换成?|改成?|改为)\s*(?P<v>{NUMBER})\s*(?:instead|please|pls|then|试试|吧|再.{{0,4}}|$)"
)
"""`use 1e-4 instead`"""
SMALL = 0.02
"""A bare number below it is taken for a learning rate where the thread has one."""


def bare(page: Page, previous: PreviousPlan, told: Changes) -> float | int | None:
    """A small number that stands for the thread's one learning rate; None when there is none."""
    rates = previous.values().get("lr")
    match = BARE.search(page.left)
    if match is None or not isinstance(rates, tuple) or len(rates) != 1 or not 0 < value(match["v"]) <= SMALL:
        return None
    page.cross(*match.span())
    told.moved["lr"] = value(match["v"])
    return told.moved["lr"]


def values(page: Page, previous: PreviousPlan, told: Changes) -> None:
    """Values of the plan that are named alone: `only 2e-5`, `not 3e-5`; read after the axes."""
    for pattern, only in ((NO_VALUE, False), (VALUE_NO, False), (ONLY_VALUE, True)):
        for match in page.take_all(pattern):
            number = value(match["v"])
            for name, axis in previous.values().items():
                if isinstance(axis, tuple) and len(axis) > 1 and number in axis:
                    left = told.kept.get(name, list(axis))
                    told.kept[name] = [number] if only else [v for v in left if v != number]


def _factor(match: re.Match[str], how: str) -> float:
    groups = {k: v for k, v in match.groupdict().items() if v}
    if how == "/3":
        return 1 / 3
    if how == "/":
        return 1 / float(count(next(v for k, v in groups.items() if k.startswith("div"))))
    if how == "*":
        return float(count(groups.get("mul") or groups["mul2"]))
    return float(how)


def _holds(previous: PreviousPlan, name: str, number: float | int) -> bool:
    held = previous.values().get(name)
    return isinstance(held, tuple) and len(held) == 1 and held[0] == number


def names(page: Page, found: Names, previous: PreviousPlan, told: Changes) -> None:
    """Sort the names of the message into dropped, added, swapped, only and (the rest) set."""
    held = (*previous.models, *previous.datasets)
    spans = sorted(found.spans)
    swapped: set[int] = set()
    for i in range(len(spans) - 1):
        between = page.text[spans[i][1] : spans[i + 1][0]]
        before = page.text[: spans[i][0]]
        if SWAP_BETWEEN.match(between) and (
            SWAP_FROM.search(before) or not re.fullmatch(r"[\s,]*(?:for|with|to|by|use|run|try|take|用|跑)\s*", between)
        ):
            old, new = spans[i], spans[i + 1]
            if REVERSED_SWAP.search(between):
                old, new = new, old
            _swap(page, told, held, old, new)
            swapped |= {i, i + 1}
    excluded = set(negations.sort(page.text, spans)[1])
    for i, span in enumerate(spans):
        between = page.text[spans[i - 1][1] : span[0]] if i else ""
        listed = i > 0 and negations.LINK.fullmatch(between) and _is_new(told, spans[i - 1][2])
        if listed and i not in swapped:
            told.add.append(span[2])
        elif i not in swapped:
            _sort(page, told, held, span, span[2] in excluded)
    for kind in (found.models, found.datasets):
        if set(kind) - excluded:  # `cifar100, not digits`: what shall be used is said, so nobody asks about digits
            told.missing = [m for m in told.missing if (catalog.model(m) or catalog.dataset(m)) not in kind]


def _is_new(told: Changes, name: str) -> bool:
    """True when the message adds this name or puts it in another's place, and so what is joined to it as well."""
    return name in told.add or name in dict(told.swap).values()


def _swap(
    page: Page, told: Changes, held: tuple[str, ...], old: tuple[int, int, str], new: tuple[int, int, str]
) -> None:
    member = _member(page.text[old[0] : old[1]], old[2], held)
    reverse = _member(page.text[new[0] : new[1]], new[2], held)
    if member:
        told.swap.append((member, new[2]))
    elif reverse:
        told.swap.append((reverse, old[2]))
    else:
        told.missing.append(page.text[old[0] : old[1]])


def _sort(page: Page, told: Changes, held: tuple[str, ...], span: tuple[int, int, str], excluded: bool) -> None:
    start, end, name = span
    before, after, called = page.text[:start], page.text[end:], page.text[start:end]
    if DROP_BEFORE.search(before) or DROP_AFTER.match(after) or excluded:
        member = _member(called, name, held)
        if member:
            told.drop.append(member)
        else:
            told.missing.append(called)
    elif ONLY_BEFORE.search(before) or ONLY_AFTER.match(after):
        told.only.append(_member(called, name, held) or name)
    elif ADD_BEFORE.search(before) or ADD_AFTER.match(after):
        told.add.append(name)


def _member(called: str, name: str, held: tuple[str, ...]) -> str | None:
    """The plan's model or data set that the message means: by its name, or by the family it belongs to."""
    if name in held:
        return name
    stem = catalog.squash(called)
    fits = [h for h in held if catalog.squash(h).startswith(stem)]
    return fits[0] if fits else None


def changed_names(held: tuple[str, ...], named: tuple[str, ...], told: Changes) -> tuple[str, ...]:
    """The plan's models (or data sets) after the change; `named` are those of this kind in the message."""
    swaps = dict(told.swap)
    only = [n for n in told.only if n in named or n in held]
    touched = {*told.drop, *told.add, *swaps.values(), *swaps}
    plain = [n for n in named if n not in touched and not any(_family_of(n, o) for o in (*told.drop, *swaps, *only))]
    result = list(only or (plain if plain and not set(plain) <= set(held) else held))
    result = [swaps.get(n, n) for n in result if n not in told.drop]
    result += [n for n in told.add if n in named and n not in result]
    return tuple(dict.fromkeys(result))


def _family_of(name: str, member: str) -> bool:
    """True when `name` is only the stand-in for a family whose member the change means."""
    stem = re.match(r"[a-z]+", name)
    return bool(stem) and member.startswith(stem[0]) if stem else False


def changed_axes(held: dict[str, Axis], stated: dict[str, Axis], told: Changes, text: str) -> dict[str, Axis]:
    """The plan's axes after the change."""
    result = {name: axis for name, axis in held.items() if name not in told.removed}
    adds = bool(ADD_AXIS.search(text)) and not SET_AXIS.search(text)
    for name, axis in stated.items():
        old = result.get(name)
        if isinstance(old, tuple) and isinstance(axis, tuple) and name != "seed" and adds and name not in told.settled:
            result[name] = (*old, *(v for v in axis if v not in old))
        elif (
            isinstance(old, tuple)
            and isinstance(axis, tuple)
            and name != "seed"
            and DROP_AXIS.search(text)
            and set(axis) < set(old)
        ):
            result[name] = tuple(v for v in old if v not in axis)
        elif axis == (False,) and name in ("mixup", "cutmix") and f"{name}_alpha" in result:
            del result[f"{name}_alpha"]
        else:
            result[name] = axis
    for name, left in told.kept.items():
        if name not in stated and left:
            result[name] = tuple(left)
    for name, number in told.moved.items():
        if name in axis_table.BY_NAME:
            result[name] = (axis_table.typed(axis_table.BY_NAME[name], number),)
    for name, factor in told.scale.items():
        axis_held = result.get(name)
        if isinstance(axis_held, tuple) and name in axis_table.BY_NAME:
            result[name] = tuple(_scaled(name, v, factor) for v in axis_held)
    return result


def _scaled(name: str, number: Scalar, factor: float) -> Scalar:
    if isinstance(number, bool | str):
        return number
    product = float(f"{number * factor:.10g}")
    return axis_table.typed(axis_table.BY_NAME[name], product)


def more_seeds(held: Axis | None, extra: int) -> tuple[int, ...]:
    """The held seeds and as many new ones, counted on from the largest."""
    seeds = [int(s) for s in held if not isinstance(s, str)] if held and not isinstance(held, Range) else [0]
    return (*seeds, *range(max(seeds) + 1, max(seeds) + 1 + extra))


def changed_members(held: tuple[str, ...], found: Names, text: str) -> tuple[str, ...]:
    """The plan's models that a command names, by their names or by their families."""
    members = [_member(text[start:end], name, held) for start, end, name in found.spans]
    return tuple(dict.fromkeys(m for m in members if m))
