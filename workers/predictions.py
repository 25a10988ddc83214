"""What the dispatcher predicts of runs: how long each takes, what ended ones teach, and how right it was."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from lab import tally
from lab.errors import UnknownRecord
from lab.ledger import Ledger
from lab.lengths import Lengths, Machines, Subject
from lab.plan import Point
from lab.predict import Prediction, measured
from lab.run import Progress, Run, RunState
from workers.forecast import Known
from workers.policy import UNKNOWN

log = logging.getLogger(__name__)


class Predictions:
    """Of a dispatcher that leads: what others have learned counts.

    Args:
        ended: runs that have ended before; of kinds that nobody has learned of, they are learned from.
    """

    def __init__(self, ledger: Ledger, ended: Sequence[Run] = ()) -> None:
        self._ledger = ledger
        self._lengths = Lengths(ledger.client)
        self._where = Machines({})
        self._subjects: dict[str, tuple[Point, Subject]] = {}
        self._kinds: dict[Subject, Subject] = {}
        """Runs that are alike share one, which makes ten thousand of them quick to compare."""
        self._holding: dict[str, tuple[Run, Prediction | None]] = {}
        """Runs that hold cards, with what was predicted when they got them."""
        self._past = ended

    def update(self, holding: Sequence[Run], where: Machines) -> None:
        """Runs that have ended since the last call teach their lengths, and it is counted how right they were told.

        Args:
            where: what the hosts publish now.
        """
        self._where = where
        self._teach_past()
        here = {run.id for run in holding}
        for run_id, (_, prediction) in self._holding.items():
            if run_id not in here:
                self._ended(run_id, prediction)
        told = {run_id: prediction for run_id, (_, prediction) in self._holding.items()}
        self._holding = {run.id: (run, told[run.id] if run.id in told else self._predict(run)) for run in holding}

    def lengths(self, queued: Iterable[Run]) -> dict[str, Prediction]:
        """By run id, for queued runs and those that hold cards, as far as anything is known of them."""
        found, begun = {}, {run_id: run for run_id, (run, _) in self._holding.items()}
        for run in queued:
            if known := self._predict(run):
                found[run.id] = known
            if run.served_s:
                begun[run.id] = run
        found |= {run_id: known for run_id, (_, known) in self._holding.items() if known}
        for run_id, progress in self._ledger.progress(begun).items():
            elapsed_s = _elapsed_s(begun[run_id], progress)
            seen = measured(elapsed_s, progress.step, progress.share, progress.eta_s)
            found |= {run_id: seen} if seen and elapsed_s else {}
        return found

    def known(self, runs: Sequence[Run], lengths: Mapping[str, Prediction]) -> list[Known]:
        """The runs with their predictions, as the forecast takes them."""
        return [Known(run, lengths.get(run.id, UNKNOWN), self._subject(run).kind) for run in runs]

    def _subject(self, run: Run) -> Subject:
        card, known = self._where.name_of(run.card), self._subjects.get(run.id)
        if known is None or known[0] is not run.point or known[1].card != card:
            subject = Subject.of_run(run, card)
            known = self._subjects[run.id] = run.point, self._kinds.setdefault(subject, subject)
        return known[1]

    def _predict(self, run: Run) -> Prediction | None:
        return self._lengths.predict(self._subject(run), self._where)

    def _ended(self, run_id: str, prediction: Prediction | None) -> None:
        try:
            run = self._ledger.run(run_id)
        except UnknownRecord:
            return
        took_s = self._learn(run)
        self._subjects.pop(run_id, None)
        if took_s is None or prediction is None:
            return
        guess = f"{prediction.p50_s:.0f} s, nine in ten within {prediction.p90_s:.0f} s ({prediction.basis})"
        error = prediction.log_error(took_s)
        log.info("%s: took %.0f s, predicted %s, log error %+.2f", run_id, took_s, guess, error)
        with self._ledger.client.pipeline() as pipe:
            tally.count_prediction(pipe, error, within=took_s <= prediction.p90_s, rough=prediction.rough)
            pipe.execute()

    def _learn(self, run: Run) -> float | None:
        """Seconds that the run took; None, and nothing is learned, where it did not finish or did work twice."""
        took_s = _took_s(run)
        if took_s is not None:
            progress = self._ledger.progress([run.id]).get(run.id)
            self._lengths.learn(self._subject(run), self._where, took_s, _startup_s(run, progress))
        return took_s

    def _teach_past(self) -> None:
        new: dict[str, bool] = {}
        for run in self._past:
            kind = self._subject(run).kind
            if kind not in new:
                new[kind] = not self._lengths.knows(kind)
            if new[kind]:
                self._learn(run)
        self._past = ()


def _took_s(run: Run) -> float | None:
    """From the start to the result of a run that finished in one attempt, or in stints of which none was lost."""
    if run.state is not RunState.FINISHED or run.started_at is None or run.finished_at is None:
        return None
    if run.losses or run.retries:
        return None
    return max(0.001, run.finished_at - run.started_at) + run.served_s


def _startup_s(run: Run, progress: Progress | None) -> float | None:
    """What of that passed before first steps; a run that made room started up once more each time."""
    if run.started_at is None or progress is None or progress.first_step_at is None:
        return None
    return max(0.01, progress.first_step_at - run.started_at) * max(1, run.fence)


def _elapsed_s(run: Run, progress: Progress) -> float:
    """Seconds on its cards, in all its attempts, in which the run has come so far; 0 while it tells nothing."""
    began = run.started_at if run.pid and run.started_at else progress.at
    return run.served_s + max(0.0, progress.at - began)
