"""Old experiments leave Redis for files, one at a time beside the leader's rounds."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from lab.archive import NotHereError
from lab.ledger import Ledger
from lab.settings import Settings

log = logging.getLogger(__name__)

LOOK_EVERY_S = 3600.0
DAY_S = 86_400


class Archivist:
    """For the leader, who calls `step` every few seconds: each moves one experiment at most, so that no run waits.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, ledger: Ledger, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self._old: deque[str] = deque()
        self._look_at = clock()

    def step(self, now: float) -> None:
        """The next experiment that ended `archive_days` ago is in its file; hours pass between two looks for them."""
        days = self._settings.archive_days
        if not days:
            return
        before = now - days * DAY_S
        if self._clock() >= self._look_at:
            self._look_at = self._clock() + LOOK_EVERY_S
            self._old = deque(self._ledger.to_archive(before))
        if self._old:
            self._archive(self._old.popleft(), before)

    def _archive(self, experiment_id: str, before: float) -> None:
        settings = self._settings
        try:
            if self._ledger.archive(experiment_id, settings.runs_dir, settings.host, before):
                log.info("%s: archived below %s", experiment_id, settings.runs_dir / experiment_id)
        except (OSError, NotHereError, ValueError) as error:
            log.warning("%s: not archived: %s", experiment_id, str(error).splitlines()[0])
