"""The courier: reads the event stream, keeps what is to be said in the outbox, and says it. Nobody else speaks."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence

from redis.exceptions import RedisError

from bot.conversation import Conversation, conversation
from bot.desk import Desk
from bot.outbox import Kind, Note, Outbox, Posted
from bot.web import Later, Refused, Web
from lab import store
from lab.errors import UnknownRecord
from lab.events import Consumer, Event
from lab.ledger import Ledger
from lab.run import ExperimentState, experiment_of
from lab.settings import Settings

log = logging.getLogger(__name__)

GROUP = "courier"
BLOCK_MS = 500
ROUND_S = 0.2
AWAY_S = 1.0
MOST_TRIES = 8
"""Of a call that Slack answers with an error nobody knows; a network that is away is tried for ever."""
LONGEST_WAIT_S = 60.0
USER = re.compile(r"[UW][A-Z0-9]{2,}")
LIVE = (ExperimentState.APPROVED, ExperimentState.RUNNING)


class Courier:
    """Two threads: one turns events into notes of the outbox, the other sends those. One courier a workspace."""

    def __init__(self, settings: Settings, web: Web) -> None:
        client = store.connect(settings)
        self.outbox = Outbox(client)
        self._posted = Posted(client)
        self._ledger = Ledger(client)
        self._client = client
        self._desk = Desk(self._ledger, self._posted, web, store.connect(settings, decode=False))
        self._operators, self._admins = operators(settings), admins(settings)
        self._interval_s = settings.slack.update_interval_s
        self._stop = threading.Event()
        self._news = threading.Event()
        self._tries: dict[Note, int] = {}
        self._not_before: dict[Note, float] = {}
        self._unsure: set[Note] = set()
        self._hopeless: set[Note] = set()
        self._polled_at = 0.0
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True)
            for name, work in (("courier-events", self._listen), ("courier-sender", self._speak))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """The threads have ended; what was not said waits in Redis."""
        self._stop.set()
        self._news.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(10)

    def _guarded(self, work: Callable[[], None]) -> None:
        """The thread's life: it begins anew whenever the store comes back, and whatever else goes wrong."""
        while not self._stop.is_set():
            try:
                work()
            except RedisError as error:
                log.warning("courier: the store is away (%s)", type(error).__name__)
                self._stop.wait(AWAY_S)
            except Exception:
                log.exception("courier: begins anew")
                self._stop.wait(AWAY_S)

    # -- events to notes -----------------------------------------------------------------------------------------

    def _listen(self) -> None:
        consumer = Consumer(self._client, GROUP)
        while not self._stop.is_set():
            for event in consumer.read(block_ms=BLOCK_MS):
                self._heard(event)
                consumer.acknowledge(event)

    def _heard(self, event: Event) -> None:
        if event.kind == "experiment.cancelled" and event.data.get("by"):
            self._posted.set(event.subject, "ended_by", str(event.data["by"]))
        notes = notes_for(event) or alert_notes(event, self._operators)
        if notes:
            self.outbox.add(*notes)
            self._news.set()

    # -- notes to messages ---------------------------------------------------------------------------------------

    def _speak(self) -> None:
        self._unsure |= self.outbox.recover()
        while not self._stop.is_set():
            self._watch_live()
            self._round()
            self._news.wait(ROUND_S)
            self._news.clear()

    def _watch_live(self) -> None:
        """Progress makes no events, so the cards of what runs are looked at every few seconds."""
        if time.monotonic() - self._polled_at < self._interval_s:
            return
        self._polled_at = now = time.monotonic()
        self._not_before = {note: at for note, at in self._not_before.items() if at > now}
        live = self._ledger.experiments(*LIVE)
        self._desk.forget_all_but({experiment.id for experiment in live})
        places = [(experiment.id, conversation(experiment.conversation)) for experiment in live]
        self.outbox.add(*(Note("progress", subject, place) for subject, place in places if place))

    def _round(self) -> None:
        """Every note that may be sent now was; within a conversation no post overtakes an earlier one."""
        held: set[str] = set()
        now = time.monotonic()
        for note in self.outbox.waiting():
            if self._stop.is_set():
                return
            early = self._not_before.get(note, 0.0) > now
            behind = note.place.name in held and note.kind != "plan"
            if early or behind or not self._send(note):
                held |= {note.place.name} if note.kind in ("answer", "report", "notice", "free") else set()

    def _send(self, note: Note) -> bool:
        """Whether the note is done with: sent, or given up."""
        if not self.outbox.take(note):
            return True
        try:
            if note not in self._hopeless:
                self._desk.deliver(note, unsure=note in self._unsure)
            else:
                self.outbox.add(*elsewhere(note, self._operators, self._admins))
        except Later as later:
            return self._postpone(note, later)
        except Refused as refused:
            self._hopeless.add(note)
            self.outbox.add(*elsewhere(note, self._operators, self._admins))
            log.error("%s: its %s is given up, %s", note.subject, note.kind, refused)
        except UnknownRecord as error:
            log.warning("%s: its %s is given up, %s", note.subject, note.kind, error)
        except RedisError:
            raise
        except Exception:
            log.exception("%s: its %s cannot be shown", note.subject, note.kind)
        self.outbox.done(note)
        self._tries.pop(note, None)
        self._unsure.discard(note)
        self._not_before.pop(note, None)
        if note.kind in ("progress", "alert"):
            self._not_before[note] = time.monotonic() + self._interval_s
        return True

    def _postpone(self, note: Note, later: Later) -> bool:
        tries = self._tries.get(note, 0) + later.slack_spoke
        self._tries[note] = tries
        if tries >= MOST_TRIES:
            log.error("%s: given up after %d tries, %s", note.subject, tries, later.why)
            self.outbox.done(note)
            return True
        if later.unsure:
            self._unsure.add(note)
        if later.unsure or later.slack_spoke:
            log.warning("%s: %s", note.subject, later)
        wait_s = min(LONGEST_WAIT_S, later.wait_s * 2**tries) if later.slack_spoke else later.wait_s
        self._not_before[note] = time.monotonic() + wait_s
        self.outbox.put_back(note)
        return False


