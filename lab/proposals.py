"""What becomes of a request and its plan before that is approved: answered, corrected, withdrawn, expired."""

from __future__ import annotations

import time
from collections.abc import Sequence

from redis.client import Pipeline

from lab import tally
from lab.errors import MoveRefused, UnknownRecord
from lab.plan import Plan
from lab.records import index_key, record_key
from lab.run import Answer, Estimate, Experiment, ExperimentState, Request, RequestState
from lab.wishes import Wishes


class Proposals(Wishes):
    """The part of the ledger for what waits for a person's yes."""

    def request(self, request_id: str) -> Request:
        """The request. Raises UnknownRecord."""
        return self._read(Request, request_id)

    def answer(self, request_id: str, answer: Answer) -> bool:
        """The request has its answer, and the event that carries it is out; False if it had one already."""

        def write(pipe: Pipeline) -> bool:
            request = self._read(Request, request_id, pipe)
            if request.state is RequestState.ANSWERED:
                return False
            pipe.multi()
            self._answer(pipe, request, answer)
            return True

        return self._transact(write, record_key(request_id))

    def revise(
        self,
        request_id: str,
        experiment_id: str,
        revision: int,
        plan: Plan,
        estimate: Estimate | None,
        reused: Sequence[str] = (),
    ) -> Experiment | None:
        """The request is answered by the experiment with this plan in place of its own; None if it had an answer.

        Args:
            revision: of the plan that was corrected.
            reused: as in `propose`.

        Raises:
            MoveRefused: it is not merely proposed any more, or its plan was corrected meanwhile.
        """

        def write(pipe: Pipeline) -> Experiment | None:
            request = self._read(Request, request_id, pipe)
            if request.state is RequestState.ANSWERED:
                return None
            experiment = self._read(Experiment, experiment_id, pipe)
            if experiment.state is not ExperimentState.PROPOSED:
                raise MoveRefused(experiment_id, experiment.state, "edited")
            if experiment.plan_revision != revision:
                raise MoveRefused(experiment_id, "edited meanwhile", "edited")
            pipe.multi()
            revised = self._set(
                pipe,
                experiment,
                plan=plan,
                estimate=estimate,
                n_runs=plan.n_runs,
                reused=tuple(reused),
                plan_revision=revision + 1,
                edited_by=request.user,
            )
            self._event(pipe, "experiment.revised", revised, {"by": request.user, "revision": revision + 1})
            self._answer(pipe, request, Answer(kind="revised", experiment_id=experiment_id))
            return revised

        return self._transact(write, record_key(request_id), record_key(experiment_id))

    def withdraw(self, request_id: str, by: str) -> Experiment | None:
        """Nothing more comes of the request: it is answered with silence, or its plan that waits is cancelled.

        Returns:
            Its experiment where that was approved before, and so goes on; else None.

        Raises:
            UnknownRecord: there is no such request.
        """
        if self.answer(request_id, Answer(kind="withdrawn")):
            return None
        answer = self.request(request_id).answer
        if answer is None or answer.experiment_id is None:
            return None
        return self._withdraw_plan(answer.experiment_id, by)

    def _withdraw_plan(self, experiment_id: str, by: str) -> Experiment | None:
        def write(pipe: Pipeline) -> Experiment | None:
            experiment = self._read(Experiment, experiment_id, pipe)
            if experiment.state is not ExperimentState.PROPOSED:
                return experiment if experiment.approved_at is not None else None
            pipe.multi()
            self._move(pipe, experiment, ExperimentState.CANCELLED, {"by": by}, finished_at=time.time())
            return None

        try:
            return self._transact(write, record_key(experiment_id))
        except UnknownRecord:
            return None

    def proposed_before(self, at: float) -> list[str]:
        """Ids of the experiments that were proposed before that time and wait for a yes still, oldest first."""
        found: list[str] = self.client.zrangebyscore(index_key("experiment", ExperimentState.PROPOSED), 0, f"({at}")
        return found

    def expire(self, experiment_id: str) -> Experiment:
        """Nobody approved the plan in time; it cannot start any more. Raises MoveRefused when it is not proposed."""

        def write(pipe: Pipeline) -> Experiment:
            experiment = self._read(Experiment, experiment_id, pipe)
            if experiment.state is not ExperimentState.PROPOSED:
                raise MoveRefused(experiment_id, experiment.state, ExperimentState.EXPIRED)
            pipe.multi()
            return self._move(pipe, experiment, ExperimentState.EXPIRED, finished_at=time.time())

        return self._transact(write, record_key(experiment_id))

    def _answer(self, pipe: Pipeline, request: Request, answer: Answer) -> None:
        self._move(pipe, request, RequestState.ANSWERED, answer.model_dump(mode="json"), answer=answer)
        tally.count_answer(pipe, answer.kind)
