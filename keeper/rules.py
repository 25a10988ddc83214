"""Rules: what makes an alert, as data, and their judgement over samples. Pure: time is an argument.

A missing sample is unknown: it neither fires an alert nor ends one.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from lab.alert import Severity
from lab.errors import ConfigError
from lab.estimate import duration

RULES_FILE = Path(__file__).with_name("rules.yaml")
CONDITION = re.compile(
    r"\s*(?P<metric>[a-z_]+\.[a-z_]+)\s*(?:(?P<op><|>|grows)\s*(?P<limit>-?[\d.]+(?:e-?\d+)?)|happens)\s*"
)
COVERAGE = 0.8
"""Share of a window's samples that must be known."""
GONE_S = 120.0
"""What has not been seen for so long, while its source speaks, is gone and its alert over."""
STEADY = 0.7
"""Least share of a growth's variance that a straight line explains: steps and noise are no leak."""

Verdict = Literal["firing", "clear", "gone", "happened"]
Op = Literal["<", ">", "grows", "happens"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen of one subject at one moment; None is unknown, never 0."""

    metric: str
    """`card.temperature_c`"""
    member: str
    """The card, run, host or service it is about."""
    value: float | None
    labels: Mapping[str, str] = field(default_factory=dict)
    conversation: str = ""
    note: str = ""
    """Words of the source: a driver's message, a failure's evidence."""
    count: float = 1.0


class Rule(BaseModel):
    """One rule as rules.yaml and `alerts.rules` give it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    enabled: bool = True
    when: str
    for_s: float = Field(0.0, ge=0, le=86_400)
    clear: float | None = None
    clear_s: float = Field(0.0, ge=0, le=86_400)
    severity: Severity = "warning"
    group: tuple[str, ...] = ()
    hidden_by: tuple[str, ...] = ()
    joins: str | None = None
    hardware: bool = False
    saves: bool = False
    to: Literal["thread", "channel"] = "thread"
    title: str
    text: str = "{member}: {value}"
    advice: str = ""

    @field_validator("when")
    @classmethod
    def _known_condition(cls, when: str) -> str:
        found = CONDITION.fullmatch(when)
        if found is None:
            raise ValueError(f"{when!r} is no condition; wanted one like 'card.temperature_c > 88'")
        if found["metric"] not in METRICS:
            raise ValueError(f"there is no metric {found['metric']!r}; there are {', '.join(sorted(METRICS))}")
        if found["limit"] is not None:
            float(found["limit"])
        return when

    @model_validator(mode="after")
    def _makes_sense(self) -> Rule:
        if self.op == "grows" and not self.for_s:
            raise ValueError("'grows' needs for_s, the window over which it does")
        wrong = self.clear is not None and (self.clear < self.limit if self.op == "<" else self.clear > self.limit)
        if wrong:
            raise ValueError(f"clear {self.clear:g} lies on the wrong side of {self.when!r}")
        for template in (self.title, self.text, self.advice):
            template.format_map(_Words({}, 0.0))
        return self

    @cached_property
    def _condition(self) -> tuple[str, Op, float]:
        found = CONDITION.fullmatch(self.when)
        assert found is not None
        op: Op = found["op"] or "happens"  # type: ignore[assignment]  # the pattern's alternatives
        return found["metric"], op, float(found["limit"] or 0.0)

    @property
    def metric(self) -> str:
        return self._condition[0]

    @property
    def op(self) -> Op:
        return self._condition[1]

    @property
    def limit(self) -> float:
        return self._condition[2]

    def fingerprint(self, labels: Mapping[str, str]) -> str:
        """`too_hot host=lab-a`: the same for all that goes into one alert."""
        return " ".join([self.joins or self.name, *(f"{name}={labels.get(name, '')}" for name in self.group)])


METRICS: Mapping[str, str] = {
    "card.utilization_pct": "utilisation of a card that trains: its run's first minutes and evaluations left out",
    "card.memory_pct": "memory in use on a card that trains, of all it has",
    "card.temperature_c": "temperature of a card",
    "card.throttled": "1 while the driver slows a card down",
    "card.lost": "1 while the driver no longer answers for a card",
    "card.broken": "1 while a card reports uncorrectable errors or another problem",
    "host.unreadable": "1 while a host cannot read its cards",
    "host.silent_s": "seconds since a host's last word",
    "host.disk_free_gb": "GiB free where a host keeps its runs",
    "keeper.late": "time since the keeper's last beat, in its intervals",
    "keeper.problem": "1 while the keeper does not hold its card, or holds it to no effect",
    "experiment.wait_s": "how long the first waiting run of an experiment has waited",
    "run.idle_s": "seconds since a running run's last sign of progress",
    "run.fragmentation_pct": "reserved memory that lies in unusable splits, where half the card or more is reserved",
    "run.failed": "a run failed for good",
    "run.failed_in_a_row": "the third copy of a configuration failed alike",
    "service.away": "1 while Slack or the model's endpoint does not answer",
    "rule.broken": "1 for a rule that cannot be used",
}


@dataclass(frozen=True)
class Finding:
    """What a rule says of one member now."""

    rule: Rule
    member: str
    verdict: Verdict
    labels: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    title: str = ""
    advice: str = ""
    conversation: str = ""

    @property
    def fingerprint(self) -> str:
        return self.rule.fingerprint(self.labels)


def load_rules(changes: Mapping[str, Mapping[str, Any]]) -> tuple[list[Rule], dict[str, ConfigError]]:
    """The rules of rules.yaml as `alerts.rules` changes them; those that cannot be used, with the reason, beside them.

    Args:
        changes: by rule, the keys that differ; a name that rules.yaml lacks is a new rule.
    """
    given: dict[str, Any] = yaml.safe_load(RULES_FILE.read_text(encoding="utf-8"))
    rules, broken = [], {}
    for name in dict.fromkeys((*given, *changes)):
        change = changes.get(name) or {}
        try:
            rule = Rule.model_validate({"title": name, **given.get(name, {}), **dict(change), "name": name})
        except (ValidationError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            broken[name] = ConfigError(f"alerts.rules.{name}", _problem(error))
            continue
        if rule.enabled:
            rules.append(rule)
    return rules, broken


def _problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"{error}; the rule is off"
    first = error.errors(include_url=False, include_input=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    return f"{key + ': ' if key else ''}{first['msg'].removeprefix('Value error, ')}; the rule is off"


@dataclass
class _Window:
    samples: deque[tuple[float, float | None]] = field(default_factory=deque)
    seen_at: float = 0.0
    last: Sample | None = None

    def add(self, sample: Sample, now: float, keep_s: float) -> None:
        self.seen_at, self.last = now, sample
        self.samples.append((now, sample.value))
        while self.samples and self.samples[0][0] < now - keep_s:
            self.samples.popleft()

    def known(self, now: float, window_s: float, interval_s: float) -> list[tuple[float, float]] | None:
        """The known samples of the window's last `window_s`; None when too many are missing."""
        if window_s <= interval_s:
            at, value = self.samples[-1]
            return [(at, value)] if value is not None and at == now else None
        inside = [(at, value) for at, value in self.samples if at > now - window_s - 1e-6 and value is not None]
        lasts = bool(inside) and inside[0][0] <= now - window_s + 1.5 * interval_s
        return inside if lasts and len(inside) >= COVERAGE * window_s / interval_s else None


class Judge:
    """Judges samples by the rules; keeps what each rule looks back on.

    Args:
        interval_s: time between two calls of `judge`; fewer samples than that promises are missing ones.
    """

    def __init__(self, rules: Sequence[Rule], interval_s: float, now: float) -> None:
        self.rules = {rule.name: rule for rule in rules}
        self._by_metric: dict[str, list[Rule]] = {}
        for rule in rules:
            self._by_metric.setdefault(rule.metric, []).append(rule)
        self._interval_s = interval_s
        self._began = now
        self._windows: dict[tuple[str, str], _Window] = {}

    def judge(self, samples: Sequence[Sample], now: float, firing: Collection[tuple[str, str]] = ()) -> list[Finding]:
        """What the rules say now; nothing of a member about which they cannot say anything.

        Args:
            firing: rule and member of what fires already.
        """
        found = []
        for sample in samples:
            for rule in self._by_metric.get(sample.metric, ()):
                found += self._judged(rule, sample, now)
        for name, member in firing:
            known = self.rules.get(name)
            if known is None:
                found.append(Finding(_stand_in(name), member, "gone"))
            elif known.op != "happens" and now - self._seen_at(name, member) > GONE_S:
                found.append(Finding(known, member, "gone"))
        self._forget(now)
        return found

    def _judged(self, rule: Rule, sample: Sample, now: float) -> list[Finding]:
        if rule.op == "happens":
            return [_finding(rule, sample, "happened", sample.value or 0.0)]
        window = self._windows.setdefault((rule.name, sample.member), _Window())
        window.add(sample, now, max(rule.for_s, rule.clear_s) + self._interval_s)
        value = self._breach(rule, window, now)
        if value is not None:
            return [_finding(rule, sample, "firing", value)]
        return [_finding(rule, sample, "clear", 0.0)] if self._is_clear(rule, window, now) else []

    def _breach(self, rule: Rule, window: _Window, now: float) -> float | None:
        known = window.known(now, rule.for_s, self._interval_s)
        if known is None:
            return None
        if rule.op == "grows":
            return _growth(known, rule.limit)
        mean = _mean(known)
        return mean if (mean < rule.limit if rule.op == "<" else mean > rule.limit) else None

    def _is_clear(self, rule: Rule, window: _Window, now: float) -> bool:
        if rule.op == "grows":
            known = window.known(now, rule.for_s, self._interval_s)
            return known is not None and _growth(known, rule.limit / 2) is None
        known = window.known(now, rule.clear_s, self._interval_s)
        if known is None:
            return False
        mean, clear = _mean(known), rule.limit if rule.clear is None else rule.clear
        return mean >= clear if rule.op == "<" else mean <= clear

    def _seen_at(self, name: str, member: str) -> float:
        window = self._windows.get((name, member))
        return window.seen_at if window else self._began

    def _forget(self, now: float) -> None:
        old = [key for key, w in self._windows.items() if now - w.seen_at > max(2 * GONE_S, self.rules[key[0]].for_s)]
        for key in old:
            del self._windows[key]


def _mean(known: Sequence[tuple[float, float]]) -> float:
    return sum(value for _, value in known) / len(known)


def _growth(known: Sequence[tuple[float, float]], limit: float) -> float | None:
    """By how much it grows an hour; None where that is less than the limit, or no straight line tells it."""
    n = len(known)
    mid_t, mid_v = sum(at for at, _ in known) / n, _mean(known)
    spread = sum((at - mid_t) ** 2 for at, _ in known)
    varies = sum((value - mid_v) ** 2 for _, value in known)
    if not spread or not varies:
        return None
    together = sum((at - mid_t) * (value - mid_v) for at, value in known)
    slope = together / spread * 3600
    return slope if slope > limit and together**2 / (spread * varies) >= STEADY else None


class _Words(dict[str, Any]):
    """What a rule's words may name; a label that a subject lacks reads `?`."""

    def __init__(self, labels: Mapping[str, str], limit: float, **others: Any) -> None:
        numbers = {"value": 0.0, "limit": limit, "count": 1.0, "minutes": 0.0, "value_words": ""}
        super().__init__(numbers | others | dict(labels))

    def __missing__(self, key: str) -> str:
        return "?"


def _finding(rule: Rule, sample: Sample, verdict: Verdict, value: float) -> Finding:
    if verdict == "clear":
        return Finding(rule, sample.member, verdict, sample.labels)
    words = _Words(
        sample.labels,
        rule.limit,
        value=value,
        value_words=duration(value) if math.isfinite(value) else "?",
        minutes=rule.for_s / 60,
        note=sample.note,
        member=sample.member,
        count=sample.count,
    )
    return Finding(
        rule,
        sample.member,
        verdict,
        sample.labels,
        text=rule.text.format_map(words),
        title=rule.title.format_map(words),
        advice=rule.advice.format_map(words),
        conversation=sample.conversation if rule.to == "thread" else "",
    )


def _stand_in(name: str) -> Rule:
    """For a rule that is no longer there, whose alerts are over."""
    return Rule(name=name, when="rule.broken > 0", title=name)
