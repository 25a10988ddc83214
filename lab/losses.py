"""Which losses count against a run: those with its worker or host that brought it no further than the ones before.

A host that is killed or restarted five times in a night is no fault of the runs on it, and those that save what they
do get further each time. A run that kills its worker at the same step again and again must end. So losses count only
in a row without progress: `run.max_attempts` with its own worker, several times as many with the whole host, where all
runs on it are under suspicion at once.
"""

from __future__ import annotations

from typing import Any

from lab.run import Record, Run

HOST_PATIENCE = 4
"""So many losses with the host weigh as much as one with the run's own worker."""


class Losses(Record):
    """A run's losses in a row without progress."""

    with_worker: int = 0
    with_host: int = 0
    step: int = 0
    """The furthest step that an attempt had told of when it was lost."""

    @classmethod
    def after(cls, run: Run, step: int, *, with_host: bool = False) -> Losses:
        """What it will be once the run's attempt is lost, which has come to this step."""
        further = step > run.lost_at_step
        return cls(
            with_worker=(0 if further else run.lost_with_worker) + (not with_host),
            with_host=(0 if further else run.lost_with_host) + with_host,
            step=max(step, run.lost_at_step),
        )

    def too_many(self, max_attempts: int) -> bool:
        """True when the run is not tried again."""
        return self.with_worker >= max_attempts or self.with_host >= HOST_PATIENCE * max_attempts

    def fields(self) -> dict[str, Any]:
        """The same as fields of the run."""
        return {"lost_with_worker": self.with_worker, "lost_with_host": self.with_host, "lost_at_step": self.step}

    def __str__(self) -> str:
        """`lost 3 times with its worker and 1 time with its host without getting beyond step 500`"""
        counts = {"worker": self.with_worker, "host": self.with_host}
        parts = [f"{n} time{'s' * (n != 1)} with its {what}" for what, n in counts.items() if n]
        return f"lost {' and '.join(parts)} without getting beyond step {self.step}"
