"""What a text for a Chinese reader still has of English."""

from __future__ import annotations

import re


def english(text: str) -> list[str]:
    """Two English words in a row or more, outside of code: a sentence's. Names, units and log lines go as they are."""
    plain = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    return re.findall(r"(?<![\w/.-])[A-Za-z]{2,},? [A-Za-z]{2,}(?:,? [A-Za-z]+)*", plain)
