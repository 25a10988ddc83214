"""In which language a person is answered: the one of his message."""

from __future__ import annotations

import re
from collections.abc import Mapping


def is_chinese(text: str) -> bool:
    """True when an answer should be in Chinese: it has Han characters, and no kana (which would be Japanese)."""
    han = len(re.findall(r"[\u4e00-\u9fff]", text))
    return han > 0 and not re.search(r"[\u3040-\u30ff]", text) and han * 6 >= len(text.split())


class Phrasebook:
    """Sentences by key, each in English and in Chinese.

    Every part of the project that speaks to people keeps its sentences in one of these, so that nobody is answered
    half in one language and half in the other.
    """

    def __init__(self, sentences: Mapping[str, tuple[str, str]]) -> None:
        self._sentences = sentences

    def say(self, key: str, chinese: bool, /, **fields: object) -> str:
        """The sentence with its fields filled in.

        Raises:
            KeyError: there is no such sentence, or a field of it is missing.
        """
        return self._sentences[key][chinese].format(**fields)


STATES: dict[str, str] = {
    "proposed": "等你按 Run",
    "awaiting_second_approval": "待第二人批准",
    "approved": "排队中",
    "queued": "排队中",
    "dispatched": "正在启动",
    "running": "运行中",
    "paused": "已暂停",
    "cancelling": "正在停止",
    "finished": "已完成",
    "failed": "失败",
    "cancelled": "已取消",
    "expired": "已过期",
    "without failures": "没有失败的 run",
    "retried": "已重试，见",
    "proposed, not started": "还没有开始，等你按 Run",
}
"""States of runs and experiments, in Chinese."""


def state_word(state: str, chinese: bool) -> str:
    """The state as people read it; `retried as exp-12/7` names the run that went on."""
    if not chinese:
        return state.replace("_", " ")
    word, _, other = state.partition(" as ")
    return f"{STATES.get(word, word)} {other}".rstrip()
