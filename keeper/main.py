"""The process `overnight keep`: a host's watch, its readings published in Redis."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from keeper.cards import Running
from keeper.policy import policy
from keeper.watch import OPEN_WAIT_S, Watch
from lab import hosts, keeperorders, store
from lab.card import HostCards
from lab.keeperorders import Look
from lab.ledger import Ledger
from lab.settings import Settings

log = logging.getLogger(__name__)


def main(settings: Settings) -> None:
    """Reads, publishes and keeps until SIGTERM; then the heartbeat is gone and the host's readings are withdrawn.

    Raises:
        StoreAwayError: Redis does not answer at start.
        ConfigError: `gpu.cards` does not fit the cards that are here, or the keeper's settings each other.
    """
    client = store.connect(settings, patient=False)  # a Redis that hangs must not hold up the answer to a signal
    store.check(client, settings)
    ledger = Ledger(client)

    def publish(cards: HostCards) -> None:
        hosts.publish_cards(client, cards)

    def running() -> Mapping[str, Collection[int]]:
        return {card: [use.pid] for card, use in ledger.card_uses().items() if use.pid is not None}

    def held(card: str) -> float:
        return keeperorders.held_s(client, settings.host, card)

    def tell_held(card: str, held_s: float) -> None:
        keeperorders.tell_held(client, settings.host, card, held_s)

    def look(card: str) -> Look:
        return keeperorders.look(client, settings.host, card)

    if settings.gpu.simulate:
        log.warning("gpu.simulate: %d simulated cards, which train on the CPU", settings.gpu.simulate)
    try:
        watch(settings, publish, running, look=look, held=held, tell_held=tell_held).run()
    finally:
        try:
            hosts.withdraw_cards(client, settings.host)
        except store.AWAY:
            log.warning("Redis is away; the readings of %s grow old there", settings.host)


def watch(
    settings: Settings,
    publish: Callable[[HostCards], None],
    running: Running = dict,
    open_wait_s: float = OPEN_WAIT_S,
    look: Callable[[str], Look] = lambda card: Look(),
    held: Callable[[str], float] = lambda card: 0.0,
    tell_held: Callable[[str, float], None] = lambda card, held_s: None,
) -> Watch:
    """A watch as the settings want it; who reads only once gives the driver some seconds to open.

    Raises:
        ConfigError: the keeper's settings do not fit each other.
    """
    return Watch(
        settings.host,
        publish,
        settings.data_dir,
        simulate=settings.gpu.simulate,
        running=running,
        reserve_last=settings.gpu.reserve_last,
        auto_detect=settings.gpu.auto_detect,
        chosen=settings.gpu.cards,
        keep=settings.keeper.enabled,
        policy=policy(settings.keeper),
        look=look,
        held=held,
        tell_held=tell_held,
        every_s=settings.keeper.reading_interval_s,
        open_wait_s=open_wait_s,
    )
