# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Numbers as people write them: 1e-3, 10^-4, 3k, 一万, `two`, lists of them, and ranges with and without steps."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

Scale = Literal["linear", "log", "log2"]

FLAGS = re.ASCII | re.IGNORECASE
"""ASCII, because a number right after a Chinese character stands alone."""
NUMBER = r"(?<![\w.])[-+]?(?:10\s?(?:\^|\*\*)\s?[-+]?\d+|2\s?(?:\^|\*\*)\s?[-+]?\d+|1/\d+|(?:\d+(?:\.\d+)?|\.\d+)(?:e[-+]?\d+|\s?%|[kK](?![A-Za-z])|\s?万)?)(?![\d]|\.\d)"
"""One value of an axis."""
WORDS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "sixteen": 16, "twenty": 20, "thirty": 30, "forty": 40,
    "fifty": 50, "hundred": 100, "a hundred": 100, "a couple of": 2, "a couple": 2, "a dozen": 12, "single": 1,
    "a single": 1, "another": 1, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "deux": 2, "trois": 3, "quatre": 4,
    "cinq": 5, "dos": 2, "tres": 3, "cuatro": 4, "cinco": 5, "due": 2, "tre": 3, "quattro": 4, "cinque": 5,
    "dois": 2, "três": 3, "два": 2, "три": 3, "пять": 5,
}  # fmt: skip
DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "俩": 2, "兩": 2}
UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "亿": 100_000_000}
HAN = "[零〇一二两俩三四五六七八九十百千万亿]{1,12}"
COUNT = (
    r"(?:(?<![\w.\-])(?:-\d+|\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?(?:e\d+)?(?:\s?[kKmMwW万千百](?![A-Za-z]))?)|"
    rf"(?:(?<![A-Za-z])(?:{'|'.join(sorted(WORDS, key=len, reverse=True))})(?![A-Za-z]))|{HAN})"
)
"""A number of things: 3, 10,000, 10k, three, 三, 一万."""
SUFFIX = {"k": 1e3, "m": 1e6, "w": 1e4, "万": 1e4, "千": 1e3, "百": 1e2, "%": 1e-2}
SEPARATOR = r"\s*(?:,\s*(?:and|or|和|以及|und|et|y|e)?|/|\||;|&|\band\b|\bor\b|\bund\b|\bou\b|\bet\b|\by\b|\boder\b|和|与|跟|以及|还有|或者?|及|\bvs\.?|\bversus\b|と|\s)\s*"
TO = r"\s*(?:to|through|until|up to|down to|-(?=\s?[\d.])|~|\.{2,3}|→|doubling (?:up )?to|(?:一直|翻倍|倍增|逐步)?(?:加|增加|增|升|提高|提升|降|降低|减|减少|涨)?到|至|bis|à|hasta|から)\s*"
OTHER_UNIT = r"(?!\s*(?:epochs?|steps\b|step(?=\s*[,.;]|\s*$)|iters?|seeds?|gpus?|cards?|trials?|个种子|轮|步(?!长)|次|张|rounds?|passes|classes|images|samples|tokens|people|days|weeks|months|times|folds|[GM]i?B|hours?|hrs?|minutes?)(?![A-Za-z]))"
LIST = rf"{NUMBER}(?:{SEPARATOR}{NUMBER}{OTHER_UNIT})*"
STEP = rf"(?:[,\s(]*(?:(?:in |with )?(?:a )?steps?(?: size)?(?: of)?|step[=:]|stride|步长为?|间隔为?|每隔|increments? of|every|by)\s*[=:]?\s*(?P<step>{NUMBER})\)?)"
NUM = r"(?:(?:\s*log(?:arithmic(?:ally)?|[- ]?(?:scale|spaced))?)?[,\s(]*(?:(?:取|分成?|共|各?选|with|in|using)\s*)?(?:(?P<num>\d+|{words}|{han})\s*(?:个)?\s*(?:points?|values?|log[- ]spaced(?: points| values| pts)?|evenly[- ]spaced(?: points| values)?|pts\b|点|值|个点|个值)\s*(?P<spacing>log(?:arithmic|[- ]?spaced|[- ]?scale)?|linear(?:ly)?)?)\)?)".format(
    words="|".join(WORDS), han=HAN
)
RANGE = rf"(?:(?P<between>between|介于|在)|from|von|de|从)?\s*[\[(]?(?P<low>{NUMBER})(?:{TO}|(?(between)\s*(?:and|和|与)\s*|(?!))|\s*,\s*(?=\S+[\])]\s*(?:log|uniform)))(?P<high>{NUMBER})[\])]?(?:{STEP}|{NUM})?"
VALUES = rf"(?:{RANGE}|(?:between|在|介于)?\s*(?P<list>{LIST}))"

