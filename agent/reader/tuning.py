# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Requests to find the best value of something: which axes are meant, when no values are given."""

from __future__ import annotations

import re

from agent.reader import axes as axis_table
from agent.reader.choices import AXIS_WORDS
from agent.reader.numbers import FLAGS
from agent.reader.page import Page

TUNES = re.compile(
    r"(?<!fine-)(?<!fine )\btun(?:e|es|ed|ing)\b|\bhyper-?param\w*|\bhpo\b|\bhparams?\b|\bsweep\w*|\bgrid\b|\b(?:lr|param\w*|hyper\w*|random|bayes\w*|grid)\s+(?:search|finder)|\bsearch(?:ing)? (?:for|over)\b|\b(?:find|figure out|determine|look for|pick|what(?:'s| is| are)|which(?: is)?|need|want|get|use|suggest)\b[^.;?]{0,30}\b(?:best|optimal|right|good|ideal)\b"
    r"|\b(?:best|optimal|ideal)\b[^,.;?]{0,12}\b(?:lr|learning|batch|weight|hyper|param|optimi[sz]er|dropout|momentum|wd)|\boptimi[sz]e (?:the |my )?(?:lr|learning|hyper|batch|weight|param)|\b(?:lr|learning rate|batch size|optimi[sz]er|weight decay|dropout|momentum)s?\b[^,.;?]{0,24}\b(?:best|optimal|better|should (?:i|we) use)\b|\boptuna\b|\bbayes\w*"
    r"|(?:学习率|lr|batch(?:[ _]?size)?|批量大小|权重衰减|wd|dropout|动量|优化器)[^,.;\d]{0,4}(?:调[一优]?[调下]|调优|扫[一]?[扫下]|搜[一]?[搜下])|调(?:一?下|个|好)?参|超参|寻优|调(?:一?下|一?调|优)?(?=.{0,4}(?:学习率|lr|batch|bs|权重|w(?:eight )?d|dropout|momentum|动量|优化器))|(?:最|更)(?:好|佳|优|合适|适合)的|最优|最佳|搜(?:索|一下|一搜)|扫(?:一?下|描|一扫)?|网格|\b(?:try|test|use|with|over|vary(?:ing)?)\s+(?:out\s+)?(?:a few|several|some|various|different|multiple|many|a couple of|all)\s+(?:\w+\s+)?(?:lrs?|learning|batch|weight|optimi[sz]ers?|dropouts?|values)|\bvary(?:ing)? the\b|(?:不同|几个|几种|一些|各种)的?(?:学习率|lr|batch|优化器|权重)|哪个(?:学习率|lr|优化器|batch)|(?:学习率|lr|batch|bs|优化器)[^,.;]{0,10}(?:哪个|多少|多大)(?:比较|更|最)?(?:好|合适|佳)",
    FLAGS,
)
WORDS = {name: re.compile(rf"(?<![A-Za-z])(?:{AXIS_WORDS[name]})(?![A-Za-z])", FLAGS) for name in ("optimizer",)}
EPOCHS = re.compile(
    r"(?:number of |how many )epochs|\bepochs?\b(?=[^,.;]{0,12}(?:best|optimal))|(?:best|optimal) epochs?|轮数", FLAGS
)
NUMBERED = ("lr", "batch_size", "weight_decay", "dropout", "momentum", "label_smoothing", "image_size", "warmup_steps", "warmup_epochs", "warmup_ratio", "temperature", "drop_path", "grad_clip", "lora_rank", "mixup_alpha", "cutmix_alpha")  # fmt: skip


ASKED = r"(?:\btun(?:e|ing)\b|\bbest\b|\boptimal\b|\bright\b|\boptimi[sz]e|调(?:一?下|优)?|最(?:好|佳|优|合适)的?|更(?:好|合适)的|最优)[^,.;?\n]{0,16}?$"
BEHIND = re.compile(
    r"^s?\s*(?:is|are|works?|performs?|does|do)?\s*(?:the )?(?:best|better|optimal)\b|^\s*(?:用|取|选)?(?:哪个|多少|多大)|^\s*(?:好好)?(?:调[一优]?[调下]|调优|扫[一]?[扫下]|搜[一]?[搜下])(?!到|成|至)",
    FLAGS,
)
"""Behind an axis: the same."""
BEFORE = re.compile(rf"(?<!fine-)(?<!fine ){ASKED}", FLAGS)
"""In front of an axis: its best value is asked for, whatever else the message is about."""


FOUND = re.compile(
    r"\b(?:best|winning|winner|optimal)\s+(?:of (?:the )?)?(?P<key>[a-z][a-z _-]{1,20}?)\s+(?:from|of|in|out of|there|we found|you found|above)\b|(?:上面|之前|刚才|那次|它|实验)[^,.;]{0,8}最(?:好|优|佳)的?\s*(?P<key2>[A-Za-z_ ]{2,16}|[\u4e00-\u9fff]{2,5})",
    FLAGS,
)
"""`the best lr from that`: a value that was tried already is meant."""


OVER_SEEDS = re.compile(
    r"\b(?:sweep\w*|scan\w*|grid|search\w*|vary(?:ing)?)\s+(?:over\s+|the\s+|\d+\s+|several\s+|different\s+|random\s+)*seeds?\b|\bseeds? sweep|(?:扫|遍历|搜)[^,.;]{0,6}(?:种子|seed)",
    FLAGS,
)
"""Seeds are what is swept; no other axis is asked for."""


def found(page: Page) -> str | None:
    """The axis whose best value of the thread's experiment is meant; None when none is."""
    match = FOUND.search(page.text)
    key = (match["key"] or match["key2"]).strip() if match else ""
    return next((n for n in NUMBERED if key and axis_table.BY_NAME[n].key.fullmatch(key)), None)


def wanted(page: Page, given: set[str], *, closely: bool, searched: bool = False) -> tuple[str, ...] | None:
    """The axes that shall be tuned and have no values in the message, in its order; None when nothing is to be tuned.

    Args:
        given: axes that the message gives values for.
        closely: only axes right behind `tune`, `best` or the like count, and there has to be one.
        searched: a search is asked for already, whatever the words.
    """
    if not searched and not TUNES.search(page.text):
        return None
    keys = {name: axis_table.BY_NAME[name].key for name in NUMBERED} | WORDS | {"epochs": EPOCHS}
    found = {n: m.span() for n, key in keys.items() if n not in given and (m := key.search(page.left))}
    if closely:
        found = {n: s for n, s in found.items() if BEFORE.search(page.text[: s[0]]) or BEHIND.match(page.text[s[1] :])}
    axes = tuple(sorted(found, key=lambda name: found[name]))
    return axes or (None if closely else ())
