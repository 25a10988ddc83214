"""The one entrance to the language side: from a message to a plan, a question, a refusal or a command."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from agent import grids
from agent.again import all_again
from agent.ground import ground
from agent.model import Proposer
from agent.preferences import USUAL, fill
from agent.reader import PreviousPlan, Reading, read
from agent.reader.intents import Intent
from agent.reader.wording import say
from agent.reply import AS_BEFORE, DEFAULT, ONE_SEED, SPREAD, USUAL_DATASET, reply
from lab import planwords
from lab.errors import ModelError
from lab.habits import Value
from lab.plan import MAX_RUNS, Assumed, Axis, Budget, Frozen, Plan, Range, Scalar, Search, few
from lab.run import Spent

log = logging.getLogger(__name__)
CASE_FIELDS = frozenset({"models", "dataset", "epochs", "max_steps", "gpus_per_run", "metric", "search", "trials"}) | {
    "priority",
    "deadline",
    "schedule",
    "mode",
    "notes",
}


class Defaults(Frozen):
    """What is assumed where a message is silent; the settings of the lab."""

    dataset: str | None = "digits"
    """None asks which one."""
    dataset_reason: str = USUAL_DATASET
    epochs: int = 3
    lr: float = 1e-3
    batch_size: int = 64
    comparison_seeds: int = 3
    max_runs: int = MAX_RUNS
    usual: dict[str, Value] = {}
    """The asker's preferences; see agent/preferences."""


class Understood(Frozen):
    """What a message comes to."""

    intent: Intent
    plan: Plan | None = None
    question: str | None = None
    """What has to be answered before the plan may start."""
    reply: str
    """What the person would read."""
    target: str | None = None
    args: dict[str, Scalar] = {}
    dropped: tuple[str, ...] = ()
    """What the language model proposed and the message does not say."""
    model_note: str | None = None
    """Why the language model had no part in it although one is set; None when it had, or none is set."""
    spent: Spent | None = None
    """What the language model took for it, where that was metered."""

    @property
    def may_start(self) -> bool:
        """True when the plan lacks nothing but an approval."""
        return self.plan is not None and self.question is None and self.plan.n_runs > 0


def understand(
    text: str,
    previous: PreviousPlan | None = None,
    requester: str = "",
    model: Proposer | None = None,
    defaults: Defaults | None = None,
) -> Understood:
    """What the message comes to; it changes nothing and starts nothing.

    Args:
        requester: id of the asker, for the log.
        model: proposes, where one is set; without it, or where it fails, the reader's understanding stands.
    """
    defaults = defaults or Defaults()
    reading = read(text, previous, defaults.max_runs)
    if model is None or not _worth_asking(reading):
        return conclude(reading, text, previous, defaults)
    try:
        grounded = ground(model.propose(text, previous), reading)
    except ModelError as error:
        log.info("reader alone: %s", error)
        alone = conclude(reading, text, previous, defaults)
        return alone.model_copy(update={"model_note": f"{error}; this is what the reader understood"})
    understood = conclude(grounded.reading, text, previous, defaults)
    plan = understood.plan and understood.plan.model_copy(update={"prompt": model.prompt})
    return understood.model_copy(update={"plan": plan, "dropped": grounded.dropped})


def _worth_asking(reading: Reading) -> bool:
    """False where a model could not add anything: refusals, commands that the reader is sure of, empty messages."""
    return reading.refusal is None and bool(reading.left) and (reading.plans or not reading.sure)


def conclude(reading: Reading, text: str, previous: PreviousPlan | None, defaults: Defaults) -> Understood:
    """The answer that a reading leads to, with defaults filled in and listed."""
    plan = None
    questions = list(reading.questions)
    if reading.plans and reading.models:
        plan = _usual_plan(reading, text, previous, defaults)
        if plan.dataset is None and reading.mode is None and reading.intent != "evaluate":
            questions.append(say("which_dataset", reading.chinese))
        questions += _doubts(reading, plan, defaults)
    question = " ".join(questions) or None
    if reading.refusal:
        question = None
    return Understood(
        intent=reading.intent,
        plan=plan,
        question=question,
        reply=reply(reading, plan, question),
        target=reading.target,
        args=reading.args,
    )


def _usual_plan(reading: Reading, text: str, previous: PreviousPlan | None, defaults: Defaults) -> Plan:
    """The plan with the asker's preferences; usual seeds that would make it too large are left out of them."""
    plan = _plan(fill(reading, previous, defaults.usual), text, previous, defaults)
    if plan.n_runs > defaults.max_runs and plan.why("axes.seed") == USUAL:
        fewer = {field: value for field, value in defaults.usual.items() if field != "axes.seed"}
        plan = _plan(fill(reading, previous, fewer), text, previous, defaults)
    return plan


