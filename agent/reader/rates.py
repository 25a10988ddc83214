"""Learning rates that stand alone: `adam 1e-3`, `{adam, sgd} x {1e-2, 1e-3}`."""

from __future__ import annotations

import re

from agent.reader.numbers import FLAGS, SEPARATOR, values
from agent.reader.page import CROSSED, Page

RATE = r"(?:\d(?:\.\d+)?e-[1-7]|10\s?(?:\^|\*\*)\s?-[1-7])(?![\w.]|\s*(?:\.\.|[-–~]|to\b|到)\s*\d)"
"""One end of a range is no rate of its own."""
ALONE = re.compile(
    rf"(?:^|(?<=[,;({{\[:@{CROSSED}])|\b(?:x|at|with|and|use|try|add|also|plus|include)\b)\s*[({{\[]?\s*(?P<list>{RATE}(?:{SEPARATOR}{RATE})*)",
    FLAGS,
)


def read(page: Page) -> tuple[float, ...]:
    """Numbers in powers of ten that no word explains, read last; empty when there are none.

    Nobody writes anything but a learning rate so without a name.
    """
    matches = page.take_all(ALONE)
    return tuple(dict.fromkeys(float(v) for m in matches for v in values(m["list"])))
