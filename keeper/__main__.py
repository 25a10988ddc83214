"""`python -m keeper --gpu 3 --interval 300`: hold one card from a terminal, without Redis and without a config."""

from __future__ import annotations

import sys

from keeper.stop import Stop

_stop = Stop()
if __name__ == "__main__":
    _stop.on_signals()  # before anything slow is imported, so that a signal during the start is answered too

import argparse  # noqa: E402
import logging  # noqa: E402
import math  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from dataclasses import replace  # noqa: E402
from typing import TYPE_CHECKING  # noqa: E402

if TYPE_CHECKING:
    from keeper.hold import Hold
    from keeper.policy import Policy
    from lab.card import Card

log = logging.getLogger("keeper")

POLL_S = 0.1
READ_EVERY_S = 1.0


def main(arguments: Sequence[str] | None = None, stop: Stop = _stop) -> int:
    """0 after a signal, with the memory freed; 1 when the card cannot be held; argparse ends with 2 on wrong usage."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s", stream=sys.stderr)
    card = options.uuid or f"GPU {options.gpu}"
    log.info("GPU Keeper starting on %s%s", card, " (simulated, on the CPU)" if options.simulate else "")
    from keeper.policy import policy
    from lab.errors import ConfigError
    from lab.settings import KeeperSettings

    try:
        chosen = policy(
            KeeperSettings(
                mode=options.mode,
                interval_s=max(1.0, options.interval),
                platform=options.platform,
                threshold_pct=options.threshold,
                window_min=options.window,
                max_hold_hours=options.hours,
                price_per_hour=options.price,
            )
        )
    except ConfigError as error:
        log.error("%s", error)
        return 1
    if chosen.platform.forbidden:
        log.error("%s", chosen.platform.forbidden)
        return 1
    log.info(_what_it_holds(card, options))
    log.info(chosen.terms())
    return _keep(card, options, replace(chosen, interval_s=options.interval), stop)


def _keep(name: str, options: argparse.Namespace, policy: Policy, stop: Stop) -> int:
    from keeper.hold import Hold
    from keeper.keeping import Keeping
    from lab.card import Card

    which = ["--uuid", options.uuid] if options.uuid else ["--gpu", str(options.gpu)]
    hold = Hold(name, which, policy.interval_s, mode=policy.mode, simulate=options.simulate)
    card = Card(uuid=name, index=options.gpu or 0, name=name, host="", simulated=options.simulate)
    keeping = Keeping(card, policy, lambda *_: hold)
    read = _reading(options, hold) if policy.mode == "duty" or policy.platform.looks_at else lambda: None
    stop.at_once = keeping.let_go
    reading, read_at = None, -READ_EVERY_S
    try:
        while not stop.asked and hold.cannot is None:
            if time.monotonic() >= read_at + READ_EVERY_S:
                reading, read_at = read(), time.monotonic()
            keeping.step(reading.model_copy(update={"uuid": name}) if reading else None)
            stop.wait(POLL_S)
    finally:
        keeping.stop()
    if not stop.asked:
        log.error("GPU Keeper ends: %s cannot be held", name)
        return 1
    log.info("GPU Keeper stopped.")
    return 0


def _reading(options: argparse.Namespace, hold: Hold) -> Callable[[], Card | None]:
    """How the card's newest reading is got; it gives None while there is none."""
    from keeper.cards import SimulatedCards, card_source
    from lab.errors import CardError

    def running() -> dict[str, list[int]]:
        pid = hold.status.pid if hold.status else None
        return {} if pid is None else {"SIM-keeper-0": [pid]}

    source = SimulatedCards("keeper", 1, running) if options.simulate else card_source("keeper", open_wait_s=0.0)

    def read() -> Card | None:
        try:
            cards = source.read()
        except CardError as error:
            log.debug("no reading: %s", error)
            return None
        if options.simulate:
            return cards[0]
        return next((card for card in cards if options.uuid == card.uuid or options.gpu == card.index), None)

    return read


def _what_it_holds(card: str, options: argparse.Namespace) -> str:
    if options.mode == "duty":
        where = "one core of this host" if options.simulate else f"{card} and a CUDA context of some 290 to 670 MB"
        return f"holds {where}, and computes in short bursts; prefer the platform's own idle setting, check its terms"
    if options.simulate:
        return f"holds 4 KB of this host's memory in place of {card}, touched every {options.interval:g} s"
    return (
        f"holds 4 KB on {card} and a CUDA context of some 290 to 670 MB, and runs two tiny kernels every "
        f"{options.interval:g} s: enough to be present, but a platform that looks at utilisation percentages will very "
        "likely read 0 % and may not see it; prefer the platform's own idle setting, and check its terms"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m keeper", description="Hold one GPU by a heartbeat until SIGTERM.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--gpu", type=_index, metavar="N", help="index of the card in PCI bus order, as nvidia-smi shows"
    )
    which.add_argument("--uuid", help="the card's UUID, as `nvidia-smi -L` shows")
    parser.add_argument("--interval", type=_interval, default=300.0, metavar="S", help="seconds between beats (300)")
    parser.add_argument("--mode", choices=["touch", "duty"], default="touch", help="touch memory, or compute (touch)")
    parser.add_argument("--platform", default="none", help="whose idle rule to check against (keeper/platforms.yaml)")
    parser.add_argument("--threshold", type=_percent, metavar="PCT", help="utilisation to stay above")
    parser.add_argument("--window", type=_minutes, metavar="MIN", help="minutes over which it is checked")
    parser.add_argument("--hours", type=_hours, metavar="H", help="let go after so many hours")
    parser.add_argument("--price", type=float, metavar="P", help="what an hour of the card costs")
    parser.add_argument("--simulate", action="store_true", help="do the same on the CPU, without a GPU")
    return parser


def _index(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no card: indexes count from 0")
    return int(text)


def _between(low: float, high: float, unit: str) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = float(text)
        if not math.isfinite(value) or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text}: between {low:g} and {high:g} {unit} is wanted")
        return value

    return number


_interval = _between(0.1, 86_400, "seconds")
_percent = _between(0, 90, "percent")
_minutes = _between(1, 10_080, "minutes")
_hours = _between(0.01, 8_760, "hours")


if __name__ == "__main__":
    sys.exit(main())
