"""One physical card as the driver tells of it: every field on its own, and what is not told is None, never 0."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from keeper.nvml.calls import Gone, Handle, Lost, memory_of, process_name, tried
from lab.card import FATAL_XIDS, Card, CardProcess

log = logging.getLogger(__name__)

SLOWED = {0x08: "slowed down by the hardware", 0x20: "heat", 0x40: "heat, by the hardware", 0x80: "its power supply"}
"""nvmlClocksThrottleReason* that mean trouble; a power cap under load and an idle card do not."""
PCIE_EVERY_S = 10.0
"""Each of the two calls blocks for the 20 ms over which it measures; so it is done seldom, and between readings."""
KB = 1000
"""What nvmlDeviceGetPcieThroughput counts in."""
XID_WAIT_MS = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What a card said last."""

    uuid: str | None = None
    pci: tuple[int, int, int] | None = None
    """Domain, bus, device."""
    cards: tuple[Card, ...] = ()
    xid: int | None = None
    """One of FATAL_XIDS that the driver told since the last answer."""
    lost: str | None = None
    """Why the card itself can no longer be read."""
    gone: str | None = None
    """Why the whole driver can no longer be read."""


@dataclass(slots=True)
class PhysicalCard:
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
    listens: bool = False
    """True when the driver was asked for Xids, whatever it said."""
    xid: int | None = None
    """The last of FATAL_XIDS that no answer has told yet."""
    events: Handle | None = None
    """The driver's queue of this card's Xids; None where it has none."""
    pcie: tuple[int | None, int | None] = (None, None)
    """To and from the card, bytes a second."""
    pcie_due: float = 0.0
    """Monotonic."""
    lost: str = "the driver gives no handle for it"

    def read(self) -> Answer:
        """The card's reading, or why there is none."""
        try:
            if self.handle is None:
                raise Lost(self.lost)
            self._identify()
            cards = tuple(self._cards())
            shown = {process.pid for card in cards for process in card.processes}
            self.process_names = {pid: name for pid, name in self.process_names.items() if pid in shown}
            xid, self.xid = self.xid, None
            return Answer(self.uuid, self.pci, cards, xid)
        except Lost as lost:
            self.handle = None  # may not be used again, even if the card comes back
            self.lost = str(lost)
            return Answer(self.uuid, self.pci, lost=str(lost))
        except Gone as gone:
            return Answer(self.uuid, self.pci, gone=str(gone))

    def read_slow(self) -> None:
        """What takes its time is known to the next reading: new Xids, and the PCIe throughput where it is due."""
        if self.handle is None:
            return
        try:
            self._hear_xids()
            if time.monotonic() >= self.pcie_due:
                self.pcie_due = time.monotonic() + PCIE_EVERY_S
                self.pcie = self._pcie()
        except (Lost, Gone):  # the next reading says so
            self.pcie = None, None

    def _pcie(self) -> tuple[int | None, int | None]:
        """To and from the card, in bytes a second; takes some 40 ms."""
        import pynvml

        ways = pynvml.NVML_PCIE_UTIL_RX_BYTES, pynvml.NVML_PCIE_UTIL_TX_BYTES
        rx, tx = (tried(pynvml.nvmlDeviceGetPcieThroughput, self.handle, way) for way in ways)
        return rx and rx * KB, tx and tx * KB

    def close(self) -> None:
        """Nothing of the driver's is held for it any more."""
        import pynvml

        events, self.events = self.events, None
        if events is not None:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(events)

    def _listen(self) -> None:
        """From now on the driver keeps the card's Xids for us, where it can."""
        import pynvml

        kind = pynvml.nvmlEventTypeXidCriticalError
        if not (tried(pynvml.nvmlDeviceGetSupportedEventTypes, self.handle) or 0) & kind:
            return
        errors: list[str] = []
        self.events = tried(pynvml.nvmlEventSetCreate, errors=errors)
        tried(pynvml.nvmlDeviceRegisterEvents, self.handle, kind, self.events, errors=errors)
        if errors:
            log.warning("card %d: the driver tells no Xids: %s", self.number, errors[-1])
            self.close()

    def _hear_xids(self) -> None:
        """Fatal Xids are for the next answer; the others are a program's fault, and stand in the log alone."""
        import pynvml

        while self.events is not None and (event := tried(pynvml.nvmlEventSetWait_v2, self.events, XID_WAIT_MS)):
            xid = event.eventData
            log.warning("card %d (%s): the driver reports Xid %d", self.number, self.uuid, xid)
            self.xid = xid if xid in FATAL_XIDS else self.xid

    def _processes(self, handle: Handle, errors: list[str]) -> tuple[CardProcess, ...] | None:
        """The compute processes on the card, None where the driver does not tell."""
        import pynvml

        # The name without a version raises an error that is no NVMLError where an old driver lacks v3.
        found = tried(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle)
        if found is None:
            found = tried(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle, errors=errors)
        if found is None:
            return None
        return tuple(
            CardProcess(pid=process.pid, memory_bytes=process.usedGpuMemory, name=self._process_name(process.pid))
            for process in found
        )

    def _process_name(self, pid: int) -> str | None:
        """Looked up once, when a process is first seen: that costs more than the driver's answer."""
        if pid not in self.process_names:
            self.process_names[pid] = process_name(pid)
        return self.process_names[pid]

    def _identify(self) -> None:
        import pynvml

        if self.uuid is None:
            self.uuid = tried(pynvml.nvmlDeviceGetUUID, self.handle)
            if self.uuid is None:
                raise Lost("the driver does not tell its UUID")
        if self.pci is None:
            place = tried(pynvml.nvmlDeviceGetPciInfo, self.handle)
            self.pci = place and (place.domain, place.bus, place.device)
        if not self.listens:
            self.listens = True
            self._listen()

    def _cards(self) -> Iterator[Card]:
        """The card itself, or its MIG slices: whole, such a card runs nothing."""
        import pynvml

        mig = tried(pynvml.nvmlDeviceGetMigMode, self.handle)
        if not mig or mig[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            yield self._reading(self.handle, str(self.uuid), None)
            return
        found = False
        for number in range(tried(pynvml.nvmlDeviceGetMaxMigDeviceCount, self.handle) or 0):
            handle = tried(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, self.handle, number)
            uuid = handle and tried(pynvml.nvmlDeviceGetUUID, handle)
            if uuid:
                found = True
                yield self._reading(handle, uuid, number)
        if not found:
            problem = "MIG is on and no slice is made: `nvidia-smi mig -cgi ... -C` makes some"
            yield self._reading(self.handle, str(self.uuid), None).model_copy(update={"problem": problem})

    def _reading(self, handle: Handle, uuid: str, part: int | None) -> Card:
        import pynvml

        errors: list[str] = []
        used, total = memory_of(handle, errors)
        utilization = tried(pynvml.nvmlDeviceGetUtilizationRates, handle, errors=errors)
        processes = self._processes(handle, errors)
        temperature = tried(pynvml.nvmlDeviceGetTemperature, self.handle, pynvml.NVML_TEMPERATURE_GPU)
        power = tried(pynvml.nvmlDeviceGetPowerUsage, handle)
        slowed = tried(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, self.handle)
        broken = tried(
            pynvml.nvmlDeviceGetTotalEccErrors,
            self.handle,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        )
        unread = used is None and processes is None
        if unread and utilization is None and errors:
            raise Lost(f"the driver answers only errors for it ({errors[-1]})")
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
            pcie_rx_bytes_per_s=self.pcie[0] if part is None else None,
            pcie_tx_bytes_per_s=self.pcie[1] if part is None else None,
            processes=processes or (),
            problem="neither its memory nor its processes can be read, so it may be busy" if unread else None,
            read_at=self.clock(),
        )

    def _name(self, handle: Handle, uuid: str, part: int | None) -> str:
        import pynvml

        if uuid not in self.names:
            name = tried(pynvml.nvmlDeviceGetName, handle) or "NVIDIA card"
            self.names[uuid] = name if part is None else f"{name} #{part}"
        return self.names[uuid]
