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
from collections.abc import Sequence  # noqa: E402

log = logging.getLogger("keeper")

POLL_S = 0.1


def main(arguments: Sequence[str] | None = None, stop: Stop = _stop) -> int:
    """0 after a signal, with the memory freed; 1 when the card cannot be held; argparse ends with 2 on wrong usage."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s", stream=sys.stderr)
    card = options.uuid or f"GPU {options.gpu}"
    log.info("GPU Keeper starting on %s%s", card, " (simulated, on the CPU)" if options.simulate else "")
    log.info(_what_it_holds(card, options.interval, options.simulate))
    from keeper.hold import Hold

    which = ["--uuid", options.uuid] if options.uuid else ["--gpu", str(options.gpu)]
    hold = Hold(card, which, options.interval, simulate=options.simulate)
    try:
        while not stop.asked and hold.cannot is None:
            hold.step()
            stop.wait(POLL_S)
    finally:
        hold.stop()
    if not stop.asked:
        log.error("GPU Keeper ends: %s cannot be held", card)
        return 1
    log.info("GPU Keeper stopped.")
    return 0


def _what_it_holds(card: str, interval_s: float, simulate: bool) -> str:
    if simulate:
        return f"holds 4 KB of this host's memory in place of {card}, touched every {interval_s:g} s"
    return (
        f"holds 4 KB on {card} and a CUDA context of some 290 to 670 MB, and runs two tiny kernels every "
        f"{interval_s:g} s: enough to be present, but a platform that looks at utilisation percentages will very "
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
    parser.add_argument("--simulate", action="store_true", help="do the same on the CPU, without a GPU")
    return parser


def _index(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no card: indexes count from 0")
    return int(text)


def _interval(text: str) -> float:
    seconds = float(text)
    if not math.isfinite(seconds) or not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text} s: between 0.1 and 86400 seconds is wanted")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