_NUMBER = re.compile(NUMBER, FLAGS)
MOST_VALUES = 1000
"""A range with a step never becomes more values than this."""


@dataclass(frozen=True)
class Interval:
    """A range as it was written: both ends, and the step or the number of points when one was stated."""

    low: float
    high: float
    step: float | None = None
    num: int | None = None
    spacing: Scale | None = None
    descending: bool = False


def value(text: str) -> float | int:
    """The number that the text writes; whole numbers written whole come back as int."""
    bare = text.strip().replace(" ", "").replace("**", "^").lower()
    if power := re.fullmatch(r"([-+]?)(\d+)\^([-+]?\d+)", bare):
        result = float(Decimal(int(power[2])) ** int(power[3])) * (-1 if power[1] == "-" else 1)
        return int(result) if result.is_integer() and int(power[3]) >= 0 else result
    if fraction := re.fullmatch(r"([-+]?\d+)/(\d+)", bare):
        return int(fraction[1]) / int(fraction[2])
    if bare[-1] in SUFFIX:
        scaled = float(Decimal(bare[:-1]) * Decimal(str(SUFFIX[bare[-1]])))
        return int(scaled) if scaled.is_integer() and bare[-1] != "%" else scaled
    return int(bare) if re.fullmatch(r"[-+]?\d+", bare) else float(bare)


def count(text: str) -> int | float:
    """The number of things that the text writes: digits, an English word, or Chinese numerals."""
    bare = text.strip().lower()
    if bare in WORDS:
        return WORDS[bare]
    if re.fullmatch(HAN, bare):
        return chinese(bare)
    bare = bare.replace(",", "").replace(" ", "")
    scale = SUFFIX.get(bare[-1], 1)
    result = float(bare[:-1]) * scale if scale != 1 else float(bare)
    return int(result) if result.is_integer() else result


ELLIPSIS = re.compile(
    rf"(?P<first>{NUMBER})\s*,\s*(?P<second>{NUMBER})\s*,\s*(?:\.{{2,}}|…)\s*,?\s*(?P<last>{NUMBER})", FLAGS
)


CORRECTED = re.compile(
    rf"{NUMBER}(?P<unit>\s*(?:epochs?|seeds?|steps?|gpus?|cards?|trials?|轮|步|个种子|张卡|个))?[\s,.;?!-]*(?:no,? wait|wait,? no|oops|sorry|scratch that|i mean(?:t)?|make that|不对|哦不|啊不|说错了|打错了|更正)[\s,.;:!-]*(?:i mean(?:t)?|it'?s|应该是?|是)?\s*(?={NUMBER}(?(unit)(?P=unit)|))",
    FLAGS,
)
"""`lr 0.1, sorry, 0.01`: the first number is not meant."""
CORRECTED_KEY = re.compile(
    rf"(?<![A-Za-z])(?P<key>[A-Za-z_]{{2,14}}|[\u4e00-\u9fff]{{2,4}})\s*[=:]?\s*{NUMBER}[\s,.;?!-]*(?:no,? wait|wait,? no|oops|sorry|scratch that|i mean(?:t)?|make that|不对|哦不|啊不|说错了|打错了|更正)[\s,.;:!-]*(?=(?P=key)\s*[=:]?\s*{NUMBER})",
    FLAGS,
)
"""`lr 0.1, no wait, lr 0.01`"""
COMMA = re.compile(r"(?<![\d.,])0,(0\d+)(?![\d.]*\d|,\d)")
COMMA_KEY = re.compile(
    r"((?:lernraten?|taux d'apprentissage|tasas? de aprendizaje|taxa de aprendizado|dropout)\s*(?:von|de|:|=)?\s*)0,(\d+)(?![\d.]*\d|,\d)",
    FLAGS,
)
"""Decimal commas; `0,1` elsewhere is a list of seeds."""
PARTS = re.compile(rf"一?(?P<of>[百千万])分之(?P<n>{HAN}|\d+)", FLAGS)
"""千分之一 is 0.001."""


