"""What people and the leader ask of a run, and how its attempt answers: pause, checkpoint, resume, cancel, priority."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from typing import Literal

from redis.client import Pipeline

from lab import tally
from lab.errors import MoveRefused
from lab.plan import Priority
from lab.records import record_key
from lab.run import FINAL_RUN, HOLDS_CARD, Room, Run, RunState, Usage, experiment_of
from lab.runs import Runs, counts_key, next_state

WAITS = (RunState.QUEUED, RunState.PAUSED)
CHUNK = 200
"""Runs that are cancelled in one transaction: another writer of one of them makes it start over, which must be rare."""


class Wishes(Runs):
    """The part of the ledger that takes wishes: a waiting run moves at once, a running attempt is asked."""

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

    def hold(self, run_id: str, why: str) -> Run:
        """The waiting run is paused until somebody resumes or cancels it. Raises MoveRefused when it does not wait."""

        def write(pipe: Pipeline) -> Run:
            run = self._expect(pipe, run_id, RunState.PAUSED, RunState.QUEUED)
            pipe.multi()
            return self._move(pipe, run, RunState.PAUSED, {"why": why}, message=why)

        return self._transact(write, record_key(run_id))

    def wish_done(self, run_id: str, fence: int, progress: str) -> None:
        """The attempt wrote the checkpoint that it was asked for; `progress` says how far it is. Raises as start."""

        def write(pipe: Pipeline) -> None:
            run = self._fenced(pipe, run_id, fence)
            pipe.multi()
            pipe.hset(record_key(run_id), "wish", json.dumps(None))
            self._event(pipe, "run.checkpointed", run, {"progress": progress})

        self._transact(write, record_key(run_id))

    def paused(self, run_id: str, fence: int, message: str, usage: Usage | None = None, *, wished: bool = False) -> Run:
        """The attempt has written its checkpoint and stopped; the run waits until it is resumed. Raises as start.

        Args:
            message: why; somebody's own wish for a pause stands over any other reason.
            usage: as in `give_back`.
            wished: it stopped because somebody wished so; who resumed the run meanwhile has it queued again.
        """

        def write(pipe: Pipeline) -> Run:
            run = self._fenced(pipe, run_id, fence)
            if run.state not in (RunState.DISPATCHED, RunState.RUNNING):
                raise MoveRefused(run_id, run.state, RunState.PAUSED)
            resumed = wished and run.wish != "pause"
            pipe.multi()
            tally.count_attempt(pipe, "paused")
            left = self._left(pipe, run, usage)
            if resumed:
                return self._move(pipe, run, RunState.QUEUED, {"why": "resumed"}, message=None, **left)
            why = run.message if run.wish == "pause" and run.message else message
            return self._move(pipe, run, RunState.PAUSED, {"why": why}, message=why, **left)

        return self._transact(write, record_key(run_id))

    def make_room(self, run_id: str, fence: int, room: Room) -> Run:
        """The running attempt is told to make room; its answer is `made_room`. Raises as start.

        Refused also when it is to stop anyway: it was told before, or is to pause.
        """

        def write(pipe: Pipeline) -> Run:
            run = self._fenced(pipe, run_id, fence)
            if run.state is not RunState.RUNNING or run.room or run.wish == "pause":
                state = run.state if run.state is not RunState.RUNNING else "stopping already"
                raise MoveRefused(run_id, state, f"making room for {room.for_run}")
            pipe.multi()
            told = self._set(pipe, run, room=room)
            self._event(pipe, "run.making_room", run, {"for": room.for_run, "why": room.reason})
            return told

        return self._transact(write, record_key(run_id))

    def made_room(self, run_id: str, fence: int, usage: Usage | None = None) -> Run:
        """The attempt has written its checkpoint and stopped for another run; queued again. Raises as start.

        It counts neither as a loss nor as a retry. A run that was asked to pause meanwhile is paused instead.

        Args:
            usage: as in `give_back`.
        """

        def write(pipe: Pipeline) -> Run:
            run = self._fenced(pipe, run_id, fence)
            if run.state is not RunState.RUNNING or run.room is None:
                raise MoveRefused(run_id, run.state, "a run that makes room")
            room, state = run.room, next_state(run)
            pipe.multi()
            tally.count_attempt(pipe, "preempted")
            told = {"made_room_for": (*run.made_room_for, room.for_run), "room": room}
            fields = self._left(pipe, run, usage) | told
            if not room.ends_look:
                fields["preempted_at"] = time.time()
            if state is RunState.QUEUED:
                fields["message"] = f"made room for {room.for_run} ({room.reason}), goes on later"
            return self._move(pipe, run, state, {"for": room.for_run, "why": room.reason}, **fields)

        return self._transact(write, record_key(run_id))

    def resume(self, run_id: str, by: str) -> Run:
        """The paused run is queued again and goes on from its checkpoint; a pause that was only asked for is withdrawn.

        Raises:
            MoveRefused: it is neither paused nor about to.
        """

        def write(pipe: Pipeline) -> Run:
            run = self._read(Run, run_id, pipe)
            pausing = run.wish == "pause" and run.state in (RunState.DISPATCHED, RunState.RUNNING)
            if run.state is not RunState.PAUSED and not pausing:
                raise MoveRefused(run_id, run.state, RunState.QUEUED)
            pipe.multi()
            if pausing:
                return self._set(pipe, run, wish=None, message=None)
            return self._move(
                pipe, run, RunState.QUEUED, {"by": by}, message=None, wish=None, room=None, not_before=0.0
            )

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
            if run.state in WAITS:
                return self._close(pipe, around, run, RunState.CANCELLED, message=message)
            if run.state is RunState.CANCELLING:
                return run
            return self._move(pipe, run, RunState.CANCELLING, {"by": by}, message=message)

        return self._transact(
            write, record_key(run_id), record_key(experiment_of(run_id)), counts_key(experiment_of(run_id))
        )

    def cancel_runs(self, runs: Sequence[Run], by: str) -> None:
        """Of these runs of one experiment those that wait are cancelled, attempts are told to stop, ended ones stay.

        What waits goes many at a time: one by one, 10,000 runs took two minutes.
        """
        waiting = [run.id for run in runs if run.state in WAITS]
        rest = [run.id for run in runs if run.state in HOLDS_CARD]
        for start in range(0, len(waiting), CHUNK):
            rest += self._cancel_waiting(waiting[start : start + CHUNK], by)
        for run_id in rest:
            with contextlib.suppress(MoveRefused):  # it has ended just now
                self.cancel_run(run_id, by)

    def _cancel_waiting(self, run_ids: list[str], by: str) -> list[str]:
        """Those of the runs that wait are cancelled in one transaction; the others are returned."""

        def write(pipe: Pipeline) -> list[str]:
            runs = self._read_many(Run, run_ids)
            experiment, counts = self._around(pipe, runs[0])
            pipe.multi()
            for run in runs:
                if run.state in WAITS:
                    self._close(pipe, (experiment, counts), run, RunState.CANCELLED, message=f"cancelled by {by}")
                    counts = {**counts, RunState.CANCELLED.value: counts.get(RunState.CANCELLED, 0) + 1}
            return [run.id for run in runs if run.state not in WAITS]

        experiment_id = experiment_of(run_ids[0])
        watched = (record_key(experiment_id), counts_key(experiment_id), *map(record_key, run_ids))
        return self._transact(write, *watched)
