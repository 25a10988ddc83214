"""Watching a trainer: its progress, its lease, and whoever wants it to stop."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from lab import hosts
from lab.card import READING_MAX_AGE_S
from lab.errors import FenceError, UnknownRecord
from lab.leases import Lease, Leases
from lab.ledger import Ledger
from lab.run import Progress, RunState
from lab.settings import Settings
from lab.store import AWAY
from workers import disk
from workers.launch import Trainer
from workers.power import Power
from workers.pulse import Pulse
from workers.rundir import Metrics

log = logging.getLogger(__name__)

T = TypeVar("T")
How = Literal[
    "exited",
    "cancelled",
    "paused",
    "preempted",
    "disk_full",
    "hung",
    "deleted",
    "shutdown",
    "lease_lost",
    "superseded",
]

TICK_S = 0.1
PROGRESS_EVERY_S = 0.5
STATE_EVERY_S = 1.0
DISK_EVERY_S = 5.0
POWER_EVERY_S = 5.0
ASK_AGAIN_S = 1.0
"""Pause after a call that Redis did not answer: each one that hangs takes a second or two from the lease."""
LAST_S = 0.5
"""A trainer that could not be told by Redis' word is killed so long before its lease ends."""
LAST_SHARE = 0.25
LAST_AT_MOST_S = 6.0
"""Share of the lease, and seconds at most, that are left for stopping the trainer when the lease was not renewed: with
60 s, renewed every 10 s, an outage of 40 s is always ridden out."""


def margin_s(lease_s: float) -> float:
    """So long before its lease would end a trainer is told to stop."""
    return min(lease_s * LAST_SHARE, LAST_AT_MOST_S)


