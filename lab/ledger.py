"""The ledger: requests, experiments and runs in Redis, moved by compare-and-set together with their events.

Finished states never change, and repeating a call is harmless. How a record is kept and moved stands in lab/records.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from typing import Any, Literal

from redis.client import Pipeline
from rq import Queue

from lab import tally
from lab.cardtable import CardUse
from lab.errors import FenceError, MoveRefused, UnknownRecord
from lab.plan import Plan, Priority
from lab.queue import AGENT, ANSWER, RUN_ATTEMPT, WRITE_REPORT, card_queue, open_queue, put
from lab.records import Records, record_key
from lab.run import (
    FINAL_EXPERIMENT,
    FINAL_RUN,
    Answer,
    Estimate,
    Experiment,
    ExperimentState,
    Progress,
    Request,
    RequestState,
    Run,
    RunResult,
    RunState,
)
from lab.store import PREFIX, Client

CLAIM_S = 90_000
"""An event id is remembered so long (25 h): longer than any redelivery by a chat service."""

PROGRESS_S = 7 * 86_400
FIGURE_S = 30 * 86_400
HISTORY_LENGTH = 20

EXPERIMENT_ID = re.compile(r"^exp-\d+$")
RUN_ID = re.compile(r"^exp-\d+/\d+$")

NOWHERE: dict[str, Any] = {"card": None, "cards": (), "pid": None}
"""Fields of a run that holds no card."""
HOLDS_CARD = (RunState.DISPATCHED, RunState.RUNNING, RunState.CANCELLING)


class Ledger(Records):
    """The one writer of requests, experiments, runs, progress and reports; any process may hold one."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._agent_queue = open_queue(client, AGENT)
        self._card_queues: dict[str, Queue] = {}

    # -- requests ------------------------------------------------------------------------------------------------

    def submit(self, text: str, user: str, conversation: str, claims: Iterable[str] = ()) -> Request | None:
        """The request is written and queued for the agent in one transaction; safe to acknowledge after this.

        Args:
            claims: names under which the same message may arrive again; None is returned if one of them is taken.
        """
        keys = [f"{PREFIX}claim:{name}" for name in claims]
        text = text.encode("utf-8", "replace").decode()  # half a surrogate pair can be typed, but not be kept
        request = Request(id=self._next("req"), text=text, user=user, conversation=conversation, created_at=time.time())

        def write(pipe: Pipeline) -> Request | None:
            if any(pipe.exists(key) for key in keys):
                return None
            pipe.multi()
            for key in keys:
                pipe.set(key, request.id, ex=CLAIM_S)
            self._create(pipe, request, request.created_at)
            put(self._agent_queue, ANSWER, request.id, job_id=f"{request.id}-1", pipeline=pipe)
            return request

        return self._transact(write, *keys)

    def request(self, request_id: str) -> Request:
        """The request. Raises UnknownRecord."""
        return self._read(Request, request_id)

    def requests(self, *states: RequestState) -> list[Request]:
        """Every request in one of the states, oldest first."""
        return self._all(Request, states)

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

    def requeue_request(self, request_id: str) -> None:
        """A request whose queue entry was lost is in the agent's queue again."""
        request = self.request(request_id)
        if request.state is RequestState.RECEIVED:
            tries = request.tries + 1
            with self.client.pipeline() as pipe:
                pipe.multi()  # else RQ would, and finds commands before it
                pipe.hset(record_key(request_id), "tries", str(tries))
                put(self._agent_queue, ANSWER, request_id, job_id=f"{request_id}-{tries + 1}", pipeline=pipe)
                pipe.execute()

    # -- experiments ---------------------------------------------------------------------------------------------

    def propose(self, request_id: str, plan: Plan, estimate: Estimate | None, answer: Answer) -> Experiment | None:
        """The request is answered by a proposed experiment; None if it had its answer already."""
        experiment_id = self._next("exp")

        def write(pipe: Pipeline) -> Experiment | None:
            request = self._read(Request, request_id, pipe)
            if request.state is RequestState.ANSWERED:
                return None
            experiment = Experiment(
                id=experiment_id,
                plan=plan,
                owner=request.user,
                conversation=request.conversation,
                request_id=request_id,
                estimate=estimate,
                n_runs=plan.n_runs,
                created_at=time.time(),
            )
            pipe.multi()
            self._create(pipe, experiment, experiment.created_at)
            pipe.zadd(_conversation(request.conversation), {experiment_id: experiment.created_at})
            self._answer(pipe, request, answer.model_copy(update={"experiment_id": experiment_id}))
            return experiment

        return self._transact(write, record_key(request_id))

    def experiment(self, experiment_id: str) -> Experiment:
        """The experiment. Raises UnknownRecord."""
        if not EXPERIMENT_ID.match(experiment_id):
            raise UnknownRecord(experiment_id)
        return self._read(Experiment, experiment_id)

    def experiments(self, *states: ExperimentState) -> list[Experiment]:
        """Every experiment in one of the states (in any, when none is given), oldest first."""
        return self._all(Experiment, states or tuple(ExperimentState))

    def experiments_in(self, conversation: str) -> list[Experiment]:
        """The experiments that were proposed in a conversation, oldest first."""
        return self._read_many(Experiment, self.client.zrange(_conversation(conversation), 0, -1))

    def approve(self, experiment_id: str, by: str) -> Experiment:
        """The experiment is approved and its runs are queued, once.

        Raises:
            MoveRefused: it was not merely proposed (approved before, cancelled, ...).
        """

        def write(pipe: Pipeline) -> Experiment:
            experiment = self._read(Experiment, experiment_id, pipe)
            if experiment.state is not ExperimentState.PROPOSED:
                raise MoveRefused(experiment_id, experiment.state, ExperimentState.APPROVED)
            now = time.time()
            pipe.multi()
            approved = self._move(
                pipe, experiment, ExperimentState.APPROVED, {"by": by}, approved_by=by, approved_at=now
            )
            for number, point in enumerate(experiment.plan.points(), start=1):
                self._create(pipe, _run(approved, number, point, now), now)
            return approved

        return self._transact(write, record_key(experiment_id))

    def cancel(self, experiment_id: str, by: str) -> Experiment:
        """The experiment ends: at once when nothing of it runs, else when its running attempts have stopped.

        Raises:
            MoveRefused: it has ended already.
        """

        def write(pipe: Pipeline) -> bool:
            experiment = self._read(Experiment, experiment_id, pipe)
            if experiment.state in FINAL_EXPERIMENT:
                raise MoveRefused(experiment_id, experiment.state, ExperimentState.CANCELLED)
            if experiment.state is not ExperimentState.PROPOSED:
                return True
            pipe.multi()
            self._move(pipe, experiment, ExperimentState.CANCELLED, {"by": by}, finished_at=time.time())
            return False

        has_runs = self._transact(write, record_key(experiment_id))
        for run in self.runs(experiment_id) if has_runs else []:
            if run.state not in FINAL_RUN:
                self.cancel_run(run.id, by)
        return self.experiment(experiment_id)

    # -- runs ----------------------------------------------------------------------------------------------------

    def run(self, run_id: str) -> Run:
        """The run. Raises UnknownRecord."""
        if not RUN_ID.match(run_id):
            raise UnknownRecord(run_id)
        return self._read(Run, run_id)

    def runs(self, experiment_id: str) -> list[Run]:
        """The runs of an experiment by number; empty before it is approved."""
        experiment = self.experiment(experiment_id)
        return self._read_many(Run, [f"{experiment_id}/{n}" for n in range(1, experiment.total_runs + 1)])

    def runs_in(self, *states: RunState) -> list[Run]:
        """Every run in one of the states, oldest first."""
        return self._all(Run, states)

    def waiting(self) -> dict[str, float]:
        """Every queued run's id to the time when it was first queued, oldest first; reads no records."""
        return dict(self.client.zrange(f"{PREFIX}index:run:{RunState.QUEUED}", 0, -1, withscores=True))

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

        return self._transact(write, record_key(run_id), record_key(_experiment_of(run_id)))

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

    def give_back(self, run_id: str, fence: int, message: str, *, lost: bool = False) -> Run:
        """The attempt is over without an end of its own; the run is queued for its next one. Raises as start.

        A run that was asked to pause is paused instead.

        Args:
            lost: its worker or host died, which is counted; False when it was stopped in order or never began.
        """

        def write(pipe: Pipeline) -> Run:
            run = self._fenced(pipe, run_id, fence)
            if run.state not in HOLDS_CARD:
                raise MoveRefused(run_id, run.state, RunState.QUEUED)
            around = self._around(pipe, run)
            pipe.multi()
            if run.state is RunState.CANCELLING:
                return self._close(pipe, around, run, RunState.CANCELLED)
            tally.count_attempt(pipe, "lost" if lost else "given_back", "host_or_worker" if lost else None)
            losses = run.losses + lost
            fields = {"message": message, "losses": losses, "wish": None, **NOWHERE}
            return self._move(pipe, run, _next_state(run), {"why": message}, **fields)

        return self._transact(
            write, record_key(run_id), record_key(_experiment_of(run_id)), _counts(_experiment_of(run_id))
        )

    def again(self, run_id: str, fence: int, cure: str, change: str, *, lost: bool = False, **changed: Any) -> Run:
        """The attempt failed by a fault that has a cure; changed, it is queued for its next one. Raises as start.

        A run that was asked to pause is paused instead.

        Args:
            cure: name of what is tried, `change` the same for people.
            lost: the fault was the card's or the host's: counted as a loss, not as a retry.
            changed: overrides, environ, avoid: what the cure adds to those of the run.
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
                _next_state(run),
                {"why": change, "cure": cure},
                message=change,
                wish=None,
                **NOWHERE,
                retries=run.retries + (not lost),
                losses=run.losses + lost,
                cures=(*run.cures, cure),
                changes=(*run.changes, change),
                overrides={**run.overrides, **changed.get("overrides", {})},
                environ={**run.environ, **changed.get("environ", {})},
                avoid=tuple(dict.fromkeys((*run.avoid, *changed.get("avoid", ())))),
            )

        return self._transact(write, record_key(run_id))

    def wish(self, run_id: str, wish: Literal["pause", "checkpoint"], by: str) -> Run:
        """The run is paused at once when it waits; a running attempt is asked, and its answer is its next state.

        Raises:
            MoveRefused: it has ended, is ending, or (for a checkpoint) does not run.
        """

        def write(pipe: Pipeline) -> Run:
            run = self._read(Run, run_id, pipe)
            running = run.state in (RunState.DISPATCHED, RunState.RUNNING)
            if not running and not (wish == "pause" and run.state is RunState.QUEUED):
                raise MoveRefused(run_id, run.state, RunState.PAUSED if wish == "pause" else RunState.RUNNING)
            pipe.multi()
            if not running:
                return self._move(pipe, run, RunState.PAUSED, {"by": by}, message=f"paused by {by}")
            fields = {"wish": wish} | ({"message": f"paused by {by}"} if wish == "pause" else {})
            pipe.hset(record_key(run_id), mapping={name: json.dumps(value) for name, value in fields.items()})
            return run.model_copy(update=fields)

        return self._transact(write, record_key(run_id))

    def wish_done(self, run_id: str, fence: int, progress: str) -> None:
        """The attempt wrote the checkpoint that it was asked for; `progress` says how far it is. Raises as start."""

        def write(pipe: Pipeline) -> None:
            run = self._fenced(pipe, run_id, fence)
            pipe.multi()
            pipe.hset(record_key(run_id), "wish", json.dumps(None))
            self._event(pipe, "run.checkpointed", run, {"progress": progress})

        self._transact(write, record_key(run_id))

    def paused(self, run_id: str, fence: int, message: str) -> Run:
        """The attempt has written its checkpoint and stopped; the run waits until it is resumed. Raises as start."""

        def write(pipe: Pipeline) -> Run:
            run = self._fenced(pipe, run_id, fence)
            if run.state not in (RunState.DISPATCHED, RunState.RUNNING):
                raise MoveRefused(run_id, run.state, RunState.PAUSED)
            pipe.multi()
            tally.count_attempt(pipe, "paused")
            return self._move(pipe, run, RunState.PAUSED, {"why": message}, message=message, wish=None, **NOWHERE)

        return self._transact(write, record_key(run_id))

    def resume(self, run_id: str, by: str) -> Run:
        """The paused run is queued again and goes on from its checkpoint. Raises MoveRefused when it is not paused."""

        def write(pipe: Pipeline) -> Run:
            run = self._expect(pipe, run_id, RunState.QUEUED, RunState.PAUSED)
            pipe.multi()
            return self._move(pipe, run, RunState.QUEUED, {"by": by}, message=None, wish=None)

        return self._transact(write, record_key(run_id))

    def set_priority(self, run_id: str, priority: Priority, by: str) -> Run:
        """The run has this priority from now on. Raises MoveRefused when it has ended."""

        def write(pipe: Pipeline) -> Run:
            run = self._read(Run, run_id, pipe)
            if run.state in FINAL_RUN:
                raise MoveRefused(run_id, run.state, f"a run of {priority} priority")
            pipe.multi()
            pipe.hset(record_key(run_id), "priority", json.dumps(priority))
            self._event(pipe, "run.priority", run, {"by": by, "priority": priority})
            return run.model_copy(update={"priority": priority})

        return self._transact(write, record_key(run_id))

    def retry(self, subject: str, by: str) -> list[Run]:
        """New runs do once more what failed: the run, or every failed run of the experiment, each once.

        The old ones stay as they are; the new ones carry `retry_of`, and a new revision of the report follows them.

        Raises:
            MoveRefused: the run has not failed or been cancelled, or was retried already; nothing failed.
        """
        experiment_id = _experiment_of(subject)
        asked = self.run(subject) if "/" in subject else None

        def write(pipe: Pipeline) -> list[Run]:
            experiment = self._read(Experiment, experiment_id, pipe)
            runs = self.runs(experiment_id)
            done = {run.retry_of: run.id for run in runs}
            states = (RunState.FAILED, RunState.CANCELLED) if asked else (RunState.FAILED,)
            chosen = [
                run for run in runs if run.state in states and run.id not in done and (not asked or run.id == asked.id)
            ]
            if not chosen:
                state = asked.state.value if asked else "without failures"
                if asked and asked.id in done:
                    state = f"retried as {done[asked.id]}"
                raise MoveRefused(subject, state, "retried")
            now, first = time.time(), experiment.total_runs + 1
            new = [_retry(experiment, number, run, now) for number, run in enumerate(chosen, start=first)]
            pipe.multi()
            pipe.hset(record_key(experiment_id), "n_retried", str(experiment.n_retried + len(new)))
            for run in new:
                self._create(pipe, run, now)
            self._event(pipe, "experiment.retried", experiment, {"by": by, "runs": [run.id for run in new]})
            return new

        return self._transact(write, record_key(experiment_id), _counts(experiment_id))

    def notice(self, experiment_id: str, key: str, text: str) -> bool:
        """People are told the sentence in the experiment's thread, once for each `key`; False if they were already."""
        experiment = self.experiment(experiment_id)
        key = re.sub(r"\s+", "_", key)
        if not self.client.set(f"{PREFIX}notice:{experiment_id}:{key}", text, nx=True, ex=FIGURE_S):
            return False
        with self.client.pipeline() as pipe:
            self._event(pipe, "experiment.notice", experiment, {"key": key})
            pipe.execute()
        return True

    def notice_text(self, experiment_id: str, key: str) -> str | None:
        """What people are told by a notice; None when it is too old."""
        text: str | None = self.client.get(f"{PREFIX}notice:{experiment_id}:{key}")
        return text

    def quarantine(self, card: str, why: str, seconds: float) -> None:
        """Dispatch leaves the card alone for so long."""
        self.client.set(f"{PREFIX}quarantine:{card}", why, px=round(seconds * 1000))

    def quarantined(self, cards: Iterable[str]) -> dict[str, str]:
        """Of these cards, the ones in quarantine, with the reason."""
        names = list(cards)
        values = self.client.mget([f"{PREFIX}quarantine:{card}" for card in names]) if names else []
        return {card: why for card, why in zip(names, values, strict=True) if why}

    def remember_cure(self, fingerprint: str, cure: str, run_id: str) -> None:
        """A run with this fault finished after this cure; the next one with the same fault tries it first."""
        self.client.hset(f"{PREFIX}cures", fingerprint, json.dumps({"cure": cure, "run_id": run_id}))

    def known_cure(self, fingerprint: str) -> tuple[str, str] | None:
        """The cure that helped against this fault, and the run it helped; None when none has yet."""
        found = self.client.hget(f"{PREFIX}cures", fingerprint)
        if not found:
            return None
        known = json.loads(found)
        return known["cure"], known["run_id"]

    def cancel_run(self, run_id: str, by: str, why: str | None = None) -> Run:
        """The run is cancelled, or its attempt is told to stop and it is cancelling until that has.

        Args:
            why: said in place of who did it.

        Raises:
            MoveRefused: it has ended already.
        """

        def write(pipe: Pipeline) -> Run:
            run = self._read(Run, run_id, pipe)
            if run.state in FINAL_RUN:
                raise MoveRefused(run_id, run.state, RunState.CANCELLED)
            around, message = self._around(pipe, run), why or f"cancelled by {by}"
            pipe.multi()
            if run.state in (RunState.QUEUED, RunState.PAUSED):
                return self._close(pipe, around, run, RunState.CANCELLED, message=message)
            if run.state is RunState.CANCELLING:
                return run
            return self._move(pipe, run, RunState.CANCELLING, {"by": by}, message=message)

        return self._transact(
            write, record_key(run_id), record_key(_experiment_of(run_id)), _counts(_experiment_of(run_id))
        )

    def _end(self, run_id: str, state: RunState, fence: int, **fields: Any) -> Run:
        def write(pipe: Pipeline) -> Run:
            run = self._fenced(pipe, run_id, fence)
            if run.state in FINAL_RUN or run.state is RunState.QUEUED:
                raise MoveRefused(run_id, run.state, state)
            around = self._around(pipe, run)
            pipe.multi()
            return self._close(pipe, around, run, state, **fields)

        experiment_id = _experiment_of(run_id)
        return self._transact(write, record_key(run_id), record_key(experiment_id), _counts(experiment_id))

    def _around(self, pipe: Pipeline, run: Run) -> tuple[Experiment, dict[str, int]]:
        """The run's experiment and its counts of ended runs, as watched."""
        return self._read(Experiment, run.experiment_id, pipe), self.counts(run.experiment_id, pipe)

    def _close(
        self, pipe: Pipeline, around: tuple[Experiment, dict[str, int]], run: Run, state: RunState, **fields: Any
    ) -> Run:
        """The run's final move; the last run of an experiment ends that too, in the same transaction."""
        experiment, counts = around
        now = time.time()
        closed = self._move(pipe, run, state, {"fence": run.fence}, finished_at=now, **fields)
        counts = {**counts, state.value: counts.get(state, 0) + 1}
        pipe.hincrby(_counts(experiment.id), state.value, 1)
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
        found = (client or self.client).hgetall(_counts(experiment_id))
        return {str(k): int(v) for k, v in found.items()}

    # -- progress, history ---------------------------------------------------------------------------------------

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

    def card_uses(self) -> dict[str, CardUse]:
        """Card UUID to the run that has it, from dispatch to its end."""
        runs = self.runs_in(*HOLDS_CARD)
        progress = self.progress(run.id for run in runs)
        return {
            card: CardUse(
                run_id=run.id,
                label=run.point.model,
                pid=run.pid,
                eta_s=progress[run.id].eta_s if run.id in progress else None,
            )
            for run in runs
            for card in run.cards
        }

    def remember_duration(self, kind: str, seconds: float) -> None:
        """A finished run of this kind took so long; the newest 20 are kept for estimates."""
        with self.client.pipeline() as pipe:
            pipe.lpush(f"{PREFIX}history:{kind}", f"{seconds:.3f}")
            pipe.ltrim(f"{PREFIX}history:{kind}", 0, HISTORY_LENGTH - 1)
            pipe.execute()

    def durations(self, kind: str) -> list[float]:
        """Seconds that the newest runs of this kind took."""
        return [float(v) for v in self.client.lrange(f"{PREFIX}history:{kind}", 0, -1)]

    # -- reports -------------------------------------------------------------------------------------------------

    def save_report(self, experiment_id: str, revision: int, report: str, figures: dict[str, bytes]) -> bool:
        """Report (JSON) and figures stand in Redis, the event is out; False if this revision was there already."""
        for name, data in figures.items():
            self.client.set(_figure(experiment_id, revision, name), data, ex=FIGURE_S)

        def write(pipe: Pipeline) -> bool:
            experiment = self._read(Experiment, experiment_id, pipe)
            if experiment.report_revision >= revision:
                return False
            pipe.multi()
            pipe.hset(record_key(experiment_id), "report_revision", str(revision))
            pipe.hset(f"{PREFIX}report:{experiment_id}", str(revision), report)
            self._event(pipe, "report.ready", experiment, {"revision": revision, "figures": sorted(figures)})
            return True

        return self._transact(write, record_key(experiment_id))

    def report(self, experiment_id: str, revision: int) -> str | None:
        """The report's JSON; None when there is none."""
        found: str | None = self.client.hget(f"{PREFIX}report:{experiment_id}", str(revision))
        return found

    def figure(self, raw: Client, experiment_id: str, revision: int, name: str) -> bytes | None:
        """A figure's bytes, read with a client that does not decode; None when it is gone (kept 30 days)."""
        found: bytes | None = raw.get(_figure(experiment_id, revision, name))
        return found

    def requeue_report(self, experiment: Experiment, tries: int) -> None:
        """An ended experiment without its report is in the agent's queue again."""
        with self.client.pipeline() as pipe:
            self._put_report(pipe, experiment, tries)
            pipe.execute()

    def _put_report(self, pipe: Pipeline, experiment: Experiment, tries: int) -> None:
        revision = experiment.report_revision + 1
        job_id = f"{experiment.id}-report-{revision}-{tries}"
        put(self._agent_queue, WRITE_REPORT, experiment.id, revision, job_id=job_id, pipeline=pipe)

    # -- what these share ----------------------------------------------------------------------------------------

    def _queue(self, card: str) -> Queue:
        return self._card_queues.setdefault(card, open_queue(self.client, card_queue(card)))

    def _answer(self, pipe: Pipeline, request: Request, answer: Answer) -> None:
        self._move(pipe, request, RequestState.ANSWERED, answer.model_dump(mode="json"), answer=answer)
        tally.count_answer(pipe, answer.kind)

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


