"""The answer to an experiment: what was measured, what follows from it, and its text for files and terminals."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from lab.plan import Scalar, number
from lab.reportwords import WORDS, advice
from lab.reuse import experiments
from lab.run import Record

Outcome = Literal["ok", "diverged", "failed", "pruned", "cancelled", "unfinished"]
Trend = Literal["improving", "flat", "worsening"]

_SHARES = frozenset(
    {"acc", "accuracy", "top1", "top5", "f1", "auc", "auroc", "precision", "recall", "miou", "iou", "map"}
)
_LOWER = frozenset(
    {"loss", "perplexity", "ppl", "error", "err", "latency", "time", "duration", "mse", "mae", "rmse", "wer", "cer"}
    | {"fid", "nll", "bpb", "bpc", "memory", "energy"}
)
_UNITS = {"ms": "ms", "s": "s", "bytes": "bytes", "mw": "mW"}


class SeedValue(Record):
    """What one seed of a point came to."""

    run_id: str
    seed: Scalar | None = None
    value: float | None = None
    """Last value of the report's metric; None unless `outcome` is ok."""
    outcome: Outcome = "ok"
    reused_from: str | None = None
    """The run of another experiment that it is the result of; None where it ran for this one."""


class Row(Record):
    """One point of the experiment over its seeds; a statistic is None where too few seeds finished."""

    label: str
    """What tells the point from the others: `resnet50 lr 0.001`."""
    model: str
    dataset: str | None = None
    params: dict[str, Scalar] = Field(default_factory=dict)
    """The axes that vary, without the seed."""
    n_ok: int
    n: int
    mean: float | None = None
    sd: float | None = None
    """Sample standard deviation over seeds (n - 1)."""
    low: float | None = None
    """Lower end of the 95 % t interval of the mean, not clipped to the metric's range."""
    high: float | None = None
    best: float | None = None
    best_seed: Scalar | None = None
    trend: Trend | None = None
    """Where the curves were heading in their last third; None when there are too few epochs to tell."""
    slope: float | None = None
    """Improvement of the metric an epoch (or step) there; positive is better, whatever the metric's direction."""
    epochs: int | None = None
    seeds: tuple[SeedValue, ...] = ()


class Verdict(Record):
    """What follows from the numbers, in words."""

    headline: str
    details: tuple[str, ...] = ()
    winners: dict[str, str] = Field(default_factory=dict)
    """Data set (empty string when there is none) to the label of its winner; a data set without a winner is absent."""


class FailedRun(Record):
    """A run without a result, and why."""

    run_id: str
    label: str
    cause: str | None = None
    message: str | None = None
    advice: str | None = None
    """What a person can do about it."""


class Report(Record):
    """The answer to an experiment. A retry makes a new revision, never another report."""

    experiment_id: str
    revision: int = 1
    title: str
    verdict: Verdict
    rows: tuple[Row, ...] = ()
    """Best point first, data set by data set."""
    notes: tuple[str, ...] = ()
    """What to keep in mind when reading the numbers."""
    warnings: tuple[str, ...] = ()
    """What went wrong, or what trainers complained of."""
    metric: str
    higher_is_better: bool = True
    n_ok: int = 0
    n_failed: int = 0
    n_pruned: int = 0
    """Runs of a search that were stopped early as hopeless."""
    n_cancelled: int = 0
    failed: tuple[FailedRun, ...] = ()
    gpu_hours: float = 0.0
    peak_memory_bytes: int | None = None
    memory_kind: str = "gpu"
    """`gpu`, or `host` where simulated cards trained on the CPU."""
    simulated: bool = False
    again: str
    """The command that runs it once more, quoted for a shell."""
    figures: tuple[str, ...] = ()
    """File names of the figures that go with it."""
    language: Literal["en", "zh"] = "en"
    """Language of the verdict and the notes."""
    created_at: float = 0.0


def chinese(report: Report) -> bool:
    """True when the report speaks Chinese."""
    return report.language == "zh"


def is_share(metric: str) -> bool:
    """True for metrics that live in 0..1, such as an accuracy."""
    return any(part in _SHARES for part in metric.lower().split("_"))


def higher_is_better(metric: str) -> bool:
    """False for losses, errors, times and the like, by the words of the metric's name."""
    return not any(part in _LOWER for part in re.split(r"[_\s/-]+", metric.lower()))


def metric_name(metric: str) -> str:
    """The metric as people read it, its unit in brackets: `val acc`, `latency (ms)`."""
    words = metric.split("_")
    if len(words) > 1 and words[-1] in _UNITS:
        if words[-2] == "per":
            return " ".join([*words[:-2], "per", _UNITS[words[-1]]])
        return f"{' '.join(words[:-1])} ({_UNITS[words[-1]]})"
    return " ".join(words)