HAN_VALUE = re.compile(
    rf"((?:batch(?:[ _-]?size)?|bs|批量(?:大小)?|批大小|分辨率|尺寸|步长|rank)\s*(?:为|是|用|取|改成|换成|设为|=|:)?\s*)({HAN})(?![零〇一二两三四五六七八九十百千万个种次组轮张分下点])",
    FLAGS,
)
"""`batch 三十二`"""


GLUED = re.compile(
    r"(?<![A-Za-z0-9_./\-])(lr|wd|bsz?|batch[ _-]?size|batch|drop[ _-]?out|seeds?|epochs?|warm[ _-]?up|momentum|rank|alpha|lora[ _-]?r|img|imgsz|学习率)(?=\.?\d)",
    FLAGS,
)
"""`lr2e-5 bs128`"""
EP_GLUED = re.compile(r"(?<![A-Za-z0-9_./\-])ep(?=\d)", FLAGS)
NAMED = re.compile(r"(?<=[A-Za-z\u4e00-\u9fff])[ \t]+-[ \t]+(?=\.?\d)")
"""`batch size – 128`: a dash with room on both sides stands for a colon."""
JSON_KEY = re.compile(r"[\"']([A-Za-z_]\w*)[\"']\s*:(?!\w)")
DRAWN = re.compile(rf"((?:log[-_ ]?)?uniform)\s*[(\[]\s*(?P<low>{NUMBER})\s*,\s*(?P<high>{NUMBER})\s*[)\]]", FLAGS)
"""`loguniform(1e-5, 1e-2)`"""
COLONS = re.compile(r"(?<![\w.:])(?P<low>\d*\.\d+|\d+):(?P<step>\d*\.\d+):(?P<high>\d*\.\d+|\d+)(?![\w.:])")
"""`0.1:0.1:0.5`: start, step, end."""
SLIPS = tuple(
    (re.compile(rf"\b(?:{slips})\b", FLAGS), word)
    for word, slips in {
        "epochs": "epocs?|epohcs?|ephocs?|epchs?|epochss|epoches|eopchs?|epcohs?",
        "batch": "bacth|btach|bathc|batchs",
        "learning": "leanring|learing|lerning|learnig|leaning(?= rate)",
        "train": "trian|tarin|trani|trainn",
        "compare": "comapre|compre|copmare|camparing|compair",
        "seeds": "sedes|seedss|seds",
        "dropout": "droput|drpoout|dropuot|drouput",
        "weight": "wieght|weigth|wight(?= decay)",
        "optimizer": "optimzer|optmizer|optimzier|optimiser",
        "sweep": "swep|sweeep|swepe",
        "finetune": "fientune|finetun|fintune|fine-?tunne",
        "cancel": "cancle|cacnel|cansel",
        "status": "staus|satus|stauts",
    }.items()
)
"""Slips of the fingers in words that the reader goes by; those in names are asked about."""


def spell_out(text: str) -> str:
    """The text with numbers in a form that all patterns know: `0.01, 0.02, ..., 0.05` in full where the steps or the
    ratios lead to the last one, decimal points for commas, 千分之一 as 0.001, a corrected number left out, and words
    and numbers apart."""
    text = GLUED.sub(r"\1 ", EP_GLUED.sub("epochs ", NAMED.sub(": ", text)))
    text = DRAWN.sub(r"\1 \g<low> to \g<high>", JSON_KEY.sub(r"\1:", text))
    text = COLONS.sub(r"\g<low> to \g<high> step \g<step>", text)
    for slips, word in SLIPS:
        text = slips.sub(word, text)
    text = COMMA_KEY.sub(r"\g<1>0.\2", COMMA.sub(r"0.\1", text))
    text = PARTS.sub(lambda m: f"{count(m['n']) / UNITS[m['of']]:.6g}", text)
    text = HAN_VALUE.sub(lambda m: f"{m[1]}{chinese(m[2])}", text)
    text = CORRECTED_KEY.sub("", text)
    return CORRECTED.sub("", ELLIPSIS.sub(_progression, text))


