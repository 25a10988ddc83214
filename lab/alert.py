"""Alerts and silences: what somebody should know, since when, and who has been told. Kept in Redis, written by all.

An alert is one matter: a rule and what it is about (`too_hot` on host lab-a), with every card or run that it befalls as
a member. Its id comes from that fingerprint, so the same matter is the same alert, whoever sees it, however often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeVar

from redis.client import Pipeline

from lab import events
from lab.errors import MoveRefused, UnknownRecord
from lab.events import Event
from lab.run import Record
from lab.store import PREFIX, Client

Severity = Literal["info", "warning", "critical"]
Scope = Literal["all", "owner", "experiment", "host", "card", "rule", "alert"]

ALERTS = f"{PREFIX}alert:records"
SILENCES = f"{PREFIX}alert:silences"
PLACE = f"{PREFIX}alert:place"
"""Id of the last event that the alerts account for: written with them, so that none counts twice or never."""
SEEN = f"{PREFIX}alert:hosts"
"""Hosts seen, with the time of their last word: one that is gone is still known."""

HISTORY = 30
"""Lines of an alert's history that are kept."""
KEPT_S = 7 * 86_400
"""A resolved alert is listed so long."""


class AlertState(StrEnum):
    """States of an alert; a resolved one fires again when its matter comes back."""

    FIRING = "firing"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


class Member(Record):
    """One card, run or host that the matter befalls."""

    text: str
    """`GPU 2: 91 °C, limit 88`"""
    since: float
    labels: dict[str, str] = {}


class Line(Record):
    """One line of an alert's history."""

    at: float
    text: str
    aloud: bool = False
    """Posted as a message of its own; the others only stand in the alert's own message."""


class Alert(Record):
    """One matter that somebody should know."""

    id: str
    """`al-1f9a03c2`"""
    fingerprint: str
    """`too_hot host=lab-a`"""
    rule: str
    severity: Severity
    state: AlertState = AlertState.FIRING
    title: str
    advice: str = ""
    labels: dict[str, str] = {}
    """What silences and people go by: host, card, experiment, run, owner, cause."""
    conversation: str = ""
    """The thread of the experiment it concerns; empty where it concerns none."""
    hardware: bool = False
    """A critical one of these is told through any silence."""
    happens: bool = False
    """True for things that happen (a run failed), False for what lasts until it is over (a card is hot)."""
    members: dict[str, Member] = {}
    """What it befalls now, by name; empty for things that happen."""
    since: float
    """When this episode began."""
    last_at: float
    """When it last fired or happened."""
    count: int = 1
    """How often in this episode."""
    episode: int = 1
    """Numbers its messages: one root message an episode."""
    told_at: float | None = None
    """When people were last told aloud; None while nobody was."""
    held: int = 0
    """How often it came back since people were last told."""
    shown_at: float = 0.0
    """When its message was last brought up to date."""
    changed: bool = False
    """The message is behind."""
    silenced_by: str | None = None
    """Id of the silence that keeps it from being told."""
    acknowledged_by: str | None = None
    resolved_at: float | None = None
    history: tuple[Line, ...] = ()
    n_lines: int = 0
    """Lines written in this episode, those no longer kept included; the newest one's number."""

    @property
    def is_open(self) -> bool:
        return self.state is not AlertState.RESOLVED


class Silence(Record):
    """A time in which certain alerts are not told."""

    id: str
    """`si-3`"""
    scope: Scope
    subject: str = ""
    """`exp-31`, `node07`, a card's UUID, a rule's name, an alert's id; empty for all."""
    until: float
    by: str
    at: float
    conversation: str = ""
    """Where it was asked for, and where its end is told."""
    held: dict[str, str] = {}
    """Alerts that it held back, by id, with their titles."""
    over: bool = False
    digest: str = ""
    """What was held back, said when it is over; empty where nothing was."""


def matches(silence: Silence, alert: Alert) -> bool:
    """True when the alert is one of those that the silence is about."""
    if silence.scope == "all":
        return True
    if silence.scope == "alert":
        return silence.subject == alert.id
    if silence.scope == "rule":
        return silence.subject == alert.rule
    if alert.labels.get(silence.scope) == silence.subject:
        return True
    befallen = [member.labels.get(silence.scope) for member in alert.members.values()]
    return bool(befallen) and all(label == silence.subject for label in befallen)


def alert_id(fingerprint: str) -> str:
    """The id of the alert with this fingerprint."""
    return f"al-{hashlib.sha256(fingerprint.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Board:
    """All alerts and silences as they stand."""

    alerts: Mapping[str, Alert] = field(default_factory=dict)
    silences: Mapping[str, Silence] = field(default_factory=dict)
    place: str | None = None
    """Id of the last event that is accounted for; None before the first."""
    hosts: Mapping[str, float] = field(default_factory=dict)
    """When each host was last heard of."""


@dataclass(frozen=True)
class Outcome:
    """What is to be written: the changed records, and what is told."""

    alerts: Iterable[Alert] = ()
    silences: Iterable[Silence] = ()
    gone: Iterable[str] = ()
    """Ids of alerts and silences that are too old to keep."""
    events: Iterable[Event] = ()
    place: str | None = None
    hosts: Mapping[str, float] | None = None
    """All hosts that are known from now on; None leaves them."""


T = TypeVar("T", Alert, Silence)


