"""A host's watch, which `overnight keep` runs: readings published, the reserved card held."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from keeper.cardlock import CardLock
from keeper.cards import CardSource, Running, assign_roles, card_source, kept_card
from keeper.hold import Hold
from keeper.stop import Stop
from lab.card import Card, HostCards, KeeperStatus
from lab.errors import CardError, ConfigError

log = logging.getLogger(__name__)

OPEN_WAIT_S = 0.5
"""A slow driver is read at a later tick: the watch has to answer a signal within a second."""


class Watch:
    """Reads the host's cards, publishes them, and keeps the reserved one.

    Belongs to one thread; `run` is that thread's whole work.

    Args:
        publish: takes what the host has now; when it raises, the watch logs it once and goes on.
        data_dir: where the locks lie that leave one keeper to a card.
        simulate: number of simulated cards; 0 reads the real ones.
        running: UUID of a simulated card to the processes that train in its place; may raise while that is unknown.
        source: where the cards come from instead, for tests.
        keep: whether the reserved card gets a heartbeat.
        interval_s: between two beats.
        every_s: between two readings.
        open_wait_s: as in `card_source`; whoever reads once has the patience that the watch lacks.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        host: str,
        publish: Callable[[HostCards], None],
        data_dir: Path,
        *,
        simulate: int = 0,
        running: Running = dict,
        source: CardSource | None = None,
        reserve_last: bool | None = None,
        auto_detect: bool = True,
        chosen: Collection[str] = (),
        keep: bool = True,
        interval_s: float = 300.0,
        every_s: float = 1.0,
        open_wait_s: float = OPEN_WAIT_S,
        clock: Callable[[], float] = time.time,
        make_hold: Callable[[Card, float], Hold] | None = None,
    ) -> None:
        self._host = host
        self._publish = publish
        self._data_dir = data_dir
        self._simulated = simulate > 0
        self._running = running
        self._trains: dict[str, Collection[int]] = {}
        self._source = source or card_source(host, simulate, self._running_and_keeper, open_wait_s)
        self._roles = (reserve_last, auto_detect, chosen)
        self._keep_on = keep
        self._interval_s = interval_s
        self._every_s = every_s
        self._clock = clock
        self._make_hold = make_hold or _hold
        self._hold: Hold | None = None
        self._lock: CardLock | None = None
        self._elsewhere: KeeperStatus | None = None
        self._problem: str | None = None
        self._unpublished = False
        self._ever_read = False

    def run(self, stop: Stop | None = None) -> None:
        """The end was asked for, and the heartbeat is gone from its card.

        Args:
            stop: how it is asked for; None takes SIGTERM and SIGINT, which only the main thread may.

        Raises:
            ConfigError: `gpu.cards` does not fit the cards that are here at the start.
        """
        stop = stop or Stop().on_signals()
        try:
            while not stop.asked:
                self.tick()
                stop.wait(self._every_s)
        finally:
            self.close()

    def tick(self) -> HostCards:
        """One reading was taken and published, and the keeper looked after; returns what was published."""
        cards, problem = self._read()
        if problem is None:
            self._keep(kept_card(cards) if self._keep_on else None)
        if self._hold is not None:
            self._hold.step()
        self._log_problem(problem)
        report = HostCards(
            host=self._host,
            cards=tuple(cards),
            keeper=self._hold.status if self._hold is not None else self._elsewhere,
            simulated=self._simulated,
            problem=problem,
            published_at=self._clock(),
        )
        self._tell(report)
        return report

    def close(self) -> None:
        """The heartbeat is gone from its card, and another keeper may take it."""
        if self._hold is not None:
            self._hold.stop()
            log.info("%s: GPU Keeper stopped.", self._hold.card)
            self._hold = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        self._elsewhere = None

    def _read(self) -> tuple[list[Card], str | None]:
        """The cards with their roles, or none and the reason; a host whose driver failed has no free cards."""
        try:
            cards = assign_roles(self._source.read(), *self._roles)
        except CardError as error:
            return [], str(error)
        except ConfigError as error:
            if not self._ever_read:
                raise
            return [], str(error)
        if not cards:
            return [], "the driver answers but lists no card on this host: see `nvidia-smi -L`"
        self._ever_read = True
        return cards, None

    def _keep(self, card: Card | None) -> None:
        """The heartbeat belongs on this card and on no other, unless another process keeps it already."""
        if self._hold is not None and (card is None or card.uuid != self._hold.card):
            self.close()
        if card is None:
            self._elsewhere = None
            return
        if self._hold is not None:
            return
        lock = CardLock(self._data_dir, card.uuid)
        holder = lock.take()
        if holder is not None:
            self._held_elsewhere(card, holder)
            return
        self._elsewhere, self._lock = None, lock
        self._hold = self._make_hold(card, self._interval_s)
        log.info("%s: GPU Keeper starting on GPU %d", card.uuid, card.index)

    def _held_elsewhere(self, card: Card, holder: int) -> None:
        problem = f"already kept by PID {holder}; this watch takes over when that one ends"
        if self._elsewhere is None:
            log.warning("%s: %s", card.uuid, problem)
        self._elsewhere = KeeperStatus(card=card.uuid, pid=holder, interval_s=self._interval_s, problem=problem)

    def _running_and_keeper(self) -> Mapping[str, Collection[int]]:
        """What trains, as last known while nobody can tell, and our own heartbeat on its simulated card."""
        try:
            self._trains = dict(self._running())
        except Exception:
            log.debug("%s: what trains on the simulated cards is not known now", self._host, exc_info=True)
        running = dict(self._trains)
        if self._hold is not None and self._hold.status is not None and self._hold.status.pid is not None:
            running[self._hold.card] = (*running.get(self._hold.card, ()), self._hold.status.pid)
        return running

    def _log_problem(self, problem: str | None) -> None:
        if problem != self._problem:
            log.log(logging.ERROR if problem else logging.INFO, "%s: %s", self._host, problem or "cards read again")
        self._problem = problem

    def _tell(self, report: HostCards) -> None:
        try:
            self._publish(report)
        except Exception:  # the store may be away for a while, and the card has to be held all the same
            if not self._unpublished:
                log.exception("%s: readings cannot be published; keeping on", self._host)
            self._unpublished = True
        else:
            if self._unpublished:
                log.info("%s: readings are published again", self._host)
            self._unpublished = False


def _hold(card: Card, interval_s: float) -> Hold:
    return Hold(card.uuid, ["--uuid", card.uuid], interval_s, simulate=card.simulated)
