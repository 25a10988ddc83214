"""How long a scrape takes with 64 cards and 10,000 waiting runs. Prints JSON: `python tests/bench/metrics.py`.

All runs wait, which is the dearest case: priority and time of each are asked for. The scrape is one HTTP request to the
exporter of this process, against an embedded Valkey.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from lab import hosts, store
from lab.card import Card, Host, HostCards, KeeperStatus
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer
from lab.settings import Settings
from lab.store import Client
from terminal.exporter import Exporter

HOSTS, CARDS_EACH = 8, 8
POINTS, SEEDS = 100, 100
SCRAPES = 40
PING_S = 0.001


def main() -> None:
    """One JSON document on standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scrapes", type=int, default=SCRAPES)
    scrapes = parser.parse_args().scrapes
    with tempfile.TemporaryDirectory(prefix="on-", ignore_cleanup_errors=True) as name:
        settings = Settings(data_dir=Path(name))
        with store.embedded(settings):
            client = store.connect(settings, patient=False)
            fill(client)
            server = Exporter(client, "127.0.0.1", 0)
            server.start()
            figures = measure(server.url, client, scrapes)
            server.stop()
    print(json.dumps(figures, indent=2))


def fill(client: Client) -> None:
    """64 cards that publish readings, and an approved experiment of 10,000 runs."""
    for number in range(HOSTS):
        host = f"node{number:02}"
        publish(client, host)
        hosts.publish_host(client, Host(host=host, version="0.1.0", disk_free_bytes=2**40))
    ledger = Ledger(client)
    request = ledger.submit("sweep", "U1", "terminal:1")
    assert request is not None
    axes = {"lr": tuple(1e-4 * (i + 1) for i in range(POINTS)), "seed": tuple(range(SEEDS))}
    plan = Plan(template="vision", models=("resnet50",), dataset="cifar10", axes=axes)
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment is not None
    ledger.approve(experiment.id, "U1")


def publish(client: Client, host: str) -> None:
    """The host's cards as its keeper publishes them."""
    cards = tuple(
        Card(
            uuid=f"GPU-{host}-0000-0000-{index:012}",
            index=index,
            name="NVIDIA H200",
            host=host,
            memory_total_bytes=150_754_820_096,
            memory_used_bytes=90_000_000_000,
            utilization_pct=98.0,
            temperature_c=66.0,
            power_mw=640_000,
            read_at=time.time(),
        )
        for index in range(CARDS_EACH)
    )
    keeper = KeeperStatus(card=cards[-1].uuid, pid=7, beats=3, last_beat_at=time.time())
    hosts.publish_cards(client, HostCards(host=host, cards=cards, keeper=keeper, published_at=time.time()))


def measure(url: str, client: Client, scrapes: int) -> dict[str, Any]:
    """Times of scrapes, one after the other, and of another client's calls meanwhile."""
    times_ms, size = [], 0
    with Pinger(client) as pinger:
        for _ in range(scrapes):
            began = time.perf_counter()
            with urllib.request.urlopen(f"{url}/metrics", timeout=30) as reply:
                size = len(reply.read())
            times_ms.append((time.perf_counter() - began) * 1000)
    return {
        "cards": HOSTS * CARDS_EACH,
        "runs": POINTS * SEEDS,
        "scrape_ms": spread(times_ms),
        "answer_bytes": size,
        "other_client_ms": spread(pinger.times_ms),
    }


class Pinger:
    """Another client's calls while the block runs: what a scrape costs everybody else."""

    def __init__(self, client: Client) -> None:
        self.times_ms: list[float] = []
        self._client = client
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ping)

    def __enter__(self) -> Pinger:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ping(self) -> None:
        while not self._stop.wait(PING_S):
            began = time.perf_counter()
            self._client.ping()
            self.times_ms.append((time.perf_counter() - began) * 1000)


def spread(times_ms: list[float]) -> dict[str, float]:
    """Median, 95th percentile, longest and number."""
    ordered = sorted(times_ms)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return {
        "p50": round(statistics.median(ordered), 1),
        "p95": round(p95, 1),
        "max": round(ordered[-1], 1),
        "n": len(ordered),
    }


if __name__ == "__main__":
    main()
