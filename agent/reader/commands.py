# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Whom or what a command is about, and its arguments."""

from __future__ import annotations

import re

from agent.reader.intents import Intent
from agent.reader.numbers import COUNT, FLAGS, count
from agent.reader.reading import PreviousPlan
from lab.plan import Scalar


def _rx(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, FLAGS)


EXPERIMENT = _rx(
    r"\bexp(?:eriment)?[-_ ]?(?P<n>\d+)(?:\s*/\s*(?P<run>\d+)|[\s,#]*(?:的)?\s*(?:run|job|trial)\s*#?(?P<run2>\d+))?|实验\s*(?P<n2>\d+)"
)
RUN = _rx(
    rf"\b(?:runs?|jobs?|trials?)\s*#?(?P<n>\d+)(?![\d.e%]|\s*(?:more|extra|x\b|seeds?|epochs?|trials?|times|lrs?|models?|random|hours?|hrs?|steps?|iters?|different|gpus?|runs?|minutes?))|第\s*(?P<n2>{COUNT})\s*(?:个|次|组)?\s*(?:run|实验|任务|次|个|组)?|#(?P<n3>\d+)\b|(?P<n4>\d+)\s*号(?:run|实验|任务)?"
)
WAITS = _rx(r"(?:after|once|when|until|等|等到|as soon as)\s*$")
WAITED = _rx(r"^\s*(?:finish|is done|is over|completes?|ends|(?:跑|训练?|做)?完|结束)")
QUEUED = _rx(r"queue|pending|waiting|not (?:yet )?started|排队|队列|等待|还没(?:开始|跑)")
RUNNING = _rx(r"running|正在跑|在跑|运行中")
FAILED = _rx(r"fail|crash|broken|失败|挂(?:了|掉)|崩")
ALL = _rx(r"\ball\b|everything|every\b|\bboth\b|全部|所有|都|统统|全都")
GRANT = _rx(
    rf"(?P<op>give|grant|allocate|add|raise|increase|set|transfer|reduce|lower|cut|给|批|分|加|设)\w*\s*(?:up\s*)?(?:to\s*)?@?(?P<user>[A-Za-z]\w*|[\u4e00-\u9fff]{{1,3}}?)?(?:'s)?[^\d]*?(?P<n>{COUNT})\s*(?:more\s*)?(?:个)?\s*(?:gpu|card|卡)?[- ]?(?:hours?|hrs?|h\b|小时|时|卡时)?"
)
UNTIL = _rx(
    r"(?:until|till|til|up to|到|直到|bis)\s*(?P<en>[^,.;!?]{2,30})|(?P<zh>(?:今|明|后|周|下周)?[\u4e00-\u9fff]{0,3}\d{1,2}\s*(?:点半?|时)|明早|明天早上|明天|周[一二三四五六日末])(?=[^,.;]{0,3}(?:前|恢复|再|之前|以前))"
)
DURATION = _rx(
    rf"(?:for\s+)?(?:the next\s+)?(?P<n>{COUNT}|an|half an|半)\s*(?:个)?\s*(?P<unit>hours?|hrs?|h\b|minutes?|mins?|min\b|days?|小时|分钟|天)"
)
UNMUTE = _rx(
    r"unmute|unsilence|(?:alerts?|notifications?)\s+(?:back )?on|(?:turn|switch) on|resume (?:alerts|notif)|^(?:恢复|打开)"
)
GPU_NUMBER = _rx(r"(?:gpu|card|卡)\s*#?(\d+)|(\d+)\s*号(?:卡|gpu)|第\s*(\d+)\s*张")
MINE = _rx(r"\bmy\b|\bmine\b|我的|自己的")


def named(text: str) -> str | None:
    """The experiment that the text names as what it is about (`exp-12`); None for one that it only waits for."""
    match = EXPERIMENT.search(text)
    if match is None or WAITS.search(text[: match.start()]) or WAITED.match(text[match.end() :]):
        return None
    return f"exp-{int(match['n'] or match['n2'])}"


def target(intent: Intent, text: str, previous: PreviousPlan | None, models: tuple[str, ...]) -> str | None:
    """What the command is about: `exp-33 run 3`, `exp-32: the runs of vit_base_patch16_224`, `requester's queued runs`."""
    several = [m for m in EXPERIMENT.finditer(text) if not WAITS.search(text[: m.start()])]
    if intent == "cancel" and len(several) > 1:
        return ", ".join(
            f"exp-{m['n'] or m['n2']}" + (f" run {m['run'] or m['run2']}" if m["run"] or m["run2"] else "")
            for m in several
        )
    named = EXPERIMENT.search(text)
    home = f"exp-{named['n'] or named['n2']}" if named else previous.id if previous else None
    run = named and (named["run"] or named["run2"])
    if not run and (match := RUN.search(text[: named.start()] + " " + text[named.end() :] if named else text)):
        run = str(count(next(g for g in match.groups() if g)))
    if home and run:
        return f"{home} run {run}"
    if home and models and intent in ("cancel", "status", "explain"):
        return f"{home}: the runs of {', '.join(models)}"
    if intent == "cancel":
        return _stop_target(text, home, bool(named))
    if home is None and intent == "status":
        return "requester's runs"
    return home


def _stop_target(text: str, home: str | None, named: bool) -> str | None:
    kinds = ((QUEUED, "queued"), (FAILED, "failed"), (RUNNING, "running"))
    kind = next((word for pattern, word in kinds if pattern.search(text)), None)
    if home and (named or not MINE.search(text)):
        return f"{home}: the {kind} runs" if kind else home
    if kind:
        return f"requester's {kind} runs"
    return "requester's runs" if ALL.search(text) or MINE.search(text) else home


def arguments(intent: Intent, text: str) -> dict[str, Scalar]:
    """What a command says beside its target."""
    if intent == "quota":
        return _quota(text)
    if intent == "silence":
        return _silence(text)
    if intent == "gpu_status":
        match = GPU_NUMBER.search(text)
        return {"gpu": int(next(g for g in match.groups() if g))} if match else {}
    if intent == "cancel" and re.search(r"\bpause\b|暂停|suspend", text, FLAGS):
        return {"op": "pause"}
    return {}


def _quota(text: str) -> dict[str, Scalar]:
    match = GRANT.search(text)
    if not match or re.search(r"left|remain|剩|多少", text, FLAGS):
        return {"op": "show"}
    words = {"set": "set", "设": "set", "reduce": "reduce", "lower": "reduce", "cut": "reduce"}
    args: dict[str, Scalar] = {"op": words.get(match["op"].lower(), "grant"), "gpu_hours": count(match["n"])}
    user = match["user"]
    return args | {"user": user} if user and user.lower() not in ("me", "my", "我", "quota", "gpu") else args


def _silence(text: str) -> dict[str, Scalar]:
    if UNMUTE.search(text):
        return {"op": "resume"}
    args: dict[str, Scalar] = {"op": "silence", "scope": "requester/this channel"}
    if until := UNTIL.search(text):
        return args | {"until": (until["en"] or until["zh"]).strip()}
    if duration := DURATION.search(text):
        return args | {"for": duration[0].removeprefix("for ").strip()}
    return args
