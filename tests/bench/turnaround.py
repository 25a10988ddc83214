"""From a run's end to the next start on its card, and what the way there consists of: prints JSON.

    python -m tests.bench.turnaround [RUNS]

Four simulated cards, three of them training, short probe runs; a start is a spawned interpreter, and the trainer's
first step is told beside it.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from lab import events, hosts, store
from lab.leases import Leases
from lab.ledger import Ledger
from lab.run import Run
from lab.settings import GpuSettings, RunSettings, Settings
from tests.workers.under_test import Lab, cards_of


def main(n_runs: int) -> dict[str, Any]:
    """The figures, in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="on-", dir="/tmp") as folder:
        settings = Settings(
            data_dir=Path(folder), host="bench", gpu=GpuSettings(simulate=4), run=RunSettings(lease_s=10, renew_s=1)
        )
        with store.embedded(settings):
            client = store.connect(settings)
            claims = claim_seconds(Leases(client, 10), Ledger(client), client)
            runs, moments = _work(settings, client, n_runs)
    return {
        "runs": len(runs),
        "cores": os.cpu_count(),
        "finished_to_next_start_ms": _summary(_gaps(runs)),
        "dispatched_to_start_ms": _summary([m["running"] - m["dispatched"] for m in moments.values()]),
        "start_to_first_step_ms": _summary([m["step"] - m["running"] for m in moments.values() if "step" in m]),
        "claim_ms": _summary(claims),
    }


def _work(settings: Settings, client: store.Client, n_runs: int) -> tuple[list[Run], dict[str, dict[str, float]]]:
    hosts.publish_cards(client, cards_of(settings.host))
    lab = Lab(settings, client, Ledger(client))
    try:
        lab.start()
        experiment = lab.approve(seeds=n_runs, steps=10)
        runs = lab.ended(experiment, within_s=30 + 5 * n_runs)
    finally:
        lab.close()
    moments: dict[str, dict[str, float]] = defaultdict(dict)
    for entry_id, fields in client.xrange(events.STREAM):
        event = events.parse(entry_id, fields)
        moments[event.subject][event.kind.removeprefix("run.")] = event.at
    for run in runs:
        first = (settings.runs_dir / run.id / "attempt-1" / "metrics.jsonl").read_text().splitlines()[0]
        moments[run.id]["step"] = json.loads(first)["t"]
    return runs, {run.id: moments[run.id] for run in runs}


def claim_seconds(leases: Leases, ledger: Ledger, client: store.Client) -> list[float]:
    """Seconds of single claims on an idle Redis."""
    lab = Lab(Settings(host="bench"), client, ledger)
    seconds = []
    for run in ledger.runs(lab.approve(seeds=100).id):
        bound = ledger.bind(run.id, (f"SIM-claim-{run.number}",), "bench", 0)
        began = time.perf_counter()
        leases.claim(bound.id, bound.dispatches, bound.cards, "bench")
        seconds.append(time.perf_counter() - began)
    client.flushdb()
    return seconds


def _gaps(runs: list[Run]) -> list[float]:
    by_card = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.started_at or 0):
        by_card[run.card].append(run)
    pairs = [pair for card in by_card.values() for pair in itertools.pairwise(card)]
    return [(after.started_at or 0) - (before.finished_at or 0) for before, after in pairs]


def _summary(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=20)
    return {"n": len(seconds), "p50": _ms(cuts[9]), "p95": _ms(cuts[18]), "max": _ms(max(seconds))}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)))
