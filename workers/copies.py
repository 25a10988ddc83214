"""Copies of a run that has failed for good: those that still wait are held, or not started at all.

Copies differ in their seed alone, so they share whatever is wrong with the code, the arguments or the data. Runs that
differ in more go on: one bad value of an axis must not stop the others, and no error says for sure which axis is to
blame. Only where several configurations of a model stumble over the very same line is it the model's, and all wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from lab.errors import MoveRefused
from lab.language import Phrasebook, is_chinese
from lab.ledger import Ledger
from lab.reportwords import advice
from lab.run import Run, RunState
from lab.settings import Settings
from workers.cures import CURES
from workers.rundir import RunDir, read_log

log = logging.getLogger(__name__)

IN_A_ROW = 3
"""So many copies of a configuration that failed alike stop the others; so many configurations of a model hold it."""
NOT_THE_CONFIGURATIONS = frozenset(
    {"disk_full", "network", "port_in_use", *(c for c, steps in CURES.items() if any(s.loss for s in steps))}
)
"""Causes that lie with host, card or network: other copies of the run may well do better."""
PEOPLE_MUST_ACT = frozenset(cause for cause, steps in CURES.items() if not steps) - {"disk_full", "none"}
"""Causes against which nothing is tried: as long as nobody acts, a copy meets the same."""
WORDS = Phrasebook(
    {
        "why_held": (
            "held: {id} failed before its first step with {cause}",
            "已暂缓：{id} 在第一步之前就失败了（{cause}）",
        ),
        "why_stopped": (
            "not started: {label} failed {times} times in a row with {cause}",
            "未启动：{label} 连续 {times} 次失败（{cause}）",
        ),
        "held": (
            "{id} ({label}) failed before its first step with {cause}, so {n} waiting {are} held: {ids}{more}.",
            "{id}（{label}）在第一步之前就失败了（{cause}），所以暂缓了 {n} 个等待中的 run：{ids}{more}。",
        ),
        "more": (" and {n} more", " 等，另有 {n} 个"),
        "what_then": (
            "When it is mended: `retry {id}` and `resume {experiment}`. To give up what has not ended: "
            "`cancel {experiment}`.",
            "修好之后：`重试 {id}`，再 `恢复 {experiment}`。放弃还没结束的：`取消 {experiment}`。",
        ),
        "stopped": (
            "{label} failed {times} times in a row with {cause} ({line}), so its {n} remaining run{are} not started. "
            "{advice}",
            "{label} 连续 {times} 次失败（{cause}：{line}），所以剩下的 {n} 个 run 不再启动。{advice}",
        ),
    }
)
TOLD_LINES = 6
TOLD_CHARS = 300
"""Of the log's end so much is told in the thread."""


def spare(ledger: Ledger, settings: Settings, run: Run) -> list[Run]:
    """The runs that the failed one kept from starting, which the experiment's thread was told once."""
    return hold(ledger, settings, run) or stop(ledger, run)


def hold(ledger: Ledger, settings: Settings, run: Run) -> list[Run]:
    """Where the run failed before its first step of what people must mend, the copies that wait are paused.

    An hour into a training an error may hang on the seed; in the smoke step it hardly does. After three configurations
    of the model with the same deciding line, all its runs that wait are paused. People resume or cancel them.
    """
    if run.cause not in PEOPLE_MUST_ACT or not _is_early(ledger, run):
        return []
    model = [other for other in ledger.runs(run.experiment_id) if _model(other) == _model(run)]
    alike = {
        _configuration(r) for r in model if (r.cause, r.message) == (run.cause, run.message) and _is_early(ledger, r)
    }
    others = model if len(alike) >= IN_A_ROW else [r for r in model if _configuration(r) == _configuration(run)]
    chinese = is_chinese(ledger.experiment(run.experiment_id).plan.request_text)
    why = WORDS.say("why_held", chinese, id=run.id, cause=run.cause)
    held = _moved(others, lambda other: ledger.hold(other.id, why))
    if held:
        log.warning("%s: %d waiting runs are %s", run.experiment_id, len(held), why)
        end = log_end(read_log(RunDir(settings.runs_dir, run).path / f"attempt-{run.fence}"))
        ledger.notice(run.experiment_id, f"held:{run.number}", held_text(run, held, end, chinese))
    return held


