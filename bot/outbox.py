"""What is still to be said, in Redis: it survives a restart, and what is added twice is said once."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from bot.conversation import Conversation, conversation
from lab.store import PREFIX, Client

Kind = Literal["answer", "plan", "progress", "report", "notice", "alert", "silence", "free"]
"""`answer` and `report` are posted once; `plan` and `progress` bring a card up to the state of its experiment, `alert`
does the same for an alert and posts what is said of it aloud; `silence` is the sum at the end of one, `free`
what a person is told who asked for a free card."""

WAITING = f"{PREFIX}slack:outbox"
SENDING = f"{PREFIX}slack:outbox:sending"
KEPT_S = 40 * 86_400


@dataclass(frozen=True)
class Note:
    """Something to be said about a record; what exactly is decided when it is said, so the last state is."""

    kind: Kind
    subject: str
    """`req-7`, `exp-12`, `exp-12:2` for the second revision of its report, `al-1f9a03c2`, `si-3`, `cw-3`."""
    place: Conversation

    def __str__(self) -> str:
        return f"{self.kind} {self.subject} {self.place.name}"


class Outbox:
    """The notes that wait, oldest first. One courier sends them; any process may add."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def add(self, *notes: Note) -> None:
        """The notes wait; one that waited already keeps its place."""
        if notes:
            self.client.zadd(WAITING, {str(note): time.time() for note in notes}, nx=True)

    def recover(self) -> set[Note]:
        """What was being sent when the last courier ended waits again; nobody knows whether it arrived."""
        stopped = self.client.zrange(SENDING, 0, -1, withscores=True)
        if stopped:
            with self.client.pipeline() as pipe:
                pipe.zadd(WAITING, dict(stopped))
                pipe.delete(SENDING)
                pipe.execute()
        return {note for member, _ in stopped if (note := _note(member))}

    def waiting(self) -> list[Note]:
        """All notes that wait, oldest first."""
        return [note for member in self.client.zrange(WAITING, 0, -1) if (note := _note(member))]

    def take(self, note: Note) -> bool:
        """The note is being sent; adding it from now on asks for sending it once more. False if another took it."""
        score = self.client.zscore(WAITING, str(note))
        with self.client.pipeline() as pipe:
            pipe.zadd(SENDING, {str(note): score or time.time()})
            pipe.zrem(WAITING, str(note))
            return bool(pipe.execute()[-1])

    def done(self, note: Note) -> None:
        """The note was sent or given up."""
        self.client.zrem(SENDING, str(note))

    def put_back(self, note: Note) -> None:
        """The note was not sent and waits again, in its old place."""
        score = self.client.zscore(SENDING, str(note))
        with self.client.pipeline() as pipe:
            pipe.zadd(WAITING, {str(note): score or time.time()})
            pipe.zrem(SENDING, str(note))
            pipe.execute()


class Posted:
    """Which messages stand for a record: its ts by part (`plan`, `progress`, `report:1`), and small facts beside it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def get(self, subject: str, part: str) -> str | None:
        found: str | None = self.client.hget(_posted(subject), part)
        return found

    def set(self, subject: str, part: str, value: str) -> None:
        with self.client.pipeline() as pipe:
            pipe.hset(_posted(subject), part, value)
            pipe.expire(_posted(subject), KEPT_S)
            pipe.execute()


def _posted(subject: str) -> str:
    return f"{PREFIX}slack:posted:{subject}"


def _note(member: str) -> Note | None:
    kind, subject, name = member.split(" ", 2)
    place = conversation(name)
    return Note(kind, subject, place) if place else None  # type: ignore[arg-type]