def decimals(spread: float | None, value: float = 0.0) -> int:
    """Decimals that `spread` supports; without one, three significant digits of `value`.

    Two significant digits of a spread that starts below 355, one of the others (Particle Data Group, Review of
    Particle Physics, introduction, 5.3): 0.953 ± 0.013, but 0.64 ± 0.08.
    """
    basis, digits = (spread, 2) if spread and math.isfinite(spread) else (value, 3)
    if not basis or not math.isfinite(basis):
        return 3
    exponent = max(-300, math.floor(math.log10(abs(basis)) + 1e-12))  # below that 10**exponent is 0
    if basis is spread and abs(basis) / 10.0**exponent >= 3.55:
        digits = 1
    return max(-6, min(6, digits - 1 - exponent))


def fixed(value: float | None, places: int) -> str:
    """The value with that many decimals (negative: rounded to tens, hundreds, ...); `-` for None."""
    if value is None or not math.isfinite(value):
        return "-"
    text = f"{round(value, places):.{max(0, places)}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def format_pm(mean: float | None, sd: float | None) -> str:
    """Mean and spread with no more digits than the spread supports: `0.953 ± 0.013`, `12350 ± 230`."""
    if mean is None:
        return "-"
    places = decimals(sd, mean)
    return fixed(mean, places) if sd is None else f"{fixed(mean, places)} ± {fixed(sd, places)}"


def format_interval(low: float | None, high: float | None, *, share: bool = False, to: str = " to ") -> str:
    """An interval rounded by its own width; a share is shown within 0..1, though computed without that limit."""
    if low is None or high is None:
        return "-"
    places = decimals((high - low) / 2, high)
    if share:
        low, high = max(0.0, low), min(1.0, high)
    return f"{fixed(low, places)}{to}{fixed(high, places)}"


def again_command(request_text: str, fallback: str) -> str:
    """The command that asks the same again, on one line and quoted for a POSIX shell."""
    text = " ".join("".join(c if c.isprintable() else " " for c in request_text).split()) or fallback
    return " ".join(["overnight", "ask", *(["--"] if text.startswith("-") else []), shlex.quote(text)])


def used(report: Report) -> str:
    """What the experiment used: `0.19 GPU-h, peak 1.9 GiB`; simulated cards are named as such."""
    parts = [f"{fixed(report.gpu_hours, max(2, decimals(None, report.gpu_hours) - 1))} GPU-h"]
    if report.peak_memory_bytes is not None:
        kind = WORDS.say("host_memory", chinese(report)) if report.memory_kind == "host" else ""
        parts.append(WORDS.say("peak", chinese(report), memory=f"{_memory(report.peak_memory_bytes)}{kind}"))
    if report.simulated:
        parts.append(WORDS.say("simulated", chinese(report)))
    return WORDS.say("comma", chinese(report)).join(parts)


def counts(report: Report) -> str:
    """How the runs ended: `4 ok, 2 failed`."""
    parts = [(report.n_ok, "ok"), (report.n_failed, "failed"), (report.n_pruned, "pruned")]
    parts += [(report.n_cancelled, "cancelled")]
    said = [WORDS.say(what, chinese(report), n=n) for n, what in parts if n]
    return WORDS.say("comma", chinese(report)).join(said) or WORDS.say("none", chinese(report))


def summary_lines(report: Report) -> list[str]:
    """The report as plain lines for a terminal or a log: headline, details, one line a point, what it used, again."""
    lines = [report.verdict.headline, *report.verdict.details, ""]
    width = max((len(_place(r, report)) for r in report.rows), default=0)
    lines += [f"  {_place(row, report):<{width}}  {_row_line(row, report)}" for row in report.rows]
    lines += [f"  {failure(run, report)}" for run in report.failed]
    totals = WORDS.say("comma", chinese(report)).join((counts(report), used(report)))
    return [*lines, "", totals, WORDS.say("again", chinese(report), command=report.again)]


def to_markdown(report: Report) -> str:
    """The report as a GitHub Markdown document, every foreign text escaped."""
    zh = chinese(report)
    revision = WORDS.say("revision", zh, n=report.revision) if report.revision > 1 else ""
    failed = [f"{_text(r.run_id)} ({_text(r.label)}): {_text(reason(r, zh))}" for r in report.failed]
    blocks = [
        f"# {_text(report.experiment_id)}: {_text(report.title)}{revision}",
        f"**{_text(report.verdict.headline)}**",
        "\n".join(f"- {_text(d)}" for d in report.verdict.details),
        _table(report),
        "\n".join(f"![{_alt(name)}]({name})" for name in report.figures),
        _section(WORDS.say("failed_runs", zh), failed),
        _section(WORDS.say("warnings", zh), [_text(w) for w in report.warnings]),
        _section(WORDS.say("notes", zh), [_text(n) for n in report.notes]),
        f"{counts(report)}; {used(report)}.",
        f"{WORDS.say('run_again', zh)}\n\n{_fence(report.again)}",
    ]
    return "\n\n".join(b for b in blocks if b) + "\n"


