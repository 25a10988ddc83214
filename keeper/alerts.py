"""The alert engine: what the rules find becomes alerts that people can trust. Pure decisions; time is an argument.

What is decided, in this order, for each alert: it fires or is over; it is told at first after `group_s`, so that what
befalls many at once is one message; what comes back within `silence_s` is counted and told as a sum; what lasts is
brought to mind every `repeat_s`; what was never told is never called resolved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from keeper.rules import Finding
from lab.alert import (
    KEPT_S,
    Alert,
    AlertState,
    Board,
    Member,
    Outcome,
    Silence,
    alert_id,
    event,
    matches,
    through,
    with_line,
)
from lab.estimate import duration
from lab.events import Event

SHOW_S = 60.0
"""A message whose counts have changed is edited so often at most: Slack takes 50 edits a minute for everything."""
MOST_MEMBERS = 40
"""Members of an alert that are kept by name; the rest is counted."""


@dataclass(frozen=True)
class Policy:
    """How patient the engine is; in seconds."""

    group_s: float = 5.0
    silence_s: float = 3600.0
    repeat_s: float = 4 * 3600.0


def step(board: Board, findings: Sequence[Finding], policy: Policy, now: float) -> Outcome:
    """What becomes of the board by what the rules found now."""
    turn = _Turn(board, policy, now)
    for finding in visible(findings, board.alerts.values()):
        turn.take(finding)
    for name in list(turn.alerts):
        turn.look_after(turn.alerts[name])
    turn.end_silences()
    return turn.outcome()


def visible(findings: Sequence[Finding], alerts: Iterable[Alert]) -> list[Finding]:
    """The findings without those that a graver one hides: of a lost card nobody needs to know that it idles."""
    graver: dict[str, list[Mapping[str, str]]] = {}
    for alert in alerts:
        if alert.is_open:
            graver.setdefault(alert.rule, []).extend(member.labels for member in alert.members.values())
    over = {(f.rule.name, f.member) for f in findings if f.verdict in ("clear", "gone")}
    for finding in findings:
        if finding.verdict == "firing":
            graver.setdefault(finding.rule.name, []).append(finding.labels)
    hides = {name: [labels for labels in found if labels] for name, found in graver.items()}
    return [f for f in findings if f.verdict == "clear" or (f.rule.name, f.member) in over or not _is_hidden(f, hides)]


def _is_hidden(finding: Finding, graver: Mapping[str, list[Mapping[str, str]]]) -> bool:
    return any(_covers(labels, finding.labels) for name in finding.rule.hidden_by for labels in graver.get(name, ()))


def _covers(wide: Mapping[str, str], narrow: Mapping[str, str]) -> bool:
    """True when the graver matter is about the same host, and about the same card or run where it names one."""
    shared = [key for key in ("host", "card", "run") if key in wide and key in narrow]
    return bool(shared) and all(wide[key] == narrow[key] for key in shared)


@dataclass
class _Turn:
    """One step: the board as it becomes."""

    board: Board
    policy: Policy
    now: float
    events: list[Event] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alerts: dict[str, Alert] = dict(self.board.alerts)
        self.silences: dict[str, Silence] = dict(self.board.silences)
        self._active = [s for s in self.silences.values() if not s.over and s.until > self.now]

    def outcome(self) -> Outcome:
        """What differs from the board."""
        return Outcome(
            alerts=[a for name, a in self.alerts.items() if a is not self.board.alerts.get(name)],
            silences=[s for name, s in self.silences.items() if s is not self.board.silences.get(name)],
            gone=self.gone,
            events=self.events,
        )

    # -- what the rules found ------------------------------------------------------------------------------------

    def take(self, finding: Finding) -> None:
        """The finding stands in its alert."""
        if finding.verdict == "gone":
            for each in list(self.alerts.values()):
                if each.rule == finding.rule.name and finding.member in each.members:
                    self._leave(each, finding.member)
            return
        name = alert_id(finding.fingerprint)
        known = self.alerts.get(name)
        alert = known if known is not None and known.is_open else None
        match finding.verdict:
            case "clear":
                if alert is not None and finding.member in alert.members:
                    self._leave(alert, finding.member)
            case "happened":
                self.alerts[name] = self._again(alert, finding) if alert else self._open(known, finding)
            case "firing":
                self.alerts[name] = self._join(alert, finding) if alert else self._open(known, finding)

    def _open(self, before: Alert | None, finding: Finding) -> Alert:
        """A new episode, or the old one again where people were told of it a moment ago."""
        flaps = before is not None and before.told_at is not None and self.now - before.told_at < self.policy.silence_s
        if before is not None and flaps:
            counted = {"count": before.count + 1, "held": before.held + 1, "changed": True, "last_at": self.now}
            opened = before.model_copy(
                update={"state": AlertState.FIRING, "resolved_at": None, "acknowledged_by": None, **counted}
            )
            return self._join(with_line(opened, self.now, f"again: {finding.text}"), finding)
        return with_line(self._new(before, finding), self.now, finding.text)

    def _new(self, before: Alert | None, finding: Finding) -> Alert:
        rule = finding.rule
        happens = finding.verdict == "happened"
        kept = ("experiment", "owner", "cause", *(("run",) if happens else ()), *rule.group)
        return Alert(
            id=alert_id(finding.fingerprint),
            fingerprint=finding.fingerprint,
            rule=rule.name,
            severity=rule.severity,
            title=finding.title,
            advice=finding.advice,
            labels={key: finding.labels[key] for key in kept if key in finding.labels} if rule.group else {},
            conversation=finding.conversation,
            hardware=rule.hardware,
            happens=happens,
            members={} if happens else {finding.member: self._member(finding)},
            since=self.now,
            last_at=self.now,
            episode=before.episode + 1 if before else 1,
        )

    def _member(self, finding: Finding) -> Member:
        return Member(text=finding.text, since=self.now, labels=dict(finding.labels))

    def _again(self, alert: Alert, finding: Finding) -> Alert:
        """It happened once more, or it turned out to be graver; the newest few stand in the history."""
        if finding.rule.joins:
            if alert.title == finding.title:
                return alert
            graver = {"title": finding.title, "severity": finding.rule.severity, "changed": True}
            return with_line(alert.model_copy(update=graver), self.now, finding.text)
        counted = {"count": alert.count + 1, "held": alert.held + 1, "last_at": self.now, "changed": True}
        newest = {"labels": {**alert.labels, "run": finding.labels["run"]}} if "run" in finding.labels else {}
        return with_line(alert.model_copy(update=counted | newest), self.now, finding.text)

    def _join(self, alert: Alert, finding: Finding) -> Alert:
        known = alert.members.get(finding.member)
        if known is not None and known.text == finding.text:
            return alert
        if known is None and len(alert.members) >= MOST_MEMBERS:
            return alert
        member = known.model_copy(update={"text": finding.text}) if known else self._member(finding)
        joined = alert.model_copy(
            update={
                "members": {**alert.members, finding.member: member},
                "changed": alert.changed or known is None,
                "last_at": self.now,
            }
        )
        told = known is None and bool(alert.members)
        return with_line(joined, self.now, f"also: {finding.text}") if told else joined

    def _leave(self, alert: Alert, member: str) -> None:
        left = {name: kept for name, kept in alert.members.items() if name != member}
        if left:
            self.alerts[alert.id] = alert.model_copy(update={"members": left, "changed": True})
        else:
            self._resolve(alert)

    def _resolve(self, alert: Alert) -> None:
        """It is over: said aloud once where it was told, and not each time where it comes and goes."""
        fields = {"state": AlertState.RESOLVED, "resolved_at": self.now, "members": {}, "silenced_by": None}
        over = alert.model_copy(update=fields)
        aloud = not alert.happens and alert.told_at is not None and not alert.held and alert.silenced_by is None
        over = with_line(over, self.now, f"resolved after {duration(self.now - alert.since)}", aloud=aloud)
        if alert.told_at is None:
            self.alerts[alert.id] = over
        elif alert.held and not alert.happens:
            self.alerts[alert.id] = over.model_copy(update={"changed": True})
        else:
            self._tell(over, "resolved")

    # -- what is told --------------------------------------------------------------------------------------------

    def look_after(self, alert: Alert) -> None:
        """What is due for this alert now is told, held back or forgotten."""
        alert = self._silenced(alert)
        self.alerts[alert.id] = alert
        if not alert.is_open:
            self._put_away(alert)
        elif alert.told_at is None:
            if alert.silenced_by is not None:
                self._hold_back(alert)
            elif self.now - alert.since >= self.policy.group_s:
                self._tell(alert.model_copy(update={"told_at": self.now, "held": 0}), "firing")
        else:
            self._remind(alert)
        self._show(self.alerts.get(alert.id))

    def _silenced(self, alert: Alert) -> Alert:
        """The alert under the silence that is about it now, if any."""
        if through(alert) or not alert.is_open:
            return alert
        found = next((s.id for s in self._active if matches(s, alert)), None)
        if found == alert.silenced_by:
            return alert
        return alert.model_copy(update={"silenced_by": found, "changed": True})

    def _hold_back(self, alert: Alert) -> None:
        silence = self.silences[alert.silenced_by or ""]
        said = f"{alert.title} (x{alert.count})" if alert.count > 1 else alert.title
        if silence.held.get(alert.id) != said:
            self.silences[silence.id] = silence.model_copy(update={"held": {**silence.held, alert.id: said}})
        self._end_of_what_happens(alert)

    def _remind(self, alert: Alert) -> None:
        """An alert that was told: a sum of what was held back, a reminder of what lasts, the end of what happened."""
        assert alert.told_at is not None
        since_told = self.now - alert.told_at
        if self._end_of_what_happens(alert) or alert.silenced_by is not None:
            return
        if alert.held and since_told >= self.policy.silence_s:
            self._say(alert, f"{alert.held} more since then, {alert.count} in all", "digest")
        elif not alert.happens and alert.state is AlertState.FIRING and since_told >= self.policy.repeat_s:
            self._say(alert, f"still so after {duration(self.now - alert.since)}", "repeated")

    def _say(self, alert: Alert, text: str, what: str) -> None:
        aloud = alert.state is AlertState.FIRING
        said = with_line(alert, self.now, text, aloud=aloud)
        self._tell(said.model_copy(update={"told_at": self.now, "held": 0}), what)

    def _end_of_what_happens(self, alert: Alert) -> bool:
        """What happens is over when it has not happened for a while, and its sum was told."""
        quiet = self.now - max(alert.last_at, alert.told_at or 0.0) >= self.policy.silence_s
        if not alert.happens or not quiet or (alert.held and alert.told_at is not None and alert.silenced_by is None):
            return False
        self._resolve(alert)
        return True

    def _show(self, alert: Alert | None) -> None:
        """Counts and members that have changed come into the message now and then."""
        if alert is None or not alert.changed or alert.told_at is None or self.now - alert.shown_at < SHOW_S:
            return
        self._tell(alert, "changed")

    def _tell(self, alert: Alert, what: str) -> None:
        shown = alert.model_copy(update={"shown_at": self.now, "changed": False})
        self.alerts[alert.id] = shown
        self.events.append(event(what, shown))

    def _put_away(self, alert: Alert) -> None:
        if self.now - (alert.resolved_at or alert.last_at) > KEPT_S:
            del self.alerts[alert.id]
            self.gone.append(alert.id)

    def end_silences(self) -> None:
        """A silence that has run out says what it held back and is over by now; the rest is told as it stands."""
        for silence in list(self.silences.values()):
            if silence.over and self.now - silence.until > KEPT_S:
                del self.silences[silence.id]
                self.gone.append(silence.id)
            elif not silence.over and silence.until <= self.now:
                self._end(silence)

    def _end(self, silence: Silence) -> None:
        missed = [said for name, said in silence.held.items() if name in self.alerts and not self.alerts[name].is_open]
        digest = "; ".join(missed)
        self.silences[silence.id] = silence.model_copy(update={"over": True, "digest": digest})
        if digest:
            self.events.append(Event(kind="silence.over", subject=silence.id, conversation=silence.conversation))