def stop(ledger: Ledger, run: Run) -> list[Run]:
    """After three copies of the run's configuration in a row have failed alike, those that wait are cancelled.

    A diverged run of an experiment that varies lr is a result and stops nothing.
    """
    experiment = ledger.experiment(run.experiment_id)
    result = run.cause == "nan_loss" and "lr" in experiment.plan.varying
    if run.cause is None or run.cause in NOT_THE_CONFIGURATIONS or result:
        return []
    copies = [other for other in ledger.runs(run.experiment_id) if _configuration(other) == _configuration(run)]
    ended = [other for other in copies if other.state in (RunState.FINISHED, RunState.FAILED)]
    last = sorted(ended, key=lambda other: other.finished_at or 0.0)[-IN_A_ROW:]
    if len(last) < IN_A_ROW or any(other.cause != run.cause for other in last):
        return []
    label = run.point.label(tuple(name for name in experiment.plan.varying if name != "seed"))
    chinese = is_chinese(experiment.plan.request_text)
    said = {"label": label, "times": IN_A_ROW, "cause": run.cause}
    why = WORDS.say("why_stopped", chinese, **said)
    stopped = _moved(copies, lambda other: ledger.cancel_run(other.id, "overnight", why))
    if stopped:
        log.warning("%s: %d queued runs of %s are %s", run.experiment_id, len(stopped), label, why)
        are = "s are" if len(stopped) > 1 else " is"
        text = WORDS.say(
            "stopped",
            chinese,
            **said,
            line=run.message,
            n=len(stopped),
            are=are,
            advice=advice(run.cause, run.advice, chinese),
        )
        ledger.notice(run.experiment_id, f"stopped:{copies[0].number}:{run.cause}", text.strip())
    return stopped


def held_text(run: Run, held: list[Run], end: str, chinese: bool = False) -> str:
    """What the thread is told of the runs that are held: why, the log's last lines, and what can be done."""
    ids, n_more = ", ".join(other.id for other in held[:IN_A_ROW]), len(held) - IN_A_ROW
    more = WORDS.say("more", chinese, n=n_more) if n_more > 0 else ""
    are = "run is" if len(held) == 1 else "runs are"
    said = {"id": run.id, "label": run.point.label(), "cause": run.cause}
    parts = [
        WORDS.say("held", chinese, **said, n=len(held), are=are, ids=ids, more=more),
        f"```\n{end}\n```" if end else run.message or "",
        advice(run.cause, run.advice, chinese),
        WORDS.say("what_then", chinese, id=run.id, experiment=run.experiment_id),
    ]
    return "\n".join(part for part in parts if part)


def log_end(text: str) -> str:
    """The last lines of a log, of each at most TOLD_CHARS characters."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()][-TOLD_LINES:]
    return "\n".join(line if len(line) <= TOLD_CHARS else f"{line[:TOLD_CHARS]}…" for line in lines).replace(
        "```", "``"
    )


def _moved(runs: list[Run], move: Callable[[Run], Run]) -> list[Run]:
    """Those of the waiting runs that could be moved: a card may have been free for one in this moment."""
    moved = []
    for run in runs:
        if run.state is not RunState.QUEUED:
            continue
        try:
            moved.append(move(run))
        except MoveRefused as refusal:
            log.info("%s", refusal)
    return moved


def _is_early(ledger: Ledger, run: Run) -> bool:
    """Whether no attempt of the run has reported a step."""
    progress = ledger.progress([run.id]).get(run.id)
    return progress is None or progress.step == 0


def _model(run: Run) -> tuple[str, str]:
    return run.template, run.point.model


def _configuration(run: Run) -> str:
    """What is the same in all copies."""
    params = sorted((name, repr(value)) for name, value in run.point.params.items() if name != "seed")
    return repr((run.template, run.point.model, run.point.dataset, params))
