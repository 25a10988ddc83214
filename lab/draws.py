"""What a search does to its runs: values are drawn for them, and hopeless ones are stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redis.client import Pipeline

from lab.errors import MoveRefused
from lab.plan import Scalar
from lab.records import record_key
from lab.run import Run, RunState
from lab.wishes import Wishes


class Draws(Wishes):
    """The part of the ledger that moves the runs of a search."""

    def draw(self, trial: Sequence[Run], values: Mapping[str, Scalar]) -> bool:
        """The runs of one trial have these values in their points; False, and nothing is written, if they had some.

        Values that stand are never drawn again, so a second leader that drew others meanwhile changes nothing.
        """

        def write(pipe: Pipeline) -> bool:
            runs = [self._read(Run, run.id, pipe) for run in trial]
            if not all(run.to_draw for run in runs):
                return False
            pipe.multi()
            for run in runs:
                point = run.point.model_copy(update={"params": {**values, **run.point.params}})
                drawn = self._set(pipe, run, point=point, to_draw=False)
                self._event(pipe, "run.drawn", drawn, {})
            return True

        return self._transact(write, *(record_key(run.id) for run in trial))

    def prune(self, run_id: str, epoch: int, why: str) -> Run:
        """The running attempt is told to stop because it is hopeless; `why` is what people are told.

        Raises:
            MoveRefused: it does not run (any more).
        """

        def write(pipe: Pipeline) -> Run:
            run = self._read(Run, run_id, pipe)
            if run.state is not RunState.RUNNING:
                raise MoveRefused(run_id, run.state, "pruned")
            pipe.multi()
            event = {"by": "overnight", "pruned_at": epoch}
            return self._move(pipe, run, RunState.CANCELLING, event, message=why, pruned_at=epoch)

        return self._transact(write, record_key(run_id))
