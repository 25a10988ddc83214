"""The progress card: one line a run with its bar, one message an experiment, edited as it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bot.render.message import Block, Message, actions, button, confirm, context, message, section
from bot.render.text import code, column, cut, escape, name
from bot.render.words import WORDS, chinese
from lab.estimate import duration
from lab.language import state_word
from lab.plan import Plan, Scalar, number
from lab.report import fixed, metric_name
from lab.run import FINAL_EXPERIMENT, FINAL_RUN, Experiment, ExperimentState, Progress, Run, RunState
from lab.trials import was_pruned

CANCEL, PAUSE, RESUME = "cancel_experiment", "pause_experiment", "resume_experiment"

MOST_LINES = 20
LABEL_CELLS = 30
BAR_CELLS = 10
_USUAL = ("val_acc", "val_loss", "train_acc", "train_loss", "loss")
_AXES = {"lr": "lr", "batch_size": "bs", "weight_decay": "wd"}
_ORDER = {
    RunState.RUNNING: 0,
    RunState.CANCELLING: 1,
    RunState.PAUSED: 2,
    RunState.DISPATCHED: 3,
    RunState.FAILED: 4,
    RunState.FINISHED: 5,
    RunState.CANCELLED: 6,
    RunState.QUEUED: 7,
}


@dataclass(frozen=True)
class RunLine:
    """What the card shows of a run. One that has ended is made once and kept."""

    number: int
    label: str
    state: RunState
    share: float = 0.0
    detail: str = ""
    pruned: bool = False
    """Its search stopped it early."""
    since: float = 0.0
    """When it last changed hands: ended, started or was queued."""


def run_line(run: Run, progress: Progress | None, plan: Plan, place: str = "", zh: bool = False) -> RunLine:
    """The line of this run as it is now.

    Args:
        place: where it stands in the queue, in words.
        zh: the line speaks Chinese.
    """
    ended = run.finished_at if run.state in FINAL_RUN else None
    running = run.state in (RunState.RUNNING, RunState.CANCELLING, RunState.PAUSED)
    return RunLine(
        number=run.number,
        label=_label(run, plan),
        state=run.state,
        share=1.0 if run.state is RunState.FINISHED else (progress.share or 0.0) if progress and running else 0.0,
        detail=_queued(run, place, zh)
        if run.state is RunState.QUEUED
        else _detail(run, progress if running else None, plan.metric, zh),
        pruned=was_pruned(run),
        since=ended or run.started_at or run.queued_at,
    )


def progress_card(experiment: Experiment, lines: Sequence[RunLine], expected: Sequence[str] = ()) -> Message:
    """The card of an approved experiment: how many are done, and its runs.

    Args:
        expected: when it begins and ends, in words.
    """
    live, zh = experiment.state not in FINAL_EXPERIMENT, chinese(experiment)
    comma = WORDS.say("comma", zh)
    head = comma.join(
        [f"*{experiment.id}*: {comma.join(_headline(experiment, lines, zh))}", *(expected if live else ())]
    )
    shown, rest = _chosen(lines, zh)
    width = min(LABEL_CELLS, max((len(line.label) for line in shown), default=0))
    digits = len(str(max((line.number for line in shown), default=0)))
    body = "\n".join(_row(line, digits, width) for line in shown)
    return message(
        "\n".join([head, *([escape(body)] if body else []), *([rest] if rest else [])]),
        section(head),
        section(code(body)) if body else None,
        context(rest),
        _buttons(experiment.id, lines, zh) if live else None,
    )


def _headline(experiment: Experiment, lines: Sequence[RunLine], zh: bool) -> list[str]:
    counts = Counter(line.state for line in lines if not line.pruned)
    pruned = sum(line.pruned for line in lines)
    ended_badly = [state for state in (RunState.FAILED, RunState.CANCELLED) if counts[state]]
    bad = [WORDS.say("counted", zh, n=counts[state], state=state_word(state, zh)) for state in ended_badly]
    bad += [WORDS.say("n_pruned", zh, n=pruned)] if pruned else []
    done = WORDS.say("done_of", zh, done=counts[RunState.FINISHED], all=len(lines))
    match experiment.state:
        case ExperimentState.CANCELLED:
            return [state_word("cancelled", zh), done]
        case ExperimentState.FAILED:
            return [state_word("failed", zh), done, *bad]
        case ExperimentState.APPROVED if not counts[RunState.FINISHED] and not bad:
            return [WORDS.say("n_queued", zh, n=experiment.n_runs, s="" if experiment.n_runs == 1 else "s")]
    return [done, *bad]


def _chosen(lines: Sequence[RunLine], zh: bool) -> tuple[list[RunLine], str]:
    """The lines that are shown, by number, and a sentence about the rest."""
    if len(lines) <= MOST_LINES:
        return sorted(lines, key=lambda line: line.number), ""
    ranked = sorted(lines, key=lambda line: (_ORDER[line.state], -line.since if line.state in FINAL_RUN else 0.0))
    shown, hidden = ranked[:MOST_LINES], ranked[MOST_LINES:]
    counts = Counter(line.state for line in hidden)
    ordered = sorted(counts.items(), key=lambda c: _ORDER[c[0]])
    rest = WORDS.say("comma", zh).join(WORDS.say("more", zh, n=n, state=state_word(s, zh)) for s, n in ordered)
    return sorted(shown, key=lambda line: line.number), WORDS.say("and", zh, list=rest)


def _row(line: RunLine, digits: int, width: int) -> str:
    return f"{line.number:>{digits}} {column(line.label, width)} {_bar(line)} {line.detail}".rstrip()


def _bar(line: RunLine) -> str:
    full = round(line.share * BAR_CELLS)
    if line.state is not RunState.FINISHED:
        full = min(full, BAR_CELLS - 1)  # full means done
    return "█" * full + "░" * (BAR_CELLS - full)


def _label(run: Run, plan: Plan) -> str:
    """The run in a few words: its model and what varies, the data set where there are several."""
    shown = [f"{_AXES.get(k, k)} {number(v)}" for k, v in _varying(run, plan).items()]
    where = [run.point.dataset] if run.point.dataset and len(plan.datasets) > 1 else []
    return cut(" ".join(" ".join([run.point.model, *where, *shown]).split()), 200)


def _varying(run: Run, plan: Plan) -> dict[str, Scalar]:
    return {k: v for k, v in run.point.params.items() if k in plan.varying}


def _queued(run: Run, place: str, zh: bool) -> str:
    if run.room:
        return WORDS.say("made_room", zh, run=run.room.for_run, place=place or WORDS.say("later", zh))
    return place or WORDS.say("queued" if run.fence == 0 else "queued_again", zh)


def _detail(run: Run, progress: Progress | None, wanted: str | None, zh: bool) -> str:
    match run.state:
        case RunState.FINISHED:
            value = _metric(run.result.metrics if run.result else {}, wanted) or WORDS.say("done", zh)
            source = WORDS.say("reused", zh, id=run.reused_from) if run.reused_from else ""
            return WORDS.say("comma", zh).join(filter(None, [value, source]))
        case RunState.FAILED:
            why = " ".join((run.cause or run.message or WORDS.say("no_cause", zh)).split())
            return cut(WORDS.say("failed", zh, why=why), 60)
        case RunState.CANCELLED if was_pruned(run):
            value = _metric(run.result.metrics if run.result else {}, wanted)
            return WORDS.say("comma", zh).join(filter(None, [WORDS.say("pruned_at", zh, n=run.pruned_at), value]))
        case RunState.DISPATCHED:
            return WORDS.say("starting", zh)
        case RunState.CANCELLING:
            return WORDS.say("stopping", zh)
        case RunState.RUNNING | RunState.PAUSED if progress is not None:
            return _under_way(run, progress, wanted, zh)
    return state_word(run.state, zh)


def _under_way(run: Run, progress: Progress, wanted: str | None, zh: bool) -> str:
    parts = [WORDS.say("paused", zh)] if run.state is RunState.PAUSED else []
    for key, at, total in (
        ("epoch", progress.epoch, progress.epochs_total),
        ("step", progress.step or None, progress.steps_total),
    ):
        if at is not None:
            parts.append(WORDS.say(key, zh, n=f"{at}/{total}" if total else at))
            break
    parts += [text] if (text := _metric(progress.metrics, wanted)) else []
    parts += [WORDS.say("left", zh, time=duration(progress.eta_s, zh))] if progress.eta_s is not None else []
    return WORDS.say("comma", zh).join(parts) or WORDS.say("running", zh)


def _metric(metrics: dict[str, float | None], wanted: str | None) -> str:
    for key in (*([wanted] if wanted else []), *_USUAL, *metrics):
        if metrics.get(key) is not None:
            return f"{metric_name(key)} {fixed(metrics[key], 3)}"
    return ""


def _buttons(experiment_id: str, lines: Sequence[RunLine], zh: bool) -> Block:
    asked = WORDS.say("sure", zh, id=experiment_id)
    sure = confirm(asked, WORDS.say("what_stops", zh), WORDS.say("yes", zh), WORDS.say("no", zh))
    states = {line.state for line in lines}
    value = name(experiment_id)
    shown = (
        [button(WORDS.say("pause", zh), PAUSE, value)]
        if states - FINAL_RUN - {RunState.PAUSED, RunState.CANCELLING}
        else []
    )
    shown += [button(WORDS.say("resume", zh), RESUME, value)] if RunState.PAUSED in states else []
    return actions(*shown, button(WORDS.say("cancel", zh), CANCEL, value, style="danger", confirm=sure))
