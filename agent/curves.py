"""A curve in a message: what the runs of an experiment measured of one metric, epoch by epoch."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from lab.language import Phrasebook, is_chinese
from lab.ledger import Ledger
from lab.report import fixed, metric_name
from lab.run import Experiment, Run

ASKS = re.compile(
    r"\b(?:plot|draw|graph|curves?|chart)\b|曲线|画(?:一?下|出|个)?|作图|绘图|图(?:表|看看)",
    re.IGNORECASE,
)
METRICS = (
    ("val_loss", re.compile(r"\bval(?:idation)?[ _-]*loss|验证(?:集)?(?:的)?\s*(?:loss|损失)", re.IGNORECASE)),
    (
        "train_loss",
        re.compile(r"\b(?:train(?:ing)?[ _-]*)?loss|(?:训练)?(?:集)?(?:的)?\s*(?:loss|损失)", re.IGNORECASE),
    ),
    ("train_acc", re.compile(r"\btrain(?:ing)?[ _-]*acc\w*|训练(?:集)?(?:的)?\s*(?:准确率|精度)", re.IGNORECASE)),
)
WORDS = Phrasebook(
    {
        "head": ("{id}: {metric} by {unit}, first to last", "{id}：{metric} 随 {unit} 变化，从第一个到最后一个"),
        "line": (
            "{label}  {bars}  {first} to {last} (best {best})",
            "{label}  {bars}  {first} 到 {last}（最好 {best}）",
        ),
        "none": ("{id} has no {metric} yet: no run has ended.", "{id} 还没有 {metric}：没有结束的 run。"),
        "more": ("and {n} more runs", "另有 {n} 个 run"),
    }
)
BARS = "▁▂▃▄▅▆▇█"
MOST_POINTS = 40
MOST_RUNS = 20


def answer(text: str, experiment: Experiment, run: Run | None, ledger: Ledger) -> str | None:
    """The curves that the message asks for; None where it asks for none."""
    if not ASKS.search(text):
        return None
    metric = next((name for name, pattern in METRICS if pattern.search(text)), experiment.plan.metric or "val_acc")
    chinese = is_chinese(text)
    runs = [run] if run is not None else ledger.runs(experiment.id)
    told = [r for r in runs if r.result and r.result.curves.get(metric)]
    shown = metric_name(metric)
    if not told:
        return WORDS.say("none", chinese, id=run.id if run else experiment.id, metric=shown)
    unit = told[0].result.curve_unit if told[0].result else "epoch"
    lines = [WORDS.say("head", chinese, id=run.id if run else experiment.id, metric=shown, unit=unit)]
    lines += [_line(r, metric, experiment.plan.varying, chinese) for r in told[:MOST_RUNS]]
    more = len(told) - MOST_RUNS
    return "\n".join(lines + ([WORDS.say("more", chinese, n=more)] if more > 0 else []))


def _line(run: Run, metric: str, varying: tuple[str, ...], chinese: bool) -> str:
    curve = run.result.curves[metric] if run.result else []
    values = [v for _, v in curve if v is not None and math.isfinite(v)]
    best = (min if "loss" in metric else max)(values, default=math.nan)
    ends = {"first": fixed(values[0], 3), "last": fixed(values[-1], 3)} if values else {"first": "-", "last": "-"}
    label = f"{run.number} {run.point.label(varying)}"
    return WORDS.say("line", chinese, label=label, bars=bars(values), best=fixed(best, 3), **ends)


def bars(values: Sequence[float]) -> str:
    """The values as bars from the lowest to the highest; at most MOST_POINTS of them, evenly chosen."""
    step = max(1, math.ceil(len(values) / MOST_POINTS))
    chosen = [*values[::step], *([values[-1]] if values and (len(values) - 1) % step else [])]
    low, high = min(chosen, default=0.0), max(chosen, default=0.0)
    span = (high - low) or 1.0
    return "".join(BARS[round((v - low) / span * (len(BARS) - 1))] for v in chosen)
