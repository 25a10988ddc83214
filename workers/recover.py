"""What was lost is found and put back: requests, reports, entries of queues, and runs whose attempt has died."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Hashable, Iterable

from rq import Queue

from lab import hosts
from lab.cardlock import CardLock
from lab.errors import FenceError, MoveRefused, UnknownRecord
from lab.language import Phrasebook, is_chinese
from lab.leases import Lease, Leases
from lab.ledger import Ledger
from lab.queue import AGENT, KnownJob, card_queue, open_queue
from lab.run import HOLDS_CARD, Answer, Experiment, Request, RequestState, Run, RunState
from lab.runcache import RunCache
from lab.settings import Settings
from lab.store import Client
from workers import disk
from workers.archivist import Archivist

log = logging.getLogger(__name__)

UNCLAIMED_S = 10.0
"""A free card's worker claims its entry within a second; after this the entry or the worker is gone."""
LEASELESS_S = 2.0
"""A run's record and its lease are read one after the other; only what is seen twice counts."""
UNANSWERED_S = 1.5
"""An entry that is in nobody's hands for so long is lost: RQ needs milliseconds from queue to worker. Should a machine
stand still just then, the request is understood twice and answered once."""
DAY_S = 86_400
TRIES = 3
"""A request or report that ended its worker so often is given up."""
LATER = 10
"""Each further try of a report waits so many times longer: a full disk is not cleared within seconds."""

WORDS = Phrasebook(
    {
        "no_answer": (
            "I could not work this out: {id} ended its worker {times} times. Please reword it.",
            "这个我处理不了：{id} 已经 {times} 次让处理它的进程退出。请换个说法。",
        ),
        "no_report": (
            "The report of {id} could not be written in {times} tries; the agent's log tells why. Its runs and their "
            "results: `overnight show {id}`.",
            "{id} 的报告试了 {times} 次都没写成；原因见 agent 的日志。它的 run 和结果：`overnight show {id}`。",
        ),
    }
)


def lose(
    ledger: Ledger,
    run: Run,
    fence: int,
    why: str,
    max_attempts: int,
    cause: str = "preempted",
    *,
    with_host: bool = False,
) -> Run:
    """The lost attempt's run is queued for its next one, or has failed where losses brought it no further too often.

    For whoever knows that nothing of the attempt is left. Raises FenceError, MoveRefused.

    Args:
        with_host: everything on its host was lost with it, so that the run itself is hardly to blame.
    """
    losses = ledger.losses_after(run, with_host=with_host)
    if not losses.too_many(max_attempts) or run.state is RunState.CANCELLING:
        moved = ledger.give_back(run.id, fence, why, lost=True, with_host=with_host)
        log.warning("%s: attempt %d lost, %s; %s", run.id, fence, why, moved.state)
        return moved
    message = f"{losses}, the last time: {why}"
    moved = ledger.fail(run.id, fence, cause, message)
    log.error("%s: failed, %s: %s", run.id, cause, message)
    return moved


def release_card(
    settings: Settings, client: Client, card: str, is_dead: Callable[[str], bool], *, with_host: bool = False
) -> bool:
    """What a dead worker of this host held is free and its run is back in the queue; False to try again.

    The card's lock proves that nothing runs there any more, so the lease need not run out first. A card that another
    one's worker has for a run of several cards stays that run's.

    Args:
        is_dead: whether the worker of this name is known to be dead.
        with_host: all of this host's workers died with it.
    """
    leases = Leases(client, settings.run.lease_s)
    held = leases.held(card)
    if held and not is_dead(str(held["holder"])):
        return True
    lock = CardLock(settings.data_dir, card)
    try:
        if not lock.clear(wait_s=5.0):
            log.error("card %s does not come free: it is held by %s; end that by hand", card, lock.holders())
            return False
        held = leases.held(card)
        if held and is_dead(str(held["holder"])):
            lease = Lease(run_id=held["run_id"], fence=held["fence"], cards=(card,), holder=held["holder"])
            _release(Ledger(client), leases, lease, settings.run.max_attempts, with_host)
    finally:
        lock.close()
    return True


