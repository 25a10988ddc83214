"""What a run of `vision` keeps for its next attempt: its position, and all that learns."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lab.run import RunSpec
from workers.checkpoint import UnfitCheckpoint, Writable, load_newest, save
from workers.templates.attempt import Attempt, Curve
from workers.templates.clock import Clock
from workers.templates.course import Length
from workers.templates.models import has_batch_norm

log = logging.getLogger("vision")


@dataclass
class Position:
    """How far a run is: all that a checkpoint holds beside tensors."""

    epoch: int = 0
    """Epochs completed, their evaluation included."""
    batch: int = 0
    """Steps done in the epoch at hand."""
    step: int = 0
    loss_sum: float = 0.0
    """Training loss summed over the samples of the epoch at hand."""
    hits: float = 0.0
    seen: int = 0
    samples: int = 0
    """Samples trained on since the run began."""
    train_s: float = 0.0
    """Seconds in training, evaluation and checkpoints left out."""
    best_val_acc: float = -1.0
    last_loss: float | None = None
    curves: dict[str, Curve] = field(default_factory=dict)


@dataclass(frozen=True)
class Learner:
    """All that learns, and so all that a checkpoint keeps beside the position."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    precision: str
    """fp32, tf32, amp_bf16 or amp_fp16."""

    @property
    def on_gpu(self) -> bool:
        return next(self.model.parameters()).is_cuda

    @cached_property
    def smallest_part(self) -> int:
        """Samples that a part of a batch holds at least: batch norm has no variance over one."""
        return 2 if has_batch_norm(self.model) else 1


def checkpoint(
    attempt: Attempt, clock: Clock, length: Length, position: Position, learner: Learner, best: bool
) -> None:
    """All that the next attempt needs is on disk; every loss up to here was finite.

    Nothing is written when a weight is not: going on from there, no lower rate would help.
    """
    began = time.monotonic()
    if not all(bool(parameter.isfinite().all()) for parameter in learner.model.parameters()):
        log.warning("no checkpoint at step %d: a weight is not finite", position.step)
        clock.saved(time.monotonic() - began)
        return
    path = write(attempt, length, position, learner, best=best)
    clock.saved(time.monotonic() - began)
    log.info("checkpoint %s in %.2f s", path.name, time.monotonic() - began)


def write(attempt: Attempt, length: Length, position: Position, learner: Learner, *, best: bool = False) -> Path:
    """The state as it is now is on disk, under the path that is returned."""
    numpy: Any = np.random.get_state(legacy=True)
    state = {
        "made_of": identity(attempt.spec, length),
        "position": asdict(position),
        "model": learner.model.state_dict(),
        "optimizer": learner.optimizer.state_dict(),
        "scaler": learner.scaler.state_dict(),
        "random": random.getstate(),
        "numpy": (numpy[0], numpy[1].tolist(), *numpy[2:]),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if learner.on_gpu else None,
    }

    def put(file: Writable) -> None:
        torch.save(state, file)  # type: ignore[arg-type]

    return save(attempt.checkpoints, position.step, put, suffix="pt", best=best)


def identity(spec: RunSpec, length: Length) -> dict[str, Any]:
    """What must be the same for a checkpoint to be continued; lr, precision and parts of a batch may change."""
    return {"model": spec.model, "dataset": spec.dataset, "steps_per_epoch": length.steps_per_epoch}


def resume(attempt: Attempt, length: Length, learner: Learner) -> tuple[Position, list[str]]:
    """Where the earlier attempt stopped, with model, optimizer and generators as it left them; else the beginning."""
    folder = attempt.spec.checkpoint_dir
    if folder is None:
        return Position(), []
    found = load_newest(Path(folder), lambda path: read_checkpoint(path, identity(attempt.spec, length), learner))
    if found is None:
        return Position(), [f"no whole checkpoint of this run in {folder}: started anew"]
    position = restore(found.state, learner)
    passed = [f"{passed}; the one before was used" for passed in found.passed_over]
    return position, [*passed, f"resumed at step {position.step} from {found.path.name}"]


def restore(state: dict[str, Any], learner: Learner) -> Position:
    """Model, optimizer and generators are as `write` found them; returns the position."""
    learner.model.load_state_dict(state["model"])
    learner.optimizer.load_state_dict(state["optimizer"])
    if state["scaler"]:  # empty unless the earlier attempt trained in amp_fp16
        learner.scaler.load_state_dict(state["scaler"])
    random.setstate(state["random"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and learner.on_gpu:
        torch.cuda.set_rng_state(state["cuda"])
    return Position(**state["position"])


def read_checkpoint(path: Path, made_of: dict[str, Any], learner: Learner) -> dict[str, Any]:
    """What `write` wrote. Raises UnfitCheckpoint when it is of another run or its tensors have other shapes."""
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    if state["made_of"] != made_of:
        raise UnfitCheckpoint(f"it is of another run ({state['made_of']})")
    shapes = {name: tensor.shape for name, tensor in learner.model.state_dict().items()}
    saved = {name: tensor.shape for name, tensor in state["model"].items()}
    for name in shapes.keys() | saved.keys():
        if shapes.get(name) != saved.get(name):
            raise UnfitCheckpoint(f"{name} is {_shape(saved.get(name))} in it and {_shape(shapes.get(name))} here")
    return state


def _shape(shape: torch.Size | None) -> str:
    return "absent" if shape is None else str(list(shape))
