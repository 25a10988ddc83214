"""The runs of the ledger as attempts move them: bound, started, given back, ended; their progress and counts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from redis.client import Pipeline
from rq import Queue

from lab import reuse, tally
from lab.cardtable import CardUse
from lab.errors import FenceError, MoveRefused, UnknownRecord
from lab.losses import Losses
from lab.queue import AGENT, RUN_ATTEMPT, WRITE_REPORT, card_queue, open_queue, put
from lab.records import Records, index_key, record_key
from lab.run import (
    FINAL_EXPERIMENT,
    FINAL_RUN,
    HOLDS_CARD,
    RUN_ID,
    Experiment,
    ExperimentState,
    Progress,
    Run,
    RunResult,
    RunState,
    Usage,
    experiment_of,
)
from lab.store import PREFIX, Client

PROGRESS_S = 7 * 86_400

REPORTS_DUE = f"{PREFIX}reports:due"
"""Redis key of the set of experiments whose newest report, or its newest revision, is still to be written."""

NOWHERE: dict[str, Any] = {"card": None, "cards": (), "pid": None, "wish": None, "room": None}
"""Fields of a run that holds no card: nothing is asked of it any more."""


class Runs(Records):
    """The part of the ledger that moves runs; the last one of an experiment ends that too."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._agent_queue = open_queue(client, AGENT)
        self._card_queues: dict[str, Queue] = {}

    def run(self, run_id: str) -> Run:
        """The run. Raises UnknownRecord."""
        if not RUN_ID.match(run_id):
            raise UnknownRecord(run_id)
        return self._read(Run, run_id)

    def runs_in(self, *states: RunState) -> list[Run]:
        """Every run in one of the states, oldest first."""
        return self._all(Run, states)

    def waiting(self) -> dict[str, float]:
        """Every queued run's id to the time when it was first queued, oldest first; reads no records."""
        return dict(self.client.zrange(index_key("run", RunState.QUEUED), 0, -1, withscores=True))

    def bind(self, run_id: str, cards: tuple[str, ...], host: str, index: int) -> Run:
        """The queued run is dispatched to its cards, its entry lies in the queue of the first one.

        Raises:
            MoveRefused: it is not queued any more.
        """

        def write(pipe: Pipeline) -> Run:
            run = self._expect(pipe, run_id, RunState.DISPATCHED, RunState.QUEUED)
            dispatch = run.dispatches + 1
            pipe.multi()
            moved = self._move(
                pipe,
                run,
                RunState.DISPATCHED,
                dispatches=dispatch,
                host=host,
                card=cards[0],
                cards=cards,
                card_index=index,
                room=None,
            )
            job_id = f"{run_id.replace('/', '-')}-d{dispatch}"
            put(self._queue(cards[0]), RUN_ATTEMPT, run_id, dispatch, list(cards), job_id=job_id, pipeline=pipe)
            return moved

        return self._transact(write, record_key(run_id))

    def start(self, run_id: str, fence: int, pid: int) -> Run:
        """The attempt runs: its interpreter was spawned with process id `pid`. Raises FenceError, MoveRefused."""

        def write(pipe: Pipeline) -> Run:
            run = self._fenced(pipe, run_id, fence)
            if run.state is not RunState.DISPATCHED:
                raise MoveRefused(run_id, run.state, RunState.RUNNING)
            experiment = self._read(Experiment, run.experiment_id, pipe)
            now = time.time()
            pipe.multi()
            if experiment.state is ExperimentState.APPROVED:
                self._move(pipe, experiment, ExperimentState.RUNNING)
            if run.started_at is None:
                tally.count_wait(pipe, run.priority, now - run.queued_at)
            return self._move(pipe, run, RunState.RUNNING, {"fence": fence}, pid=pid, started_at=now)

        return self._transact(write, record_key(run_id), record_key(experiment_of(run_id)))

    def finish(self, run_id: str, fence: int, result: RunResult) -> Run:
        """The run is finished with its result, which stands before the queue forgets the entry. Raises as start."""
        return self._end(run_id, RunState.FINISHED, fence=fence, result=result)

    def fail(
        self,
        run_id: str,
        fence: int,
        cause: str,
        message: str,
        result: RunResult | None = None,
        advice: str | None = None,
    ) -> Run:
        """The run has failed for good, with its cause. Raises as start."""
        end = {"cause": cause, "message": message, "result": result, "advice": advice}
        return self._end(run_id, RunState.FAILED, fence=fence, **end)

    def cancelled(self, run_id: str, fence: int, message: str, result: RunResult | None = None) -> Run:
        """The attempt has stopped because somebody asked for it. Raises as start."""
        return self._end(run_id, RunState.CANCELLED, fence=fence, message=message, result=result)

    def give_back(
        self,
        run_id: str,
        fence: int,
        message: str,
        *,
        lost: bool = False,
        with_host: bool = False,
        usage: Usage | None = None,
    ) -> Run:
        """The attempt is over without an end of its own; the run is queued for its next one. Raises as start.

        A run that was asked to pause is paused instead.

        Args:
            lost: its worker or host died, which is counted; False when it was stopped in order or never began.
            with_host: with it everything on that host was lost.
            usage: what the attempt used; None where nobody measured it, then its time on its cards counts.
        """

        def write(pipe: Pipeline) -> Run:
            run = self._fenced(pipe, run_id, fence)
            if run.state not in HOLDS_CARD:
                raise MoveRefused(run_id, run.state, RunState.QUEUED)
            around = self._around(pipe, run)
            pipe.multi()
            if run.state is RunState.CANCELLING:
                return self._close(pipe, around, run, RunState.CANCELLED, usage)
            tally.count_attempt(pipe, "lost" if lost else "given_back", "host_or_worker" if lost else None)
            fields = {"message": message} | self._left(pipe, run, usage, lost=lost, with_host=with_host)
            return self._move(pipe, run, next_state(run), {"why": message}, **fields)

        return self._transact(
            write, record_key(run_id), record_key(experiment_of(run_id)), counts_key(experiment_of(run_id))
        )

    def again(
        self,
        run_id: str,
        fence: int,
        cure: str,
        change: str,
        *,
        lost: bool = False,
        usage: Usage | None = None,
        **changed: Any,
    ) -> Run:
        """The attempt failed by a fault that has a cure; changed, it is queued for its next one. Raises as start.

        A run that was asked to pause is paused instead.

        Args:
            cure: name of what is tried, `change` the same for people.
            lost: the fault was the card's or the host's: counted as a loss, not as a retry.
            usage: as in `give_back`.
            changed: overrides, environ, avoid: what the cure adds to those of the run; not_before.
        """

        def write(pipe: Pipeline) -> Run:
            run = self._fenced(pipe, run_id, fence)
            if run.state not in (RunState.DISPATCHED, RunState.RUNNING):
                raise MoveRefused(run_id, run.state, RunState.QUEUED)
            pipe.multi()
            tally.count_attempt(pipe, "lost" if lost else "retried", cure.partition("/")[0])
            return self._move(
                pipe,
                run,
                next_state(run),
                {"why": change, "cure": cure},
                message=change,
                **self._left(pipe, run, usage, lost=lost),
                retries=run.retries + (not lost),
                cures=(*run.cures, cure),
                changes=(*run.changes, change),
                overrides={**run.overrides, **changed.get("overrides", {})},
                environ={**run.environ, **changed.get("environ", {})},
                avoid=tuple(dict.fromkeys((*run.avoid, *changed.get("avoid", ())))),
                not_before=changed.get("not_before", 0.0),
            )

        return self._transact(write, record_key(run_id))

    def _end(self, run_id: str, state: RunState, fence: int, **fields: Any) -> Run:
        def write(pipe: Pipeline) -> Run:
            run = self._fenced(pipe, run_id, fence)
            if run.state in FINAL_RUN or run.state is RunState.QUEUED:
                raise MoveRefused(run_id, run.state, state)
            around = self._around(pipe, run)
            pipe.multi()
            return self._close(pipe, around, run, state, **fields)

        experiment_id = experiment_of(run_id)
        return self._transact(write, record_key(run_id), record_key(experiment_id), counts_key(experiment_id))

    def _around(self, pipe: Pipeline, run: Run) -> tuple[Experiment, dict[str, int]]:
        """The run's experiment and its counts of ended runs, as watched."""
        return self._read(Experiment, run.experiment_id, pipe), self.counts(run.experiment_id, pipe)

    def _left(
        self, pipe: Pipeline, run: Run, usage: Usage | None, *, lost: bool = False, with_host: bool = False
    ) -> dict[str, Any]:
        """Fields of a run whose attempt has left its cards and is not its last; what it used is counted."""
        fields = NOWHERE | self._spent(pipe, run, usage, lost=lost)
        if lost:
            fields |= {"losses": run.losses + 1} | self.losses_after(run, with_host=with_host).fields()
        return fields

    def losses_after(self, run: Run, *, with_host: bool = False) -> Losses:
        """The run's losses without progress, should its attempt be lost now."""
        progress = self.progress([run.id]).get(run.id)
        return Losses.after(run, progress.step if progress else 0, with_host=with_host)

    def _spent(self, pipe: Pipeline, run: Run, usage: Usage | None, *, lost: bool) -> dict[str, Any]:
        used = run.held(time.time()) if usage is None else usage
        tally.count_usage(pipe, used)
        earlier = (run.earlier or Usage()).plus(used)
        return {"earlier": earlier, "lost_gpu_s": round(run.lost_gpu_s + used.gpu_s * lost, 3)}

    def _close(
        self,
        pipe: Pipeline,
        around: tuple[Experiment, dict[str, int]],
        run: Run,
        state: RunState,
        usage: Usage | None = None,
        **fields: Any,
    ) -> Run:
        """The run's final move; the last run of an experiment ends that too, in the same transaction."""
        experiment, counts = around
        now = time.time()
        if fields.get("result") is None and run.state in HOLDS_CARD:
            # An attempt that failed by itself leaves a result of some kind; without one it was lost.
            fields |= self._spent(pipe, run, usage, lost=state is RunState.FAILED)
        closed = self._move(pipe, run, state, {"fence": run.fence}, finished_at=now, **fields)
        reuse.remember(pipe, closed)
        counts = {**counts, state.value: counts.get(state, 0) + 1}
        pipe.hincrby(counts_key(experiment.id), state.value, 1)
        if run.state in HOLDS_CARD:
            tally.count_attempt(pipe, state.value, closed.cause)
        if closed.result is not None:
            tally.count_usage(pipe, closed.result.usage)
        if sum(counts.values()) < experiment.total_runs:
            return closed
        if experiment.state in FINAL_EXPERIMENT:  # its retries have ended: a new revision of the report
            self._put_report(pipe, experiment, 1)
        else:
            end = _ending(counts)
            self._move(pipe, experiment, end, {"counts": counts}, finished_at=now)
            if end is not ExperimentState.CANCELLED:
                self._put_report(pipe, experiment, 1)
        return closed

    def counts(self, experiment_id: str, client: Any = None) -> dict[str, int]:
        """Number of ended runs by final state."""
        found = (client or self.client).hgetall(counts_key(experiment_id))
        return {str(k): int(v) for k, v in found.items()}

    # -- progress ------------------------------------------------------------------------------------------------

    def report_progress(self, run_id: str, fence: int, progress: Progress) -> None:
        """The run's progress is overwritten. Raises FenceError when a newer attempt exists."""
        newest = int(self.client.hget(record_key(run_id), "fence") or 0)
        if newest != fence:
            raise FenceError(run_id, fence, newest)
        self.client.set(f"{PREFIX}progress:{run_id}", progress.model_dump_json(), ex=PROGRESS_S)

    def progress(self, run_ids: Iterable[str]) -> dict[str, Progress]:
        """The last progress of each run that has reported any."""
        ids = list(run_ids)
        values = self.client.mget([f"{PREFIX}progress:{i}" for i in ids]) if ids else []
        return {i: Progress.model_validate_json(v) for i, v in zip(ids, values, strict=True) if v}

    def card_uses(self, holding: Sequence[Run] | None = None) -> dict[str, CardUse]:
        """Card UUID to the run that has it, from dispatch to its end.

        Args:
            holding: the runs that hold cards, for who has read them already.
        """
        runs = self.runs_in(*HOLDS_CARD) if holding is None else holding
        progress = self.progress(run.id for run in runs)
        return {
            card: CardUse(
                run_id=run.id,
                label=run.point.model,
                pid=run.pid,
                eta_s=progress[run.id].eta_s if run.id in progress else None,
                owner=run.owner,
            )
            for run in runs
            for card in run.cards
        }

    # -- what these share ----------------------------------------------------------------------------------------

    def _queue(self, card: str) -> Queue:
        return self._card_queues.setdefault(card, open_queue(self.client, card_queue(card)))

    def _put_report(self, pipe: Pipeline, experiment: Experiment, tries: int) -> None:
        revision = experiment.report_revision + 1
        job_id = f"{experiment.id}-report-{revision}-{tries}"
        pipe.sadd(REPORTS_DUE, experiment.id)
        put(self._agent_queue, WRITE_REPORT, experiment.id, revision, job_id=job_id, pipeline=pipe)

    def _expect(self, pipe: Pipeline, run_id: str, wanted: RunState, *allowed: RunState) -> Run:
        run = self._read(Run, run_id, pipe)
        if run.state not in allowed:
            raise MoveRefused(run_id, run.state, wanted)
        return run

    def _fenced(self, pipe: Pipeline, run_id: str, fence: int) -> Run:
        run = self._read(Run, run_id, pipe)
        if run.fence != fence:
            raise FenceError(run_id, fence, run.fence)
        return run


def next_state(run: Run) -> RunState:
    """Where a run goes whose attempt is over: somebody may have asked for its pause while that ended."""
    return RunState.PAUSED if run.wish == "pause" else RunState.QUEUED


def _ending(counts: dict[str, int]) -> ExperimentState:
    """One run that finished makes the experiment finished; its counts tell the rest."""
    if counts.get(RunState.FINISHED):
        return ExperimentState.FINISHED
    return ExperimentState.FAILED if counts.get(RunState.FAILED) else ExperimentState.CANCELLED


def counts_key(experiment_id: str) -> str:
    """Redis key of an experiment's counts of ended runs."""
    return f"{PREFIX}counts:{experiment_id}"


def report_key(experiment_id: str) -> str:
    """Redis key of an experiment's reports by revision."""
    return f"{PREFIX}report:{experiment_id}"
