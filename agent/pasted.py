"""A log that somebody pasted: why that run failed, by the same rules as for the lab's own runs."""

from __future__ import annotations

import re

from lab.diagnose import diagnose
from lab.language import Phrasebook, is_chinese
from lab.reportwords import CAUSES

WORDS = Phrasebook(
    {
        "found": ("{cause}: {advice}\nthe line that says so: {evidence}", "{cause}：{advice}\n依据：{evidence}"),
    }
)
LOG = re.compile(
    r"Traceback \(most recent call last\)|^\s*[A-Za-z_][\w.]*(?:Error|Exception)\b"
    r"|\b(?:RuntimeError|CUDA error|out of memory|NCCL|Segmentation fault|Killed|Xid)\b|\bloss[=: ]+nan\b",
    re.MULTILINE,
)
"""What logs hold and requests do not."""
LEAST_LINES = 2


def answer(text: str) -> str | None:
    """Cause, what to do, and the deciding line; None where the text holds no log, or one that tells of no failure."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < LEAST_LINES or not LOG.search(text):
        return None
    asked = lines[0] if not LOG.search(lines[0]) else ""
    found = diagnose(text.replace("```", "\n"), None)
    if found.cause == "none":
        return None
    chinese = is_chinese(asked)
    advice = CAUSES.get(found.cause, found.advice) if chinese else found.advice
    return WORDS.say("found", chinese, cause=found.cause, advice=advice, evidence=found.evidence)