def _table(report: Report) -> str:
    """One line a point: a column for each thing that varies, then the statistics."""
    if not report.rows:
        return ""
    axes = list(dict.fromkeys(name for row in report.rows for name in row.params))
    zh, mean = chinese(report), WORDS.say("mean", chinese(report), metric=metric_name(report.metric))
    head = [WORDS.say("model", zh), WORDS.say("dataset", zh), *axes, WORDS.say("seeds", zh), mean]
    head += [WORDS.say(key, zh) for key in ("interval", "best_seed", "at_the_end")]
    lines = [_cells(head), _cells(["---"] * (2 + len(axes)) + ["---:"] * 4 + ["---"])]
    for row in report.rows:
        values = [number(row.params[a]) if a in row.params else "-" for a in axes]
        ended, *statistics = _statistics(row, report)
        lines.append(_cells([row.model, row.dataset or "-", *values, ended + reused(row, report), *statistics]))
    return "\n".join(lines)


def _statistics(row: Row, report: Report) -> list[str]:
    best = fixed(row.best, decimals(row.sd, row.best or 0.0))
    if row.best is not None and row.best_seed is not None:
        best += WORDS.say("with_seed", chinese(report), seed=number(row.best_seed))
    to = WORDS.say("to", chinese(report))
    interval = format_interval(row.low, row.high, share=is_share(report.metric), to=to)
    ended = WORDS.say("of", chinese(report), n=row.n_ok, all=row.n)
    return [ended, format_pm(row.mean, row.sd), interval, best, trend_words(row.trend, chinese(report))]


def reused(row: Row, report: Report) -> str:
    """` (2 from exp-12)` behind its seeds; empty where all of them ran for this report."""
    found = [seed.reused_from for seed in row.seeds if seed.reused_from]
    if not found:
        return ""
    return WORDS.say("reused", chinese(report), n=len(found), where=experiments(found, chinese(report)))


def trend_words(trend: Trend | None, chinese: bool = False) -> str:
    """The trend of the last third in two words; `-` when it is not known."""
    return WORDS.say(trend, chinese) if trend else "-"


def _row_line(row: Row, report: Report) -> str:
    seeds, pm, interval, _, trend = _statistics(row, report)
    zh = chinese(report)
    missing = "stopped_early" if any(seed.outcome == "pruned" for seed in row.seeds) else "no_result"
    parts = [f"{metric_name(report.metric)} {pm}" if row.n_ok else WORDS.say(missing, zh)]
    parts += [WORDS.say("n_seeds", zh, n=seeds) + reused(row, report)]
    parts += [WORDS.say("interval_of", zh, interval=interval)] if interval != "-" else []
    return WORDS.say("comma", zh).join([*parts, *([trend] if row.trend else [])])


def _place(row: Row, report: Report) -> str:
    several = len({r.dataset for r in report.rows}) > 1
    return f"{row.dataset}: {row.label}" if several and row.dataset else row.label


def failure(run: FailedRun, report: Report) -> str:
    """`exp-12/3 failed: oom_gpu: CUDA out of memory (a smaller batch)`."""
    return WORDS.say("run_failed", chinese(report), run=run.run_id, why=reason(run, chinese(report)))


def reason(run: FailedRun, chinese: bool = False) -> str:
    """Cause, deciding line and advice in one line, as far as they are known."""
    found = ": ".join(part for part in (run.cause, run.message) if part) or WORDS.say("unknown", chinese)
    told = advice(run.cause, run.advice, chinese)
    return f"{found} ({told})" if told else found


def _memory(size: int) -> str:
    gib = size / 2**30
    return f"{gib:.1f} GiB" if gib >= 1 else f"{size / 2**20:.0f} MiB"


def _section(title: str, items: Sequence[str]) -> str:
    return "\n".join([f"## {title}", "", *(f"- {item}" for item in items)]) if items else ""


def _cells(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell if set(cell) <= set("-:") else _text(cell) for cell in cells) + " |"


def _text(text: str) -> str:
    """Text that Markdown and HTML leave as it is, on one line (GitHub Flavored Markdown 6.1: backslash escapes)."""
    escaped = re.sub(r"([\\`*_\[\]<>|#~$&@!])", r"\\\1", " ".join(text.split()))
    # An underscore inside a word is no emphasis (6.2), and efficientnet_b0 should stay findable.
    return re.sub(r"(?<=[^\W_])\\_(?=[^\W_])", "_", escaped)


def _alt(name: str) -> str:
    return _text(name.rsplit(".", 1)[0])


def _fence(command: str) -> str:
    """A code block whose fence is longer than any run of backticks inside."""
    ticks = max((len(run) for run in re.findall(r"`+", command)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}sh\n{command}\n{fence}"
