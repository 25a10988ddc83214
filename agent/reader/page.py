"""A message with the parts already understood crossed out, so that no number is read twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

CROSSED = "\x00"


class Page:
    """The cleaned text and what is left of it; `left` keeps the length and the positions of `text`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.left = text

    def cross(self, start: int, end: int) -> None:
        """Nobody reads this part again."""
        self.left = self.left[:start] + CROSSED * (end - start) + self.left[end:]

    def find(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Matches in what is left; the caller crosses out what it uses."""
        position = 0
        while match := pattern.search(self.left, position):
            position = max(match.end(), position + 1)
            yield match

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The first match in what is left, crossed out; None when there is none."""
        match = pattern.search(self.left)
        if match:
            self.cross(*match.span())
        return match

    def take_all(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        """Every match in what is left, crossed out."""
        matches = list(self.find(pattern))
        for match in matches:
            self.cross(*match.span())
        return matches