class Alerts:
    """Alerts and silences in Redis; any process may hold one. A change is one transaction with its events."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def board(self, client: Any = None) -> Board:
        """Everything that is known; a record that cannot be read is left out and left alone."""
        source = client or self.client
        return Board(
            alerts=_readable(Alert, source.hgetall(ALERTS)),
            silences=_readable(Silence, source.hgetall(SILENCES)),
            place=source.get(PLACE),
            hosts={name: float(at) for name, at in source.hgetall(SEEN).items()},
        )

    def alert(self, alert_id: str) -> Alert:
        """The alert. Raises UnknownRecord."""
        found = self.client.hget(ALERTS, alert_id)
        if not found:
            raise UnknownRecord(alert_id)
        return Alert.model_validate_json(found)

    def silence(self, silence_id: str) -> Silence:
        """The silence. Raises UnknownRecord."""
        found = self.client.hget(SILENCES, silence_id)
        if not found:
            raise UnknownRecord(silence_id)
        return Silence.model_validate_json(found)

    def change(self, decide: Callable[[Board], Outcome]) -> Outcome:
        """What `decide` made of the board is written with its events; called again when somebody wrote meanwhile."""

        def write(pipe: Pipeline) -> Outcome:
            outcome = decide(self.board(pipe))
            pipe.multi()
            _write(pipe, outcome)
            return outcome

        done: Outcome = self.client.transaction(write, ALERTS, SILENCES, PLACE, value_from_callable=True)
        return done

    def acknowledge(self, alert_id: str, by: str, now: float) -> Alert:
        """Somebody looks after it: no more reminders. Raises UnknownRecord; MoveRefused when it does not fire."""

        def decide(board: Board) -> Outcome:
            alert = board.alerts.get(alert_id)
            if alert is None:
                raise UnknownRecord(alert_id)
            if alert.state is not AlertState.FIRING:
                raise MoveRefused(alert_id, alert.state, AlertState.ACKNOWLEDGED)
            fields = {"state": AlertState.ACKNOWLEDGED, "acknowledged_by": by}
            moved = with_line(alert.model_copy(update=fields), now, f"acknowledged by {by}")
            return Outcome(alerts=[moved], events=[event("acknowledged", moved)])

        return next(iter(self.change(decide).alerts))

    def be_quiet(
        self, scope: Scope, subject: str, until: float, by: str, now: float, conversation: str = ""
    ) -> Silence:
        """The alerts that this is about are not told until then, critical ones of hardware aside."""
        number = self.client.incr(f"{PREFIX}seq:si")
        silence = Silence(
            id=f"si-{number}", scope=scope, subject=subject, until=until, by=by, at=now, conversation=conversation
        )

        def decide(board: Board) -> Outcome:
            hit = [a for a in board.alerts.values() if a.is_open and matches(silence, a) and not through(a)]
            hushed = [a.model_copy(update={"silenced_by": silence.id}) for a in hit]
            return Outcome(alerts=hushed, silences=[silence], events=[event("silenced", a) for a in hushed])

        self.change(decide)
        return silence

    def speak_again(self, wanted: Callable[[Silence], bool], now: float) -> list[Silence]:
        """The wanted silences end now; those that ended."""
        ended: list[Silence] = []

        def decide(board: Board) -> Outcome:
            chosen = [s for s in board.silences.values() if not s.over and s.until > now and wanted(s)]
            ended[:] = [s.model_copy(update={"until": now}) for s in chosen]
            return Outcome(silences=ended)

        self.change(decide)
        return ended


def through(alert: Alert) -> bool:
    """True for what is told through any silence: a card that may be dying."""
    return alert.hardware and alert.severity == "critical"


def with_line(alert: Alert, at: float, text: str, *, aloud: bool = False) -> Alert:
    """The alert with one more line of history."""
    lines = (*alert.history, Line(at=at, text=text, aloud=aloud))[-HISTORY:]
    return alert.model_copy(update={"history": lines, "n_lines": alert.n_lines + 1})


def event(what: str, alert: Alert) -> Event:
    """`alert.firing` and the like: the courier brings the alert's message up to its state."""
    return Event(
        kind=f"alert.{what}", subject=alert.id, conversation=alert.conversation, data={"told": _is_told(alert)}
    )


def _is_told(alert: Alert) -> bool:
    return alert.told_at is not None


def _write(pipe: Pipeline, outcome: Outcome) -> None:
    for alert in outcome.alerts:
        pipe.hset(ALERTS, alert.id, alert.model_dump_json())
    for silence in outcome.silences:
        pipe.hset(SILENCES, silence.id, silence.model_dump_json())
    for old in outcome.gone:
        pipe.hdel(SILENCES if old.startswith("si-") else ALERTS, old)
    for told in outcome.events:
        events.write(pipe, told)
    if outcome.place is not None:
        pipe.set(PLACE, outcome.place)
    if outcome.hosts is not None:
        pipe.delete(SEEN)
        if outcome.hosts:
            pipe.hset(SEEN, mapping={name: repr(at) for name, at in outcome.hosts.items()})


def _readable(cls: type[T], found: Mapping[str, str]) -> dict[str, T]:
    records = {}
    for name, text in found.items():
        try:
            records[name] = cls.model_validate_json(text)
        except ValueError:  # of another version; it stays as it is
            continue
    return records