def _release(ledger: Ledger, leases: Leases, lease: Lease, max_attempts: int, with_host: bool) -> None:
    with contextlib.suppress(UnknownRecord, FenceError, MoveRefused):
        run = ledger.run(lease.run_id)
        if run.fence == lease.fence and run.state in HOLDS_CARD:
            lease = lease.model_copy(update={"cards": run.cards})
            why = "all workers of its host died" if with_host else "its worker died"
            lose(ledger, run, lease.fence, why, max_attempts, with_host=with_host)
    leases.release(lease)


class Recovery:
    """The leader's rounds. Each is safe to repeat, and safe beside another leader: every move is compare-and-set."""

    def __init__(self, client: Client, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.client = client
        self.ledger = Ledger(client)
        self._paused = RunCache(client)
        self.leases = Leases(client, settings.run.lease_s)
        self.settings = settings
        self.max_attempts = settings.run.max_attempts
        self._full: frozenset[str] = frozenset()
        self._agent_queue = open_queue(client, AGENT)
        self._clock = clock
        self._since: dict[Hashable, float] = {}
        """When something suspicious was first seen; what is no longer seen is forgotten."""
        self._report_tries: dict[str, int] = {}
        self._earlier_looked_for = False
        self._archivist = Archivist(self.ledger, settings, clock)

    def step(self) -> None:
        """One round over everything that may have lost its next step."""
        seen: set[Hashable] = set()
        for run in self.ledger.runs_in(RunState.DISPATCHED, RunState.RUNNING, RunState.CANCELLING):
            if not self._is_held(run):
                seen.add(self._suspect_run(run))
        waiting, due = self.ledger.requests(RequestState.RECEIVED), self._reports_due()
        entries = _in_hand(self._agent_queue) if waiting or due else set()
        seen |= {self._suspect_request(r) for r in waiting if not _has_entry(entries, f"{r.id}-")}
        seen |= {self._suspect_report(e) for e in due if not _has_entry(entries, f"{e.id}-report-")}
        self._resume_where_there_is_room()
        self._expire_plans()
        self._archivist.step(time.time())
        self._since = {key: at for key, at in self._since.items() if key in seen}

    def _expire_plans(self) -> None:
        """What nobody approved in time cannot be started any more: it was made for the lab of that day."""
        days = self.settings.limits.plan_days
        for experiment_id in self.ledger.proposed_before(time.time() - days * DAY_S):
            with contextlib.suppress(MoveRefused, UnknownRecord):
                self.ledger.expire(experiment_id)
                log.info("%s: expired, nobody approved it within %g days", experiment_id, days)

    def _resume_where_there_is_room(self) -> None:
        """Runs that a full disk paused go on; one whose host is gone may find its checkpoint from elsewhere."""
        up = hosts.hosts(self.client)
        waiting = [run for run in self._paused.runs_in(RunState.PAUSED) if run.message == disk.message(run.host)]
        full = disk.full_hosts(up, self.settings, self._full | {run.host for run in waiting if run.host})
        for host in full - self._full:
            log.warning("%s: its disk is full (run.disk_low_gb), nothing is started there", host)
        self._full = full
        for run in waiting:
            if run.host not in full:
                with contextlib.suppress(MoveRefused):
                    self.ledger.resume(run.id, "overnight")
                    log.info("%s: goes on, there is room on the disk of %s again", run.id, run.host)

    def _suspect_run(self, run: Run) -> Hashable:
        key = (run.id, run.state, run.dispatches, run.fence)
        limit = UNCLAIMED_S if run.state is RunState.DISPATCHED else LEASELESS_S
        if self._seen_for(key) >= limit:
            try:
                self._give_back(run)
            except (FenceError, MoveRefused) as refusal:
                log.debug("%s", refusal)
        return key

    def _give_back(self, run: Run) -> None:
        if run.state is RunState.RUNNING:
            up = any(host.host == run.host for host in hosts.hosts(self.client))
            why = "its worker stopped renewing the lease" if up else f"its host {run.host} is gone"
            cause = "preempted" if up else "hardware"
            lose(self.ledger, run, run.fence, why, self.max_attempts, cause, with_host=not up)
            return
        moved = self.ledger.give_back(run.id, run.fence, "no worker took it")
        log.warning("%s: dispatch %d to card %s was not claimed; %s", run.id, run.dispatches, run.card, moved.state)
        if run.card:
            _forget(open_queue(self.client, card_queue(run.card)), f"{run.id.replace('/', '-')}-d{run.dispatches}")

    def _is_held(self, run: Run) -> bool:
        lease = self.leases.held(run.card) if run.card else None
        return lease is not None and lease["run_id"] == run.id and lease["fence"] == run.fence

    def _suspect_request(self, request: Request) -> Hashable:
        key = (request.id, request.tries)
        if self._seen_for(key) >= UNANSWERED_S:
            if request.tries >= TRIES:
                text = WORDS.say("no_answer", is_chinese(request.text), id=request.id, times=TRIES + 1)
                self.ledger.answer(request.id, Answer(kind="error", text=text))
                log.error("%s: given up after %d tries", request.id, TRIES + 1)
            else:
                self.ledger.requeue_request(request.id)
                log.warning("%s: had no answer and no queue entry; queued again", request.id)
        return key

    def _reports_due(self) -> list[Experiment]:
        if not self._earlier_looked_for:
            self.ledger.owe_reports()
            self._earlier_looked_for = True
        return self.ledger.reports_due()

    def _suspect_report(self, experiment: Experiment) -> Hashable:
        tries = self._report_tries.get(experiment.id, 0)
        key = (experiment.id, tries)
        if self._seen_for(key) >= UNANSWERED_S * LATER**tries:
            self._report_again(experiment)
        return key

    def _report_again(self, experiment: Experiment) -> None:
        tries = self._report_tries[experiment.id] = self._report_tries.get(experiment.id, 0) + 1
        if tries <= TRIES:
            self.ledger.requeue_report(experiment, int(time.time()))
            log.warning("%s: ended and had no report; queued again", experiment.id)
        elif tries == TRIES + 1:
            chinese = is_chinese(experiment.plan.request_text)
            text = WORDS.say("no_report", chinese, id=experiment.id, times=TRIES + 1)
            self.ledger.notice(experiment.id, f"report:{experiment.report_revision + 1}", text)
            log.error("%s: its report is given up after %d tries", experiment.id, TRIES + 1)

    def _seen_for(self, key: Hashable) -> float:
        now = self._clock()
        return now - self._since.setdefault(key, now)


def _has_entry(entries: Iterable[str], prefix: str) -> bool:
    return any(entry.startswith(prefix) for entry in entries)


def _in_hand(queue: Queue) -> set[str]:
    """Ids of the entries that wait in the queue, or run under a live worker's heartbeat.

    Not of those being popped: that takes milliseconds, or the worker died of it and left them there for good.
    """
    with queue.connection.pipeline(transaction=False) as pipe:
        pipe.lrange(queue.key, 0, -1)
        pipe.zrangebyscore(queue.started_job_registry.key, time.time(), "+inf")
        waiting, started = pipe.execute()
    return {_text(entry).split(":")[0] for entry in (*waiting, *started)}


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _forget(queue: Queue, job_id: str) -> None:
    """An entry that nobody took is out of its queue; its claim would be refused anyway."""
    with queue.connection.pipeline() as pipe:
        pipe.lrem(queue.key, 0, job_id)
        pipe.lrem(queue.intermediate_queue_key, 0, job_id)
        pipe.delete(KnownJob.key_for(job_id))
        pipe.execute()
