"""In which language a person is answered: the one of his message."""

from __future__ import annotations

import re


def is_chinese(text: str) -> bool:
    """True when an answer should be in Chinese: it has Han characters, and no kana (which would be Japanese)."""
    han = len(re.findall(r"[\u4e00-\u9fff]", text))
    return han > 0 and not re.search(r"[\u3040-\u30ff]", text) and han * 6 >= len(text.split())
