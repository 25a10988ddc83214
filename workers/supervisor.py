"""The process `overnight work`: on one host, a worker for every card that may train, and order after each of them."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.context import ForkProcess

from lab import hosts, store
from lab.card import SERVING, Card, Host
from lab.cardlock import CardLock
from lab.errors import CardError, OperatorError
from lab.settings import Settings
from workers.gpu_worker import STOPS, holder_prefix, serve, worker_name
from workers.host import Speed, describe, disk_free, threads
from workers.recover import release_card

log = logging.getLogger(__name__)

TICK_S = 0.1
LOOK_EVERY_S = 1.0
PUBLISH_EVERY_S = 10.0
DESCRIBE_EVERY_S = 60.0
"""Data sets are looked for so often; a folder of images is walked for that."""
FIRST_BACKOFF_S = 0.2
MAX_BACKOFF_S = 10.0
"""A lost attempt starts again within 15 s, however often its workers died."""
STEADY_S = 60.0
"""A worker that lived so long starts again without waiting for its earlier deaths."""
AFTER_GRACE_S = 10.0
"""From a trainer's SIGKILL to the end of its worker, at most."""
LOCK_WAIT_S = 10.0

_fork = multiprocessing.get_context("fork")


@dataclass
class Slot:
    """One card's place: its worker, or why there is none just now."""

    card: Card
    process: ForkProcess | None = None
    worker: str = ""
    """Name of the process, or of the last one."""
    started_at: float = 0.0
    deaths: int = 0
    due: float = 0.0
    clean: bool = False
    """False until what an earlier worker held is known to be released."""
    retiring: bool = False
    """The card is gone or kept, so that no worker is started any more."""


