"""One attempt of a run, in RQ's child process: claim, start the trainer, watch it, write its end into the ledger."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lab import store
from lab.card import Card
from lab.cardlock import CardLock
from lab.diagnose import Cause, Diagnosis, diagnose
from lab.errors import CardError, FenceError, LeaseRefused, MoveRefused, OperatorError, UnknownRecord
from lab.language import is_chinese
from lab.leases import Lease, Leases
from lab.ledger import Ledger
from lab.run import Run, RunResult, RunSpec, RunState, Usage
from lab.settings import Settings
from workers import copies, cures, datasets, disk, heal, launch, oomkills, provenance
from workers.recover import lose, release_card
from workers.rundir import RunDir, read_log, read_result
from workers.templates import TEMPLATES
from workers.watch import Ending, Watch

log = logging.getLogger(__name__)

T = TypeVar("T")

HELD_WAIT_S = 5.0
"""A card's last attempt ends its lease and its lock some milliseconds after its run has ended in the ledger."""
HELD_AGAIN_S = 30.0
"""A card that somebody else's process still holds after that is left alone for so long; other cards take its runs."""
COMMIT_S = 900.0
"""An end is offered to Redis for so long; a result also stays on disk, where the next attempt finds it."""


HANG_ADVICE = "Its log holds the stacks of all threads: look where it waits; a stuck file system or a lock is usual."
DELETED_ADVICE = "Leave the folders of running runs alone; retry it, it begins anew."
SILENT_ADVICE = "The training code ended without writing a result; look at its log."


@dataclass(frozen=True)
class Post:
    """What a worker was set up with: its settings, name and card."""

    settings: Settings
    worker: str
    card: Card
    threads: int | None = None
    """Threads of a trainer on a simulated card; None on a real one."""


stop_asked = threading.Event()
"""Set by SIGTERM to this process: the attempt ends in order and the run goes back to the queue."""

_post: Post | None = None


def take_post(post: Post) -> None:
    """Attempts of this process and its forks run with this; called once, before the worker listens."""
    global _post
    _post = post


def run_attempt(run_id: str, dispatch: int, cards: Sequence[str]) -> None:
    """The run's attempt is over and its end stands in the ledger; nothing at all when the claim was refused.

    The function that card queues name. A repeated entry, or one whose run moved on, does nothing.
    """
    if _post is None:
        raise OperatorError("run_attempt is for a worker that has a post")
    client = store.connect(_post.settings, patient=False)
    ledger, leases = Ledger(client), Leases(client, _post.settings.run.lease_s)
    try:
        wanted = Lease(run_id=run_id, fence=0, cards=tuple(cards), holder=_post.worker)
        lease, since = _claim(leases, wanted, dispatch)
        run = ledger.run(run_id)
    except (LeaseRefused, UnknownRecord) as refusal:
        log.info("%s", refusal)
        _cancel_unclaimed(ledger, leases, run_id, dispatch)
        return
    log.info("%s: claimed card %s, attempt %d", run_id, run.card_index, lease.fence)
    Attempt(_post, ledger, leases, lease, run, since).carry_out()


def release_after_child() -> None:
    """What this worker's own child held when it was killed is free; left to the lease's end if that cannot be done."""
    if _post is None:
        return
    client, worker = store.connect(_post.settings), _post.worker
    try:
        if not release_card(_post.settings, client, _post.card.uuid, lambda holder: holder == worker):
            log.warning("card %s: what its child held is left to expire", _post.card.uuid)
    except store.AWAY as error:
        log.warning("card %s: what its child held is left to expire: %s", _post.card.uuid, error)


