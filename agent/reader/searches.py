# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""How a search is asked for: by its kind, by a number of trials, by how hopeless runs are stopped."""

from __future__ import annotations

import re

from agent.reader import axes, tuning
from agent.reader.draft import Draft
from agent.reader.numbers import COUNT, FLAGS, RANGE, count, interval
from agent.reader.reading import PreviousPlan
from lab.plan import Prune

DRAWS = ("random", "bayesian")
PRUNE: dict[Prune, re.Pattern[str]] = {
    "halving": re.compile(
        r"\b(?:successive[ -]halving|asha|hyper-?band|bohb|halving)\b|(?:逐次|连续|逐步|异步|渐进)(?:减半|淘汰)|减半(?:算法|法|搜索)?",
        FLAGS,
    ),
    "median": re.compile(
        r"\bmedian (?:pruner|pruning|stopping|rule)\b|\bprun(?:e|es|ed|ing|er)\b(?! (?:the )?(?:weights|model|network|channels|filters|heads))"
        r"|\b(?:stop|kill|drop|abort|cut|end|terminate)\w*\s+(?:off\s+)?(?:the\s+|any\s+|all\s+)?(?:bad|hopeless|poor|worst|worse|losing|weak|unpromising|underperforming)\s*(?:\w+\s+)?(?:early|runs?|trials?|ones|configs?|points)\b"
        r"|剪枝|中位数(?:停止|剪枝)?|(?:淘汰|停掉|砍掉|终止|停止|提前(?:停|结束|终止))[^,.;]{0,4}(?:差|不行|没希望|表现不好|没戏)的?|(?:差|不好|不行|没希望|没戏)的?[^,.;]{0,6}(?:提前|早点?|尽早|自动)(?:停|结束|终止|淘汰)",
        FLAGS,
    ),
}
RANDOM = re.compile(
    rf"(?P<n>{COUNT})\s*(?:randomly (?:chosen|drawn|picked|sampled)|random|个?随机的?)\s*(?:values?\b|lrs?\b|learning|batch|weight|dropouts?|momentums?|学习率|batch|dropout|取值|值)",
    FLAGS,
)
"""`15 random learning rates`, `20 个随机的学习率`"""
SEARCHES = re.compile(r"\bsearch|搜", FLAGS)
TRIALS = re.compile(
    rf"(?P<n>{COUNT})\s*(?:次|组|个(?:点|组合|配置|试验|参数)|points?\b|configurations?\b|configs?\b|samples?\b|tries\b|attempts?\b|iterations?\b|evaluations?\b)",
    FLAGS,
)
"""What is counted beside a search is its trials, whatever the unit."""


def settle(draft: Draft, previous: PreviousPlan | None) -> None:
    """What kind of search is meant, how many trials it has and whether hopeless runs are stopped, before it is judged.

    A number of trials, or halving, beside a range or an axis to tune asks for a search even where it is not named:
    trials are drawn by TPE, halving draws at random (Li et al. 2020, arXiv:1810.05934).
    """
    around, told = draft.around, draft.counts
    rule = next((rule for rule, pattern in PRUNE.items() if pattern.search(draft.page.left)), None)
    if around.search is None and (drawn := RANDOM.search(draft.page.text)):
        around.search, told.trials = "random", count(drawn["n"])
    if around.search is None and draft.names.models and (told.trials is not None or rule) and _is_open(draft, rule):
        around.search = "random" if rule == "halving" else "bayesian"
        around.hints["search"] = f"{told.trials:g} trials" if told.trials is not None else str(rule)
    if around.search in DRAWS or (previous is not None and previous.search in DRAWS):
        around.prune = rule
        for pattern in PRUNE.values():
            draft.page.take(pattern)
    if around.search in DRAWS:
        _count_trials(draft)


def _is_open(draft: Draft, rule: Prune | None) -> bool:
    """True where the message leaves values to be found: a range, or an axis to tune without values."""
    ranged = any(found.interval is not None and not found.interval.step for found in draft.told.values())
    listed = any(len(found.numbers) > 1 for found in draft.told.values())
    asked = rule == "halving" or any(p.search(draft.page.text) for p in (tuning.TUNES, SEARCHES))
    return not listed and (ranged or asked)


def _count_trials(draft: Draft) -> None:
    """`tune lr in 20 trials`: the axis has no values, and the number beside it is not one of them."""
    told = draft.counts
    _find_range(draft)
    empty = {name: found for name, found in draft.told.items() if not found.numbers and found.interval is None}
    draft.told = {name: found for name, found in draft.told.items() if name not in empty}
    if told.trials is None:
        match = draft.page.take(TRIALS)
        expected = next((found.expected for found in empty.values() if found.expected), None)
        told.trials = count(match["n"]) if match else expected or told.runs_told
    if told.runs_told == told.trials:
        told.runs_told = None


def _find_range(draft: Draft) -> None:
    """`the lr of resnet18, 1e-5 to 1e-1`: a range that stands alone is that of the only axis without values."""
    named = [a for a in tuning.NUMBERED if not _has_values(draft, a) and axes.BY_NAME[a].key.search(draft.page.left)]
    match = re.search(RANGE, draft.page.left, FLAGS) if len(named) == 1 else None
    if match:
        draft.page.cross(*match.span())
        draft.told[named[0]] = axes.Told(interval=interval(match), text=match[0])


def _has_values(draft: Draft, name: str) -> bool:
    found = draft.told.get(name)
    return name in draft.axes or (found is not None and bool(found.numbers or found.interval))
