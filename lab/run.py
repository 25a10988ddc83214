"""Experiments, runs and attempts: what is being done, and the states they move through."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lab.plan import Plan, Point, Priority, Scalar
from lab.provenance import Provenance


class RunState(StrEnum):
    """States of a run; the last three are final and never change."""

    QUEUED = "queued"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ExperimentState(StrEnum):
    """States of an experiment; finished, failed, cancelled and expired are final."""

    PROPOSED = "proposed"
    AWAITING_SECOND_APPROVAL = "awaiting_second_approval"
    APPROVED = "approved"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


EXPERIMENT_ID = re.compile(r"^exp-\d+$")
RUN_ID = re.compile(r"^exp-\d+/\d+$")


def experiment_of(run_id: str) -> str:
    """Id of the experiment that a run belongs to; an experiment's own stays as it is."""
    return run_id.partition("/")[0]


HOLDS_CARD = (RunState.DISPATCHED, RunState.RUNNING, RunState.CANCELLING)
FINAL_RUN = frozenset({RunState.FINISHED, RunState.FAILED, RunState.CANCELLED})
FINAL_EXPERIMENT = frozenset(
    {ExperimentState.FINISHED, ExperimentState.FAILED, ExperimentState.CANCELLED, ExperimentState.EXPIRED}
)


class Record(BaseModel):
    """What the ledger keeps: immutable here, unknown keys of other versions are left alone in Redis."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: int = 1


class RequestState(StrEnum):
    """States of a request: it waits for its answer, or has one."""

    RECEIVED = "received"
    ANSWERED = "answered"


class Request(Record):
    """What somebody asked, before anybody understood it."""

    id: str
    """`req-7`"""
    state: RequestState = RequestState.RECEIVED
    text: str
    user: str
    answer: Answer | None = None
    edit: Edit | None = None
    """The corrected plan, where the request is a click and no sentence."""
    tries: int = 0
    """How often it was put into the agent's queue again because no answer had come."""
    conversation: str
    """Opaque: the face that took the request (`slack:...`, `terminal:...`) knows what it means."""
    created_at: float
    """Seconds since the epoch."""


class Edit(Record):
    """A plan as a person corrected it by click, field by field."""

    experiment_id: str
    revision: int
    """Of the plan that was corrected; a later one makes the edit stale."""
    plan: Plan


class Spent(Record):
    """What language model calls took."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    estimated: int = 0
    """Tokens among those that were estimated from the text, because the endpoint told none."""
    money: float | None = None
    """By the prices of that day's settings; None where there are none."""

    @property
    def tokens(self) -> int:
        """Both ways."""
        return self.tokens_in + self.tokens_out

    def __add__(self, other: Spent) -> Spent:
        """Both together; the money is known as far as it is known of either."""
        known = [money for money in (self.money, other.money) if money is not None]
        return Spent(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
            estimated=self.estimated + other.estimated,
            money=sum(known) if known else None,
        )


class Answer(Record):
    """What a request came to; the text is what the person reads."""

    kind: Literal["plan", "designs", "question", "refusal", "reply", "cards", "error", "revised", "withdrawn"]
    """`revised`: the plan's card says it; `withdrawn`: its message was changed or deleted, so nothing is said."""
    text: str = ""
    experiment_id: str | None = None
    note: str | None = None
    """Said beside the answer: that the language model did not answer and this is the reader's plan."""
    designs: tuple[Design, ...] = ()
    """Plans to choose among, the best first; each was checked, and a pick starts it."""
    spent: Spent | None = None
    """What the language model took for it; None where it was not asked."""


class Design(Record):
    """One way to find a best value within a budget."""

    name: str
    """`Bayesian search`, in the asker's language."""
    plan: Plan
    estimate: Estimate
    reason: str
    """What speaks for it, and against."""


class Estimate(Record):
    """How long a plan takes and what it costs in GPU time."""

    wall_s: float
    gpu_hours: float
    cards: int
    """Usable cards the estimate counted on."""
    rough: bool = True
    """True when no run of this kind has been measured yet."""
    basis: str = ""
    """Where the figure comes from, for the plan card: `rough: no history yet`, `from 12 earlier runs`."""
    wall_p90_s: float | None = None
    """Nine in ten such plans take at most so long; None in estimates of earlier versions."""
    n_known: int = 0
    """Runs of the plan of whose kind earlier ones are known, at least `earlier` of them each."""
    earlier: int = 0
    wait_s: float | None = None
    """How long a run of it would have waited for a card when it was proposed; None when it need not wait."""
    before: int = 0
    """Waiting runs that would have gone first."""
    remarks: tuple[str, ...] = ()
    """What has to be said of it: that it takes more than a day, or longer than the person has."""


