"""Watching a trainer: its progress, its lease, and whoever wants it to stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from lab.errors import FenceError, UnknownRecord
from lab.leases import Lease, Leases
from lab.ledger import Ledger
from lab.run import Progress, RunState
from lab.settings import Settings
from lab.store import AWAY
from workers.launch import Trainer
from workers.rundir import Metrics

log = logging.getLogger(__name__)

T = TypeVar("T")
How = Literal["exited", "cancelled", "shutdown", "lease_lost", "superseded"]

TICK_S = 0.1
PROGRESS_EVERY_S = 0.5
STATE_EVERY_S = 1.0
ASK_AGAIN_S = 1.0
"""Pause after a call that Redis did not answer: each one that hangs takes a second or two from the lease."""
LAST_S = 0.5
"""A trainer that could not be told by Redis' word is killed so long before its lease ends."""
LAST_SHARE = 0.25
"""Share of the lease that is left for stopping the trainer when the lease could not be renewed."""


@dataclass(frozen=True)
class Ending:
    """How a trainer ended."""

    how: How
    code: int | None
    seconds: float
    """From its start to its end."""
    progress: Progress


class Watch:
    """Follows one trainer to its end. Every Redis call fails within seconds, so that the lease's deadline is kept."""

    def __init__(
        self,
        ledger: Ledger,
        leases: Leases,
        lease: Lease,
        since: float,
        trainer: Trainer,
        attempt: Path,
        settings: Settings,
        stop_asked: threading.Event,
    ) -> None:
        self.ledger = ledger
        self.leases = leases
        self.lease = lease
        self.trainer = trainer
        self.settings = settings.run
        self.stop_asked = stop_asked
        self.metrics = Metrics(attempt)
        self.began = time.monotonic()
        self._deadline = since + self.settings.lease_s
        self._renew_at = 0.0
        """At once: the claim was a while ago."""
        self._progress_at = 0.0
        self._state_at = self.began + STATE_EVERY_S
        self._news: str | None = None
        self._stopping: How | None = None
        self._kill_at = 0.0
        self._ask_at = 0.0

    def follow(self, wanted: bool) -> Ending:
        """The trainer has ended.

        Args:
            wanted: False when the ledger no longer wants the attempt, so that it is stopped at once.
        """
        if not wanted:
            self._stop(self._unwanted(), self.settings.grace_s)
        while (code := self.trainer.wait(TICK_S)) is None:
            now = time.monotonic()
            self._renew(now)
            self._report(now)
            if self._stopping is None:
                self._look_for_a_stop(now)
            elif now >= self._kill_at:
                self.trainer.kill()
        self._news = self.metrics.read() or self._news
        self._report(time.monotonic(), last=True)
        # A trainer that was done before the stop reached it has finished, unless somebody else has the run by now.
        how = self._stopping if self._stopping and (code != 0 or self._stopping == "superseded") else "exited"
        return Ending(how, code, time.monotonic() - self.began, self.metrics.progress)

    def _look_for_a_stop(self, now: float) -> None:
        margin = self.settings.lease_s * LAST_SHARE
        if now >= self._deadline - margin:
            log.warning("%s: no renewal for too long, the trainer is stopped before the lease ends", self.lease.run_id)
            self._stop("lease_lost", max(0.0, min(margin / 2, self._deadline - LAST_S - now)))
        elif self.stop_asked.is_set():
            self._stop("shutdown", self.settings.grace_s)
        elif now >= self._state_at:
            self._state_at = now + STATE_EVERY_S
            if self._cancelling():
                self._stop("cancelled", self.settings.grace_s)

    def _stop(self, how: How, grace_s: float) -> None:
        log.info("%s: stopping (%s), %.0f s to save", self.lease.run_id, how, grace_s)
        self._stopping = how
        self._kill_at = time.monotonic() + grace_s
        self.trainer.ask_to_stop()

    def _renew(self, now: float) -> None:
        """The holder's deadline counts from before the renewal was sent: Redis' own expiry is never earlier."""
        if now < self._renew_at or self._stopping in ("lease_lost", "superseded"):
            return
        renewed = self._asked(lambda: self.leases.renew(self.lease))
        if renewed:
            self._deadline = now + self.settings.lease_s
            self._renew_at = now + self.settings.renew_s
        elif renewed is not None:
            log.warning("%s: the lease of attempt %d is gone", self.lease.run_id, self.lease.fence)
            self._stop("lease_lost", 0.0)

    def _report(self, now: float, *, last: bool = False) -> None:
        self._news = self.metrics.read() or self._news
        if self._stopping in ("lease_lost", "superseded") or self._news is None:
            return
        if self._news == "step" and now < self._progress_at and not last:
            return
        self._progress_at = now + PROGRESS_EVERY_S
        self._news = None
        try:
            self._asked(lambda: self.ledger.report_progress(self.lease.run_id, self.lease.fence, self.metrics.progress))
        except FenceError as error:
            log.warning("%s", error)
            self._stop("superseded", 0.0)

    def _cancelling(self) -> bool:
        run = self._asked(lambda: self.ledger.run(self.lease.run_id))
        return run is not None and run.state is RunState.CANCELLING

    def _unwanted(self) -> How:
        """Why the ledger did not take the start."""
        try:
            run = self._asked(lambda: self.ledger.run(self.lease.run_id))
        except UnknownRecord:
            return "superseded"
        ours = run is not None and run.fence == self.lease.fence and run.state is RunState.CANCELLING
        return "cancelled" if ours else "superseded"

    def _asked(self, ask: Callable[[], T]) -> T | None:
        """Redis' answer; None while it is away."""
        if time.monotonic() < self._ask_at:
            return None
        try:
            return ask()
        except AWAY as error:
            self._ask_at = time.monotonic() + ASK_AGAIN_S
            log.debug("%s: Redis is away: %s", self.lease.run_id, error)
            return None
