"""The lock that keeps a second tenant off a card."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from workers import cardlock
from workers.cardlock import CardLock


def test_a_holder_without_a_name_that_is_just_dying_is_waited_for(tmp_path: Path) -> None:
    """Its parent was killed between the trainer's spawn and its name: else the run waits for the end of its lease."""
    dying, after = CardLock(tmp_path, "card-a"), CardLock(tmp_path, "card-a")
    dying.take(0)
    threading.Timer(0.2, dying.close).start()

    cleared = after.clear(wait_s=5)

    assert cleared
    after.close()


def test_a_holder_without_a_name_that_stays_is_told_of_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's other cards are looked after by the same process."""
    monkeypatch.setattr(cardlock, "LET_GO_S", 0.1)
    stray, after = CardLock(tmp_path, "card-a"), CardLock(tmp_path, "card-a")
    stray.take(0)

    cleared = after.clear(wait_s=5)

    assert not cleared
    stray.close()
    after.close()
