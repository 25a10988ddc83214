"""Times of an attempt: when to read back and to save, what is left, and how long the training itself took."""

from __future__ import annotations

import time

READ_BACK_EVERY_S = 0.25
"""Losses stay on the device in between: reading one waits for the card."""
LOG_EVERY_S = 5.0
SAVE_SHARE = 0.05
"""Largest share of the time that goes into checkpoints at the ends of epochs; the last epoch is always saved."""
SAVE_EVERY_S = 300.0
"""Within long epochs a checkpoint is written this often."""


class Clock:
    """The times of one attempt."""

    def __init__(self, first_step: int, steps: int) -> None:
        self._first, self._steps = first_step, steps
        self._began = self._saved = time.monotonic()
        self._training_since = self._read = self._logged = 0.0
        self._save_s = 0.0

    def train(self) -> None:
        """Training goes on."""
        self._training_since = time.monotonic()

    def pause(self) -> float:
        """Seconds of training since `train`."""
        return time.monotonic() - self._training_since

    def eta_s(self, step: int) -> float | None:
        """Seconds left at the pace of this attempt, evaluation and checkpoints included; None before its first step."""
        done = step - self._first
        return round((time.monotonic() - self._began) / done * (self._steps - step), 2) if done else None

    def read_due(self) -> bool:
        """True now and then: the losses may be read."""
        now = time.monotonic()
        due = now - self._read >= READ_BACK_EVERY_S
        self._read = now if due else self._read
        return due

    def log_due(self) -> bool:
        """True now and then: a line for the log."""
        now = time.monotonic()
        due = now - self._logged >= LOG_EVERY_S
        self._logged = now if due else self._logged
        return due

    def save_due(self) -> bool:
        """True when a long epoch has gone on for too long to lose."""
        return time.monotonic() - self._saved >= SAVE_EVERY_S

    def worth_saving(self) -> bool:
        """True while checkpoints take only their share of the time, going by what the last one took."""
        return (time.monotonic() - self._saved) * SAVE_SHARE >= self._save_s

    def saved(self, seconds: float) -> None:
        """A checkpoint was written and took so long."""
        self._saved, self._save_s = time.monotonic(), seconds
