"""What the dispatcher knows of users and lengths: who used how much, and how long runs of a kind take."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from lab import estimate
from lab.errors import UnknownRecord
from lab.ledger import Ledger
from lab.predict import History, Prediction, measured
from lab.run import FINAL_RUN, Run, RunState
from workers.policy import Usage

log = logging.getLogger(__name__)


class Accounts:
    """Read once from the ledger by the dispatcher that begins to lead, then kept up with what it sees."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._clear()

    def _clear(self) -> None:
        self.usage = Usage()
        self._history = History(guesses=False)
        self._predicted: dict[str, Prediction | None] = {}
        self._levels: dict[str, tuple[str, ...]] = {}
        self._holding: dict[str, tuple[Run, Prediction | None]] = {}
        self._charged_at: float | None = None

    def open(self) -> None:
        """The past of the ledger counts, and only that."""
        self._clear()
        for run in self.ledger.runs_in(*FINAL_RUN):
            if run.started_at is not None and run.finished_at is not None:
                seconds = max(0.0, run.finished_at - run.started_at)
                self.usage.charge(run.owner, seconds * run.gpus, run.finished_at, run.priority)
                self._learn(run)

    def update(self, holding: Sequence[Run], now: float) -> None:
        """Cards held since the last call are charged to their users; runs that have ended since teach their lengths."""
        since = now if self._charged_at is None else self._charged_at
        here = {run.id: run for run in holding}
        for run_id, (_, prediction) in self._holding.items():
            if run_id not in here:
                self._ended(run_id, prediction)
        for run in holding:
            began = since if self._charged_at is not None or run.started_at is None else run.started_at
            self.usage.charge(run.owner, max(0.0, now - began) * len(run.cards), now, run.priority)
        self._holding = {run.id: (run, self._predict(run)) for run in holding}
        self._charged_at = now

    def lengths(self, queued: Iterable[Run]) -> dict[str, Prediction]:
        """Predictions by run id, for queued runs and those that hold cards, as far as anything is known of them."""
        found = {run.id: known for run in queued if (known := self._predict(run))}
        found |= {run_id: known for run_id, (_, known) in self._holding.items() if known}
        for run_id, progress in self.ledger.progress(self._holding).items():
            run, _ = self._holding[run_id]
            if run.state is RunState.RUNNING and run.started_at and progress.at > run.started_at:
                elapsed_s = progress.at - run.started_at
                seen = measured(elapsed_s, progress.step, progress.steps_total or 0, estimate.STARTUP_S)
                found |= {run_id: seen} if seen else {}
        return found

    def _ended(self, run_id: str, prediction: Prediction | None) -> None:
        self._levels.pop(run_id, None)
        try:
            run = self.ledger.run(run_id)
        except UnknownRecord:
            return
        took = self._learn(run)
        if took is not None and prediction:
            guess = f"{prediction.p50_s:.0f} s, nine in ten within {prediction.p90_s:.0f} s ({prediction.basis})"
            log.info("%s: took %.0f s, predicted %s, log error %+.2f", run_id, took, guess, prediction.log_error(took))

    def _learn(self, run: Run) -> float | None:
        if run.state is not RunState.FINISHED or run.started_at is None or run.finished_at is None:
            return None
        took = max(0.001, run.finished_at - run.started_at)
        self._history.learn(_levels(run), _scale(run), took)
        self._predicted.clear()
        return took

    def _predict(self, run: Run) -> Prediction | None:
        if run.id not in self._predicted:
            levels = self._levels.get(run.id) or self._levels.setdefault(run.id, _levels(run))
            known = self._history.knows(levels)
            self._predicted[run.id] = self._history.predict(levels, _scale(run)) if known else None
        return self._predicted[run.id]


def _levels(run: Run) -> tuple[str, ...]:
    """From what many runs share to this person's runs of this kind."""
    model = f"{run.template}|{run.point.model}"
    length = estimate.length(run.epochs, run.max_steps)
    kind = estimate.kind(run.template, run.point, length, "")
    return run.template, model, kind, f"{kind}|{run.owner}"


def _scale(run: Run) -> float:
    return float(run.max_steps or run.epochs or 1)