class Archive(Record):
    """Where the runs and reports of an old experiment are, since they are no longer in Redis."""

    host: str
    file: str
    n_runs: int
    """Runs 1 to this one are in the file; later ones, of a retry, in Redis."""


class Experiment(Record):
    """A plan with an owner and a conversation."""

    id: str
    """`exp-12`"""
    state: ExperimentState = ExperimentState.PROPOSED
    plan: Plan
    owner: str
    conversation: str
    request_id: str
    estimate: Estimate | None = None
    n_runs: int
    """Runs of the plan, numbered from 1."""
    n_retried: int = 0
    """Runs added by retries, numbered after those."""
    created_at: float
    plan_revision: int = 0
    """How often the plan was corrected by click."""
    edited_by: str | None = None
    """Who did so last."""
    approved_by: str | None = None
    approved_at: float | None = None
    finished_at: float | None = None
    report_revision: int = 0
    """Revision of the last report that was written; 0 means none yet."""
    archive: Archive | None = None
    """None while its runs are in Redis."""
    reused: tuple[str, ...] = ()
    """Finished runs of other experiments whose results stand for runs of the plan: those that were there when it was
    proposed, then those that were when it was approved."""

    @property
    def total_runs(self) -> int:
        """Runs of the plan and of its retries."""
        return self.n_runs + self.n_retried


class Usage(Record):
    """What an attempt used."""

    gpu_s: float = 0.0
    """Seconds a card was held, times the number of cards."""
    peak_memory_bytes: int | None = None
    memory_kind: str = "gpu"
    """`gpu`, or `host` where a simulated card trained on the CPU."""
    samples_per_s: float | None = None
    """Training samples a second over the whole run, evaluation left out; None when it was not measured."""
    energy_j: float | None = None
    """Joules that its cards drew, by the power that their host published; None where that is not known."""

    def plus(self, other: Usage) -> Usage:
        """Both together in GPU-time and energy, the latter of whichever it is known; all else as here."""
        known = [joules for joules in (self.energy_j, other.energy_j) if joules is not None]
        energy_j = round(sum(known), 1) if known else None
        return self.model_copy(update={"gpu_s": round(self.gpu_s + other.gpu_s, 3), "energy_j": energy_j})


class Room(Record):
    """What a running attempt is told that is to make room."""

    for_run: str
    """The run that is to have its cards."""
    reason: str
    """Why that one goes first, for people: `higher priority`."""
    ends_look: bool
    """Its first look is over, which is no preemption."""
    asked_at: float


class RunResult(Record):
    """What a finished attempt left: its last metrics and its curves."""

    metrics: dict[str, float | None] = {}
    """Last value of every metric, `val_acc`, `val_loss`, `train_loss`; None where it was NaN or infinite."""
    curves: dict[str, list[tuple[float, float | None]]] = {}
    """For each metric its (epoch or step, value) pairs, at most 500; None where the value was not finite."""
    curve_unit: str = "epoch"
    usage: Usage = Usage()
    environment: dict[str, str] = {}
    """torch, timm, python, card, source revision."""
    provenance: Provenance | None = None
    """None where its attempts differed in it, and in results of earlier versions."""
    warnings: tuple[str, ...] = ()


