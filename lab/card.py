"""Cards and hosts: what there is to run on, as the hosts last published it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from lab.run import Record

CardRole = Literal["train", "keeper", "shared", "none"]
"""`train`: given out to runs; `keeper`: reserved, never given out; `shared`: the only card, training always wins;
`none`: serves nobody, because it is lost."""

SERVING: tuple[CardRole, ...] = ("train", "shared")
"""The roles of cards that runs may get."""

KeeperState = Literal["starting", "holding", "yielding", "away", "failing", "released", "expired", "refused"]
"""`yielding`: on the card, but at rest while real work shows there; `away`: a run has the shared card; `released`: by
an operator; `expired`: `keeper.max_hold_hours` are over; `refused`: the platform's terms forbid it."""

KeeperVerdict = Literal["verified", "unverified", "ineffective"]
"""Whether the platform's idle rule sees the keeper: shown by readings, not shown (yet), shown that it does not."""

FATAL_XIDS: Mapping[int, str] = {
    48: "an uncorrectable memory error",
    79: "it fell off the bus",
    95: "an uncontained memory error",
}
"""Errors of NVIDIA's driver that do not pass until the card is reset (docs.nvidia.com/deploy/xid-errors)."""

READING_MAX_AGE_S = 15.0
"""Readings older than this mean that a card is not free (design: workers go by published readings)."""


class CardProcess(Record):
    """A process that holds memory on a card; fields that the driver does not tell are None."""

    pid: int
    memory_bytes: int | None = None
    name: str | None = None


class Card(Record):
    """One GPU, MIG slice or simulated card with its last reading; None always means unknown, never zero."""

    uuid: str
    index: int
    """Position in PCI bus order on its host; for people only, identity is the UUID."""
    name: str
    host: str
    role: CardRole = "train"
    simulated: bool = False
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    utilization_pct: float | None = None
    temperature_c: float | None = None
    power_mw: int | None = None
    throttled: str | None = None
    """Why the driver slows it down, for people; `""` while it does not."""
    ecc_errors: int | None = None
    """Memory errors that could not be corrected since the driver was loaded."""
    xid: int | None = None
    """The last one of FATAL_XIDS that the driver told since its readings began."""
    pcie_rx_bytes_per_s: int | None = None
    """PCIe throughput to the card, measured now and then; None where it was not measured of late."""
    pcie_tx_bytes_per_s: int | None = None
    processes: tuple[CardProcess, ...] = ()
    lost: bool = False
    """The driver no longer answers for this card."""
    problem: str | None = None
    closing: bool = False
    """The keeper takes it back as soon as the run on it has ended, so it gets no new one."""
    read_at: float = 0.0
    """Seconds since the epoch on the host's clock when the reading was taken."""

    @property
    def fault(self) -> str | None:
        """What its driver reports of it that does not pass, for people; such a card is not given out."""
        found = [] if self.xid is None else [f"Xid {self.xid}: {FATAL_XIDS.get(self.xid, 'a fatal error')}"]
        if self.ecc_errors:
            found.append(f"{self.ecc_errors} uncorrectable memory errors since the driver was loaded")
        return ", ".join(found) or None


class KeeperStatus(Record):
    """What the keeper on a reserved card does, what can be shown of it, and what it costs."""

    card: str
    pid: int | None = None
    """The process on the card; None while there is none."""
    mode: str = "touch"
    state: KeeperState = "holding"
    verdict: KeeperVerdict = "unverified"
    reason: str | None = None
    """Why the verdict is what it is, for people."""
    platform: str = "none"
    """Name of the platform whose idle rule it is checked against."""
    threshold_pct: float | None = None
    """Utilisation below which the platform counts the card as idle."""
    window_s: float | None = None
    """For how long, until the platform acts."""
    utilization_pct: float | None = None
    """The card's mean over that window, as far as it was read; None when it is not known."""
    duty: float | None = None
    """Share of the time in which it computes; None in mode `touch`."""
    beats: int = 0
    last_beat_at: float | None = None
    interval_s: float = 300.0
    held_s: float = 0.0
    """For how long it has held the card since it was first started or told to hold, without the times when it was away
    or not running; an hour without a keeper begins it anew."""
    max_hold_s: float | None = None
    price_per_hour: float | None = None
    cost: float | None = None
    """What the held hours cost at that price; None without one."""
    released_by: str | None = None
    released_until: float | None = None
    """Seconds since the epoch; None while released without an end, or not released."""
    problem: str | None = None


class HostCards(Record):
    """What `overnight keep` publishes for its host."""

    host: str
    cards: tuple[Card, ...] = ()
    keeper: KeeperStatus | None = None
    simulated: bool = False
    problem: str | None = None
    """Why no card can be read, if so; the list is then no statement that all are free."""
    published_at: float = 0.0


class DataSet(Record):
    """A data set that a host has, or could have."""

    name: str
    present: bool
    how_to_get: str | None = None
    """What to do on that host when it is not present."""
    classes: int | None = None
    train_samples: int | None = None
    image_size: int | None = None
    """Side in pixels at which it is trained unless the plan says otherwise; None when unknown."""
    fingerprint: str | None = None
    """Changes with its files; None for a set that comes with the code."""


class Host(Record):
    """What `overnight work` publishes for its host."""

    host: str
    version: str
    templates: dict[str, dict[str, Any]] = {}
    """Template name to the JSON schema of its parameters."""
    datasets: tuple[DataSet, ...] = ()
    code: str | None = None
    """Hash of the trainers' source and libraries, see lab/provenance; None from hosts of earlier versions."""
    models: dict[str, str] = {}
    """Library to version, `timm: 1.0.30`: which families of models can be built here."""
    cores: int = 1
    disk_free_bytes: int | None = None
    speed_flops: float | None = None
    """Floating point operations a second, measured once at start; None when not measured."""
    cards: tuple[str, ...] = ()
    """UUIDs for which a worker runs."""
    published_at: float = 0.0
