"""What somebody has used: GPU-hours of the last days and the language model's tokens of today."""

from __future__ import annotations

import time

from lab import meter
from lab.language import is_chinese
from lab.ledger import Ledger
from lab.run import Answer, Request, Spent
from lab.usage import ended_since

DAYS = 7


def show(request: Request, ledger: Ledger) -> Answer:
    """The asker's own use; that there are no quotas of GPU-hours is said with it."""
    now = time.time()
    mine = [used.usage.gpu_s for used in ended_since(ledger.client, now - DAYS * 86_400) if used.owner == request.user]
    today = meter.spent(ledger.client, now, now).get(request.user, Spent())
    hours, runs = sum(mine) / 3600, len(mine)
    if is_chinese(request.text):
        text = f"你最近 {DAYS} 天结束的 run 有 {runs} 个，共 {hours:.2f} 卡时；没有卡时配额，按公平份额排队。"
        model = f"今天语言模型：{today.calls} 次调用，{today.tokens:,} token。"
    else:
        text = (
            f"{runs} run{'' if runs == 1 else 's'} of yours ended in the last {DAYS} days and held cards for"
            f" {hours:.2f} GPU-h. There is no quota of GPU-hours: cards are shared by fair share."
        )
        model = f"The language model for you today: {meter.words(today)}."
    return Answer(kind="reply", text=f"{text}\n{model}" if today.calls else text)
