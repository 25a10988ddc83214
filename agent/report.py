"""An experiment and its runs become a report: table, verdict, figures, notes. Pure; no clock and no store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from agent import figures, importance, searched, trace
from agent.points import PointData, group
from agent.stats import mean, sd, t_interval, trend
from agent.verdict import judge
from agent.wording import Words, language_of
from lab import planwords
from lab.estimate import duration
from lab.objective import choose_metric, latest
from lab.plan import Plan
from lab.report import (
    FailedRun,
    Report,
    Row,
    SeedValue,
    Verdict,
    again_command,
    decimals,
    fixed,
    higher_is_better,
    metric_name,
)
from lab.reuse import experiments
from lab.run import Experiment, Run, RunState
from lab.trials import Trial, trials_of

_ENDED_BADLY = ("diverged", "failed")


def build(experiment: Experiment, runs: Sequence[Run], now: float) -> tuple[Report, dict[str, bytes]]:
    """The report on the runs as they stand, and its figures by file name (`curves.png`; several data sets: one each).

    Runs that were retried count through their retry, in the statistics; every run counts in the GPU-hours. `now` is
    in seconds since the epoch.
    """
    words = Words(language_of(experiment.plan.request_text))
    metric, as_wished = choose_metric(experiment.plan.metric, runs)
    points = group(runs, metric)
    pictures = _figures(experiment, points, metric, runs)
    counted = latest(runs)
    report = Report(
        experiment_id=experiment.id,
        revision=experiment.report_revision + 1,
        title=planwords.title(experiment.plan, words.language == "zh"),
        verdict=_verdict(experiment, points, metric, words),
        rows=_rows(points, metric),
        notes=tuple(_notes(experiment, runs, points, words)),
        warnings=tuple(_warnings(experiment, counted, metric, as_wished, words)),
        metric=metric,
        higher_is_better=higher_is_better(metric),
        n_ok=sum(s.outcome == "ok" for p in points for s in p.seeds),
        n_failed=sum(s.outcome in _ENDED_BADLY for p in points for s in p.seeds),
        n_pruned=sum(s.outcome == "pruned" for p in points for s in p.seeds),
        n_cancelled=sum(s.outcome == "cancelled" for p in points for s in p.seeds) + sum(r.to_draw for r in counted),
        failed=tuple(_failed(points, metric)),
        gpu_hours=sum(run.used.gpu_s for run in runs) / 3600,
        **_memory(runs),
        simulated=_simulated(runs),
        again=again_command(_again(experiment.plan, words.language == "zh"), planwords.title(experiment.plan)),
        figures=tuple(pictures),
        language=words.language,
        created_at=now,
    )
    return report, pictures


def _verdict(experiment: Experiment, points: Sequence[PointData], metric: str, words: Words) -> Verdict:
    """A search has a best point and no winner; all else is compared."""
    if experiment.plan.drawn:
        return searched.judge(experiment.plan, points, metric, words)
    return judge(points, metric, words)


def _again(plan: Plan, chinese: bool) -> str:
    """What asks for the same again, outside its thread as well: `with lr 3e-4` alone would mean nothing there."""
    if plan.template != "vision" or not plan.models:
        return plan.request_text
    return planwords.sentence(plan.model_copy(update={"anew": plan.search == "grid"}), chinese)


def _rows(points: Sequence[PointData], metric: str) -> tuple[Row, ...]:
    """Data set by data set in the order of the plan, the best point first, those without a result last."""
    sign = -1.0 if higher_is_better(metric) else 1.0
    places = list(dict.fromkeys(p.dataset for p in points))

    def rank(point: PointData) -> tuple[int, bool, float]:
        return places.index(point.dataset), not point.values, sign * (mean(point.values) or 0.0)

    return tuple(_row(point, metric) for point in sorted(points, key=rank))


def _row(point: PointData, metric: str) -> Row:
    higher = higher_is_better(metric)
    heading, slope = trend(point.curves(metric), higher)
    kept = [(s.value, s.seed) for s in point.seeds if s.value is not None]
    best = (max if higher else min)(kept, key=lambda pair: pair[0], default=None)
    low, high = t_interval(point.values) or (None, None)
    return Row(
        label=point.label,
        model=point.model,
        dataset=point.dataset,
        params=point.params,
        n_ok=len(point.values),
        n=len(point.seeds),
        mean=mean(point.values),
        sd=sd(point.values),
        low=low,
        high=high,
        best=best[0] if best else None,
        best_seed=best[1] if best else None,
        trend=heading,
        slope=slope,
        epochs=point.epochs,
        seeds=tuple(
            SeedValue(run_id=s.run_id, seed=s.seed, value=s.value, outcome=s.outcome, reused_from=s.reused_from)
            for s in point.seeds
        ),
    )


def _failed(points: Sequence[PointData], metric: str) -> Iterator[FailedRun]:
    """Runs without a value, with the cause that was found or what is missing."""
    for point in points:
        for seed in point.seeds:
            if seed.outcome not in _ENDED_BADLY:
                continue
            missing = "its last value is not a number" if seed.outcome == "diverged" else "it did not report it"
            message = seed.message or (None if seed.cause else f"{metric_name(metric)}: {missing}")
            label = point.label if seed.seed is None else f"{point.label} seed {seed.seed}"
            yield FailedRun(run_id=seed.run_id, label=label, cause=seed.cause, message=message, advice=seed.advice)


def _figures(experiment: Experiment, points: Sequence[PointData], metric: str, runs: Sequence[Run]) -> dict[str, bytes]:
    unit = next((r.result.curve_unit for r in runs if r.result and r.result.curves), "epoch")
    datasets = list(dict.fromkeys(p.dataset for p in points))
    found: dict[str, bytes | None] = {}
    for dataset in datasets:
        members = [p for p in points if p.dataset == dataset]
        suffix = f"-{re.sub(r'[^A-Za-z0-9._-]+', '_', dataset or 'none')}" if len(datasets) > 1 else ""
        where = f" on {dataset}" if len(datasets) > 1 else ""
        title = f"{experiment.id}: {planwords.title(experiment.plan.model_copy(update={'dataset': None}))}{where}"
        title = title if where else f"{experiment.id}: {planwords.title(experiment.plan)}"
        found[f"curves{suffix}.png"] = figures.curves(members, metric, title, unit)
        found[f"sweep{suffix}.png"] = figures.sweep(members, metric, title)
        studies = _studies(experiment, dataset, runs, metric)
        found[f"search{suffix}.png"] = trace.trace(studies, metric, title) if studies else None
        found[f"importance{suffix}.png"] = importance.bars(_shares(experiment, studies), metric, title)
    return {name: png for name, png in found.items() if png is not None}


def _studies(experiment: Experiment, dataset: str | None, runs: Sequence[Run], metric: str) -> dict[str, list[Trial]]:
    """The trials of each model on the data set; empty for a grid."""
    space, models = experiment.plan.drawn, experiment.plan.models
    here = [run for run in runs if run.point.dataset == dataset]
    return {m: trials_of([run for run in here if run.point.model == m], space, metric) for m in models if space}


def _shares(experiment: Experiment, studies: Mapping[str, Sequence[Trial]]) -> dict[str, dict[str, float]]:
    """By model, what share of the variance each drawn axis has."""
    finished = {m: [(t.values, t.value) for t in trials if t.value is not None] for m, trials in studies.items()}
    return {model: importance.importance(experiment.plan.drawn, done) for model, done in finished.items()}


def _memory(runs: Sequence[Run]) -> dict[str, object]:
    """The largest peak of all runs and what kind of memory it was."""
    usages = [run.result.usage for run in runs if run.result and run.result.usage.peak_memory_bytes is not None]
    top = max(usages, key=lambda u: u.peak_memory_bytes or 0, default=None)
    return {} if top is None else {"peak_memory_bytes": top.peak_memory_bytes, "memory_kind": top.memory_kind}


def _simulated(runs: Sequence[Run]) -> bool:
    """True when any run trained on a simulated card."""
    results = [run.result for run in runs if run.result]
    return any(r.usage.memory_kind == "host" or "simulated" in r.environment.get("card", "").lower() for r in results)


def _warnings(experiment: Experiment, runs: Sequence[Run], metric: str, as_wished: bool, words: Words) -> Iterator[str]:
    """A metric that nobody reported, what trainers complained of, and why runs were never started, each once."""
    if not as_wished:
        yield words.say("note_metric", wanted=experiment.plan.metric, metric=metric_name(metric))
    said: dict[str, list[str]] = {}
    for run in runs:
        for warning in run.result.warnings if run.result else ():
            said.setdefault(warning, []).append(run.id)
        if run.state is RunState.CANCELLED and not run.fence and run.message:
            said.setdefault(run.message, []).append(run.id)
    for warning, ids in said.items():
        yield f"{warning} ({words.names(ids)})"


def _notes(experiment: Experiment, runs: Sequence[Run], points: Sequence[PointData], words: Words) -> Iterator[str]:
    """What a careful reader should keep in mind."""
    if _simulated(runs):
        yield words.say("note_simulated")
    if any(len(p.values) > 1 for p in points):
        yield words.say("note_split")
    if any(len(c) > 1 for p in points for s in p.seeds for c in s.curves.values()):
        yield words.say("note_last")
    if len({(p.epochs, p.max_steps) for p in points}) > 1:
        yield words.say("note_lengths")
    if reused := [run.reused_from for run in runs if run.reused_from]:
        yield words.say("note_reused", n=len(reused), all=len(runs), where=experiments(reused, words.language == "zh"))
    yield from _changes(latest(runs), words)
    yield from _effort(experiment, runs, words)


def _changes(runs: Sequence[Run], words: Words) -> Iterator[str]:
    """What was changed on runs to heal them, each change with all the runs that had it."""
    said: dict[str, list[str]] = {}
    for run in runs:
        for change in run.changes:
            said.setdefault(change, []).append(run.id)
    for change, ids in said.items():
        yield f"{words.names(list(dict.fromkeys(ids)))}: {change}"


def _effort(experiment: Experiment, runs: Sequence[Run], words: Words) -> Iterator[str]:
    """Estimate against fact, what went to attempts without a result, and what is only roughly known."""
    if experiment.estimate and (hours := sum(r.used.gpu_s for r in runs) / 3600):
        guess = experiment.estimate.gpu_hours
        rough = words.say("rough") if experiment.estimate.rough else ""
        yield words.say("note_estimate", actual=_hours(hours), estimate=_hours(guess), rough=rough)
    ends = [(r.started_at, r.finished_at) for r in runs if r.started_at is not None and r.finished_at is not None]
    if experiment.estimate and ends:
        took = max(end for _, end in ends) - min(start for start, _ in ends)
        span = partial(duration, chinese=words.language == "zh")
        yield words.say("note_wall", actual=span(took), estimate=span(experiment.estimate.wall_s))
    if again := sum(r.retries + r.losses > 0 for r in runs):
        yield words.say("note_attempts", n=again)
    if lost := sum(r.lost_gpu_s for r in runs):
        yield words.say("note_lost", hours=_hours(lost / 3600))
    if moved := [r.id for r in runs if r.made_room_for]:
        yield words.say("note_room", runs=words.names(moved), their="its" if len(moved) == 1 else "their")
    if held := sum(r.result is None and r.used.gpu_s > 0 for r in runs):
        yield words.say("note_held", n=held)
    retried = {r.retry_of for r in runs if r.retry_of and r.state is RunState.FINISHED}
    if retried:
        n = len(retried)
        yield words.say("note_retried", n=n, are="is" if n == 1 else "are", its="its" if n == 1 else "their")


def _hours(hours: float) -> str:
    return fixed(hours, max(1, decimals(None, hours) - 1))
