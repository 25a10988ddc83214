"""Rules: what makes an alert, as data, and the words in which it is told; keeper/judge.py applies them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
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


class _Words(dict[str, Any]):
    """What a rule's words may name; a label that a subject lacks reads `?`."""

    def __init__(self, labels: Mapping[str, str], limit: float, **others: Any) -> None:
        numbers = {"value": 0.0, "limit": limit, "count": 1.0, "minutes": 0.0, "value_words": ""}
        super().__init__(numbers | others | dict(labels))

    def __missing__(self, key: str) -> str:
        return "?"


def finding_of(rule: Rule, sample: Sample, verdict: Verdict, value: float) -> Finding:
    """What the rule says of the sample's member, in words."""
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


def stand_in(name: str) -> Rule:
    """For a rule that is no longer there, whose alerts are over."""
    return Rule(name=name, when="rule.broken > 0", title=name)
