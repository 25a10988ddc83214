"""What is tried against a failure: a table from cause to cure, and the pure choice of the next step."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lab.diagnose.memory import Figures
from lab.losses import Losses
from lab.plan import Scalar
from lab.run import Run

SKIPPED = 8
"""Batches left out before and at a NaN: the one that did the harm lies a few steps before the loss shows it."""
SKIPPED_SHARE = 0.05
"""Largest share of a run that is left out at once: in a short run that would be another training, not a cure."""
NAN_TRIES = 3
"""Tries against NaN in all."""
QUARANTINE_S = 3600.0
"""A card that showed a hardware fault is left alone for so long."""


@dataclass(frozen=True)
class Case:
    """What is known of an attempt that failed.

    Attributes:
        evidence: the line that decided about the cause.
        retryable: the diagnosis allows the same once more, unchanged.
        params: the template's parameters as the attempt had them, defaults included.
        varied: axes of the experiment that take more than one value.
        saved_step: step of the checkpoint that the next attempt would go on from; None when it would start anew.
        steps_total: steps of the whole run; None when unknown.
    """

    run: Run
    cause: str
    evidence: str
    retryable: bool
    params: Mapping[str, Scalar]
    varied: tuple[str, ...] = ()
    saved_step: int | None = None
    steps_total: int | None = None
    max_retries: int = 3
    max_attempts: int = 3
    losses: Losses = field(default_factory=Losses)
    """Losses in a row without progress, this one included should it be one."""
    retry_wait_s: float = 30.0


Condition = Callable[[Case], bool]
Change = Callable[[Case], Scalar | None]
"""The new value of a parameter; None when there is nothing left to change."""


@dataclass(frozen=True)
class Step:
    """One thing to try.

    Attributes:
        name: within its cause.
        says: what was done and why, for people, after "exp-12/3: "; parameters in braces, as they are afterwards.
        when: what must hold for it.
        params: parameters that it changes, each of which the template must take.
        environ: environment variables for the trainer.
        elsewhere: the next attempt is to be on another card, where there is one.
        quarantine_s: the card is left alone for so long; 0 for not at all.
        loss: counted as a loss of card or host, not as a fault of the run's own.
        anew: earlier checkpoints are set aside.
        times: how often it is tried for one run; a loss is bounded by run.max_attempts alone (lab/losses).
        waits: what failed lies outside and needs time to come back, so the next attempt begins later, each time twice
            as much: else three tries are over in ten seconds while the network is away for a minute.
    """

    name: str
    says: str
    when: Condition = lambda case: True
    params: Mapping[str, Change] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    elsewhere: bool = False
    quarantine_s: float = 0.0
    loss: bool = False
    anew: bool = False
    times: int = 1
    waits: bool = False

    @property
    def changes_something(self) -> bool:
        """False for the same once more."""
        return bool(self.params or self.environ or self.elsewhere or self.loss)


# -- what a CUDA OOM says ----------------------------------------------------------------------------------------

_SEGMENTS = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
"""torch before 2.9 reads the first name."""


def fragmented(case: Case) -> bool:
    """What is missing lies there in pieces."""
    return Figures.read(case.evidence).fragmented


def shared_card(case: Case) -> bool:
    """Another process holds memory of the card."""
    return Figures.read(case.evidence).shared


def too_large(case: Case) -> bool:
    """Neither another process nor fragments are to blame, or nothing is left to try against fragments."""
    segments = any(case.run.environ.get(name) == value for name, value in _SEGMENTS.items())
    return not shared_card(case) and (segments or not fragmented(case))


# -- changes of parameters ---------------------------------------------------------------------------------------


def _number(case: Case, name: str) -> float | None:
    value = case.params.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def more_parts(case: Case) -> int | None:
    """Twice as many parts of a batch, so half the micro-batch; none when that is one sample already."""
    batch, parts = _number(case, "batch_size"), _number(case, "grad_accum_steps")
    return None if batch is None or parts is None or parts >= batch else int(min(batch, parts * 2))


def half_lr(case: Case) -> float | None:
    """Half the learning rate."""
    lr = _number(case, "lr")
    return None if lr is None else lr / 2


def fewer_workers(case: Case) -> int | None:
    """Half the loading processes, 2 where the template chooses their number; none when half of them is none."""
    workers = _number(case, "num_workers")
    if workers is None or 0 <= workers <= 1:
        return None
    return 2 if workers < 0 else int(workers) // 2


def no_workers(case: Case) -> int | None:
    """Loading in the trainer itself."""
    return None if _number(case, "num_workers") in (None, 0.0) else 0


def bad_steps(case: Case) -> str | None:
    """The steps up to the NaN, at most SKIPPED, none from before the checkpoint, beside those skipped so far."""
    found = re.search(r"at step (\d+)", case.evidence)
    if found is None:
        return None
    last = int(found[1])
    first = max(1, last - SKIPPED + 1, (case.saved_step or 0) + 1)
    if first > last or last - first + 1 > SKIPPED_SHARE * (case.steps_total or math.inf):
        return None
    before = str(case.params.get("skip_steps") or "")
    return ",".join(part for part in (before, f"{first}-{last}") if part)


def is_no_result(case: Case) -> bool:
    """False where the experiment compares learning rates: there a diverged run is a result. And not too often."""
    tries = sum(cure.startswith("nan_loss/") for cure in case.run.cures)
    return "lr" not in case.varied and tries < NAN_TRIES


# -- the table ---------------------------------------------------------------------------------------------------

_SPLIT = (
    "micro-batch halved to {micro_batch} ({grad_accum_steps} parts a step) after it did not fit the card (same "
    "effective batch; a batch norm sees the parts)"
)
_LESS_LOADING = (
    Step(
        "fewer_workers",
        "loads its data with {num_workers} processes after memory ran out",
        params={"num_workers": fewer_workers},
    ),
    Step(
        "no_workers", "loads its data without extra processes after memory ran out", params={"num_workers": no_workers}
    ),
)

CURES: dict[str, tuple[Step, ...]] = {
    "oom_gpu": (
        Step(
            "move",
            "moved after another process filled its card; nothing was changed",
            shared_card,
            elsewhere=True,
            times=3,
        ),
        Step(
            "segments", "started with expandable segments after memory lay in fragments", fragmented, environ=_SEGMENTS
        ),
        Step("split", _SPLIT, too_large, params={"grad_accum_steps": more_parts}, times=20),
    ),
    "oom_host": _LESS_LOADING,
    "shm": _LESS_LOADING,
    "nan_loss": (
        Step(
            "skip", "steps {skip_steps} left out after the loss was NaN", is_no_result, params={"skip_steps": bad_steps}
        ),
        Step("lower_lr", "lr halved to {lr} after the loss was NaN", is_no_result, params={"lr": half_lr}),
        Step(
            "lower_lr_anew",
            "begun anew with lr halved to {lr} after the loss was NaN",
            is_no_result,
            params={"lr": half_lr},
            anew=True,
            times=2,
        ),
    ),
    "hang": (Step("move", "started once more, on another card where there is one, after it hung", elsewhere=True),),
    "nccl": (
        Step("again", "started once more after its processes lost each other"),
        Step("move", "moved to another card after its processes lost each other again", elsewhere=True),
    ),
    "illegal_access": (
        Step("move", "moved to another card after an illegal memory access, to rule this card out", elsewhere=True),
    ),
    "hardware": (
        Step(
            "move",
            "moved after a fault of its card, which is left alone for an hour",
            elsewhere=True,
            quarantine_s=QUARANTINE_S,
            loss=True,
        ),
    ),
    "time_limit": (Step("resume", "went on from its checkpoint after a time limit", loss=True),),
    "preempted": (Step("resume", "went on from its checkpoint after it was stopped from outside", loss=True),),
    "port_in_use": (
        Step("again", "started once more after its port was taken, {wait_s} s later", times=2, waits=True),
    ),
    "network": (Step("again", "started once more after the network failed, {wait_s} s later", times=3, waits=True),),
    "disk_full": (),
    "checkpoint_mismatch": (),
    "user_code": (),
    "bad_args": (),
    "import_error": (),
    "data_missing": (),
    "permission": (),
    "auth": (),
    "device_assert": (),
    "compile_error": (),
    "driver_mismatch": (),
    "arch_mismatch": (),
    "fork_cuda": (),
    "none": (),
}
"""Every cause that a diagnosis can name, and what is tried against it, in this order; nothing where people must act.