def _plan(reading: Reading, text: str, previous: PreviousPlan | None, defaults: Defaults) -> Plan:
    assumed = dict(reading.hints)
    axes: dict[str, Axis] = dict(reading.axes)
    if previous is not None and reading.intent in ("modify", "schedule"):
        assumed |= _still_assumed(reading, axes, previous)
    _fill_grid(reading, axes, assumed)
    datasets = reading.datasets
    if not datasets and defaults.dataset and reading.intent != "evaluate":
        datasets = (defaults.dataset,)
        assumed["dataset"] = defaults.dataset_reason
    epochs = reading.epochs
    if reading.intent != "evaluate":
        epochs = _fill_training(reading, axes, assumed, defaults)
    _fill_seeds(reading, axes, assumed, defaults)
    plan = Plan(
        models=reading.models,
        dataset=None if not datasets else datasets[0] if len(datasets) == 1 else datasets,
        axes=axes,
        epochs=epochs,
        max_steps=reading.max_steps,
        gpus_per_run=reading.gpus_per_run or 1,
        metric=reading.metric,
        search=_search(reading),
        trials=reading.trials,
        prune=reading.prune,
        budget=reading.budget,
        priority=reading.priority or "normal",
        deadline=reading.deadline,
        schedule=reading.schedule,
        mode=reading.mode,
        anew=all_again(text),
        notes=reading.notes,
        request_text=text,
    )
    if reading.gpus_per_run is None:
        assumed.setdefault("gpus_per_run", DEFAULT)
    if reading.priority is None:
        assumed.setdefault("priority", DEFAULT)
    return plan.model_copy(
        update={"assumed": tuple(Assumed(field=k, reason=v) for k, v in assumed.items()), "budget": _budget(plan)}
    )


def _still_assumed(reading: Reading, axes: dict[str, Axis], previous: PreviousPlan) -> dict[str, str]:
    """What the previous plan assumed and the change left as it was."""
    held = previous.values()
    kept: dict[str, bool] = {f"axes.{name}": axes.get(name) == axis for name, axis in held.items()}
    kept |= {"epochs": reading.epochs == previous.epochs, "dataset": reading.datasets == previous.datasets}
    kept |= {"models": reading.models == previous.models}
    reasons = previous.assumed_reasons()
    return {k: v or AS_BEFORE for k, v in reasons.items() if kept.get(k)}


def _search(reading: Reading) -> Search:
    kinds: tuple[Search, ...] = ("random", "bayesian")
    return next((k for k in kinds if k == reading.search), "grid")


def _budget(plan: Plan) -> Budget | None:
    """With one run, hours on the clock and GPU-hours say the same; the other one is counted."""
    budget = plan.budget
    if budget is None or plan.n_runs != 1 or budget.wall_hours is None or budget.gpu_hours is not None:
        return budget
    return Budget(wall_hours=budget.wall_hours, gpu_hours=budget.wall_hours * plan.gpus_per_run)


def _fill_grid(reading: Reading, axes: dict[str, Axis], assumed: dict[str, str]) -> None:
    """Values for the axes whose best value is asked for and whose values nobody gave."""
    if reading.tunes is None:
        return
    if _search(reading) != "grid":
        for name, (axis, reason) in grids.ranges(reading.tunes, axes).items():
            axes[name] = axis
            assumed[f"axes.{name}"] = reason
        return
    for name, (values, reason) in (grids.propose(reading.tunes, axes) or {}).items():
        left = tuple(v for v in values if v not in reading.denied.get(name, ()))
        if left:
            axes[name] = left
            assumed[f"axes.{name}"] = reason


def _doubts(reading: Reading, plan: Plan, defaults: Defaults) -> list[str]:
    """Questions about assumed values: excluded by the message, not to be proposed, or too many."""
    doubts = []
    if reading.tunes is not None and plan.search == "grid" and grids.propose(reading.tunes, plan.axes) is None:
        doubts.append(say("what_to_tune", reading.chinese, list=", ".join(few(reading.tunes))))
    for name, values in reading.denied.items():
        field = name if name in ("models", "dataset", "epochs", "gpus_per_run") else f"axes.{name}"
        if _takes(plan, field, values) or (name == "optimizer" and name not in plan.axes):
            doubts.append(say("which_instead", reading.chinese, axis=name, values=", ".join(few(values))))
    if not doubts and not reading.questions and plan.n_runs > defaults.max_runs:
        how = planwords.arithmetic(plan, reading.chinese)
        doubts.append(say("too_many", reading.chinese, n=f"{plan.n_runs:,}", most=defaults.max_runs, how=how))
    return doubts