class Attempt:
    """One try of a run that this process has claimed.

    Args:
        since: monotonic seconds just before the claim: the lease cannot end before this and its length.
    """

    def __init__(self, post: Post, ledger: Ledger, leases: Leases, lease: Lease, run: Run, since: float) -> None:
        self.post = post
        self.ledger = ledger
        self.leases = leases
        self.lease = lease
        self.run = run
        self.since = since
        self.cards_gone = True
        """False while a process that would not die may still be on the cards: then their leases are left to expire."""
        self.oom_kills = oomkills.count()
        """The kernel's count before the trainer began."""

    def carry_out(self) -> None:
        """The attempt's end is in the ledger, then its cards are free."""
        try:
            with self._cards_locked() as locks:
                self._run(locks)
        except CardError as error:
            log.warning("%s: %s", self.run.id, error)
            self._leave_alone(str(error))
            self._give_back(str(error))
        except OSError as error:
            self._fail(_diagnosed(error))
        except Exception as error:  # edge of the process: no run may be stuck with a fault of ours
            log.exception("%s: attempt %d broke down", self.run.id, self.lease.fence)
            why = f"the worker broke down: {type(error).__name__}: {error}"
            limit = self.post.settings.run.max_attempts
            self._write(lambda: lose(self.ledger, self.run, self.lease.fence, why, limit))
        if self.cards_gone:
            self._write(lambda: self.leases.release(self.lease))

    def _run(self, locks: list[CardLock]) -> None:
        directory = RunDir(self.post.settings.runs_dir, self.run)
        found = directory.result()
        if found:
            log.info("%s: an earlier attempt had finished", self.run.id)
            self._finish(found)
            return
        earlier = directory.checkpoints()
        spec = self._spec(earlier)
        before = directory.spec() if earlier else None
        directory.write_spec(provenance.stated(spec, before, self.post.settings))
        folder = directory.begin(self.lease.fence)
        ending, gone = self._train(folder, locks)
        self.cards_gone = gone
        self._settle(ending, folder)

    def _train(self, folder: Path, locks: list[CardLock]) -> tuple[Ending, bool]:
        """The trainer has run and ended; whether nothing of it is left."""
        simulated = self.post.card.simulated
        env = launch.environment(() if simulated else self.lease.cards, self.post.threads) | self.run.environ
        trainer = launch.start(TEMPLATES[self.run.template].module, folder, env, [lock.file for lock in locks])
        gone = False
        try:
            for lock in locks:
                lock.name_group(trainer.pid, trainer.mark)
            post = self.post
            searched = self.run.trial is not None
            watch = Watch(
                self.ledger,
                self.leases,
                self.lease,
                self.since,
                trainer,
                folder,
                post.settings,
                stop_asked,
                curves=searched,
            )
            ending = watch.follow(self._started(trainer.pid))
        finally:
            gone = trainer.gone()
        if not gone:
            log.error("%s: processes of group %d are still there after SIGKILL", self.run.id, trainer.pid)
        return ending, gone

    def _started(self, pid: int) -> bool:
        """The run is running; False when it was cancelled or bound anew in the meantime."""
        try:
            self._insist(lambda: self.ledger.start(self.run.id, self.lease.fence, pid))
        except (FenceError, MoveRefused) as refusal:
            log.info("%s", refusal)
            return False
        log.info("%s: runs as process %d", self.run.id, pid)
        return True

    def _settle(self, ending: Ending, folder: Path) -> None:
        used = Usage(gpu_s=round(ending.seconds * len(self.lease.cards), 3), energy_j=ending.energy_j)
        result = RunResult(metrics=ending.progress.metrics, curves=ending.progress.curves, usage=used)
        match ending.how:
            case "cancelled":
                self._cancelled(result)
            case "paused":
                self._pause(self._said() or "paused", result, wished=True)
            case "disk_full":
                self._pause_while_full(result)
            case "preempted":
                self._make_room(result)
            case "hung":
                self._heal(Diagnosis("hang", ending.why, HANG_ADVICE, True), ending, folder, result)
            case "deleted":
                self._fail(
                    Diagnosis("data_missing", f"{folder} was deleted while it ran", DELETED_ADVICE, False), result
                )
            case "shutdown":
                self._give_back("its worker was told to stop", used)
            case "lease_lost":
                self._give_back("Redis was away until the lease ran out", used)
            case "exited":
                self._ended_by_itself(ending, folder, result)

    def _said(self) -> str | None:
        """The run's message: who wants what of it."""
        return self._write(lambda: self.ledger.run(self.run.id).message)

    def _cancelled(self, result: RunResult) -> None:
        by = self._said() or "cancelled"
        self._write(lambda: self.ledger.cancelled(self.run.id, self.lease.fence, by, result))

    def _pause(self, why: str, result: RunResult, *, wished: bool = False) -> None:
        fence, used = self.lease.fence, result.usage
        moved = self._write(lambda: self.ledger.paused(self.run.id, fence, why, used, wished=wished))
        if moved:
            log.info("%s: %s, %s", self.run.id, moved.state, moved.message or "resumed meanwhile")
        else:
            self._close_cancelling(result)

    def _make_room(self, result: RunResult) -> None:
        moved = self._write(lambda: self.ledger.made_room(self.run.id, self.lease.fence, result.usage))
        if moved:
            log.info("%s: %s, made room for %s", self.run.id, moved.state, moved.made_room_for[-1])
        else:
            self._close_cancelling(result)

    def _pause_while_full(self, result: RunResult) -> None:
        settings = self.post.settings
        self._pause(disk.message(settings.host), result)
        self._write(self._tell_that_it_is_full)

    def _tell_that_it_is_full(self) -> None:
        experiment, host = self.ledger.experiment(self.run.experiment_id), self.post.settings.host
        text = disk.notice(host, self.post.settings, is_chinese(experiment.plan.request_text))
        self.ledger.notice(experiment.id, f"disk:{host}", text)

    def _close_cancelling(self, result: RunResult) -> None:
        """A run that somebody cancelled while its attempt was about to pause or to be tried again is cancelled."""
        if self._write(lambda: self.ledger.run(self.run.id).state) is RunState.CANCELLING:
            self._cancelled(result)

    def _ended_by_itself(self, ending: Ending, folder: Path, left: RunResult) -> None:
        result = read_result(folder) if ending.code == 0 else None
        if result:
            measured = {"gpu_s": left.usage.gpu_s, "energy_j": left.usage.energy_j}
            usage = result.usage.model_copy(update=measured)
            self._finish(result.model_copy(update={"usage": usage}))
            return
        found = diagnose(read_log(folder), ending.code, oom_kills=oomkills.since(self.oom_kills))
        if ending.code == 0:
            found = Diagnosis("user_code", "exited with status 0 and without a result", SILENT_ADVICE, False)
        if ending.code is not None and ending.code < 0:
            how = f"killed by {signal.Signals(-ending.code).name}"
            found = dataclasses.replace(found, evidence=f"{found.evidence} ({how})" if found.evidence else how)
        self._heal(found, ending, folder, left)

    def _finish(self, result: RunResult) -> bool:
        done = self._write(lambda: self.ledger.finish(self.run.id, self.lease.fence, result))
        if done:
            log.info("%s: finished", self.run.id)
            self._write(lambda: heal.remember(self.ledger, self.run, self.post.card))
        return done is not None

    def _heal(self, found: Diagnosis, ending: Ending, folder: Path, result: RunResult) -> None:
        """The run is tried again with whatever may help, or has failed for good."""
        settings, steps = self.post.settings, ending.progress.steps_total
        tried = self._write(lambda: heal.examine(self.ledger, settings, self.run, found, self.post.card, steps))
        if tried is None or tried.step is None:
            message = cures.last_word(tried.case) if tried else found.evidence
            self._fail(dataclasses.replace(found, evidence=message), result)
            return
        cards, text = self.lease.cards, read_log(folder)
        fence, used = self.lease.fence, result.usage
        moved = self._write(lambda: heal.try_again(self.ledger, settings, tried, cards, fence, text, used))
        if moved:
            log.warning("%s: %s: %s; %s, %s", self.run.id, found.cause, found.evidence, moved.message, moved.state)
        else:
            self._close_cancelling(result)

    def _fail(self, found: Diagnosis, result: RunResult | None = None) -> None:
        cause, message, advice = found.cause, found.evidence, found.advice
        if cause == "disk_full" and disk.is_full(self.post.settings):
            self._pause_while_full(result or RunResult())
            return
        fence = self.lease.fence
        failed = self._write(lambda: self.ledger.fail(self.run.id, fence, cause, message, result, advice))
        if failed:
            log.warning("%s: failed, %s: %s", self.run.id, cause, message)
            self._write(lambda: copies.spare(self.ledger, self.post.settings, failed))

    def _leave_alone(self, why: str) -> None:
        """The cards that `why` names get no run for a while: else this one comes straight back, for ever."""

        def write() -> None:
            for card in self.lease.cards:
                if card in why:
                    self.ledger.quarantine(card, why, HELD_AGAIN_S)

        self._write(write)

    def _give_back(self, why: str, used: Usage | None = None) -> None:
        if self._write(lambda: self.ledger.give_back(self.run.id, self.lease.fence, why, usage=used)):
            log.info("%s: back in the queue, %s", self.run.id, why)

    def _write(self, write: Callable[[], T]) -> T | None:
        """The ledger has it; None when a newer attempt or a final state stood against it, or Redis stayed away."""
        try:
            return self._insist(write)
        except (FenceError, MoveRefused) as refusal:
            log.info("%s", refusal)
        except store.AWAY as error:
            log.error("%s: Redis did not come back within %.0f s: %s", self.run.id, COMMIT_S, error)
        return None

    def _insist(self, write: Callable[[], T]) -> T:
        deadline = time.monotonic() + COMMIT_S
        while True:
            try:
                return write()
            except store.AWAY:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def _spec(self, earlier: Path | None) -> RunSpec:
        run, settings = self.run, self.post.settings
        named = run.point.dataset
        folder = datasets.folder_of(named, settings.datasets, settings.datasets_root) if named else None
        return RunSpec(
            run_id=run.id,
            queued_at=run.queued_at,
            template=run.template,
            model=run.point.model,
            dataset=named,
            params={**run.point.params, **run.overrides},
            epochs=run.epochs,
            max_steps=run.max_steps,
            data_dirs={named: str(folder)} if named and folder else {},
            device="cpu" if self.post.card.simulated else "cuda",
            threads=self.post.threads,
            checkpoint_dir=str(earlier) if earlier else None,
        )

    @contextlib.contextmanager
    def _cards_locked(self) -> Iterator[list[CardLock]]:
        with contextlib.ExitStack() as stack:
            locks = []
            for card in self.lease.cards:
                lock = CardLock(self.post.settings.data_dir, card)
                lock.take(HELD_WAIT_S)
                stack.callback(lock.close)
                locks.append(lock)
            yield locks


