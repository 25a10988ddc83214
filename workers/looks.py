"""Who has had the first look at a model of an experiment."""

from __future__ import annotations

from collections.abc import Iterable

from lab.run import Run


class Looks:
    """One run shows whether its model trains and how fast; the others of that experiment need no look of their own.

    Else thirty runs on three cards would stop each other for an hour, each to be looked at for two minutes.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}

    def see(self, runs: Iterable[Run]) -> None:
        """Those of the runs that have started count, the earliest first."""
        started = [run for run in runs if run.started_at is not None]
        for run in sorted(started, key=lambda run: (run.started_at, run.number)):
            self._first.setdefault(_kind(run), run.id)

    def over(self, run: Run) -> bool:
        """True when no look at the run is due, or the stint that it is in is none."""
        earlier_attempts = run.fence - bool(run.cards)
        return earlier_attempts > 0 or self._first.get(_kind(run), run.id) != run.id


def _kind(run: Run) -> tuple[str, str]:
    return run.experiment_id, run.point.model