A full disk has no step: the run pauses until there is room (workers/heal). A checkpoint that does not fit has none:
a template passes over its own and takes the one before; weights that the plan named are the plan's mistake.
"""


def choose(case: Case, known: str | None = None) -> Step | None:
    """What is tried next; None when nothing is, because nothing helps, all was tried, or the retries are used up.

    Args:
        known: name of the cure that helped an earlier run with this fault, `nan_loss/lower_lr`; tried first.
    """
    steps = CURES.get(case.cause, ())
    first = [step for step in steps if full_name(case, step) == known]
    return next((step for step in (*first, *steps) if applies(step, case)), None)


def applies(step: Step, case: Case) -> bool:
    """True when the step is possible, would change what it names, and is still allowed."""
    run = case.run
    if step.loss:
        allowed = not case.losses.too_many(case.max_attempts)
    else:
        allowed = run.retries < case.max_retries and run.cures.count(full_name(case, step)) < step.times
    if not allowed or not (case.retryable or step.changes_something) or not step.when(case):
        return False
    if any(case.run.environ.get(name) == value for name, value in step.environ.items()):
        return False
    return all(name in case.params and change(case) is not None for name, change in step.params.items())


def full_name(case: Case, step: Step) -> str:
    """The step's name as it stands on the run: `oom_gpu/split`."""
    return f"{case.cause}/{step.name}"


