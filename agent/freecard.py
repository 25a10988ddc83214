"""`Tell me when a card is free`, `有空卡告诉我`: the words for it, and the wish.

Read by code alone, before anything else is made of the message.
"""

from __future__ import annotations

import re
import time

from lab import freecards
from lab.language import is_chinese
from lab.ledger import Ledger
from lab.run import Answer, Request

_CARD = r"(?:gpus?|cards?|显卡|卡)"
_FREE = r"(?:free|available|idle|open|vacant|unused|frees? up|opens? up|becomes? free)"
_TELL = (
    r"(?:(?:tell|ping|notify|notif|messag|dm|alert|inform|remind|call|poke)\w* (?:me|us)"
    r"|let(?:ting)? (?:me|us) know|give (?:me|us) a (?:shout|ping|call|nudge))"
)
_WHEN = r"(?:when|whenever|once|as soon as|if|the moment)"
_TELL_ZH = r"(?:告诉|通知|提醒|喊|叫|呼|喊一下|@|艾特)\s*(?:一下|一声)?\s*(?:我|我们|咱)"
_FREE_ZH = r"(?:空|闲|可用)"

ASKS = re.compile(
    rf"\b{_TELL}\b[^.;!?]{{0,20}}\b{_WHEN}\b[^.;!?]{{0,40}}\b{_CARD}\b[^.;!?]{{0,20}}\b{_FREE}\b"
    rf"|\b{_TELL}\b[^.;!?]{{0,20}}\b{_WHEN}\b[^.;!?]{{0,30}}\b{_FREE}\b[^.;!?]{{0,10}}\b{_CARD}\b"
    rf"|\b{_WHEN}\b[^.;!?]{{0,30}}\b{_CARD}\b[^.;!?]{{0,20}}\b{_FREE}\b[^.;!?]{{0,20}}\b{_TELL}\b"
    rf"|{_FREE_ZH}[^。;!?]{{0,6}}{_CARD}[^。;!?]{{0,14}}{_TELL_ZH}"
    rf"|{_CARD}[^。;!?]{{0,6}}{_FREE_ZH}[^。;!?]{{0,14}}{_TELL_ZH}"
    rf"|{_TELL_ZH}[^。;!?]{{0,12}}(?:{_FREE_ZH}[^。;!?]{{0,6}}{_CARD}|{_CARD}[^。;!?]{{0,6}}{_FREE_ZH})",
    re.IGNORECASE,
)
NOT = re.compile(
    r"\b(?:don'?t|do not|no need to|no longer|not|stop|never ?mind|cancel)\b|不用|不要|别|不必|取消|无需|停止",
    re.IGNORECASE,
)


def answer(request: Request, ledger: Ledger, now: float | None = None) -> Answer | None:
    """What became of the wish that the message holds; None where it holds none."""
    text = request.text.replace("’", "'")
    chinese = is_chinese(text)
    if not ASKS.search(text):
        return None
    if NOT.search(text):
        return Answer(kind="reply", text=freecards.withdraw(ledger.client, request.user, chinese=chinese))
    now = time.time() if now is None else now
    words = freecards.ask(ledger, request.user, request.conversation, now, chinese=chinese)
    return Answer(kind="reply", text=words)
