"""The one door to NVML: what the driver says about each card, where a bad card or field costs only itself.

Every field is read on its own, and what the driver does not tell is None, never 0. Each physical card is read in a
thread of its own, because a sick card can hang inside the driver for half a minute.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psutil

from lab.card import Card, CardProcess
from lab.errors import CardError

log = logging.getLogger(__name__)

LONGEST_REOPEN_S = 600.0
_SEE = "see `nvidia-smi` and the kernel's log"

Handle = Any
"""An opaque pointer of the driver's library."""


def kernel_cards() -> frozenset[str]:
    """PCI addresses of the cards that the kernel has a driver for; empty where it does not say (some containers)."""
    try:
        return frozenset(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return frozenset()


SLOWED = {0x08: "slowed down by the hardware", 0x20: "heat", 0x40: "heat, by the hardware", 0x80: "its power supply"}
"""nvmlClocksThrottleReason* that mean trouble; a power cap under load and an idle card do not."""


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
        self._answers: queue.SimpleQueue[tuple[_Reader, _Answer]] = queue.SimpleQueue()
        self._opening: _Opening | None = None
        self._opened_at: float | None = None
        self._shut_down_first = False
        self._last: list[Card] = []
        """Shown, and ageing, while the driver is initialised anew."""
        self._known: dict[str, Card] = {}
        """Every physical card ever seen, so that one that falls off the bus is shown as lost and not forgotten."""

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
                raise CardError(f"the NVIDIA driver has not answered for {self._opening_s():.0f} s: {_SEE}")
            gone = self._ask_all()
            if gone is None:
                self._last = self._cards()
                return self._last
            self._close()
            self._last = []
        raise CardError(f"the NVIDIA driver went away ({gone}): {_SEE}")

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
            self._opening = _Opening(self._shut_down_first)
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
        # Shutting NVML down under a call that hangs may crash this process; initialising twice is only counted.
        self._shut_down_first = not self._hanging()
        for reader in self._readers:
            reader.requests.put(False)
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
        cards = () if reader.answer.lost else reader.answer.cards
        if not cards:
            yield _as_lost(known or self._unknown(reader), reader.answer.lost or _unanswered(reader))
        for card in cards:
            changes: dict[str, Any] = {} if card.index == index else {"index": index}
            if reader.asked_at is not None:
                changes["problem"] = _unanswered(reader)
            yield card.model_copy(update=changes) if changes else card

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


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a card said last."""

    uuid: str | None = None
    pci: tuple[int, int, int] | None = None
    """Domain, bus, device."""
    cards: tuple[Card, ...] = ()
    lost: str | None = None
    """Why the card itself can no longer be read."""
    gone: str | None = None
    """Why the whole driver can no longer be read."""


class _Lost(Exception):
    """This card no longer answers; its handle is worth nothing."""


class _Gone(Exception):
    """The driver behind all cards no longer answers."""


class _Reader(threading.Thread):
    """Reads one physical card whenever it is asked, and answers with what it found."""

    def __init__(
        self,
        host: str,
        number: int,
        handle: Handle | None,
        answers: queue.SimpleQueue[tuple[_Reader, _Answer]],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(name=f"card-{number}", daemon=True)
        self.number = number
        self.requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.asked_at: float | None = None
        """Monotonic; None while no question is open. This and `answer` belong to the asking thread."""
        self.answer = _Answer()
        self._card = _PhysicalCard(host, number, handle, clock)
        self._answers = answers
        self.start()

    def run(self) -> None:
        """Answers until it is told to end."""
        while self.requests.get():
            try:
                answer = self._card.read()
            except Exception as error:
                log.exception("card %d: its reading broke", self.number)
                answer = _Answer(self._card.uuid, self._card.pci, lost=f"its reading broke: {error!r}")
            self._answers.put((self, answer))


@dataclass(slots=True)
class _PhysicalCard:
    """One handle of the driver; used by its reader's thread only."""

    host: str
    number: int
    handle: Handle | None
    clock: Callable[[], float]
    uuid: str | None = None
    pci: tuple[int, int, int] | None = None
    names: dict[str, str] = field(default_factory=dict)
    process_names: dict[int, str | None] = field(default_factory=dict)
    """Of the processes that its last reading showed."""
    lost: str = "the driver gives no handle for it"

    def read(self) -> _Answer:
        """The card's reading, or why there is none."""
        try:
            if self.handle is None:
                raise _Lost(self.lost)
            self._identify()
            cards = tuple(self._cards())
            shown = {process.pid for card in cards for process in card.processes}
            self.process_names = {pid: name for pid, name in self.process_names.items() if pid in shown}
            return _Answer(self.uuid, self.pci, cards)
        except _Lost as lost:
            self.handle = None  # may not be used again, even if the card comes back
            self.lost = str(lost)
            return _Answer(self.uuid, self.pci, lost=str(lost))
        except _Gone as gone:
            return _Answer(self.uuid, self.pci, gone=str(gone))

    def _processes(self, handle: Handle, errors: list[str]) -> tuple[CardProcess, ...] | None:
        """The compute processes on the card, None where the driver does not tell."""
        import pynvml

        # The name without a version raises an error that is no NVMLError where an old driver lacks v3.
        found = _tried(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle)
        if found is None:
            found = _tried(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle, errors=errors)
        if found is None:
            return None
        return tuple(
            CardProcess(pid=process.pid, memory_bytes=process.usedGpuMemory, name=self._process_name(process.pid))
            for process in found
        )

    def _process_name(self, pid: int) -> str | None:
        """Looked up once, when a process is first seen: that costs more than the driver's answer."""
        if pid not in self.process_names:
            self.process_names[pid] = _process_name(pid)
        return self.process_names[pid]

    def _identify(self) -> None:
        import pynvml

        if self.uuid is None:
            self.uuid = _tried(pynvml.nvmlDeviceGetUUID, self.handle)
            if self.uuid is None:
                raise _Lost("the driver does not tell its UUID")
        if self.pci is None:
            place = _tried(pynvml.nvmlDeviceGetPciInfo, self.handle)
            self.pci = place and (place.domain, place.bus, place.device)

    def _cards(self) -> Iterator[Card]:
        """The card itself, or its MIG slices: whole, such a card runs nothing."""
        import pynvml

        mig = _tried(pynvml.nvmlDeviceGetMigMode, self.handle)
        if not mig or mig[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            yield self._reading(self.handle, str(self.uuid), None)
            return
        found = False
        for number in range(_tried(pynvml.nvmlDeviceGetMaxMigDeviceCount, self.handle) or 0):
            handle = _tried(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, self.handle, number)
            uuid = handle and _tried(pynvml.nvmlDeviceGetUUID, handle)
            if uuid:
                found = True
                yield self._reading(handle, uuid, number)
        if not found:
            problem = "MIG is on and no slice is made: `nvidia-smi mig -cgi ... -C` makes some"
            yield self._reading(self.handle, str(self.uuid), None).model_copy(update={"problem": problem})

    def _reading(self, handle: Handle, uuid: str, part: int | None) -> Card:
        import pynvml

        errors: list[str] = []
        used, total = _memory(handle, errors)
        utilization = _tried(pynvml.nvmlDeviceGetUtilizationRates, handle, errors=errors)
        processes = self._processes(handle, errors)
        temperature = _tried(pynvml.nvmlDeviceGetTemperature, self.handle, pynvml.NVML_TEMPERATURE_GPU)
        power = _tried(pynvml.nvmlDeviceGetPowerUsage, handle)
        slowed = _tried(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, self.handle)
        broken = _tried(
            pynvml.nvmlDeviceGetTotalEccErrors,
            self.handle,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        )
        unread = used is None and processes is None
        if unread and utilization is None and errors:
            raise _Lost(f"the driver answers only errors for it ({errors[-1]})")
        return Card(
            uuid=uuid,
            index=self.number,
            name=self._name(handle, uuid, part),
            host=self.host,
            memory_total_bytes=total,
            memory_used_bytes=used,
            utilization_pct=None if utilization is None else float(utilization.gpu),
            temperature_c=None if temperature is None else float(temperature),
            power_mw=power,
            throttled=None if slowed is None else ", ".join(why for bit, why in SLOWED.items() if slowed & bit),
            ecc_errors=broken,
            processes=processes or (),
            problem="neither its memory nor its processes can be read, so it may be busy" if unread else None,
            read_at=self.clock(),
        )

    def _name(self, handle: Handle, uuid: str, part: int | None) -> str:
        import pynvml

        if uuid not in self.names:
            name = _tried(pynvml.nvmlDeviceGetName, handle) or "NVIDIA card"
            self.names[uuid] = name if part is None else f"{name} #{part}"
        return self.names[uuid]


class _Opening:
    """NVML being initialised in a thread of its own: without persistence mode that takes seconds, or never ends."""

    def __init__(self, shut_down_first: bool) -> None:
        self._shut_down_first = shut_down_first
        self.since = time.monotonic()
        self._outcome: queue.SimpleQueue[list[Handle | None] | CardError] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="nvml-open", daemon=True).start()

    def outcome(self, wait_s: float) -> list[Handle | None] | CardError | None:
        """A handle for every card, None for those the driver refuses one; or why there is none; told once.

        None while it is not known yet.
        """
        try:
            return self._outcome.get(timeout=wait_s)
        except queue.Empty:
            return None

    def _run(self) -> None:
        import pynvml

        try:
            if self._shut_down_first:
                with contextlib.suppress(pynvml.NVMLError):
                    pynvml.nvmlShutdown()
            pynvml.nvmlInit()
            self._outcome.put([_handle(number) for number in range(pynvml.nvmlDeviceGetCount())])
        except (pynvml.NVMLError, _Gone) as error:
            self._outcome.put(CardError(_what_to_do(error)))


def _handle(number: int) -> Handle | None:
    import pynvml

    with contextlib.suppress(_Lost):
        return _tried(pynvml.nvmlDeviceGetHandleByIndex, number)
    return None


def _tried(call: Callable[..., Any], *arguments: Any, errors: list[str] | None = None) -> Any:
    """What the driver answers, None where it does not tell; errors other than "not supported" are added to `errors`.

    Raises:
        _Lost: the card is not there any more.
        _Gone: the driver is not there any more.
    """
    import pynvml

    try:
        return call(*arguments)
    except UnicodeDecodeError:
        return None
    except pynvml.NVMLError as error:
        if error.value in (
            pynvml.NVML_ERROR_GPU_IS_LOST,
            pynvml.NVML_ERROR_RESET_REQUIRED,
            pynvml.NVML_ERROR_GPU_NOT_FOUND,
        ):
            raise _Lost(f"the driver says: {error}") from error
        if error.value in (
            pynvml.NVML_ERROR_UNINITIALIZED,
            pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
            pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
        ):
            raise _Gone(str(error)) from error
        unknown = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        if errors is not None and error.value not in unknown:
            errors.append(str(error))
        return None


def _memory(handle: Handle, errors: list[str]) -> tuple[int | None, int | None]:
    """Bytes used and in all. A driver may answer success with 0 of 0 bytes (Thor): that is no answer either."""
    import pynvml

    memory = _tried(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    memory = memory or _tried(pynvml.nvmlDeviceGetMemoryInfo, handle, errors=errors)
    return (memory.used, memory.total) if memory and memory.total else (None, None)


def _process_name(pid: int) -> str | None:
    """None when no such process is seen from here: in a container the driver tells the host's ids."""
    try:
        return psutil.Process(pid).name()
    except (psutil.Error, ValueError):
        return None


def _what_to_do(error: Exception) -> str:
    import pynvml

    advice = {
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "there is no NVIDIA driver here (libnvidia-ml is not found): install it, "
        "give the container its GPUs, or set gpu.simulate to go without",
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is installed but not loaded: `modprobe nvidia`, "
        "or see the kernel's log",
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the NVIDIA library and kernel module are of different versions: "
        "reload the module or reboot, then start this again",
        pynvml.NVML_ERROR_NO_PERMISSION: "the NVIDIA driver refuses this user: see the permissions of /dev/nvidia*",
    }
    value = getattr(error, "value", None)
    return advice.get(value) or f"the NVIDIA driver does not work ({error}): {_SEE}"


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
