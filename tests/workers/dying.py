"""Death by SIGKILL at one exact step, once; and, run as a module, a probe's trainer that dies so.

`DIE_AT` names the trainer's step, `DIE_ONCE` the file whose presence says that somebody has died already.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Death:
    """The first process that comes to the step is killed there."""

    mark: Path
    """The file that is there once somebody has died; it holds the process id of who came to the step."""
    when: str = "after"
    """`before` or `after` the function."""
    parent: bool = False
    """True kills the process's parent, and by that itself: the kernel ends a worker's child with it."""
    reached: Callable[[Any, Any], bool] = lambda owner, result: True
    """Whether a call is the one: by the object, and by what the function gave."""
    spared: int = 0
    """Process that never dies: the test."""

    def at(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with the death right before or after it."""

        def patched(*args: Any, **named: Any) -> Any:
            if self.when == "before":
                self._come(args, None)
            result = function(*args, **named)
            if self.when == "after":
                self._come(args, result)
            return result

        return patched

    def _come(self, args: tuple[Any, ...], result: Any) -> None:
        if os.getpid() == self.spared or not self.reached(args[0] if args else None, result):
            return
        try:
            with self.mark.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return
        os.kill(os.getppid() if self.parent else os.getpid(), signal.SIGKILL)
        time.sleep(10)  # until the kernel has ended us too


if __name__ == "__main__":
    from workers.templates import probe
    from workers.templates.attempt import Attempt

    steps: dict[str, tuple[Any, str]] = {
        "first step": (Attempt, "record"),
        "checkpointed": (probe, "checkpoint"),
        "result written": (Attempt, "finish"),
    }
    owner, name = steps[os.environ["DIE_AT"]]
    setattr(owner, name, Death(Path(os.environ["DIE_ONCE"])).at(getattr(owner, name)))
    sys.exit(probe.main(Path(sys.argv[1])))
