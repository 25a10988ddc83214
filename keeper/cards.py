"""The cards of a host, real or simulated, and which of them trains and which is kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import psutil

from lab.card import Card, CardProcess, CardRole
from lab.errors import ConfigError

Running = Callable[[], Mapping[str, Collection[int]]]
"""UUID of a simulated card to the ids of the processes that truly run on its behalf."""


class CardSource(Protocol):
    """Where a host's cards come from."""

    def read(self) -> list[Card]:
        """Every card with its reading, in PCI order, roles not yet assigned.

        Raises:
            CardError: no card can be read at all; never an empty list in its place.
        """
        ...


def card_source(host: str, simulate: int = 0, running: Running = dict, open_wait_s: float = 10.0) -> CardSource:
    """The host's real cards, or `simulate` made-up ones where that is set.

    Args:
        open_wait_s: how long a reading waits for the driver's initialisation before it says that there are none yet.
    """
    if simulate:
        return SimulatedCards(host, simulate, running)
    from keeper.nvml import DriverCards

    return DriverCards(host, open_wait_s=open_wait_s)


class SimulatedCards:
    """Made-up cards whose readings are those of the processes that train on the CPU in their place.

    Memory is the processes' resident memory against the host's, utilisation their share of the cores that one card
    may use, and the temperature only follows the utilisation: 30 °C idle, 80 °C at full load.
    """

    def __init__(self, host: str, count: int, running: Running, clock: Callable[[], float] = time.time) -> None:
        self._host = host
        self._count = count
        self._running = running
        self._clock = clock
        self._threads = max(1, (os.cpu_count() or 1) // max(1, count - 1))
        self._seen: dict[int, psutil.Process] = {}
        """Kept between readings, because psutil measures a process's CPU share since its last look."""

    def read(self) -> list[Card]:
        """As in `CardSource`; a process that has ended is no longer on its card."""
        running = self._running()
        cards = [self._card(index, running.get(self.uuid(index), ())) for index in range(self._count)]
        alive = {process.pid for card in cards for process in card.processes}
        self._seen = {pid: process for pid, process in self._seen.items() if pid in alive}
        return cards

    def uuid(self, index: int) -> str:
        """The same for every process of the host, so that leases and readings meet."""
        return f"SIM-{self._host}-{index}"

    def _card(self, index: int, pids: Collection[int]) -> Card:
        readings = [reading for pid in pids if (reading := self._process(pid)) is not None]
        utilization = min(100.0, sum(share for _, share in readings) / self._threads)
        return Card(
            uuid=self.uuid(index),
            index=index,
            name="Simulated card",
            host=self._host,
            simulated=True,
            memory_total_bytes=psutil.virtual_memory().total,
            memory_used_bytes=sum(process.memory_bytes or 0 for process, _ in readings),
            utilization_pct=utilization,
            temperature_c=30.0 + utilization / 2,
            processes=tuple(process for process, _ in readings),
            read_at=self._clock(),
        )

    def _process(self, pid: int) -> tuple[CardProcess, float] | None:
        """The process with its CPU share in percent of one core; None when it is gone or a zombie."""
        try:
            process = self._seen.get(pid) or self._seen.setdefault(pid, psutil.Process(pid))
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                self._seen.pop(pid)
                return None
            share = process.cpu_percent(None)
            return CardProcess(pid=pid, memory_bytes=process.memory_info().rss, name=process.name()), share
        except psutil.Error:
            self._seen.pop(pid, None)
            return None


def assign_roles(
    cards: Sequence[Card],
    reserve_last: bool | None = None,
    auto_detect: bool = True,
    chosen: Collection[str] = (),
) -> list[Card]:
    """The lab's cards in PCI order with their roles: all but the last one train, the keeper holds the last.

    Lost cards do not count: they serve nobody. A card on its own cannot be reserved: it is shared. Cards that were not
    chosen are left out.

    Args:
        reserve_last: `gpu.reserve_last`; None is true, False lets every card train without a keeper.
        auto_detect: `gpu.auto_detect`; False takes only the chosen cards.
        chosen: `gpu.cards`, the UUIDs that go with `auto_detect: false`.

    Raises:
        ConfigError: `gpu.cards` names a card that is not there, or does not fit `gpu.auto_detect`.
    """
    ours = _chosen(cards, auto_detect, chosen)
    usable = [card.uuid for card in ours if not card.lost]
    if reserve_last is False:
        roles: dict[str, CardRole] = dict.fromkeys(usable, "train")
    elif len(usable) == 1:
        roles = {usable[0]: "shared"}
    else:
        roles = {uuid: "keeper" if uuid == usable[-1] else "train" for uuid in usable}
    return [card.model_copy(update={"role": roles.get(card.uuid, "none")}) for card in ours]


def kept_card(cards: Sequence[Card]) -> Card | None:
    """The card on which the keeper's heartbeat belongs: the reserved one or the shared one, unless it is lost."""
    return next((card for card in cards if card.role in ("keeper", "shared") and not card.lost), None)


def _chosen(cards: Sequence[Card], auto_detect: bool, chosen: Collection[str]) -> list[Card]:
    there = ", ".join(card.uuid for card in cards) or "no card"
    if auto_detect:
        if chosen:
            raise ConfigError("gpu.cards", "needs gpu.auto_detect: false, otherwise every card is taken")
        return list(cards)
    if not chosen:
        raise ConfigError("gpu.cards", f"gpu.auto_detect is false, so it must list UUIDs; this host has {there}")
    missing = [uuid for uuid in chosen if uuid not in {card.uuid for card in cards}]
    if missing:
        raise ConfigError("gpu.cards", f"{', '.join(missing)} is not on this host, which has {there}")
    return [card for card in cards if card.uuid in chosen]
