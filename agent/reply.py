"""What the person reads: the plan with its arithmetic and every assumed value, in the language of the message."""

from __future__ import annotations

from agent import grids
from agent.reader import Reading
from agent.reader.wording import say
from lab.plan import Plan, Range, few

UNSAID = frozenset({"gpus_per_run", "priority"})
"""Assumed fields that a reply need not mention: one card and normal priority are what people expect."""
ANSWERED = frozenset({"help", "gpu_status", "quota", "silence", "status", "explain", "cancel"})
DEFAULT = "default"
"""Why a value was assumed for which nothing speaks but the lab's settings."""
ONE_SEED = "one seed; say `3 seeds` to see the spread"
SPREAD = "one run each cannot tell a difference from luck"
AS_BEFORE = "as in the previous plan"
USUAL_DATASET = "no data set was named; this is the lab's usual one"

REASONS = {
    DEFAULT: "默认",
    ONE_SEED: "一个种子；说“3 个种子”可以看离散程度",
    SPREAD: "每个只跑一次分不清差异和运气",
    AS_BEFORE: "同上一个计划",
    USUAL_DATASET: "没有指定数据集，这是实验室常用的",
    "it ships with Overnight": "Overnight 自带",
    "the only data set on these hosts": "这些机器上唯一的数据集",
    "the lab's default": "实验室默认",
    grids.DECADES: "没有给出取值，按数量级取",
    grids.COMMON: "没有给出取值，取常用值",
}
UNITS = {"seed": "个种子", "lr": "个学习率", "batch_size": "个 batch 大小", "optimizer": "个优化器"}


def reply(reading: Reading, plan: Plan | None, question: str | None) -> str:
    """The whole reply; nothing of the plan that was assumed stays without its value."""
    if reading.refusal:
        return reading.refusal
    if plan is None:
        return question or _command(reading)
    title, arithmetic = (_title(plan), _arithmetic(plan)) if reading.chinese else (plan.title(), plan.arithmetic())
    shown = say("plan", reading.chinese, title=title, arithmetic=arithmetic)
    told = plan.model_copy(update={"assumed": tuple(a for a in plan.assumed if a.field not in UNSAID)})
    assumed = "；".join(_assumptions(told)) if reading.chinese else "; ".join(told.assumptions_in_words())
    shown += say("assumed", reading.chinese, list=assumed) if assumed else ""
    shown += (
        say("noted", reading.chinese, list=("；" if reading.chinese else "; ").join(plan.notes)) if plan.notes else ""
    )
    return f"{shown} {question}" if question else shown


def _command(reading: Reading) -> str:
    if reading.intent == "chitchat":
        return say(reading.small_talk or "chitchat", reading.chinese)
    key = reading.intent if reading.intent in ANSWERED else "what"
    what = ", ".join(f"{k} {v}" for k, v in reading.args.items())
    anything = "你的实验" if reading.chinese else "your experiments"
    return say(key, reading.chinese, target=reading.target or anything, what=what)


def _title(plan: Plan) -> str:
    names = "、".join(plan.models) if len(plan.models) <= 3 else f"{len(plan.models)} 个模型"
    return f"{names}，数据集 {'、'.join(plan.datasets)}" if plan.datasets else names


def _arithmetic(plan: Plan) -> str:
    """`6 个 run = 2 个模型 x 3 个种子`."""
    parts = [(len(plan.models), "个模型"), (len(plan.datasets), "个数据集")]
    draws = plan.search != "grid"
    parts += [(plan.trials or 0, "次采样")] if draws else []
    for name, axis in plan.axes.items():
        if not draws or name == "seed":
            size = (axis.num or 0) if isinstance(axis, Range) else len(axis)
            parts.append((size, UNITS.get(name, f"个 {name}")))
    factors = " x ".join(f"{n} {what}" for n, what in parts if n > 1)
    return f"{plan.n_runs} 个 run = {factors}" if factors else f"{plan.n_runs} 个 run"


def _assumptions(plan: Plan) -> list[str]:
    """What `Plan.assumptions_in_words` says, in Chinese."""
    by_reason: dict[str, list[str]] = {}
    for assumed in plan.assumed:
        by_reason.setdefault(assumed.reason, []).append(_in_words(plan, assumed.field))
    return [f"{'、'.join(words)}（{_reason(reason)}）" for reason, words in by_reason.items()]


def _in_words(plan: Plan, field: str) -> str:
    if field == "epochs":
        return f"{plan.epochs} 轮"
    if field == "dataset":
        return f"数据集 {'、'.join(few(plan.datasets))}"
    seeds = plan.axes.get("seed")
    if field == "axes.seed" and isinstance(seeds, tuple) and seeds == tuple(range(len(seeds))):
        return f"{len(seeds)} 个种子"
    return plan.in_words(field)


def _reason(reason: str) -> str:
    return REASONS.get(reason) or reason.replace("concluded from", "根据").replace(" was read as ", " 读作 ")
