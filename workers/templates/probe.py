"""Pretends to train for a few seconds and leaves the same files as a real trainer; fails in the way it is told to.

Serves `overnight doctor` and the tests: no torch, so it is running in a fraction of a second.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from lab.run import RunResult, Usage
from workers.checkpoint import Writable, load_newest, save
from workers.templates.attempt import EXIT_STOPPED, Attempt, Curve, StopSignal, last_values, log_to_stdout, thinned
from workers.templates.endings import ENDINGS, OOM_FRAGMENTED, OOM_FULL, OOM_KILLED, OOM_SHARED
from workers.templates.faults import FAULTS
from workers.templates.params import ProbeParams

log = logging.getLogger("probe")

DEFAULT_EPOCHS = 3
STEP_LINE_EVERY_S = 0.25
CHECKPOINT_EVERY_S = 1.0
HANG_AT_MOST_S = 3600.0
"""A hang that nobody ended, in a test that was itself killed, ends after this."""


def main(folder: Path) -> int:
    """The run has its result (0), or a checkpoint because it was told to stop (143), or failed as its params say."""
    stop = StopSignal()
    log_to_stdout()
    attempt = Attempt(folder)
    params = attempt.params(ProbeParams)
    spec = attempt.spec
    total = spec.max_steps or params.steps
    epochs = max(1, min(spec.epochs or DEFAULT_EPOCHS, total))
    step, curves = resume(attempt)
    if step == params.fail_at_step == 0 and fails(params, attempt.number):
        fail(params.fail, attempt, {"step": 0, "steps_total": total, "lr": params.lr})
    stop.save_first()
    log.info("%s probe: steps %d to %d in %d epochs", spec.run_id, step, total, epochs)
    began, first, line_at, saved_at = time.monotonic(), step, 0.0, time.monotonic()

    while step < total:
        if stop.wait(params.step_s):
            checkpoint(attempt, step, curves)
            log.info("stopped at step %d of %d, checkpoint written", step, total)
            return EXIT_STOPPED
        step += 1
        now = time.monotonic()
        eta_s = (total - step) * (now - began) / (step - first)
        epoch = (step - 1) * epochs // total  # epochs completed before this step
        epoch_ends = step == total or step * epochs // total > epoch
        position: dict[str, Any] = {"step": step, "steps_total": total, "eta_s": round(eta_s, 2), "lr": params.lr}
        if step == params.fail_at_step and fails(params, attempt.number):
            fail(params.fail, attempt, position | {"epoch": epoch, "epochs_total": epochs})
        loss = 2.3 * (1 - accuracy(params, step / total)) + 0.01
        if now - line_at >= STEP_LINE_EVERY_S or epoch_ends:
            line_at = now
            attempt.record("step", epoch=epoch, epochs_total=epochs, loss=loss, **position)
        if epoch_ends:
            values = epoch_values(params, step / total, loss)
            for name, value in values.items():
                curves.setdefault(name, []).append((epoch + 1, value))
            attempt.record("epoch", epoch=epoch + 1, epochs_total=epochs, **position, **values)
            log.info("epoch %d/%d loss %.4f val acc %.4f", epoch + 1, epochs, loss, values["val_acc"])
        if epoch_ends or now - saved_at >= CHECKPOINT_EVERY_S or stop.save_wanted():
            saved_at = now
            checkpoint(attempt, step, curves)

    seconds = time.monotonic() - began
    usage = Usage(memory_kind="host", samples_per_s=(step - first) * params.batch_size / seconds if seconds else None)
    attempt.finish(
        RunResult(
            metrics=last_values(curves),
            curves={name: thinned(curve) for name, curve in curves.items()},
            usage=usage,
            environment={"python": platform.python_version(), "template": "probe"},
        )
    )
    return 0


def accuracy(params: ProbeParams, share: float) -> float:
    """The made-up accuracy after `share` of the run, in 0..1; the same for the same seed, whatever was resumed."""
    final = params.final_acc + random.Random(params.seed).gauss(0, params.noise)
    rise = {
        "saturating": 1 - 0.9 * (1 - share) ** 3,
        "linear": 0.1 + 0.9 * share,
        "flat": 1.0,
        "falling": 1.3 - 0.3 * share,
    }
    return min(1.0, max(0.0, final * rise[params.curve]))


def epoch_values(params: ProbeParams, share: float, loss: float) -> dict[str, float]:
    """Metrics of an epoch that ends after `share` of the run."""
    val_acc = accuracy(params, share)
    return {"train_loss": loss, "train_acc": min(1.0, val_acc + 0.02), "val_loss": loss * 1.1, "val_acc": val_acc}


def checkpoint(attempt: Attempt, step: int, curves: dict[str, Curve]) -> None:
    """The position is saved."""

    def write(file: Writable) -> None:
        file.write(json.dumps({"step": step, "curves": curves}).encode())

    save(attempt.checkpoints, step, write, suffix="json")


def resume(attempt: Attempt) -> tuple[int, dict[str, Curve]]:
    """Steps done and curves so far of the earlier attempt; nothing of either without one."""
    folder = attempt.spec.checkpoint_dir
    found = load_newest(Path(folder), lambda path: json.loads(path.read_bytes())) if folder else None
    if not found:
        return 0, {}
    log.info("resuming from %s", found.path)
    return found.step, {k: [(x, y) for x, y in curve] for k, curve in found.state["curves"].items()}


class OutOfMemoryError(RuntimeError):
    """Named and raised as torch's own, so that the log reads like a real one."""


OutOfMemoryError.__module__ = "torch"


def fails(params: ProbeParams, attempt: int) -> bool:
    """True when this attempt is to fail, and nothing has been changed that would have cured a real one."""
    if params.fail == "none" or attempt > params.fail_attempts:
        return False
    cured = {
        "oom_gpu": params.batch_size / params.grad_accum_steps <= params.fits,
        "oom_fragmented": "expandable_segments:True" in os.environ.get("PYTORCH_ALLOC_CONF", ""),
        "nan": params.skips(params.fail_at_step),
    }
    return not cured.get(params.fail, False)


def fail(how: str, attempt: Attempt, position: dict[str, Any]) -> None:
    """Ends the process, never returns, or has it told to stop, as `how` says; texts are those of the real failures."""
    step = position["step"]
    match how:
        case "error":
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (64x512 and 1024x10)")
        case "oom_gpu":
            raise OutOfMemoryError(OOM_FULL)
        case "oom_fragmented":
            raise OutOfMemoryError(OOM_FRAGMENTED)
        case "oom_shared":
            raise OutOfMemoryError(OOM_SHARED)
        case "nan":
            attempt.record("step", loss=float("nan"), **position)
            raise FloatingPointError(
                f"loss is nan at step {step} (lr {position['lr']:g}); "
                f"the last finite loss was 0.6931 at step {step - 1}"
            )
        case "oom_host_kill":
            print(OOM_KILLED, file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            # Like a stuck collective: no step, no line, and SIGTERM is not answered.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(HANG_AT_MOST_S)
            os._exit(1)
        case real if real in FAULTS:
            FAULTS[real](attempt.folder)
        case _:
            text, status = ENDINGS[how]
            print(text, file=sys.stderr, flush=True)
            os._exit(status)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
