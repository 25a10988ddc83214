"""What the dispatcher knows of users and runs: who used how much, how long runs take, which had their first look."""

from __future__ import annotations

from collections.abc import Sequence

from lab.ledger import Ledger
from lab.lengths import Machines
from lab.run import Run, RunState
from workers.looks import Looks
from workers.policy import Usage
from workers.predictions import Predictions


class Accounts:
    """Read once from the ledger by the dispatcher that begins to lead, then kept up with what it sees."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._clear()

    def _clear(self) -> None:
        self.usage = Usage()
        self.looks = Looks()
        self.predictions = Predictions(self.ledger)
        self._charged_at: float | None = None

    def open(self) -> None:
        """The past of the ledger counts, and only that."""
        self._clear()
        runs = self.ledger.runs_in(*RunState)
        for run in runs:
            if run.started_at is not None and run.used.gpu_s:
                self.usage.charge(run.owner, run.used.gpu_s, run.finished_at or run.started_at, run.priority)
        self.looks.see(runs)
        self.predictions = Predictions(self.ledger, [run for run in runs if run.state is RunState.FINISHED])

    def update(self, holding: Sequence[Run], now: float, where: Machines) -> None:
        """Cards held since the last call are charged to their users; runs that have ended since teach their lengths.

        Args:
            where: what the hosts publish now.
        """
        since = now if self._charged_at is None else self._charged_at
        for run in holding:
            # At the first call a dispatched run may still show the start of its attempt before this one.
            began = since if self._charged_at is not None or not run.pid else run.started_at or since
            self.usage.charge(run.owner, max(0.0, now - began) * len(run.cards), now, run.priority)
        self.looks.see(holding)
        self.predictions.update(holding, where)
        self._charged_at = now
