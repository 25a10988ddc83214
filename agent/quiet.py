"""Silence asked for in words: about what, and until when: `be quiet about exp-31 until tonight`.

Read by code alone: what is silenced, and until when, stands in the answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lab import hosts
from lab.alert import Alerts, Scope, Silence, matches, through
from lab.card import Card
from lab.language import is_chinese
from lab.ledger import Ledger
from lab.run import Answer, Experiment, Request
from lab.when import moment

HOURS = 4
"""How long a silence lasts that names no end."""
LONGEST = timedelta(days=30)

EXPERIMENT = re.compile(r"(?<![\w-])exp-\d+", re.IGNORECASE)
HOST = re.compile(r"(?<![\w-])(?:node|host|gpu|srv|server|machine|worker)[-_]?\d+(?![\w-])", re.IGNORECASE)
CARD = re.compile(r"(?:gpu|card|卡)\s+#?(\d+)|(\d+)\s*号(?:卡|gpu)|第\s*(\d+)\s*张", re.IGNORECASE)
EVERYTHING = re.compile(r"\b(?:all|every|everything|everybody|whole lab)\b|全部|所有", re.IGNORECASE)
AGAIN = re.compile(
    r"\bun(?:mute|silence)|\b(?:alerts?|notifications?)\s+(?:back )?on(?: again)?[\s.!]*$|\b(?:turn|switch) on\b"
    r"|resume (?:alerts|notif)"
    r"|\bspeak again\b|^(?:恢复|打开|取消静音)",
    re.IGNORECASE,
)
KINDS: tuple[tuple[str, str], ...] = (
    ("too_hot", r"\btemp(?:erature)?s?\b|\bheat\b|\bhot\b|温度|过热"),
    ("disk_low", r"\bdisks?\b|磁盘|硬盘"),
    ("low_utilization", r"\butili[sz]ation\b|\bidle\b|利用率"),
    ("memory_grows", r"\bleaks?\b|\bmemory\b|显存|内存"),
    ("queue_wait", r"\bqueue\b|排队"),
    ("keeper_problem", r"\bkeeper\b|保活"),
    ("run_failed", r"\bfail(?:ure|ed|ing)?s?\b|失败"),
)
"""What people call the rules."""


@dataclass(frozen=True)
class About:
    """What a silence is about, and how that is called."""

    scope: Scope
    subject: str
    words: str


def silence(request: Request, before: Sequence[Experiment], ledger: Ledger, now: float | None = None) -> Answer:
    """The silence holds, or is over, and the answer says what and until when."""
    now = time.time() if now is None else now
    about = read_about(request, before, ledger)
    if isinstance(about, str):
        return Answer(kind="question", text=about)
    alerts = Alerts(ledger.client)
    if AGAIN.search(request.text):
        return _again(request, about, alerts, now)
    here = datetime.fromtimestamp(now).astimezone()
    end = moment(EXPERIMENT.sub(" ", request.text), here) or here + timedelta(hours=HOURS)
    until = min(end, here + LONGEST)
    made = alerts.be_quiet(
        about.scope, about.subject, until.timestamp(), request.user, now, conversation=request.conversation
    )
    return Answer(kind="reply", text=_said(about, made, until, alerts, is_chinese(request.text)))


def read_about(request: Request, before: Sequence[Experiment], ledger: Ledger) -> About | str:
    """What the words are about; a question where they leave it open.

    An experiment, a host, a card or a kind of alert that is named; else the thread's experiment, else the asker's own.
    """
    text = request.text
    if found := EXPERIMENT.search(text):
        name = ledger.experiment(found[0].lower()).id
        return About("experiment", name, name)
    host = _host(text, ledger)
    if found := CARD.search(text):
        return _card(int(next(g for g in found.groups() if g)), host, ledger)
    if host is not None:
        return About("host", host, host)
    for rule, pattern in KINDS:
        if re.search(pattern, text, re.IGNORECASE):
            return About("rule", rule, rule.replace("_", " "))
    if EVERYTHING.search(text):
        return About("all", "", "everything")
    if before:
        return About("experiment", before[-1].id, before[-1].id)
    return About("owner", request.user, "your experiments")


def _host(text: str, ledger: Ledger) -> str | None:
    """A host that was ever seen, by its name; else a word that looks like one."""
    known = {*Alerts(ledger.client).board().hosts, *(host.host for host in hosts.cards(ledger.client))}
    for name in sorted(known, key=len, reverse=True):
        if re.search(rf"(?<![A-Za-z0-9_-]){re.escape(name)}(?![A-Za-z0-9_-])", text, re.IGNORECASE):
            return name
    found = HOST.search(text)
    return found[0] if found else None


def _card(index: int, host: str | None, ledger: Ledger) -> About | str:
    fitting: list[Card] = [
        card
        for each in hosts.cards(ledger.client)
        for card in each.cards
        if card.index == index and host in (None, each.host)
    ]
    if len(fitting) == 1:
        return About("card", fitting[0].uuid, f"GPU {index} of {fitting[0].host}")
    if not fitting:
        return f"There is no GPU {index}{f' on {host}' if host else ''}; `overnight cards` shows what there is."
    return f"GPU {index} of which host: {', '.join(sorted(card.host for card in fitting))}?"


def _again(request: Request, about: About, alerts: Alerts, now: float) -> Answer:
    """Silences of what was named end; those that the asker asked for where nothing was."""

    def wanted(silence: Silence) -> bool:
        if about.scope == "owner":
            return silence.by == request.user
        return about.scope == "all" or (silence.scope, silence.subject) == (about.scope, about.subject)

    ended = alerts.speak_again(wanted, now)
    chinese = is_chinese(request.text)
    if not ended:
        return Answer(kind="reply", text="没有静音。" if chinese else "Nothing of that is silenced.")
    what = ", ".join(sorted({silence.subject or "everything" for silence in ended}))
    return Answer(kind="reply", text=f"已恢复告警：{what}。" if chinese else f"Alerts are told again: {what}.")


def _said(about: About, made: Silence, until: datetime, alerts: Alerts, chinese: bool) -> str:
    at = f"{until:%Y-%m-%d %H:%M %Z}"
    hit = sum(a.is_open and matches(made, a) and not through(a) for a in alerts.board().alerts.values())
    if chinese:
        now_open = f"现有 {hit} 条相关告警。" if hit else ""
        what = {"everything": "全部", "your experiments": "你的实验"}.get(about.words, about.words)
        return f"告警静音：{what}，到 {at}。{now_open}期间只计数，结束时汇总。严重硬件告警仍会发送。"
    now_open = f" {hit} of its alerts {'is' if hit == 1 else 'are'} open now." if hit else ""
    return (
        f"Quiet about {about.words} until {at}.{now_open} What comes meanwhile is counted and told then. "
        "Critical hardware alerts are still sent."
    )
