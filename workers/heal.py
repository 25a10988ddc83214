"""A failed attempt is healed where something may help: what is tried, and on which card."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from lab.card import Card
from lab.diagnose import Diagnosis
from lab.ledger import Ledger
from lab.plan import Scalar
from lab.run import Run, Usage
from lab.settings import Settings
from workers import cures
from workers.cures import Case, Step
from workers.rundir import RunDir
from workers.templates import TEMPLATES


@dataclass(frozen=True)
class Treatment:
    """What is tried against a failure, or why nothing is."""

    case: Case
    step: Step | None
    helped: str | None
    """The run that this step helped before."""

    @property
    def name(self) -> str:
        """The step's name as the run keeps it."""
        return cures.full_name(self.case, self.step) if self.step else ""


def examine(
    ledger: Ledger, settings: Settings, run: Run, found: Diagnosis, card: Card, steps_total: int | None
) -> Treatment:
    """What is tried next. Reads only."""
    plan = ledger.experiment(run.experiment_id).plan
    case = Case(
        run=run,
        cause=found.cause,
        evidence=found.evidence,
        retryable=found.retryable,
        params=params_of(run),
        varied=plan.varying,
        saved_step=RunDir(settings.runs_dir, run).saved_step() if found.cause == "nan_loss" else None,
        steps_total=steps_total,
        max_retries=settings.run.max_retries,
        max_attempts=settings.run.max_attempts,
        losses=ledger.losses_after(run),
        retry_wait_s=settings.run.retry_wait_s,
    )
    known, helped = ledger.known_cure(cures.fingerprint(case, card.name)) or (None, None)
    step = cures.choose(case, known)
    is_known = step is not None and cures.full_name(case, step) == known and known not in run.cures
    return Treatment(case, step, helped if is_known else None)


def try_again(
    ledger: Ledger,
    settings: Settings,
    treatment: Treatment,
    cards: Sequence[str],
    fence: int,
    text: str,
    usage: Usage | None = None,
) -> Run:
    """The run is queued for its next attempt as the step wants it. Raises FenceError, MoveRefused.

    Args:
        cards: the attempt's cards.
        text: its log, which may name the card that broke.
        usage: what it used.
    """
    case, step = treatment.case, treatment.step
    assert step is not None
    blamed = [card for card in cards if card in text] or list(cards)
    for card in blamed if step.quarantine_s else ():
        ledger.quarantine(card, f"{case.run.id}: {case.evidence}"[:300], step.quarantine_s)
    if step.anew:
        RunDir(settings.runs_dir, case.run).set_checkpoints_aside()
    return ledger.again(
        case.run.id,
        fence,
        treatment.name,
        cures.sentence(step, case, treatment.helped),
        lost=step.loss,
        usage=usage,
        overrides=cures.overrides(step, case),
        environ=dict(step.environ),
        avoid=tuple(blamed) if step.elsewhere else (),
        not_before=time.time() + cures.wait_s(step, case) if step.waits else 0.0,
    )


def remember(ledger: Ledger, run: Run, card: Card) -> None:
    """What cured the finished run is known for the next one with its fault."""
    if run.cures:
        cause = run.cures[-1].split("/")[0]
        case = Case(run=run, cause=cause, evidence="", retryable=True, params=params_of(run))
        ledger.remember_cure(cures.fingerprint(case, card.name), run.cures[-1], run.id)


def params_of(run: Run) -> dict[str, Scalar]:
    """The template's parameters as an attempt has them: its defaults, the point's values, what cures changed."""
    fields = TEMPLATES[run.template].params.model_fields
    defaults = {name: field.default for name, field in fields.items()}
    return {**defaults, **run.point.params, **run.overrides}