def _diagnosed(error: OSError) -> Diagnosis:
    """Why the run's directory could not be used."""
    cause: Cause = "permission"
    advice = "Let the user who runs `overnight work` write there, and retry."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        cause, advice = "disk_full", "Make room in the data folder, and retry."
    elif isinstance(error, FileNotFoundError):
        cause, advice = "data_missing", DELETED_ADVICE
    return Diagnosis(cause, f"the run's directory cannot be used: {error}", advice, False)


def _claim(leases: Leases, wanted: Lease, dispatch: int) -> tuple[Lease, float]:
    """The lease, and the monotonic second before it began. Raises LeaseRefused.

    Waits a little for a card that another attempt is just leaving, or for Redis.
    """
    deadline = time.monotonic() + HELD_WAIT_S
    while True:
        since = time.monotonic()
        try:
            return leases.claim(wanted.run_id, dispatch, wanted.cards, wanted.holder), since
        except LeaseRefused:
            if time.monotonic() > deadline or not any(map(leases.held, wanted.cards)):
                raise
        except store.AWAY:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _cancel_unclaimed(ledger: Ledger, leases: Leases, run_id: str, dispatch: int) -> None:
    """A run that was told to stop before anybody claimed it is cancelled now."""
    with contextlib.suppress(UnknownRecord, FenceError, MoveRefused):
        run = ledger.run(run_id)
        held = [lease for card in run.cards if (lease := leases.held(card)) and lease["run_id"] == run_id]
        if run.state is RunState.CANCELLING and run.dispatches == dispatch and not held:
            ledger.cancelled(run_id, run.fence, run.message or "cancelled")