class Supervisor:
    """Runs in the main thread of a process without other threads: it forks, and the workers die with that thread.

    Args:
        measure: False leaves the host's speed unmeasured.
        clock: monotonic seconds.
    """

    def __init__(
        self, settings: Settings, *, measure: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self.client = store.connect(settings, patient=False)  # a dead worker is noticed even while Redis hangs
        self.slots: dict[str, Slot] = {}
        self._clock = clock
        self._measure = measure
        self._speed: Speed | None = None
        self._statement: Host | None = None
        self._described_at = self._published_at = self._looked_at = float("-inf")
        self._told = ""
        self._away = False
        self._stop = False

    def run(self) -> None:
        """Supervises until `stop`; then every worker has ended and the host is withdrawn."""
        try:
            while not self._stop:
                self.step()
                time.sleep(TICK_S)
        finally:
            self._end_all()

    def stop(self) -> None:
        """`run` returns when the trainers had their grace."""
        self._stop = True

    def step(self) -> None:
        """Dead workers are noticed, released and replaced; cards that came or went are followed."""
        changed = False
        for slot in list(self.slots.values()):
            changed |= self._tend(slot)
        try:
            if self._away:
                self.client.ping()
                log.info("work: Redis is back")
                self._away = False
            self._follow_cards()
            self._publish(changed)
        except store.AWAY as error:
            if not self._away:
                log.warning("work: Redis is away: %s", error)
            self._away = True

    def _tend(self, slot: Slot) -> bool:
        """One look at a card's worker; True when the list of served cards changed."""
        if slot.process is not None:
            if slot.process.is_alive():
                return False
            self._bury(slot)
            return True
        if not slot.clean:
            slot.clean = self._release(slot)
        if not slot.clean or slot.retiring or self._clock() < slot.due:
            return False
        self._start(slot)
        return True

    def _start(self, slot: Slot) -> None:
        training = sum(1 for other in self.slots.values() if other.card.simulated)
        slot.worker = worker_name(self.settings.host, slot.card)
        args = (self.settings, slot.card, slot.worker, threads(slot.card, training), os.getpid())
        # Blocked until the child has handlers of its own: with ours it would take a stop for the supervisor's.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
            slot.process = _fork.Process(target=serve, args=args, name=f"card-{slot.card.index}")
            slot.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        slot.started_at, slot.clean = self._clock(), False
        log.info("work: card %d (%s): worker PID %s", slot.card.index, slot.card.name, slot.process.pid)

    def _bury(self, slot: Slot) -> None:
        assert slot.process is not None
        slot.deaths = 0 if self._clock() - slot.started_at > STEADY_S else slot.deaths
        wait_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(slot.deaths, 10))
        slot.deaths += 1
        slot.due = self._clock() + wait_s
        log.warning(
            "work: card %d: worker PID %s ended with %s; the next one in %.1f s",
            slot.card.index,
            slot.process.pid,
            slot.process.exitcode,
            wait_s,
        )
        slot.process.close()
        slot.process = None

    def _release(self, slot: Slot) -> bool:
        """Whatever a dead worker of this host held on the card is free; False to try again."""
        with_host = self._stop or not slot.worker  # else it died with an earlier supervisor, as all others did
        try:
            return release_card(self.settings, self.client, slot.card.uuid, self._is_dead, with_host=with_host)
        except store.AWAY:
            return False

    def _is_dead(self, worker: str) -> bool:
        """True for a worker of this host that this process has buried, or that an earlier one had."""
        alive = {slot.worker for slot in self.slots.values() if slot.process is not None}
        return worker.startswith(holder_prefix(self.settings.host)) and worker not in alive

    def _follow_cards(self) -> None:
        if self._clock() < self._looked_at + LOOK_EVERY_S:
            return
        self._looked_at = self._clock()
        wanted = self._usable()
        if wanted is None:
            return
        for uuid in self.slots.keys() - wanted.keys():
            self._retire(self.slots[uuid])
        for uuid, card in wanted.items():
            self.slots.setdefault(uuid, Slot(card)).retiring = False
        if self._measure and self._speed is None and wanted:
            self._speed = Speed(next(iter(wanted.values())))

    def _usable(self) -> dict[str, Card] | None:
        """The host's cards that may train; None while nothing is known, so that what runs goes on."""
        ours = hosts.cards_of(self.client, self.settings.host)
        if ours is None:
            self._tell(f"no cards of host {self.settings.host} are published; `overnight keep` on this host does that")
            return None
        if ours.problem:
            self._tell(f"the cards of host {self.settings.host} cannot be read: {ours.problem}")
            return None
        usable = {card.uuid: card for card in ours.cards if card.role in SERVING and not card.lost}
        self._tell(f"{len(usable)} of {len(ours.cards)} cards of host {self.settings.host} may train")
        return usable

    def _retire(self, slot: Slot) -> None:
        """The card is gone or kept: its worker gives its run back, and then the place is closed."""
        slot.retiring = True
        if slot.process is None and slot.clean:
            del self.slots[slot.card.uuid]
            log.info("work: card %d is no longer served", slot.card.index)
        elif slot.process is not None:
            slot.process.terminate()

    def _tell(self, what: str) -> None:
        if what != self._told:
            log.info("work: %s", what)
        self._told = what

    def _publish(self, changed: bool) -> None:
        now = self._clock()
        changed |= self._speed is not None and self._speed.poll()
        if not changed and now < self._published_at + PUBLISH_EVERY_S:
            return
        served = tuple(uuid for uuid, slot in self.slots.items() if slot.process is not None)
        flops = self._speed.flops if self._speed else None
        if self._statement is None or now >= self._described_at + DESCRIBE_EVERY_S:
            self._statement, self._described_at = describe(self.settings, served, flops), now
        fresh = {"cards": served, "speed_flops": flops, "published_at": time.time()}
        fresh["disk_free_bytes"] = disk_free(self.settings)
        hosts.publish_host(self.client, self._statement.model_copy(update=fresh))
        self._published_at = now

    def _end_all(self) -> None:
        """Every worker has ended: in order within the grace, else by force; their runs are back in the queue."""
        with suppress(*store.AWAY):
            hosts.withdraw_host(self.client, self.settings.host)
        running = [slot for slot in self.slots.values() if slot.process is not None]
        for slot in running:
            if slot.process:
                slot.process.terminate()
        deadline = self._clock() + self.settings.run.grace_s + AFTER_GRACE_S
        for slot in running:
            if slot.process:
                slot.process.join(max(0.0, deadline - self._clock()))
                if slot.process.is_alive():
                    log.warning("work: card %d: its worker did not end in time and is killed", slot.card.index)
                    slot.process.kill()
                    slot.process.join()
            if not self._release(slot):
                log.warning("work: card %d: what its worker held is left to expire", slot.card.index)
        if self._speed:
            self._speed.end()


def main(settings: Settings, *, measure: bool = True) -> None:
    """Supervises this host until SIGTERM or SIGINT.

    Raises:
        StoreAwayError: Redis does not answer at start.
        OperatorError: `overnight work` runs already on this data folder.
    """
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    lock = CardLock(settings.data_dir, "supervisor")
    try:
        lock.take(LOCK_WAIT_S)
    except CardError:
        raise OperatorError(f"`overnight work` runs already on {settings.data_dir} (PID {lock.group()})") from None
    lock.name_group(os.getpid())
    supervisor = Supervisor(settings, measure=measure)
    store.check(supervisor.client, settings)
    for sig in STOPS:
        signal.signal(sig, lambda *_: supervisor.stop())
    supervisor.run()
    lock.close()
    log.info("work: stopped")
