"""The cards of a host's driver: each is read in a thread of its own, since a sick card can hang for half a minute."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from keeper.nvml.calls import SEE, Handle, Opening
from keeper.nvml.physical import Answer, PhysicalCard
from lab.card import Card
from lab.errors import CardError

log = logging.getLogger(__name__)

LONGEST_REOPEN_S = 600.0
PART_S = 1.0
"""How long a reader may take to end before the driver is shut down under it."""


def kernel_cards() -> frozenset[str]:
    """PCI addresses of the cards that the kernel has a driver for; empty where it does not say (some containers)."""
    try:
        return frozenset(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return frozenset()


class DriverCards:
    """The cards of this host's NVIDIA driver, MIG slices as cards of their own; a `CardSource`.

    Belongs to one thread. A card that does not answer in time keeps its last reading, which ages and says so. A lost
    card stays in the list as lost, and the driver is initialised anew from time to time to see whether it is back.

    Args:
        deadline_s: how long one reading may take, all cards together.
        open_wait_s: how long a reading waits for the driver's initialisation, which goes on behind it.
        reopen_s: how soon to initialise anew when a card is lost; doubled as long as it stays so.
        clock: seconds since the epoch.
        listed: the cards that the kernel has; the driver's library lists a new one only when initialised anew.
    """

    def __init__(
        self,
        host: str,
        *,
        deadline_s: float = 0.8,
        open_wait_s: float = 10.0,
        reopen_s: float = 30.0,
        clock: Callable[[], float] = time.time,
        listed: Callable[[], frozenset[str]] = kernel_cards,
    ) -> None:
        self._host = host
        self._listed = listed
        self._seen: frozenset[str] = frozenset()
        self._deadline_s = deadline_s
        self._open_wait_s = open_wait_s
        self._reopen_s = reopen_s
        self._reopen_after_s = reopen_s
        self._clock = clock
        self._readers: list[_Reader] = []
        self._answers: queue.SimpleQueue[tuple[_Reader, Answer]] = queue.SimpleQueue()
        self._opening: Opening | None = None
        self._opened_at: float | None = None
        self._shut_down_first = False
        self._last: list[Card] = []
        """Shown, and ageing, while the driver is initialised anew."""
        self._known: dict[str, Card] = {}
        """Every physical card ever seen, so that one that falls off the bus is shown as lost and not forgotten."""
        self._xids: dict[str, int] = {}
        """By card: told once by the driver, and true until the card or the driver is reset."""

    def read(self) -> list[Card]:
        """Every card in PCI order with its reading, within `deadline_s` once the driver is initialised.

        Raises:
            CardError: there is no driver that answers; the next call tries again.
        """
        for _ in range(2):
            self._reopen_if_lost()
            if not self._open():
                if self._last:
                    return self._last
                raise CardError(f"the NVIDIA driver has not answered for {self._opening_s():.0f} s: {SEE}")
            gone = self._ask_all()
            if gone is None:
                self._last = self._cards()
                return self._last
            self._close()
            self._last = []
            self._xids = {}
        raise CardError(f"the NVIDIA driver went away ({gone}): {SEE}")

    def _reopen_if_lost(self) -> None:
        """A lost card may be back, but only a new initialisation shows it; others lose a reading or two by that."""
        if self._opened_at is None or self._hanging():
            return
        seen, self._seen = self._seen, self._listed()
        if seen != self._seen:
            log.info("%s: cards came or went: %s", self._host, ", ".join(sorted(seen ^ self._seen)))
            self._close()
        elif not self._vanished() and not any(reader.answer.lost for reader in self._readers):
            self._reopen_after_s = self._reopen_s
        elif time.monotonic() - self._opened_at >= self._reopen_after_s:
            self._reopen_after_s = min(2 * self._reopen_after_s, LONGEST_REOPEN_S)
            self._close()

    def _open(self) -> bool:
        """Whether the driver is initialised and every card has its reader; it may still be at that behind us."""
        if self._opened_at is not None:
            return True
        if self._opening is None:
            self._opening = Opening(self._shut_down_first)
        handles = self._opening.outcome(self._open_wait_s)
        if handles is None:
            return False
        self._opening = None
        if isinstance(handles, CardError):
            self._last = []
            raise handles
        self._opened_at = time.monotonic()
        self._seen = self._listed()
        self._answers = queue.SimpleQueue()
        self._readers = [
            _Reader(self._host, number, handle, self._answers, self._clock) for number, handle in enumerate(handles)
        ]
        return True

    def _opening_s(self) -> float:
        return time.monotonic() - self._opening.since if self._opening else 0.0

    def _close(self) -> None:
        """The readers end, those that hang whenever the driver lets go of them."""
        hanging = self._hanging()
        for reader in self._readers:
            reader.requests.put(False)
        until = time.monotonic() + PART_S
        for reader in [] if hanging else self._readers:
            reader.join(max(0.0, until - time.monotonic()))
        # Shutting NVML down under a call that hangs may crash this process; initialising twice is only counted.
        self._shut_down_first = not hanging and not any(reader.is_alive() for reader in self._readers)
        self._readers = []
        self._opened_at = None

    def _hanging(self) -> bool:
        """Whether a question to a card is still open."""
        return any(reader.asked_at is not None for reader in self._readers)

    def _ask_all(self) -> str | None:
        """Every card that answers in time has a new reading; returns the driver's error when it is gone altogether."""
        now = time.monotonic()
        while self._accept(now):  # late answers of earlier rounds
            pass
        pending = [reader for reader in self._readers if reader.asked_at is None]
        for reader in pending:
            reader.asked_at = now
            reader.requests.put(True)
        while any(reader.asked_at is not None for reader in pending) and self._accept(now + self._deadline_s):
            pass
        return next((reader.answer.gone for reader in self._readers if reader.answer.gone), None)

    def _accept(self, until: float) -> bool:
        """One more answer was taken; False when none came until then (monotonic seconds)."""
        try:
            reader, answer = self._answers.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return False
        reader.answer = answer
        reader.asked_at = None
        return True

    def _cards(self) -> list[Card]:
        readers = self._readers
        if all(reader.answer.pci for reader in readers):
            readers = sorted(readers, key=lambda reader: reader.answer.pci or ())
        cards = [card for position, reader in enumerate(readers) for card in self._shown(reader, position)]
        cards += [_as_lost(card, "the driver no longer lists it") for card in self._vanished()]
        return sorted(cards, key=lambda card: card.index)

    def _shown(self, reader: _Reader, position: int) -> Iterator[Card]:
        """The reader's cards as they stand, with the age of a hang and the index by which people know them."""
        known = self._known.get(reader.answer.uuid) if reader.answer.uuid else self._known_at(reader.number)
        index = known.index if known else position
        if reader.answer.uuid and reader.answer.cards and not reader.answer.lost:
            first = reader.answer.cards[0]
            self._known[reader.answer.uuid] = first.model_copy(update={"uuid": reader.answer.uuid, "index": index})
        xid = self._xid(reader.answer)
        cards = () if reader.answer.lost else reader.answer.cards
        if not cards:
            yield _as_lost(known or self._unknown(reader), reader.answer.lost or _unanswered(reader))
        for card in cards:
            changes: dict[str, Any] = {} if (card.index, card.xid) == (index, xid) else {"index": index, "xid": xid}
            if reader.asked_at is not None:
                changes["problem"] = _unanswered(reader)
            yield card.model_copy(update=changes) if changes else card

    def _xid(self, answer: Answer) -> int | None:
        """The fatal Xid of an answering card; a card that is lost must have been reset when it is back."""
        if answer.uuid is None:
            return None
        if answer.lost:
            self._xids.pop(answer.uuid, None)
        elif answer.xid is not None:
            self._xids[answer.uuid] = answer.xid
        return self._xids.get(answer.uuid)

    def _known_at(self, number: int) -> Card | None:
        """Which card a nameless one is: the one that had its number and that no other reader has."""
        return next((card for card in self._missing() if card.index == number), None)

    def _missing(self) -> list[Card]:
        present = {reader.answer.uuid for reader in self._readers}
        return [card for uuid, card in self._known.items() if uuid not in present]

    def _vanished(self) -> list[Card]:
        nameless = {reader.number for reader in self._readers if reader.answer.uuid is None}
        return [card for card in self._missing() if card.index not in nameless]

    def _unknown(self, reader: _Reader) -> Card:
        uuid = reader.answer.uuid or f"UNKNOWN-{self._host}-{reader.number}"
        return Card(uuid=uuid, index=reader.number, name="unknown card", host=self._host)