class Run(Record):
    """One point of an experiment."""

    id: str
    """`exp-12/3`, numbered from 1."""
    experiment_id: str
    number: int
    state: RunState = RunState.QUEUED
    point: Point
    template: str
    epochs: int | None = None
    max_steps: int | None = None
    gpus: int = 1
    priority: Priority = "normal"
    owner: str = ""
    conversation: str = ""
    queued_at: float
    dispatches: int = 0
    """How often it was bound to a card; names the queue entry, so that an old entry claims nothing."""
    fence: int = 0
    """Number of the newest attempt, raised by each claim; writes with a lower one are refused."""
    losses: int = 0
    """Attempts that were lost with their worker or host, which is no fault of the run's own."""
    lost_with_worker: int = 0
    """Of them, those in a row with its own worker that brought it no further; lab/losses says when it ends by them."""
    lost_with_host: int = 0
    """The same with its whole host."""
    lost_at_step: int = 0
    """The furthest step that an attempt had told of when it was lost."""
    host: str | None = None
    card: str | None = None
    """UUID of the card it is bound to or ran on, the first one where it has several."""
    cards: tuple[str, ...] = ()
    """UUIDs of all cards that it holds now or held last."""
    card_index: int | None = None
    pid: int | None = None
    started_at: float | None = None
    finished_at: float | None = None
    cause: str | None = None
    """Why it failed, one of the causes of lab/diagnose; None unless failed."""
    message: str | None = None
    """One sentence about the end for people: the failure's evidence line, who cancelled."""
    advice: str | None = None
    """What the person can do about the failure; None unless failed."""
    result: RunResult | None = None
    retry_of: str | None = None
    """The failed or cancelled run that this one does once more."""
    reused_from: str | None = None
    """The finished run of another experiment whose result this one has; it never had a card itself."""
    retries: int = 0
    """Attempts that ended by a fault of the run's own and were cured; lost ones are not counted here."""
    cures: tuple[str, ...] = ()
    """Names of the cures applied so far, in order."""
    overrides: dict[str, Scalar] = {}
    """Parameters that cures changed; they stand over the point's."""
    environ: dict[str, str] = {}
    """Environment variables that cures set for the trainer."""
    changes: tuple[str, ...] = ()
    """What cures changed and why, for people: the report repeats it."""
    avoid: tuple[str, ...] = ()
    """Cards on which it failed in a way that another card may not."""
    wish: Literal["pause", "checkpoint"] | None = None
    """What the running attempt is asked to do; None once it has."""
    room: Room | None = None
    """What the running attempt is told to make room for; once it has, for what until the run has a card again."""
    made_room_for: tuple[str, ...] = ()
    """The runs for which its attempts stopped, in order."""
    preempted_at: float | None = None
    """When it last made room, ends of a first look left out."""
    earlier: Usage | None = None
    """What those attempts used that left no result: cured, lost, paused, preempted, given back; None without any."""
    lost_gpu_s: float = 0.0
    """The part of that which went to attempts lost with their card, worker or host."""
    not_before: float = 0.0
    """Seconds since the epoch before which it gets no card: what it failed of (a network) needs time to come back."""
    trial: int | None = None
    """Trial of a search that the run belongs to, counted from 1; None in a grid."""
    to_draw: bool = False
    """True while its point lacks the values that the search draws when a card is free for it."""
    pruned_at: int | None = None
    """Epoch at which the search found it hopeless and had it stopped: it is cancelled then, its message tells why."""

    @property
    def served_s(self) -> float:
        """Seconds that earlier attempts had its cards."""
        return self.earlier.gpu_s / max(1, self.gpus) if self.earlier else 0.0

    @property
    def used(self) -> Usage:
        """What all ended attempts used together."""
        if self.result is not None:
            return self.result.usage.plus(self.earlier or Usage())
        if self.earlier is None and self.card and self.started_at is not None and self.finished_at is not None:
            # Ended under an earlier version, which kept nothing of an attempt without a result.
            return Usage(gpu_s=max(0.0, self.finished_at - self.started_at) * self.gpus)
        return self.earlier or Usage()

    def held(self, now: float) -> Usage:
        """What its running attempt has used by `now`, as far as the ledger knows; nothing before the trainer starts."""
        if self.pid is None or self.started_at is None:
            return Usage()
        return Usage(gpu_s=round(max(0.0, now - self.started_at) * self.gpus, 3))


class Progress(Record):
    """How far a run is; overwritten, never a history."""

    step: int = 0
    steps_total: int | None = None
    epoch: int | None = None
    """Epochs completed."""
    epochs_total: int | None = None
    eta_s: float | None = None
    phase: Literal["start", "train", "evaluation"] | None = None
    """What the trainer is at; None when it was written by an earlier version."""
    first_step_at: float | None = None
    """When the attempt told its first step, seconds since the epoch: start-up lies before it; None before that."""
    metrics: dict[str, float | None] = {}
    curves: dict[str, list[tuple[float, float | None]]] = {}
    """Of a search's run: for each metric its (epoch, value) pairs so far, by which hopeless runs are found."""
    at: float = 0.0

    @property
    def share(self) -> float | None:
        """Part done in 0..1; None while the total is unknown."""
        return min(1.0, self.step / self.steps_total) if self.steps_total else None


class RunSpec(Record):
    """What a trainer is given, as spec.json in the run directory; the template reads nothing else.

    The trainer is started as `python -m workers.templates.<template> <attempt directory>`; the spec lies one level up.
    """

    run_id: str
    queued_at: float = 0.0
    """When the run was first queued: tells its directory from one that an earlier ledger left under the same id."""
    template: str
    model: str
    dataset: str | None
    params: dict[str, Any] = {}
    """lr, batch_size, seed, ...: the point's values with the plan's constants."""
    epochs: int | None = None
    max_steps: int | None = None
    data_dirs: dict[str, str] = {}
    """Data set name to folder on this host, for those that are not built in."""
    device: str = "cuda"
    """`cuda` (the one visible card) or `cpu` for a simulated card."""
    threads: int | None = None
    """Torch threads for a simulated card; None leaves torch's default."""
    checkpoint_dir: str | None = None
    """Where an earlier attempt left its checkpoints; None starts anew."""
    provenance: Provenance | None = None
    """Of this attempt and of those whose checkpoints it goes on from; None where they differ."""