def notes_for(event: Event) -> list[Note]:
    """What an event makes the courier say; nothing for other conversations than Slack's and for what it ignores."""
    place = conversation(event.conversation)
    if place is None:
        return []
    record, _, state = event.kind.partition(".")
    experiment_id = experiment_of(event.subject)
    match record, state:
        case "request", "answered":
            return [Note("answer", event.subject, place)]
        case "experiment", "proposed":
            return []
        case "experiment", "notice":
            return [Note("notice", f"{experiment_id}:{event.data.get('key', '')}", place)]
        case "experiment", _:
            return [Note("plan", experiment_id, place), Note("progress", experiment_id, place)]
        case "run", _:
            return [Note("progress", experiment_id, place)]
        case "card", "free":
            return [Note("free", event.subject, place)]
        case "report", "ready":
            revision = event.data.get("revision", 1)
            return [Note("progress", experiment_id, place), Note("report", f"{experiment_id}:{revision}", place)]
    return []


def operators(settings: Settings) -> list[Conversation]:
    """Where is told what concerns no thread: the alert channel, else a direct message to each admin of Slack's."""
    channel = settings.alerts.channel
    return [Conversation("", channel, "")] if channel else admins(settings)


def admins(settings: Settings) -> list[Conversation]:
    """The direct messages of those admins that are Slack's."""
    return [Conversation("", user, "") for user in settings.admins if USER.fullmatch(user)]


def elsewhere(note: Note, operators: Sequence[Conversation], admins: Sequence[Conversation]) -> list[Note]:
    """Where an alert is told that Slack refuses in its place: an archived channel must not hide a lost card."""
    if note.kind not in ("alert", "silence") or note.place in admins:
        return []
    return [Note(note.kind, note.subject, place) for place in (admins if note.place in operators else operators)]


def alert_notes(event: Event, operators: Sequence[Conversation]) -> list[Note]:
    """Where an alert, or the end of a silence, is told: in its experiment's thread, else to the operators."""
    kind: dict[str, Kind] = {"alert": "alert", "silence": "silence"}
    record = event.kind.partition(".")[0]
    if record not in kind:
        return []
    place = conversation(event.conversation)
    return [Note(kind[record], event.subject, place) for place in ([place] if place else operators)]
