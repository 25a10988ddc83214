"""What an ordeal cost, counted from what the lab itself left: events, and the metrics that trainers wrote."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lab import events
from lab.ledger import Ledger
from lab.settings import Settings

CLAIM = re.compile(r"(exp-\d+/\d+): claimed card (\d+), attempt (\d+)")


@dataclass(frozen=True)
class Attempt:
    """When a trainer was at work, by its own metrics."""

    run_id: str
    number: int
    card: str
    began: float
    ended: float
    times: tuple[float, ...]
    """Of its steps and epochs, as far as it wrote them down."""


def ends(ledger: Ledger) -> Counter[str]:
    """How often each run is said to have finished."""
    found = [events.parse(entry_id, fields) for entry_id, fields in ledger.client.xrange(events.STREAM)]
    return Counter(event.subject for event in found if event.kind == "run.finished")


def attempts(settings: Settings) -> Iterator[Attempt]:
    """Every attempt in which a trainer made a step, with its card by the log of `overnight work`."""
    claimed = _claims(settings.data_dir / "logs" / "work.log")
    for path in settings.runs_dir.glob("exp-*/*/attempt-*/metrics.jsonl"):
        run_id, number = f"{path.parents[2].name}/{path.parents[1].name}", int(path.parent.name.split("-")[1])
        times = tuple(t for line in path.read_text(errors="replace").splitlines() if (t := _time(line)))
        if times:
            yield Attempt(run_id, number, claimed.get((run_id, number), "?"), min(times), max(times), times)


def overlaps(found: list[Attempt], of: Callable[[Attempt], str]) -> int:
    """Pairs of attempts of one run, or on one card, that were at work at the same time."""
    groups: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in found:
        groups[of(attempt)].append(attempt)
    count = 0
    for name, group in groups.items():
        group.sort(key=lambda a: a.began)
        if name != "?":
            count += sum(later.began < earlier.ended for earlier, later in pairwise(group))
    return count


def _claims(log: Path) -> dict[tuple[str, int], str]:
    found = CLAIM.findall(log.read_text(errors="replace"))
    return {(run_id, int(attempt)): card for run_id, card, attempt in found}


def _time(line: str) -> float | None:
    try:
        return float(json.loads(line)["t"])
    except (ValueError, KeyError, TypeError):
        return None
