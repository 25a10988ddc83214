"""Everything that one message says, found on its page before it is judged."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agent.reader import axes as axis_table
from agent.reader import changes, choices, circumstances, commands, counts, names, negations, pairs, rates
from agent.reader.circumstances import Circumstances
from agent.reader.counts import Counts
from agent.reader.names import Names
from agent.reader.negations import Denied
from agent.reader.numbers import FLAGS, NUMBER
from agent.reader.page import Page
from agent.reader.pairs import Pairs
from agent.reader.reading import PreviousPlan
from agent.reader.wording import say
from lab.plan import Axis, number

SAME_EXCEPT = re.compile(
    r"\b(same|unchanged|as before|as is|otherwise)\b[^.;\d]{0,24}?\b"
    r"(?:except(?: for)?|apart from|other than|but(?: with)?)\b",
    FLAGS,
)
"""`everything the same except batch 32` sets the batch size; it excludes nothing."""


@dataclass
class Draft:
    """Everything found on one page, before it is judged."""

    page: Page
    chinese: bool
    names: Names = field(default_factory=Names)
    counts: Counts = field(default_factory=Counts)
    around: Circumstances = field(default_factory=Circumstances)
    changes: changes.Changes = field(default_factory=changes.Changes)
    denied: Denied = field(default_factory=Denied)
    told: dict[str, axis_table.Told] = field(default_factory=dict)
    axes: dict[str, Axis] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """Questions about what cannot be: the request is not understood as a plan until they are answered."""
    questions: list[str] = field(default_factory=list)
    """Questions that leave the plan standing, though it must not start."""
    expected: dict[str, int] = field(default_factory=dict)
    """Counts of values of an axis whose values nobody gave."""
    pairs: Pairs | None = None
    """An axis of which names have values of their own."""
    alone: bool = False
    """True when the learning rate stood alone, with no word for it."""
    tunes: tuple[str, ...] | None = None
    """Axes to be tuned without values, as far as a sweep goes; None when nothing is."""
    tunes_closely: tuple[str, ...] | None = None
    """The same for a message that is about something else besides."""

    def note(self, key: str, **fields: object) -> None:
        """Something to say beside the plan."""
        sentence = say(key, self.chinese, **fields)
        if sentence not in self.notes:
            self.notes.append(sentence)

    def doubt(self, key: str, **fields: object) -> None:
        """Ask about something that cannot be."""
        sentence = say(key, self.chinese, **fields)
        if sentence not in self.doubts:
            self.doubts.append(sentence)


def draft_of(text: str, chinese: bool, previous: PreviousPlan | None) -> Draft:
    """What the text says; names that nobody knows and words that nobody reads stay on the page."""
    page = Page(SAME_EXCEPT.sub(r"\1, with", text) if previous is not None else text)
    draft = Draft(page, chinese)
    later = bool(re.search(r"schedul|定时|空|idle|开始|start|跑|补|run", text, FLAGS))
    draft.names = names.read(page)
    for pattern in (commands.EXPERIMENT, commands.RUN):
        if previous is not None or pattern is commands.EXPERIMENT:
            _cross_targets(page, pattern)
    if previous is not None:
        names.settle(draft.names, previous.models)
        draft.changes = changes.read(page, previous)
        changes.names(page, draft.names, previous, draft.changes)
    draft.denied = negations.read(page, follows=previous is not None)
    _exclude_names(draft)
    draft.around = circumstances.read(page, later)
    for name, word in (*axis_table.no_numbers(page), *counts.no_numbers(page)):
        draft.doubt("bad_value", what=name, value=word)
    draft.counts = counts.read(page)
    _recount(draft)
    draft.pairs = pairs.read(page, draft.names)
    draft.told = draft.denied.replaced | axis_table.read(page)
    draft.axes.update(choices.read(page, draft.denied))
    _strengths(draft)
    _settle_toggles(draft)
    if previous is not None:
        changes.values(page, previous, draft.changes)
        if "lr" not in draft.told and (rate := changes.bare(page, previous, draft.changes)) is not None:
            draft.note("read_as", value=number(rate), axis="lr")
    names.unknown(page, draft.names)
    if "lr" not in draft.told and not draft.changes.moved and (found := rates.read(page)):
        draft.told["lr"] = axis_table.Told(found)
        draft.alone = True
    return draft


def _exclude_names(draft: Draft) -> None:
    """Models and data sets that the message says not to use are no models and data sets of its plan."""
    for kind, named in (("models", draft.names.models), ("dataset", draft.names.datasets)):
        stated, excluded = negations.sort(draft.page.text, [s for s in draft.names.spans if s[2] in named])
        if excluded:
            named[:] = [n for n in named if n in stated or n not in excluded]
            for name in excluded:
                draft.denied.add(kind, name)
                if name not in named:
                    draft.names.families.pop(name, None)


def _recount(draft: Draft) -> None:
    """`not 3 epochs but 5`: the unit stands with the number that is not meant."""
    for name, count in draft.denied.counts.items():
        setattr(draft.counts, {"seed": "seeds", "gpus_per_run": "gpus"}.get(name, name), count)


def _strengths(draft: Draft) -> None:
    """`with and without mixup (alpha 0.2)`: the strength stands for `on`, and 0 for `off`."""
    told = draft.told.get("alpha")
    for toggle in ("mixup", "cutmix"):
        if told is not None and told.numbers and toggle in draft.axes:
            both = draft.axes.pop(toggle) == choices.TURNS["both"]
            draft.axes[f"{toggle}_alpha"] = ((0.0,) if both else ()) + told.numbers
            draft.told.pop("alpha", None)
            return


def _settle_toggles(draft: Draft) -> None:
    """`does warm-up matter? 5 epochs of it`: numbers stand for `on`, one of them against 0 where both are meant."""
    told = {name: found.numbers for name, found in draft.told.items()} | draft.counts.axes
    for toggle in choices.TOGGLES:
        numbers = next((name for name in toggle.numbers if told.get(name)), None)
        turned = draft.axes.get(toggle.axis)
        if numbers is None or turned == choices.TURNS["off"]:
            continue
        if toggle.axis != numbers:
            draft.axes.pop(toggle.axis, None)
        both = turned == choices.TURNS["both"] or choices.both(toggle.axis, draft.page.text)
        if both and len(told[numbers]) == 1 and told[numbers][0]:
            pair = (0, *told[numbers])
            if numbers in draft.told:
                draft.told[numbers] = axis_table.Told(pair, text=draft.told[numbers].text)
            else:
                draft.counts.axes[numbers] = pair


def _cross_targets(page: Page, pattern: re.Pattern[str]) -> None:
    for match in list(page.find(pattern)):
        if not circumstances.AFTER.search(page.text[max(0, match.start() - 12) : match.end()]):
            page.cross(*match.span())


def unread(draft: Draft) -> list[str]:
    """Numbers that nobody could read, so that the plan card can say so."""
    spans = [m for m in re.finditer(NUMBER, draft.page.left, FLAGS) if not m[0].startswith(("-", "+"))]
    return [draft.page.text[m.start() : m.end()].strip() for m in spans]