class _Reader(threading.Thread):
    """Reads one physical card whenever it is asked, and answers with what it found."""

    def __init__(
        self,
        host: str,
        number: int,
        handle: Handle | None,
        answers: queue.SimpleQueue[tuple[_Reader, Answer]],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(name=f"card-{number}", daemon=True)
        self.number = number
        self.requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.asked_at: float | None = None
        """Monotonic; None while no question is open. This and `answer` belong to the asking thread."""
        self.answer = Answer()
        self._card = PhysicalCard(host, number, handle, clock)
        self._answers = answers
        self.start()

    def run(self) -> None:
        """Answers until it is told to end."""
        while self.requests.get():
            try:
                answer = self._card.read()
            except Exception as error:
                log.exception("card %d: its reading broke", self.number)
                answer = Answer(self._card.uuid, self._card.pci, lost=f"its reading broke: {error!r}")
            self._answers.put((self, answer))
            self._card.read_slow()
        self._card.close()


def _as_lost(card: Card, problem: str) -> Card:
    """The card without its reading, which says nothing any more."""
    return Card(
        uuid=card.uuid,
        index=card.index,
        name=card.name,
        host=card.host,
        memory_total_bytes=card.memory_total_bytes,
        lost=True,
        problem=problem,
        read_at=card.read_at,
    )


def _unanswered(reader: _Reader) -> str:
    since = reader.asked_at or time.monotonic()
    return f"the driver has not answered for it for {time.monotonic() - since:.0f} s"