def _run(experiment: Experiment, number: int, point: Any, now: float) -> Run:
    plan = experiment.plan
    return Run(
        id=f"{experiment.id}/{number}",
        experiment_id=experiment.id,
        number=number,
        point=point,
        template=plan.template,
        epochs=plan.epochs,
        max_steps=plan.max_steps,
        gpus=plan.gpus_per_run,
        priority=plan.priority,
        owner=experiment.owner,
        conversation=experiment.conversation,
        queued_at=now,
    )


def _retry(experiment: Experiment, number: int, run: Run, now: float) -> Run:
    """The run once more: same point, same length, nothing of its past but where it comes from."""
    fresh = _run(experiment, number, run.point, now)
    return fresh.model_copy(update={"retry_of": run.id, "priority": run.priority})


def _next_state(run: Run) -> RunState:
    """Where a run goes whose attempt is over: somebody may have asked for its pause while that ended."""
    return RunState.PAUSED if run.wish == "pause" else RunState.QUEUED


def _ending(counts: dict[str, int]) -> ExperimentState:
    """One run that finished makes the experiment finished; its counts tell the rest."""
    if counts.get(RunState.FINISHED):
        return ExperimentState.FINISHED
    return ExperimentState.FAILED if counts.get(RunState.FAILED) else ExperimentState.CANCELLED


def _conversation(conversation: str) -> str:
    return f"{PREFIX}conversation:{conversation}"


def _counts(experiment_id: str) -> str:
    return f"{PREFIX}counts:{experiment_id}"


def _figure(experiment_id: str, revision: int, name: str) -> str:
    return f"{PREFIX}figure:{experiment_id}:{revision}:{name}"


def _experiment_of(run_id: str) -> str:
    return run_id.split("/")[0]
