"""The ledger: requests, experiments and runs in Redis, moved by compare-and-set together with their events.

Finished states never change, and repeating a call is harmless. How a record is kept and moved stands in lab/records,
how runs move in lab/runs, lab/wishes and lab/draws, what becomes of a plan that waits in lab/proposals.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any

from redis.client import Pipeline

from lab import habits, hosts, reuse
from lab.archive import Archives, archived_report, archived_runs
from lab.card import HostCards
from lab.draws import Draws
from lab.errors import MoveRefused, UnknownRecord
from lab.plan import Plan
from lab.proposals import Proposals
from lab.quarantine import Quarantine, shown
from lab.queue import ANSWER, put
from lab.records import record_key
from lab.reuse import Reuse
from lab.run import (
    EXPERIMENT_ID,
    FINAL_EXPERIMENT,
    Answer,
    Edit,
    Estimate,
    Experiment,
    ExperimentState,
    Request,
    RequestState,
    Run,
    RunState,
    experiment_of,
)
from lab.runs import REPORTS_DUE, counts_key, report_key
from lab.store import PREFIX, Client

CLAIM_S = 90_000
"""An event id is remembered so long (25 h): longer than any redelivery by a chat service."""

FIGURE_S = 30 * 86_400


class Ledger(Archives, Proposals, Draws, Reuse):
    """The one writer of requests, experiments, runs, progress and reports; any process may hold one."""

    # -- requests ------------------------------------------------------------------------------------------------

    def submit(
        self, text: str, user: str, conversation: str, claims: Iterable[str] = (), edit: Edit | None = None
    ) -> Request | None:
        """The request is written and queued for the agent in one transaction; safe to acknowledge after this.

        Args:
            claims: names under which the same message may arrive again; None is returned if one of them is taken.
            edit: the corrected plan of a click; `text` says the same for people.
        """
        keys = [f"{PREFIX}claim:{name}" for name in claims]
        text = text.encode("utf-8", "replace").decode()  # half a surrogate pair can be typed, but not be kept
        request = Request(
            id=self._next("req"), text=text, user=user, conversation=conversation, created_at=time.time(), edit=edit
        )

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

    def requests(self, *states: RequestState) -> list[Request]:
        """Every request in one of the states, oldest first."""
        return self._all(Request, states)

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

    def propose(
        self, request_id: str, plan: Plan, estimate: Estimate | None, answer: Answer, reused: Sequence[str] = ()
    ) -> Experiment | None:
        """The request is answered by a proposed experiment; None if it had its answer already.

        Args:
            reused: the finished runs whose results will stand for runs of the plan, as far as can be told now.
        """
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
                reused=tuple(reused),
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

    def runs(self, experiment_id: str) -> list[Run]:
        """The runs of an experiment by number, of an old one from its file; empty before it is approved.

        Raises:
            UnknownRecord: there is no such experiment.
            NotHereError: it is archived on another machine.
        """
        experiment = self.experiment(experiment_id)
        first = experiment.archive.n_runs + 1 if experiment.archive else 1
        ids = [f"{experiment_id}/{n}" for n in range(first, experiment.total_runs + 1)]
        return [*archived_runs(experiment), *self._read_many(Run, ids)]

    def approve(self, experiment_id: str, by: str) -> Experiment:
        """The experiment is approved and its runs are queued, once; those that are there already are finished with it.

        What is there is looked up anew: code and data may be others than when it was proposed.

        Raises:
            MoveRefused: it was not merely proposed (approved before, cancelled, ...).
        """

        def write(pipe: Pipeline) -> Experiment:
            experiment = self._read(Experiment, experiment_id, pipe)
            if experiment.state is not ExperimentState.PROPOSED:
                raise MoveRefused(experiment_id, experiment.state, ExperimentState.APPROVED)
            now = time.time()
            same = self.same(experiment.plan, hosts.hosts(self.client), hosts.cards(self.client))
            fields = {"approved_by": by, "approved_at": now, "reused": reuse.sources(same)}
            pipe.multi()
            approved = self._move(pipe, experiment, ExperimentState.APPROVED, {"by": by}, **fields)
            runs = [_run(approved, number, point, now) for number, point in enumerate(experiment.plan.points(), 1)]
            for run in runs:
                found = same.get(run.number)
                self._create(pipe, reuse.copied(run, found, now) if found else run, now)
            habits.remember(pipe, approved.owner, approved.plan)
            return self._finished_at_once(pipe, approved, len(same), now)

        return self._transact(write, record_key(experiment_id))

    def _finished_at_once(self, pipe: Pipeline, experiment: Experiment, n_reused: int, now: float) -> Experiment:
        """The reused runs are counted; where all are, the experiment is finished and its report is due."""
        counts = {RunState.FINISHED.value: n_reused}
        if n_reused:
            pipe.hset(counts_key(experiment.id), mapping=counts)
        if not n_reused or n_reused < experiment.total_runs:
            return experiment
        self._put_report(pipe, experiment, 1)
        return self._move(pipe, experiment, ExperimentState.FINISHED, {"counts": counts}, finished_at=now)

    def cancel(self, experiment_id: str, by: str) -> Experiment:
        """The experiment ends: at once when nothing of it runs, else when its running attempts have stopped.

        One that has ended stays what it is, and its retries end.

        Raises:
            MoveRefused: it has ended already, and so have its retries.
        """

        def write(pipe: Pipeline) -> bool:
            experiment = self._read(Experiment, experiment_id, pipe)
            ended = sum(self.counts(experiment_id, pipe).values())
            retried = experiment.n_retried > 0 and ended < experiment.total_runs
            if experiment.state in FINAL_EXPERIMENT and not retried:
                raise MoveRefused(experiment_id, experiment.state, ExperimentState.CANCELLED)
            if experiment.state is not ExperimentState.PROPOSED:
                return True
            pipe.multi()
            self._move(pipe, experiment, ExperimentState.CANCELLED, {"by": by}, finished_at=time.time())
            return False

        has_runs = self._transact(write, record_key(experiment_id), counts_key(experiment_id))
        if has_runs:
            self.cancel_runs(self.runs(experiment_id), by)
        return self.experiment(experiment_id)

    def retry(self, subject: str, by: str) -> list[Run]:
        """New runs do once more what failed: the run, or every failed run of the experiment, each once.

        The old ones stay as they are; the new ones carry `retry_of`, and a new revision of the report follows them.

        Raises:
            MoveRefused: the run has not failed or been cancelled, or was retried already; nothing failed.
        """
        experiment_id = experiment_of(subject)
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

        return self._transact(write, record_key(experiment_id), counts_key(experiment_id))

    # -- what is remembered --------------------------------------------------------------------------------------

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

    def quarantines(self, cards: Iterable[str]) -> dict[str, Quarantine]:
        """The same with the time that is left."""
        found = self.quarantined(cards)
        with self.client.pipeline(transaction=False) as pipe:
            for card in found:
                pipe.pttl(f"{PREFIX}quarantine:{card}")
            left_ms = pipe.execute()
        return {
            card: Quarantine(why, left / 1000)
            for (card, why), left in zip(found.items(), left_ms, strict=True)
            if left > 0
        }

    def lift_quarantine(self, card: str) -> bool:
        """Dispatch may use the card again; False when it was in no quarantine."""
        return bool(self.client.delete(f"{PREFIX}quarantine:{card}"))

    def shown_cards(self) -> list[HostCards]:
        """The last readings of every host for people: cards in quarantine say so."""
        read = hosts.cards(self.client)
        return shown(read, self.quarantines(card.uuid for host in read for card in host.cards))

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
            pipe.hset(report_key(experiment_id), str(revision), report)
            pipe.srem(REPORTS_DUE, experiment_id)
            self._event(pipe, "report.ready", experiment, {"revision": revision, "figures": sorted(figures)})
            return True

        return self._transact(write, record_key(experiment_id))

    def report(self, experiment_id: str, revision: int) -> str | None:
        """The report's JSON, of an old experiment from its file; None when there is none. Raises NotHereError."""
        found: str | None = self.client.hget(report_key(experiment_id), str(revision))
        return found or archived_report(self.experiment(experiment_id), revision)

    def figure(self, raw: Client, experiment_id: str, revision: int, name: str) -> bytes | None:
        """A figure's bytes, read with a client that does not decode; None when it is gone (kept 30 days)."""
        found: bytes | None = raw.get(_figure(experiment_id, revision, name))
        return found

    def reports_due(self) -> list[Experiment]:
        """Experiments whose report, or its newest revision, is still to be written."""
        return self._read_many(Experiment, sorted(self.client.smembers(REPORTS_DUE)))

    def owe_reports(self) -> None:
        """Ended experiments without any report are among those due: versions before 0.2 kept no such set."""
        ended = self.experiments(ExperimentState.FINISHED, ExperimentState.FAILED)
        owed = [experiment.id for experiment in ended if experiment.report_revision == 0]
        if owed:
            self.client.sadd(REPORTS_DUE, *owed)

    def requeue_report(self, experiment: Experiment, tries: int) -> None:
        """An ended experiment without its report is in the agent's queue again."""
        with self.client.pipeline() as pipe:
            pipe.multi()  # else RQ would, and finds commands before it
            self._put_report(pipe, experiment, tries)
            pipe.execute()


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
        trial=plan.trial_of(number),
        to_draw=bool(plan.drawn),
    )


def _retry(experiment: Experiment, number: int, run: Run, now: float) -> Run:
    """The run once more: same point, same length, nothing of its past but where it comes from."""
    fresh = _run(experiment, number, run.point, now)
    same = {"priority": run.priority, "trial": run.trial, "to_draw": run.to_draw}
    return fresh.model_copy(update={"retry_of": run.id, **same})


def _conversation(conversation: str) -> str:
    return f"{PREFIX}conversation:{conversation}"


def _figure(experiment_id: str, revision: int, name: str) -> str:
    return f"{PREFIX}figure:{experiment_id}:{revision}:{name}"
