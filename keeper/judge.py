"""The judgement of samples by the rules, over their windows. Pure: time is an argument.

A missing sample is unknown: it neither fires an alert nor ends one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from keeper.rules import Finding, Rule, Sample, finding_of, stand_in

COVERAGE = 0.8
"""Share of a window's samples that must be known."""
GONE_S = 120.0
"""What has not been seen for so long, while its source speaks, is gone and its alert over."""
STEADY = 0.7
"""Least share of a growth's variance that a straight line explains: steps and noise are no leak."""
LONG_S = 60.0
"""Windows from this length on are worth keeping over a restart."""

Values = Mapping[str, Mapping[str, float]]
"""By metric and member."""


@dataclass
class _Window:
    samples: deque[tuple[float, float | None]] = field(default_factory=deque)
    seen_at: float = 0.0

    def add(self, value: float | None, now: float, keep_s: float) -> None:
        self.seen_at = now
        self.samples.append((now, value))
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
        self._long = {rule.metric for rule in rules if rule.for_s >= LONG_S}
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
                found.append(Finding(stand_in(name), member, "gone"))
            elif known.op != "happens" and now - self._seen_at(name, member) > GONE_S:
                found.append(Finding(known, member, "gone"))
        self._forget(now)
        return found

    def looked_back_on(self, samples: Iterable[Sample]) -> Values:
        """The values by metric and member that a later judge wants to know of; unknown ones are left out."""
        found: dict[str, dict[str, float]] = {}
        for sample in samples:
            if sample.value is not None and sample.metric in self._long:
                found.setdefault(sample.metric, {})[sample.member] = sample.value
        return found

    def recall(self, at: float, values: Values) -> None:
        """The values count as if they had been judged then; for a judge that has judged nothing yet, oldest first."""
        for metric, members in values.items():
            for rule in self._by_metric.get(metric, ()):
                for member, value in members.items():
                    self._add(rule, member, value, at)

    @property
    def window_s(self) -> float:
        """The longest time over which a rule looks back."""
        return max((rule.for_s for rule in self.rules.values()), default=0.0)

    def _add(self, rule: Rule, member: str, value: float | None, at: float) -> _Window:
        window = self._windows.setdefault((rule.name, member), _Window())
        window.add(value, at, max(rule.for_s, rule.clear_s) + self._interval_s)
        return window

    def _judged(self, rule: Rule, sample: Sample, now: float) -> list[Finding]:
        if rule.op == "happens":
            return [finding_of(rule, sample, "happened", sample.value or 0.0)]
        window = self._add(rule, sample.member, sample.value, now)
        value = self._breach(rule, window, now)
        if value is not None:
            return [finding_of(rule, sample, "firing", value)]
        return [finding_of(rule, sample, "clear", 0.0)] if self._is_clear(rule, window, now) else []

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