def _progression(match: re.Match[str]) -> str:
    first, second, last = (Decimal(str(value(match[g]))) for g in ("first", "second", "last"))
    for factor, step in ((Decimal(1), second - first), (second / first if first else Decimal(1), Decimal(0))):
        points = [first, second]
        while len(points) < 50 and points[-1] != last:
            points.append((points[-1] * factor + step).normalize())
        if points[-1] == last:
            return ", ".join(f"{float(p):g}" for p in points)
    return match[0]


def chinese(text: str) -> int:
    """The value of Chinese numerals: 十二 is 12, 两万五千 is 25000."""
    total = section = digit = 0
    for char in text:
        if char in DIGITS:
            digit = DIGITS[char] if digit == 0 else digit * 10 + DIGITS[char]
        elif UNITS[char] >= 10_000:
            total = (total + section + digit or 1) * UNITS[char]
            section = digit = 0
        else:
            section += (digit or 1) * UNITS[char]
            digit = 0
    return total + section + digit


def written(text: str) -> list[float]:
    """Every number that the text writes, digits and words alike: what a value has to be found in."""
    found = [float(value(m[0])) for m in _NUMBER.finditer(text)]
    found += [float(re.sub(r"[^\d.]", "", m[0])) for m in re.finditer(r"\d+(?:\.\d+)?", text)]
    found += [float(count(m[0])) for m in re.finditer(COUNT, text, FLAGS)]
    return found


def values(text: str) -> list[float | int]:
    """Every number of a list, each once.

    Raises:
        ValueError: there is no number in the text.
    """
    found = [value(m[0]) for m in _NUMBER.finditer(text)]
    if not found:
        raise ValueError(f"no number in {text!r}")
    return list(dict.fromkeys(found))


def interval(match: re.Match[str]) -> Interval:
    """The range that a match of RANGE wrote."""
    low, high = float(value(match["low"])), float(value(match["high"]))
    spacing = (match["spacing"] or "").lower()
    return Interval(
        low=min(low, high),
        high=max(low, high),
        step=abs(float(value(match["step"]))) if match["step"] else None,
        num=int(count(match["num"])) if match["num"] else None,
        spacing="log"
        if spacing.startswith("log") or re.search("log|对数|等比", match[0], FLAGS)
        else "linear"
        if spacing
        else None,
        descending=low > high,
    )


def steps(told: Interval, whole: bool) -> list[float | int]:
    """The points of a range with a step, without float noise, both ends included where the step meets them."""
    low, high, step = (Decimal(str(x)) for x in (told.low, told.high, told.step))
    points = [low + i * step for i in range(min(int((high - low) / step), MOST_VALUES) + 1)]
    return [int(p) if whole and p == int(p) else float(p) for p in points]


def spaced(told: Interval, num: int, scale: Scale, whole: bool) -> list[float | int]:
    """`num` points of a range, evenly spaced on the scale, ends exact."""
    if num < 2:
        return [told.low]
    if scale == "linear":
        points = [told.low + (told.high - told.low) * i / (num - 1) for i in range(num)]
    else:
        ratio = math.log(told.high / told.low)
        points = [told.low * math.exp(ratio * i / (num - 1)) for i in range(num)]
    tidy = [told.low, *(float(f"{p:.3g}") for p in points[1:-1]), told.high]
    return [round(p) if whole else p for p in tidy]


def decades(told: Interval) -> list[float | int]:
    """1-10-100 between the ends, where they are powers of ten apart; else 1-3-10 with both ends kept."""
    low, high = told.low, told.high
    exponent = math.log10(high / low)
    if abs(exponent - round(exponent)) < 1e-9:
        return [float(f"{low * 10**i:.6g}") for i in range(round(exponent) + 1)]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inner = [float(f"{digit}e{p}") for p in powers for digit in (1, 3)]
    return [low, *(v for v in inner if low * 1.01 < v < high * 0.99), high]


def doublings(told: Interval) -> list[float | int]:
    """low, 2 low, 4 low, ... not above high."""
    points, point = [], told.low
    while point <= told.high * 1.0001:
        points.append(int(point) if float(point).is_integer() else point)
        point *= 2
    return points