@dataclass(frozen=True)
class Ending:
    """How a trainer ended."""

    how: How
    code: int | None
    seconds: float
    """From its start to its end."""
    progress: Progress
    why: str = ""
    """Of a trainer that hung: which signs of life were missing, and where it was stuck."""
    energy_j: float | None = None
    """What its cards drew; None where that is not known."""


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
        *,
        curves: bool = False,
    ) -> None:
        self.ledger = ledger
        self.leases = leases
        self.lease = lease
        self.trainer = trainer
        self.attempt = attempt
        self.all_settings = settings
        self.settings = settings.run
        self.stop_asked = stop_asked
        self.metrics = Metrics(attempt, curves=curves)
        self.pulse = Pulse(trainer, attempt, self.metrics, self.settings.hang_s, self._utilisation)
        self.power = Power(lease.cards)
        self.began = time.monotonic()
        self._why = ""
        self._inode = _inode(attempt)
        self._disk_at = self.began + DISK_EVERY_S
        self._power_at = self.began + STATE_EVERY_S
        self._saved_before: frozenset[tuple[str, int]] | None = None
        """Checkpoints that were there when one was asked for; None while none is."""
        self._deadline = since + self.settings.lease_s
        self._renew_at = 0.0
        """At once: the claim was a while ago."""
        self._progress_at = 0.0
        self._state_at = self.began + STATE_EVERY_S
        self._news: str | None = None
        self._stopping: How | None = None
        self._kill_at = 0.0
        self._ask_at = 0.0
        """After a call that Redis did not answer: when it is asked again; 0 while it answers."""
        self._ask_s = 0.0
        """How long that call took; one that may hang past the deadline is not begun."""

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
            self._sample_power(now)
            now = time.monotonic()  # Redis may have taken seconds
            if self._stopping is None:
                self._look_for_a_stop(now)
            elif now >= min(self._kill_at, self._deadline - LAST_S):
                self.trainer.kill()
        self._news = self.metrics.read() or self._news
        self._report(time.monotonic(), last=True)
        # A trainer that was done before the stop reached it has finished, unless somebody else has the run by now.
        how = self._stopping if self._stopping and (code != 0 or self._stopping == "superseded") else "exited"
        if how == "exited" and code != 0 and self._deleted():
            how = "deleted"
        seconds = time.monotonic() - self.began
        return Ending(how, code, seconds, self.metrics.progress, self._why, self.power.energy_j(seconds))

    def _look_for_a_stop(self, now: float) -> None:
        margin = margin_s(self.settings.lease_s)
        if now >= self._deadline - margin:
            log.warning("%s: no renewal for too long, the trainer is stopped before the lease ends", self.lease.run_id)
            self._stop("lease_lost", max(0.0, min(margin / 2, self._deadline - LAST_S - now)))
        elif self.stop_asked.is_set():
            self._stop("shutdown", self.settings.grace_s)
        elif now >= self._state_at:
            self._state_at = now + STATE_EVERY_S
            self._look_around(now)
            if self._stopping is None:
                self._follow_wishes()

    def _look_around(self, now: float) -> None:
        """The attempt's folder, the disk and the trainer itself are looked at."""
        if self._deleted():
            self._stop("deleted", 0.0)
        elif self.pulse.hangs():
            self._why = self.pulse.dump()
            log.warning("%s: hangs, %s", self.lease.run_id, self._why)
            self._stop("hung", 0.0)
        elif now >= self._disk_at:
            self._disk_at = now + DISK_EVERY_S
            if disk.is_full(self.all_settings):
                self._stop("disk_full", self.settings.grace_s)

    def _deleted(self) -> bool:
        """True when the attempt's folder is not the one that it began with; a trainer that saves makes it anew."""
        return _inode(self.attempt) != self._inode

    def _follow_wishes(self) -> None:
        """What is asked of the run is done: stopped, paused, made room, or its checkpoint asked for and told of."""
        run = self._asked(lambda: self.ledger.run(self.lease.run_id))
        if run is None or run.fence != self.lease.fence:
            return
        if run.state is RunState.CANCELLING:
            self._stop("cancelled", self.settings.grace_s)
        elif run.wish == "pause":
            self._stop("paused", self.settings.grace_s)
        elif run.room:
            self._stop("preempted", self.settings.grace_s)
        elif run.wish == "checkpoint":
            self._follow_checkpoint()

    def _follow_checkpoint(self) -> None:
        """Asked for once the trainer steps (before, it would not hear); told as soon as there is a new one."""
        if self._saved_before is None:
            if self.metrics.phase != "start":
                self._saved_before = self._saved()
                self.trainer.ask_for_checkpoint()
        elif self._saved() - self._saved_before:
            self._saved_before = None
            progress = self.metrics.progress
            of = f" of {progress.steps_total}" if progress.steps_total else ""
            try:
                told = f"step {progress.step}{of}"
                self._asked(lambda: self.ledger.wish_done(self.lease.run_id, self.lease.fence, told))
            except FenceError as error:
                log.warning("%s", error)
                self._stop("superseded", 0.0)

    def _saved(self) -> frozenset[tuple[str, int]]:
        """Names and times of the attempt's checkpoints."""
        found = set()
        for path in (self.attempt / "checkpoints").glob("step-*"):
            with contextlib.suppress(FileNotFoundError):  # pruned in this moment
                found.add((path.name, path.stat().st_mtime_ns))
        return frozenset(found)

    def _utilisation(self) -> float | None:
        """The busiest of the cards, in per cent, as last published; None when nothing recent says."""
        readings = self._asked(lambda: hosts.cards(self.ledger.client)) or []
        ours = [card for host in readings for card in host.cards if card.uuid in self.lease.cards]
        recent = [card for card in ours if time.time() - card.read_at < READING_MAX_AGE_S]
        return max((card.utilization_pct for card in recent if card.utilization_pct is not None), default=None)

    def _sample_power(self, now: float) -> None:
        if now < self._power_at:
            return
        self._power_at = now + POWER_EVERY_S
        host = self._asked(lambda: hosts.cards_of(self.ledger.client, self.all_settings.host))
        self.power.sample(host.cards if host else (), time.time())

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
        now = time.monotonic()
        if now < self._ask_at or (self._ask_at and now + self._ask_s > self._deadline - LAST_S):
            return None
        try:
            answer = ask()
            self._ask_at = 0.0
            return answer
        except AWAY as error:
            self._ask_s = time.monotonic() - now
            self._ask_at = time.monotonic() + ASK_AGAIN_S
            log.debug("%s: Redis is away: %s", self.lease.run_id, error)
            return None


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
