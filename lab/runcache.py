"""Runs that wait, for a process that asks for all of them again and again: only what has changed is read anew."""

from __future__ import annotations

from lab import events
from lab.records import Records, age
from lab.run import Run, RunState
from lab.store import Client


class RunCache(Records):
    """Runs that hold no card, as they stand in Redis. For one thread.

    Whatever changes such a run writes an event of it in the same transaction, so the stream tells which to read again.
    Where it cannot, because it was trimmed or Redis has come back with less than it had, all are.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._runs: dict[str, Run] = {}
        self._until = ""
        """Id of the event up to which what is kept is true: taken before runs are read, so never of a later one."""

    def runs_in(self, *states: RunState) -> list[Run]:
        """Every run in one of the states, oldest first: Ledger.runs_in, for queued and paused ones."""
        self._forget_changed()
        ids = self._ids(Run, states)
        missing = [run_id for run_id in ids if run_id not in self._runs]
        self._runs |= {run.id: run for run in self._read_many(Run, missing)}
        found = [run for run_id in ids if (run := self._runs.get(run_id)) is not None and run.state in states]
        return sorted(found, key=age)

    def forget(self, run_id: str) -> None:
        """The run is read anew the next time."""
        self._runs.pop(run_id, None)

    def _forget_changed(self) -> None:
        found = events.changed(self.client, self._until) if self._until else None
        if found is None:
            self._until = events.newest_id(self.client)
            self._runs.clear()
            return
        self._until, subjects = found
        for run_id in subjects:
            self.forget(run_id)
