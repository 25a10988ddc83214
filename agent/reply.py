"""What the person reads: the plan with its arithmetic and every assumed value, in the language of the message."""

from __future__ import annotations

from agent.reader import Reading
from agent.reader.wording import say
from lab import planwords
from lab.plan import Plan

UNSAID = frozenset({"gpus_per_run", "priority"})
"""Assumed fields that a reply need not mention: one card and normal priority are what people expect."""
ANSWERED = frozenset({"help", "gpu_status", "quota", "silence", "status", "explain", "cancel"})
DEFAULT = "default"
"""Why a value was assumed for which nothing speaks but the lab's settings."""
ONE_SEED = "one seed; say `3 seeds` to see the spread"
SPREAD = "one run each cannot tell a difference from luck"
AS_BEFORE = "as in the previous plan"
USUAL_DATASET = "no data set was named; this is the lab's usual one"


def reply(reading: Reading, plan: Plan | None, question: str | None) -> str:
    """The whole reply; nothing of the plan that was assumed stays without its value."""
    if reading.refusal:
        return reading.refusal
    if plan is None:
        return question or _command(reading)
    shown = say(
        "plan",
        reading.chinese,
        title=planwords.title(plan, reading.chinese),
        arithmetic=planwords.arithmetic(plan, reading.chinese),
    )
    told = plan.model_copy(update={"assumed": tuple(a for a in plan.assumed if a.field not in UNSAID)})
    assumed = ("；" if reading.chinese else "; ").join(planwords.assumptions(told, reading.chinese))
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