def overrides(step: Step, case: Case) -> dict[str, Scalar]:
    """The parameters that the step sets."""
    values = {name: change(case) for name, change in step.params.items()}
    return {name: value for name, value in values.items() if value is not None}


def wait_s(step: Step, case: Case) -> float:
    """Seconds until the next attempt may begin: `run.retry_wait_s`, doubled for each time it was tried before."""
    return case.retry_wait_s * 2 ** case.run.cures.count(full_name(case, step)) if step.waits else 0.0


def sentence(step: Step, case: Case, helped: str | None = None) -> str:
    """What was done, for people.

    Args:
        helped: the run that this cure helped before.
    """
    after = {**case.params, **overrides(step, case), "wait_s": wait_s(step, case)}
    batch, parts = after.get("batch_size"), after.get("grad_accum_steps")
    if isinstance(batch, int) and isinstance(parts, int):
        after["micro_batch"] = -(-batch // parts)
    shown = {name: f"{value:g}" if isinstance(value, float) else value for name, value in after.items()}
    return step.says.format(**shown) + (f"; this had helped {helped}" if helped else "")


def last_word(case: Case) -> str:
    """The run's message when nothing more is tried: the deciding line, and why there it ends."""
    if case.cause == "nan_loss" and "lr" in case.varied:
        return f"{case.evidence}; the experiment varies lr, so this is a result and is not tried again"
    if case.cause == "oom_gpu" and not shared_card(case) and case.params.get("batch_size") == _parts(case):
        return f"not even the smallest part of a batch fits the card: {case.evidence}"
    if case.run.retries >= case.max_retries > 0 and CURES.get(case.cause):
        return f"{case.evidence}; {case.run.retries} retries did not help"
    return case.evidence


def _parts(case: Case) -> Scalar:
    return case.params.get("grad_accum_steps", 0)


def fingerprint(case: Case, card_name: str) -> str:
    """What two runs share that fail alike: cause, template, model, data set, card and batch."""
    run = case.run
    parts = (case.cause, run.template, run.point.model, run.point.dataset, card_name, case.params.get("batch_size"))
    return "|".join(str(part) for part in parts)
