"""A host's watch, which `overnight keep` runs: readings published, the reserved card held."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from keeper.cards import CardSource, Running, assign_roles, card_source, kept_card
from keeper.keeping import Keeping, MakeHold, make_hold
from keeper.policy import Policy
from keeper.stop import Stop
from lab.card import Card, CardRole, HostCards, KeeperStatus
from lab.cardlock import CardLock
from lab.errors import CardError, ConfigError
from lab.keeperorders import Look

log = logging.getLogger(__name__)

OPEN_WAIT_S = 0.5
"""A slow driver is read at a later tick: the watch has to answer a signal within a second."""
GLANCE_EVERY_S = 0.5
"""How soon an operator's word or a run's start is seen: a released card is to be free within 2 s."""


HELD_EVERY_S = 60.0
"""How often the time for which a card was held is told: a crash forgets so much at most."""


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
        policy: how it is kept.
        look: what operators want and whether a run has the card with this UUID; may raise while that is unknown.
        held: for how long earlier keepers held the card with this UUID; may raise.
        tell_held: takes that time now and then; may raise.
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
        policy: Policy = Policy(),  # noqa: B008  frozen
        look: Callable[[str], Look] = lambda card: Look(),
        held: Callable[[str], float] = lambda card: 0.0,
        tell_held: Callable[[str, float], None] = lambda card, held_s: None,
        every_s: float = 1.0,
        open_wait_s: float = OPEN_WAIT_S,
        clock: Callable[[], float] = time.time,
        make: MakeHold = make_hold,
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
        self._policy = policy
        self._ask = look
        self._held = held
        self._tell_held = tell_held
        self._held_told_at: float | None = None
        self._every_s = every_s
        self._clock = clock
        self._make = make
        self._keeping: Keeping | None = None
        self._reserved: str | None = None
        """The card that is the keeper's by the settings, whoever has it now."""
        self._look = Look()
        self._followed = Look()
        """What the last tick acted on."""
        self._released = False
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
        stop.at_once = self._let_go
        try:
            while not stop.asked:
                self.tick()
                until = time.monotonic() + self._every_s
                while (left_s := until - time.monotonic()) > 0 and not stop.wait(min(left_s, GLANCE_EVERY_S)):
                    if self.glance():
                        break
        finally:
            self.close()

    def tick(self) -> HostCards:
        """One reading was taken and published, and the keeper looked after; returns what was published."""
        cards, problem = self._read()
        cards = self._follow(cards)
        self._log_problem(problem)
        report = HostCards(
            host=self._host,
            cards=tuple(cards),
            keeper=self._status(),
            simulated=self._simulated,
            problem=problem,
            published_at=self._clock(),
        )
        self._tell(report)
        return report

    def glance(self) -> bool:
        """True when something changed that cannot wait for the next tick; the keeper was told to leave if need be."""
        self._ask_about(self._reserved)
        if self._look == self._followed and not self._release_ended():
            return False
        if self._releases() or self._look.in_use:
            self._let_go()
        return True

    def close(self) -> None:
        """The heartbeat is gone from its card, and another keeper may take it."""
        if self._keeping is not None:
            self._keeping.stop()
            self._count(self._keeping, at_once=True)
            log.info("%s: GPU Keeper stopped.", self._keeping.card)
            self._keeping = None
        if self._lock is not None:
            self._lock.close()
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

    def _follow(self, cards: list[Card]) -> list[Card]:
        """The cards with the roles that operators and runs leave them, and the keeper where it belongs."""
        card = kept_card(cards)
        if cards:
            self._reserved = card.uuid if card is not None else None
        self._ask_about(self._reserved)
        before, self._followed = self._followed, self._look
        was_released, self._released = self._released, self._releases()
        if self._released:
            self._log_order(was_released)
            self.close()
            return _with(cards, card, "train")
        if card is not None and card.role == "keeper" and (self._look.in_use or was_released):
            # Dispatch may have given it out a moment ago, so after a release it closes first and is kept a tick later.
            self.close()
            return _with(cards, card, "train", closing=True)
        order = self._look.order
        if self._keeping is not None and order != before.order and order is not None and order.verb == "hold":
            log.info("%s: held anew, by %s", self._keeping.card, order.by or "an operator")
            self._keeping.renew()
            self._held_told_at = None
        if cards:
            self._keep(card if self._keep_on else None)
        if self._keeping is not None:
            self._keeping.step(card, self._look.in_use)
            self._count(self._keeping)
        return cards

    def _count(self, keeping: Keeping, *, at_once: bool = False) -> None:
        """The time for which the card was held is told when that is due, so that it survives this process."""
        now = self._clock()
        if not at_once and self._held_told_at is not None and now - self._held_told_at < HELD_EVERY_S:
            return
        self._held_told_at = now
        try:
            self._tell_held(keeping.card, keeping.held_s)
        except Exception:
            log.debug("%s: its hours cannot be kept now", keeping.card, exc_info=True)

    def _held_before(self, card: str) -> float:
        try:
            held_s = self._held(card)
        except Exception:
            log.warning("%s: for how long it was held before is not known now; counted anew", card, exc_info=True)
            return 0.0
        if held_s:
            log.info("%s: held for %.2f h before, which counts", card, held_s / 3600)
        return held_s

    def _ask_about(self, card: str | None) -> None:
        """What operators want is known, as far as anybody can tell; else it stays as it was."""
        if card is None:
            return
        try:
            self._look = self._ask(card)
        except Exception:
            log.debug("%s: what operators want is not known now", self._host, exc_info=True)

    def _releases(self) -> bool:
        return self._look.order is not None and self._look.order.releases(self._clock())

    def _release_ended(self) -> bool:
        return self._released and not self._releases()

    def _log_order(self, was_released: bool) -> None:
        order = self._look.order
        if order is not None and not was_released:
            log.info("%s: released to the runs, by %s", self._reserved, order.by or "an operator")

    def _let_go(self) -> None:
        if self._keeping is not None:
            self._keeping.let_go()

    def _status(self) -> KeeperStatus | None:
        """What is published of the keeper: itself, or why there is none on the card that would be its."""
        if self._keeping is not None:
            return self._keeping.status
        if self._elsewhere is not None or self._reserved is None or not self._keep_on:
            return self._elsewhere
        order = self._look.order
        if self._released and order is not None:
            return KeeperStatus(
                card=self._reserved, state="released", released_by=order.by or None, released_until=order.until
            )
        return KeeperStatus(card=self._reserved, state="away")

    def _keep(self, card: Card | None) -> None:
        """The keeper belongs on this card and on no other, unless another process keeps it already."""
        if self._keeping is not None and (card is None or card.uuid != self._keeping.card):
            self.close()
        if card is None:
            self._elsewhere = None
            return
        if self._keeping is not None:
            return
        lock = CardLock(self._data_dir, card.uuid, "keeper")
        if not lock.take_at_once():
            self._held_elsewhere(card, lock.group() or 0)
            lock.close()
            return
        self._elsewhere, self._lock = None, lock
        self._keeping = Keeping(card, self._policy, self._make, held_s=self._held_before(card.uuid))
        log.info("%s: GPU Keeper starting on GPU %d, mode %s", card.uuid, card.index, self._policy.mode)
        log.info("%s: %s", card.uuid, self._policy.terms())

    def _held_elsewhere(self, card: Card, holder: int) -> None:
        problem = f"already kept by PID {holder}; this watch takes over when that one ends"
        if self._elsewhere is None:
            log.warning("%s: %s", card.uuid, problem)
        self._elsewhere = KeeperStatus(card=card.uuid, pid=holder, interval_s=self._policy.interval_s, problem=problem)

    def _running_and_keeper(self) -> Mapping[str, Collection[int]]:
        """What trains, as last known while nobody can tell, and our own heartbeat on its simulated card."""
        try:
            self._trains = dict(self._running())
        except Exception:
            log.debug("%s: what trains on the simulated cards is not known now", self._host, exc_info=True)
        running = dict(self._trains)
        held = self._keeping.hold.status if self._keeping is not None else None
        if held is not None and held.pid is not None:
            running[held.card] = (*running.get(held.card, ()), held.pid)
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


def _with(cards: list[Card], changed: Card | None, role: CardRole, *, closing: bool = False) -> list[Card]:
    if changed is None:
        return cards
    changes = {"role": role, "closing": closing}
    return [card.model_copy(update=changes) if card is changed else card for card in cards]
