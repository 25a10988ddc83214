"""A plan against what the hosts have: is it possible there, how long does it take, and what has to be asked first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import jsonschema

from agent import again, budgets, catalog, searches
from agent.obstacles import say
from lab import cardtable, planwords, reuse
from lab.card import Card, DataSet, Host, HostCards
from lab.estimate import duration
from lab.forecast import Queue
from lab.lanes import Job, estimate
from lab.language import is_chinese
from lab.ledger import Ledger
from lab.lengths import Lengths, Subject, machines
from lab.plan import Axis, Plan, number
from lab.run import Estimate
from lab.schema import complaint
from lab.when import moment, stamp

SOON_S = 10.0
"""A shorter wait for a card is not worth a word."""
LONG_S = 86_400.0
"""A plan that takes longer says so once more."""
TRAINABLE = ("timm", "torchvision")
"""Sources in the catalogue whose models the template vision can build."""
BUILT_IN = ("synthetic",)
"""Data sets that nobody means when he names none."""


@dataclass(frozen=True)
class Lab:
    """What is up now.

    Attributes:
        hosts: what `overnight work` published, one entry a host.
        cards: what `overnight keep` published.
        now: seconds since the epoch.
        queue: what the dispatcher published of what waits; None without one.
    """

    hosts: Sequence[Host]
    cards: Sequence[HostCards]
    now: float
    queue: Queue | None = None

    def datasets(self) -> dict[str, DataSet]:
        """Every data set by name; one that is present on any host counts as present."""
        found: dict[str, DataSet] = {}
        for host in self.hosts:
            for dataset in host.datasets:
                if dataset.name not in found or dataset.present:
                    found[dataset.name] = dataset
        return found

    def usable(self) -> list[Card]:
        """The cards that can train, busy or not."""
        return cardtable.usable(self.cards, self.now)


@dataclass(frozen=True)
class Prepared:
    """A plan that may be shown with buttons when `question` is None, and only talked about otherwise."""

    plan: Plan
    estimate: Estimate | None = None
    question: str | None = None
    reused: tuple[str, ...] = ()
    """Finished runs that stand for runs of the plan; the estimate counts the others."""


def default_dataset(lab: Lab) -> tuple[str | None, str]:
    """The data set for a message that names none, and why; None when the person has to say which."""
    present = [name for name, d in lab.datasets().items() if d.present and name not in BUILT_IN]
    if not lab.hosts:
        return "digits", "it ships with Overnight"
    if len(present) == 1:
        return present[0], "the only data set on these hosts"
    return None, ""


def prepare(plan: Plan, lab: Lab, ledger: Ledger, max_runs: int, owner: str) -> Prepared:
    """The plan with its estimate and what has to be said about it, or the question that stands in its way."""
    plan = _as_the_template_says(plan)
    question = _too_much(plan, max_runs) or _not_yet(plan)
    if question is None and lab.hosts:
        question = _impossible(plan, lab)
    if question is not None:
        return Prepared(plan, question=question)
    if not lab.hosts or not lab.usable():
        plan = plan.model_copy(update={"notes": (*plan.notes, say(plan, "no_card" if lab.hosts else "no_host"))})
    plan, same = again.reusable(plan, ledger.same(plan, lab.hosts, lab.cards))
    estimated = _estimate(plan, lab, ledger, owner, same)
    if question := budgets.question(plan, estimated):
        return Prepared(plan, question=question)
    if plan.search != "grid":
        plan = searches.settled(searches.within_budget(plan, estimated))
    plan = plan.model_copy(update={"notes": tuple(dict.fromkeys((*plan.notes, *budgets.notes(plan))))})
    return Prepared(plan, estimated, reused=reuse.sources(same))


PRECISIONS = {"fp16": "amp_fp16", "fp16_amp": "amp_fp16", "amp": "auto", "bf16": "amp_bf16", "bf16_amp": "amp_bf16"}
"""What people call a precision, and what the template vision does by that name."""
NAMES = {"scheduler": "schedule", "warmup_ratio": "warmup"}
"""Axes that the template vision has under another name."""


def _as_the_template_says(plan: Plan) -> Plan:
    """The plan with the names and values that the template vision uses; the others stay as people say them."""
    if plan.template != "vision":
        return plan
    axes: dict[str, Axis] = {}
    for name, axis in plan.axes.items():
        if name == "precision" and isinstance(axis, tuple):
            axis = tuple(PRECISIONS.get(str(value), value) for value in axis)
        axes[NAMES.get(name, name)] = axis
    assumed = tuple(
        a.model_copy(update={"field": f"axes.{NAMES[bare]}"}) if (bare := a.field.removeprefix("axes.")) in NAMES else a
        for a in plan.assumed
    )
    return plan.model_copy(update={"axes": axes, "assumed": assumed})


def _not_yet(plan: Plan) -> str | None:
    """What the plan asks for and nothing here can keep; starting it regardless would break the promise in silence."""
    if plan.schedule:
        return say(plan, "later")
    if plan.mode or (plan.template == "vision" and plan.epochs is None and plan.max_steps is None):
        return say(plan, "evaluation")
    return None


def _too_much(plan: Plan, max_runs: int) -> str | None:
    if plan.search != "grid" and (asked := searches.question(plan)):
        return asked
    if plan.n_runs == 0:
        return say(plan, "which_model")
    if plan.n_runs > max_runs:
        runs = planwords.arithmetic(plan, is_chinese(plan.request_text))
        return say(plan, "too_many", runs=runs, most=max_runs)
    return None


def _impossible(plan: Plan, lab: Lab) -> str | None:
    """Why no host that is up can do this, with what would help; None when one can."""
    schemas = {name: schema for host in lab.hosts for name, schema in host.templates.items()}
    if plan.template not in schemas:
        return say(plan, "no_template", template=plan.template, known=", ".join(sorted(schemas)))
    return _models(plan) or _datasets(plan, lab) or _params(plan, schemas[plan.template]) or _cards(plan, lab)


def _models(plan: Plan) -> str | None:
    if plan.template != "vision":
        return None
    for model in plan.models:
        if catalog.source(model) not in TRAINABLE:
            near = ", ".join(n for n in catalog.nearest(model, "model") if catalog.source(n) in TRAINABLE)
            return say(plan, "no_model", model=model, near=say(plan, "near_model", names=near) if near else "")
    return None


def _datasets(plan: Plan, lab: Lab) -> str | None:
    known = lab.datasets()
    for name in plan.datasets:
        dataset = known.get(name)
        present = ", ".join(sorted(n for n, d in known.items() if d.present))
        if dataset is None:
            names = ", ".join(catalog.nearest(name, "dataset"))
            near = say(plan, "near_dataset", names=names) if names else ""
            return say(plan, "no_dataset", name=name, near=near, present=present)
        if not dataset.present:
            how = dataset.how_to_get or say(plan, "ask_operator")
            return say(plan, "absent", name=name, how=how, present=present)
    return None


def _params(plan: Plan, schema: dict[str, object]) -> str | None:
    """The first value that the template would not take, in words."""
    validator = jsonschema.Draft202012Validator(schema)
    for point in searches.extremes(plan) if plan.search != "grid" else plan.points():
        for error in validator.iter_errors(dict(point.params)):
            where = ".".join(str(p) for p in error.absolute_path)
            why = complaint(error, is_chinese(plan.request_text))
            if where:
                value = number(point.params.get(where))
                return say(plan, "value", template=plan.template, name=where, value=value, why=why)
            return say(plan, "unknown_value", template=plan.template, why=why)
    return None


def _cards(plan: Plan, lab: Lab) -> str | None:
    if plan.gpus_per_run == 1:
        return None
    most = max((len([c for c in lab.usable() if c.host == h.host]) for h in lab.cards), default=0)
    if plan.template == "vision":
        return say(plan, "one_card", n=plan.gpus_per_run)
    if plan.gpus_per_run > most:
        return say(plan, "too_few_cards", n=plan.gpus_per_run, most=most)
    return None


def _estimate(plan: Plan, lab: Lab, ledger: Ledger, owner: str, same: Collection[int]) -> Estimate | None:
    """Of the runs that are not there already; None where no card can train, or nothing is known of how long one takes.

    Args:
        same: numbers of those that are.
    """
    cards = lab.usable()
    if len(same) == plan.n_runs:
        return Estimate(wall_s=0.0, gpu_hours=0.0, cards=len(cards), rough=False)
    where, lengths = machines(lab.hosts, cards), Lengths(ledger.client)
    jobs = []
    new = [point for n, point in enumerate(plan.points(), start=1) if n not in same]
    for point in new if cards else ():
        subject = Subject.of(point, plan.template, plan.epochs, plan.max_steps, owner, where.name_of(None))
        length = lengths.predict(subject, where)
        if length is None:
            return None
        jobs.append(Job(length, plan.gpus_per_run, kind=subject.kind))
    return _when(estimate(jobs, len(cards)), plan, lab, jobs) if jobs else None


def _when(found: Estimate, plan: Plan, lab: Lab, jobs: Sequence[Job]) -> Estimate:
    """The estimate with the time that its first run would wait for a card, and what has to be said of both."""
    gpu_s = min(job.length.p50_s * job.gpus for job in jobs)
    opening = lab.queue.opening(plan.priority, gpu_s) if lab.queue else None
    if opening is not None and opening.starts_at - lab.now >= SOON_S:
        found = found.model_copy(update={"wait_s": opening.starts_at - lab.now, "before": opening.before})
    return found.model_copy(update={"remarks": tuple(_remarks(found, plan, lab.now))})


def _remarks(found: Estimate, plan: Plan, now: float) -> Iterator[str]:
    """What nobody should press Run without knowing: more than a day, more than the budget, after the deadline."""
    took, ends_at = duration(found.wall_s, is_chinese(plan.request_text)), now + (found.wait_s or 0.0) + found.wall_s
    if found.wall_s > LONG_S:
        yield say(plan, "long", took=took)
    yield from budgets.remarks(plan, found)
    due = moment(plan.deadline, datetime.fromtimestamp(now)) if plan.deadline else None
    if due and ends_at > due.timestamp():
        yield say(plan, "late", at=stamp(ends_at), deadline=plan.deadline)
