"""The report in the thread: the verdict, a table of the points, what it used, how to run it again."""

from __future__ import annotations

from collections.abc import Sequence

from bot.render.message import CELLS_CHARS, Block, Message, actions, button, context, message, section, table
from bot.render.text import code, cut, escape, name, shorten
from lab.report import (
    FailedRun,
    Report,
    Row,
    chinese,
    counts,
    format_interval,
    format_pm,
    is_share,
    metric_name,
    reason,
    reused,
    summary_lines,
    used,
)
from lab.reportwords import WORDS

RETRY = "retry_failed"

MOST_ROWS = 50
TOP_ROWS = 20
MOST_DETAILS = 7
MOST_FAILED = 5
MOST_SAID = 8
EVIDENCE_CHARS = 160
LABEL_CHARS = 60
REPORT_FILE = "report.md"


def report_card(report: Report) -> Message:
    """The report's message; more than MOST_ROWS points show the best, and say where the rest is."""
    retry = button(WORDS.say("retry", chinese(report)), RETRY, name(report.experiment_id))
    rows = list(report.rows) if len(report.rows) <= MOST_ROWS else list(report.rows[:TOP_ROWS])
    return message(
        _fallback(report, rows),
        section(_head(report)),
        table(_cells(report, rows), (False, True, True, True)) if rows else None,
        context(_hidden(report, rows), _end(report)),
        section(f"{WORDS.say('again', chinese(report), command='').strip()}\n{code(cut(report.again, 1_500))}"),
        context(*_small_print(report)),
        actions(retry) if report.failed else None,
    )


def _head(report: Report) -> str:
    revision = WORDS.say("revision", chinese(report), n=report.revision) if report.revision > 1 else ""
    details = report.verdict.details[:MOST_DETAILS]
    lines = [f"*{name(report.experiment_id)}*{revision}: {escape(report.title)}", f"*{_bold(report.verdict.headline)}*"]
    return "\n".join([shorten(line, 600) for line in lines] + [f"• {shorten(escape(d), 240)}" for d in details])


def _bold(text: str) -> str:
    return name(text, 500)


def _cells(report: Report, rows: Sequence[Row]) -> list[list[str]]:
    """Header and rows; labels are shorter where the table would be larger than Slack takes."""
    zh = chinese(report)
    mean = WORDS.say("mean", zh, metric=metric_name(report.metric))
    head = [WORDS.say("point", zh), mean, WORDS.say("interval", zh), WORDS.say("seeds", zh)]
    several = len({row.dataset for row in report.rows}) > 1
    for width in (LABEL_CHARS, 24, 12):
        cells = [head, *(_row(report, row, several, width) for row in rows)]
        if sum(len(cell) for line in cells for cell in line) <= CELLS_CHARS:
            break
    return [[cut(cell, 120) for cell in line] for line in cells]


def _row(report: Report, row: Row, several: bool, width: int) -> list[str]:
    label = f"{row.dataset}: {row.label}" if several and row.dataset else row.label
    to = WORDS.say("to", chinese(report))
    interval = format_interval(row.low, row.high, share=is_share(report.metric), to=to)
    ended = f"{row.n_ok}" if row.n_ok == row.n else WORDS.say("of", chinese(report), n=row.n_ok, all=row.n)
    ended += reused(row, report)
    return [cut(" ".join(label.split()), width), format_pm(row.mean, row.sd), interval, ended]


def _hidden(report: Report, rows: Sequence[Row]) -> str:
    if len(rows) == len(report.rows):
        return ""
    return WORDS.say("best_of", chinese(report), n=len(rows), all=len(report.rows), file=REPORT_FILE)


def _end(report: Report) -> str:
    return escape(f"{counts(report)}; {used(report)}")


def _small_print(report: Report) -> list[str]:
    zh = chinese(report)
    more = len(report.failed) - MOST_FAILED
    lines = [_failed(run, zh) for run in report.failed[:MOST_FAILED]]
    lines += [WORDS.say("more_failed", zh, n=more)] if more > 0 else []
    said = [escape(cut(" ".join(text.split()), 250)) for text in (*report.warnings, *report.notes)]
    hidden = len(said) - MOST_SAID
    said = said[:MOST_SAID] + ([WORDS.say("more_said", zh, n=hidden, file=REPORT_FILE)] if hidden > 0 else [])
    return [*lines, "\n".join(said)]


def _failed(run: FailedRun, zh: bool) -> str:
    """A deciding line may be long, an OOM's is; what to do about it stands behind it and is never cut for that."""
    shown = run.model_copy(update={"message": cut(run.message, EVIDENCE_CHARS) if run.message else None})
    return WORDS.say("run_failed", zh, run=name(run.run_id), why=name(reason(shown, zh), 600))


def _fallback(report: Report, rows: Sequence[Row]) -> str:
    """The report as text, for notifications and where the blocks are refused."""
    shown = report.model_copy(update={"rows": tuple(rows)})
    lines = [f"{report.experiment_id}: {report.title}", *summary_lines(shown), _hidden(report, rows)]
    return escape("\n".join(line for line in lines if line))


def upload_comment(report: Report, missing: Sequence[str]) -> str:
    """What stands beside the files of a report, or in place of those that are gone."""
    zh = chinese(report)
    gone = WORDS.say("gone", zh, files=", ".join(name(m) for m in missing)) if missing else ""
    return WORDS.say("upload", zh, experiment=name(report.experiment_id), gone=gone)


def no_report(experiment_id: str, revision: int, zh: bool) -> Block:
    """Said where the report is gone."""
    return section(WORDS.say("no_report", zh, experiment=name(experiment_id), n=revision))
