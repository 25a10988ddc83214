"""What this host has to run on, as `overnight work` publishes it; nothing here imports torch."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence

from lab.card import Card, Host
from lab.processes import die_with_parent
from lab.settings import Settings
from workers import datasets
from workers.provenance import LIBRARIES, code, version
from workers.templates import TEMPLATES

log = logging.getLogger(__name__)

SPEED_LIMIT_S = 120.0


def describe(settings: Settings, cards: Sequence[str], speed_flops: float | None) -> Host:
    """The host's statement.

    Args:
        cards: UUIDs of the cards for which a worker runs.
    """
    return Host(
        host=settings.host,
        version=version("overnight") or "unknown",
        templates={name: template.schema() for name, template in TEMPLATES.items()},
        datasets=tuple(datasets.available(settings.datasets, settings.datasets_root)),
        code=code(),
        models={name: found for name in LIBRARIES if (found := version(name))},
        cores=cores(),
        disk_free_bytes=disk_free(settings),
        speed_flops=speed_flops,
        cards=tuple(cards),
        published_at=time.time(),
    )


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def disk_free(settings: Settings) -> int | None:
    """Bytes left where runs are written; None when that cannot be told."""
    try:
        return shutil.disk_usage(settings.data_dir).free
    except OSError:
        return None


def threads(card: Card, training: int) -> int | None:
    """Threads of a trainer on the card when `training` simulated cards share the cores; None for a real card."""
    return max(1, cores() // max(1, training)) if card.simulated else None


class Speed:
    """The host's speed, measured by a short process of its own while everything else goes on."""

    def __init__(self, card: Card) -> None:
        where = "cpu" if card.simulated else card.uuid
        self._process: subprocess.Popen[str] | None = subprocess.Popen(
            [sys.executable, "-P", "-m", "workers.speed", where],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ
            | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "" if where == "cpu" else where},
            preexec_fn=die_with_parent,
        )
        self._until = time.monotonic() + SPEED_LIMIT_S
        self.flops: float | None = None
        """Floating point operations a second; None until it is measured, or when that failed."""

    def poll(self) -> bool:
        """True once, when the measurement has just ended."""
        if self._process is None:
            return False
        if self._process.poll() is None and time.monotonic() < self._until:
            return False
        self.end()
        return True

    def end(self) -> None:
        """The process is gone; what it had measured is kept."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.kill()
        output, _ = process.communicate()
        try:
            self.flops = float(json.loads(output)["flops"])
            log.info("host: %.3g floating point operations a second", self.flops)
        except (ValueError, KeyError, TypeError):
            log.warning("host: its speed could not be measured (status %s)", process.returncode)