def _takes(plan: Plan, field: str, excluded: tuple[Scalar, ...]) -> bool:
    """True when the plan assumes a value that the message excludes."""
    if plan.why(field) is None:
        return False
    name = field.removeprefix("axes.")
    axis = plan.axes.get(name)
    if name == "seed":
        return isinstance(axis, tuple) and len(axis) in excluded
    if name in plan.axes:
        return isinstance(axis, tuple) and bool(set(axis) & set(excluded))
    held = plan.datasets if name == "dataset" else plan.models if name == "models" else (getattr(plan, name),)
    return bool(set(held) & set(excluded))


def _fill_training(reading: Reading, axes: dict[str, Axis], assumed: dict[str, str], defaults: Defaults) -> int | None:
    for name, number in (("lr", defaults.lr), ("batch_size", defaults.batch_size)):
        if name not in axes:
            axes[name] = (number,)
            assumed[f"axes.{name}"] = DEFAULT
    if reading.epochs is None and reading.max_steps is None and "epochs" not in axes:
        assumed["epochs"] = DEFAULT
        return defaults.epochs
    return reading.epochs


def _fill_seeds(reading: Reading, axes: dict[str, Axis], assumed: dict[str, str], defaults: Defaults) -> None:
    if "seed" in axes:
        return
    grid = any(isinstance(a, Range) or len(a) > 1 for a in axes.values())
    if reading.intent == "compare" and not grid and defaults.comparison_seeds > 1:
        axes["seed"] = tuple(range(defaults.comparison_seeds))
        assumed["axes.seed"] = SPREAD
    else:
        axes["seed"] = (0,)
        assumed["axes.seed"] = ONE_SEED


def to_case(case_id: str, understood: Understood) -> dict[str, Any]:
    """The answer in the form of `overnight understand --batch`."""
    plan = understood.plan
    return {
        "id": case_id,
        "intent": understood.intent,
        "plan": _case_plan(plan) if plan else None,
        "assumed": [a.field for a in plan.assumed] if plan else [],
        "target": understood.target,
        "args": understood.args,
        "question": understood.question,
        "reply": understood.reply,
    }


def _case_plan(plan: Plan) -> dict[str, Any]:
    record = plan.model_dump(mode="json", include=set(CASE_FIELDS))
    axes = {k: v.model_dump(exclude_none=True) if isinstance(v, Range) else list(v) for k, v in plan.axes.items()}
    budget = plan.budget.model_dump(exclude_none=True) if plan.budget else None
    return record | {"axes": axes, "budget": budget, "n_runs": asked_runs(plan), "n_runs_planned": plan.n_runs}


def asked_runs(plan: Plan) -> int:
    """The number of runs that the message asks for: seeds that were only assumed do not multiply it."""
    seeds = plan.axes.get("seed")
    return plan.n_runs // len(seeds) if plan.why("axes.seed") and isinstance(seeds, tuple) else plan.n_runs


def batch(lines: Iterable[str], defaults: Defaults, model: Proposer | None = None) -> Iterator[str]:
    """One answer, as a JSON line, for each JSON line with `id`, `text`, `context` and `requester`."""
    for line in lines:
        if not line.strip():
            continue
        try:
            asked = Case.model_validate_json(line)
        except ValidationError as error:
            yield json.dumps(_broken(line, error), ensure_ascii=False)
            continue
        previous = asked.context.previous_plan if asked.context else None
        understood = understand(asked.text, previous, asked.requester or "", model, defaults)
        yield json.dumps(to_case(asked.id, understood), ensure_ascii=False)


class Context(BaseModel):
    """What the thread of a case holds."""

    previous_plan: PreviousPlan | None = None


class Case(BaseModel):
    """One line of `overnight understand --batch`; other keys are left alone."""

    id: str
    text: str
    context: Context | None = None
    requester: str | None = None


def _broken(line: str, error: ValidationError) -> dict[str, Any]:
    """The answer to a line that is no case: its id, where it has one, and what is wrong with it."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return {
        "id": found.get("id") if isinstance(found, dict) else None,
        "error": f"{where}: {first['msg']}" if where else first["msg"],
    }


def main() -> None:
    """Answer `--batch` from standard input, or one text given as an argument."""
    if "--batch" in sys.argv:
        for answer in batch(sys.stdin, Defaults()):
            print(answer, flush=True)
        return
    print(understand(" ".join(sys.argv[1:])).model_dump_json(indent=1))


if __name__ == "__main__":
    main()
