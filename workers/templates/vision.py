"""Trains one image classifier and evaluates it on held-out images after every epoch.

`python -m workers.templates.vision <attempt directory>` reads the spec one level above that directory. Read this file
downwards: `train` is the whole story. What a plan may set is in params.py; `evaluate` looks at none of it.

A run is a function of its spec: the weights follow from the seed, the order of the data and its augmentation from
(seed, epoch, batch), the learning rate from the step. So a resumed run goes on as if it had never stopped.
"""

from __future__ import annotations

import logging
import math
import platform
import random
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the name that every torch user knows
from torch import Tensor, nn

from lab.errors import OperatorError
from lab.run import RunResult, RunSpec, Usage
from workers.checkpoint import UnfitCheckpoint, Writable, load_newest, save
from workers.templates.attempt import EXIT_STOPPED, Attempt, Curve, StopSignal, last_values, log_to_stdout, thinned
from workers.templates.data import Data, load
from workers.templates.models import Built, build, check_size, has_batch_norm, versions
from workers.templates.params import VisionParams

log = logging.getLogger("vision")

DEFAULT_EPOCHS = 3
READ_BACK_EVERY_S = 0.25
"""Losses stay on the device in between: reading one waits for the card."""
LOG_EVERY_S = 5.0
SAVE_SHARE = 0.05
"""Largest share of the time that goes into checkpoints at the ends of epochs; the last epoch is always saved."""
SAVE_EVERY_S = 300.0
"""Within long epochs a checkpoint is written this often."""
EVAL_BATCH = 256
"""Largest batch of the evaluation; it keeps no gradients, so twice the training's part fits wherever that did."""
STEP_DROPS = (0.6, 0.85)
"""Shares of the run after which the step schedule divides the rate by 10."""


class Stop(Protocol):
    """What somebody wants of the training, asked between steps."""

    @property
    def asked(self) -> bool:
        """True when it is to end."""
        ...

    def save_wanted(self) -> bool:
        """True once when a checkpoint is wanted."""
        ...


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
class Length:
    """How long a run is, in steps and epochs."""

    steps_per_epoch: int
    steps: int
    epochs: int


@dataclass(frozen=True)
class Learner:
    """All that learns, and so all that a checkpoint keeps beside the position."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler

    @property
    def on_gpu(self) -> bool:
        return next(self.model.parameters()).is_cuda


def main(folder: Path) -> int:
    """The run has its result (0) or, told to stop, a checkpoint (143); anything else leaves as an exception."""
    stop = StopSignal()
    log_to_stdout()
    attempt = Attempt(folder)
    params = attempt.params(VisionParams)
    return EXIT_STOPPED if train(attempt, params, stop) is None else 0


def train(attempt: Attempt, params: VisionParams, stop: Stop) -> RunResult | None:
    """The result, also in result.json; None when `stop` was asked and a checkpoint was written instead.

    Raises:
        FloatingPointError: the loss is NaN or infinite; names the step and the last finite loss.
        RequestError, OperatorError: model, data set or device cannot be had; says what would work.
        torch.OutOfMemoryError: as torch raised it.
    """
    # Device, seeds, data, model.
    spec = attempt.spec
    device = open_device(spec)
    precision = precision_for(params, device)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"  # torch's default is True, whatever the line above says
    seed_everything(params.seed)
    data = load(spec, params, device)
    built = build(spec.model, data.classes, data.image_size, params)
    if built.normalisation:
        data = data.normalised_by(*built.normalisation)
    # Channels last suits tensor cores, and on a CPU depthwise convolutions: EfficientNet-B0 took half the time there.
    model = built.model.to(device).to(memory_format=torch.channels_last)
    if params.freeze_backbone:
        built.freeze_backbone()
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
        torch.cuda.reset_peak_memory_stats()
    check_size(model, built.name, data.image_size, device)

    # Optimizer, length, and where an earlier attempt stopped.
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = make_optimizer(params, trained)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "amp_fp16")
    learner = Learner(model, optimizer, scaler)
    amp_dtype = {"amp_fp16": torch.float16, "amp_bf16": torch.bfloat16}.get(precision)
    length = length_of(spec, len(data.train), params.batch_size)
    smallest_part = 2 if has_batch_norm(model) else 1  # batch norm has no variance over one sample
    position, warnings = resume(attempt, length, learner)
    skipped = [f"steps {params.skip_steps} were left out"] if params.skip_steps else []
    warnings = [*built.warnings, *warnings, *skipped]
    environment = describe(device, precision, data)
    for line in (*warnings, *(f"{k}: {v}" for k, v in environment.items())):
        log.info("%s", line)
    log.info("%s %s on %s: step %d of %d", spec.run_id, built.name, spec.dataset, position.step, length.steps)
    if isinstance(stop, StopSignal):
        stop.save_first()
    clock = Clock(position.step, length.steps)

    while position.step < length.steps or position.batch:
        # One epoch of training, from where it was left.
        model.train()
        keep_frozen(built, params)
        indices = epoch_batches(len(data.train), params, position.epoch)
        last = min(length.steps_per_epoch, position.batch + length.steps - position.step)
        rest = indices[position.batch : last]
        pending: list[tuple[Tensor, Tensor, int]] = []  # loss and hits of a step, still on the device; its samples
        clock.train()
        for images, labels in data.train.batches(rest):
            if params.skips(position.step + 1):
                position.step += 1
                position.batch += 1
                continue
            changes, mix = draw(data, params, position, len(images))
            inputs = data.inputs(images, changes)  # float32 (batch, 3, size, size)
            targets = F.one_hot(labels, data.classes).float() if mix else labels  # (batch,) or (batch, classes)
            if mix:
                inputs, targets = mix.apply(inputs), mix.apply(targets)
            inputs = inputs.contiguous(memory_format=torch.channels_last)
            lr = lr_at(position.step, length.steps, params)
            for group in optimizer.param_groups:
                group["lr"] = lr

            # A batch in parts gives the gradient of the whole: each part weighs what it holds.
            parts = max(1, min(params.grad_accum_steps, len(images) // smallest_part))
            loss, hits = torch.zeros((), device=device), torch.zeros((), device=device)
            for x, y in zip(inputs.tensor_split(parts), targets.tensor_split(parts), strict=True):
                with torch.autocast(device.type, amp_dtype, enabled=amp_dtype is not None):
                    logits = model(x)  # (part, classes)
                    part_loss = F.cross_entropy(logits, y, label_smoothing=params.label_smoothing)
                    part_loss = part_loss * (len(x) / len(images))
                scaler.scale(part_loss).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
                with torch.no_grad():
                    loss += part_loss
                    hits += (logits.argmax(1) == (y.argmax(1) if mix else y)).sum()
            if params.grad_clip:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(trained, params.grad_clip)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            pending.append((loss, hits, len(images)))
            position.step += 1
            position.batch += 1

            # Between steps: figures now and then, a checkpoint in long epochs or when told to stop.
            if clock.read_due():
                loss_now = read_back(pending, position, lr)
                record_step(attempt, position, length, clock, loss_now, lr, device)
            if stop.asked or clock.save_due() or stop.save_wanted():
                if pending:
                    read_back(pending, position, lr)
                position.train_s += clock.pause()
                checkpoint(attempt, clock, length, position, learner, best=False)
                if stop.asked:
                    log.info("stopped at step %d of %d", position.step, length.steps)
                    return None
                clock.train()

        # Evaluation, then a checkpoint if it is worth its time.
        lr = lr_at(max(0, position.step - 1), length.steps, params)
        if pending:
            loss_now = read_back(pending, position, lr)
            record_step(attempt, position, length, clock, loss_now, lr, device)
        position.train_s += clock.pause()
        attempt.record("evaluation", **place(position, length, clock))
        scores = evaluate(model, data, min(EVAL_BATCH, max(2, 2 * params.batch_size // params.grad_accum_steps)), stop)
        if scores is None:
            checkpoint(attempt, clock, length, position, learner, best=False)
            log.info("stopped at step %d of %d, before its evaluation", position.step, length.steps)
            return None
        end_epoch(attempt, position, length, clock, scores, lr)
        best = scores.val_acc >= position.best_val_acc
        position.best_val_acc = max(position.best_val_acc, scores.val_acc)
        if position.step >= length.steps or clock.worth_saving() or stop.save_wanted():
            checkpoint(attempt, clock, length, position, learner, best=best)

    result = RunResult(
        metrics={k: v for k, v in last_values(position.curves).items() if k != "loss"},
        curves={name: thinned(curve) for name, curve in position.curves.items()},
        curve_unit="step" if spec.max_steps else "epoch",
        usage=usage(position, device),
        environment=environment,
        warnings=tuple(warnings),
    )
    attempt.finish(result)
    return result


# The evaluator. It knows the model and the held-out images, and nothing of the plan.


@dataclass(frozen=True)
class Scores:
    """What a model is worth on held-out images."""

    val_loss: float
    val_acc: float


@torch.no_grad()
def evaluate(model: nn.Module, data: Data, batch: int, stop: Stop) -> Scores | None:
    """Mean cross-entropy and accuracy over every held-out image, in float32; None when told to stop half-way.

    Precision, label smoothing, mixup and augmentation of the training play no part here, so that runs that differ in
    them can be compared; `batch` bounds the memory and changes no result.
    """
    model.eval()
    loss, hits = (torch.zeros((), dtype=torch.float64, device=data.mean.device) for _ in range(2))
    for images, labels in data.val.batches(torch.split(torch.arange(len(data.val)), batch)):
        inputs = data.inputs(images).contiguous(memory_format=torch.channels_last)
        logits = model(inputs).float()  # (batch, classes)
        loss += F.cross_entropy(logits, labels, reduction="sum").double()
        hits += (logits.argmax(1) == labels).sum()
        if stop.asked:
            return None
    return Scores(loss.item() / len(data.val), hits.item() / len(data.val))


# What follows serves the story above, in the order in which it is told.


def open_device(spec: RunSpec) -> torch.device:
    """The one visible card, or the CPU where the spec says that the card is simulated.

    Raises:
        OperatorError: the spec wants a card and torch sees none; training on the CPU all night would hide it.
    """
    if spec.threads:
        torch.set_num_threads(spec.threads)
    if spec.device == "cuda" and not torch.cuda.is_available():
        raise OperatorError(f"{spec.run_id}: the run is bound to a card, but torch {torch.__version__} sees none")
    return torch.device(spec.device)


def precision_for(params: VisionParams, device: torch.device) -> str:
    """The precision of training, `auto` made definite."""
    if params.precision != "auto":
        return params.precision
    if device.type != "cuda":
        return "fp32"
    return "amp_bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "amp_fp16"


def seed_everything(seed: int) -> None:
    """Every generator that a model or a library may draw from starts from the seed."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def make_optimizer(params: VisionParams, trained: list[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer over the parameters that have gradients; fused where torch has that: ResNet-50's step with AdamW
    took 0.03 s instead of 0.13 s on one core, beside 0.7 s for its gradients."""
    common: dict[str, Any] = {"lr": params.lr, "weight_decay": params.weight_decay}
    match params.optimizer:
        case "sgd":
            nesterov = params.momentum > 0
            return torch.optim.SGD(trained, momentum=params.momentum, nesterov=nesterov, fused=True, **common)
        case "rmsprop":
            return torch.optim.RMSprop(trained, momentum=params.momentum, **common)
        case "adam":
            return torch.optim.Adam(trained, fused=True, **common)
        case "adamw":
            return torch.optim.AdamW(trained, fused=True, **common)
        case "nadam":
            return torch.optim.NAdam(trained, **common)
        case "adagrad":
            return torch.optim.Adagrad(trained, **common)


def length_of(spec: RunSpec, samples: int, batch_size: int) -> Length:
    """Steps and epochs of the run; the plan's epochs and steps both hold, whichever ends first."""
    steps_per_epoch = len(sizes(samples, batch_size))
    steps = spec.max_steps or (spec.epochs or DEFAULT_EPOCHS) * steps_per_epoch
    if spec.epochs:
        steps = min(steps, spec.epochs * steps_per_epoch)
    return Length(steps_per_epoch, steps, math.ceil(steps / steps_per_epoch))


def sizes(samples: int, batch_size: int) -> list[int]:
    """Sizes of an epoch's batches. A last batch of one sample is left out: batch norm could not train on it."""
    whole, tail = divmod(samples, batch_size)
    return [batch_size] * whole + ([tail] if tail > 1 or not whole else [])


def epoch_batches(samples: int, params: VisionParams, epoch: int) -> list[Tensor]:
    """Indices of each batch of an epoch; the order follows from (seed, epoch), whatever the model drew before."""
    order = torch.randperm(samples, generator=generator_for(params.seed, epoch, 0))
    batches = sizes(samples, params.batch_size)
    return list(torch.split(order[: sum(batches)], batches))


def generator_for(seed: int, epoch: int, batch: int) -> torch.Generator:
    """A generator of its own for each (seed, epoch, batch), so that no draw depends on how a run got there."""
    mixed = np.random.SeedSequence((seed, epoch, batch)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(mixed >> np.uint64(1)))


@dataclass(frozen=True)
class Mix:
    """Mixup (Zhang et al. 2018): each sample with a partner, by one weight for the batch."""

    share: float
    partner: Tensor  # int64 (batch,)

    def apply(self, values: Tensor) -> Tensor:
        """Images or one-hot targets, mixed; the same shape."""
        return self.share * values + (1 - self.share) * values[self.partner.to(values.device)]


def draw(data: Data, params: VisionParams, position: Position, batch: int) -> tuple[Tensor | None, Mix | None]:
    """Augmentation and mixup of the batch at hand; None for what the plan does not want."""
    if data.augment == "none" and not params.mixup_alpha:
        return None, None
    generator = generator_for(params.seed, position.epoch, 1 + position.batch)
    changes = data.random_changes(batch, generator)
    if not params.mixup_alpha:
        return changes, None
    numbers = random.Random(int(torch.randint(2**62, (), generator=generator)))
    share = numbers.betavariate(params.mixup_alpha, params.mixup_alpha)
    return changes, Mix(share, torch.randperm(batch, generator=generator))


def lr_at(step: int, steps: int, params: VisionParams) -> float:
    """The learning rate of a step, counted from 0."""
    warm = round(params.warmup * steps)
    if step < warm:
        return params.lr * (step + 1) / warm
    share = (step - warm) / max(1, steps - warm)
    match params.schedule:
        case "constant":
            return params.lr
        case "step":
            return params.lr * 0.1 ** sum(step / steps >= drop for drop in STEP_DROPS)
        case "cosine":
            return params.lr * 0.5 * (1 + math.cos(math.pi * share))


def keep_frozen(built: Built, params: VisionParams) -> None:
    """Batch norms of a frozen backbone keep their pretrained statistics."""
    if params.freeze_backbone:
        built.model.eval()
        for module in built.head:
            module.train()


def read_back(pending: list[tuple[Tensor, Tensor, int]], position: Position, lr: float) -> float:
    """Mean loss of the steps since the last reading, which are added to the epoch's sums; `pending` is empty then.

    Raises:
        FloatingPointError: the loss of one of them is not finite.
    """
    losses: list[float] = torch.stack([loss for loss, _, _ in pending]).tolist()
    hits = torch.stack([hit for _, hit, _ in pending]).tolist()
    first = position.step - len(pending) + 1
    for index, (loss, hit, (_, _, count)) in enumerate(zip(losses, hits, pending, strict=True)):
        if not math.isfinite(loss):
            before = "there was no finite loss before"
            if position.last_loss is not None:
                before = f"the last finite loss was {position.last_loss:.4g} at step {first + index - 1}"
            raise FloatingPointError(f"loss is {loss} at step {first + index} (lr {lr:g}); {before}")
        position.last_loss = loss
        position.loss_sum += loss * count
        position.hits += hit
        position.seen += count
        position.samples += count
    pending.clear()
    return sum(losses) / len(losses)


def record_step(
    attempt: Attempt, position: Position, length: Length, clock: Clock, loss: float, lr: float, device: torch.device
) -> None:
    """A step line is in the metrics, now and then one in the log, and the loss curve has a point more."""
    values = place(position, length, clock) | {"epoch": position.epoch, "loss": loss, "lr": lr}
    attempt.record("step", **values, **memory(device))
    at = position.step if attempt.spec.max_steps else position.step / length.steps_per_epoch
    curve = position.curves.setdefault("loss", [])
    curve.append((at, loss))
    if len(curve) > 1000:
        curve[:] = thinned(curve)
    if clock.log_due():
        log.info("step %d/%d loss %.4f lr %.3g eta %s s", position.step, length.steps, loss, lr, values["eta_s"])


def place(position: Position, length: Length, clock: Clock) -> dict[str, Any]:
    """Where a line of the metrics belongs."""
    return {
        "step": position.step,
        "steps_total": length.steps,
        "epochs_total": length.epochs,
        "eta_s": clock.eta_s(position.step),
    }


def memory(device: torch.device) -> dict[str, int]:
    """Memory of a card as torch's allocator sees it: NVML cannot see how fragmented it is. Empty on the CPU."""
    if device.type != "cuda":
        return {}
    stats = torch.cuda.memory_stats()
    return {
        "allocated_bytes": stats["allocated_bytes.all.current"],
        "reserved_bytes": stats["reserved_bytes.all.current"],
        "inactive_split_bytes": stats["inactive_split_bytes.all.current"],
    }


def end_epoch(attempt: Attempt, position: Position, length: Length, clock: Clock, scores: Scores, lr: float) -> None:
    """The epoch is in the metrics, the log and the curves, and the position is the start of the next."""
    values: dict[str, float | None] = {
        "train_loss": position.loss_sum / position.seen if position.seen else None,  # None: every step was skipped
        "train_acc": position.hits / position.seen if position.seen else None,
        "val_loss": scores.val_loss if math.isfinite(scores.val_loss) else None,
        "val_acc": scores.val_acc,
    }
    position.epoch += 1
    position.batch = 0
    position.loss_sum = position.hits = 0.0
    position.seen = 0
    for name, value in values.items():
        at = float(position.step if attempt.spec.max_steps else position.epoch)
        position.curves.setdefault(name, []).append((at, value))
    attempt.record("epoch", epoch=position.epoch, **place(position, length, clock), **values, lr=lr)
    told = " ".join(f"{name} {value:.4f}" for name, value in values.items() if value is not None)
    log.info("epoch %d/%d %s", position.epoch, length.epochs, told)


class Clock:
    """Times of this attempt: when to read back and to save, what is left, and how long the training itself took."""

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

    def write(file: Writable) -> None:
        torch.save(state, file)  # type: ignore[arg-type]

    path = save(attempt.checkpoints, position.step, write, suffix="pt", best=best)
    clock.saved(time.monotonic() - began)
    log.info("checkpoint %s in %.2f s", path.name, time.monotonic() - began)


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
    state = found.state
    learner.model.load_state_dict(state["model"])
    learner.optimizer.load_state_dict(state["optimizer"])
    if state["scaler"]:  # empty unless the earlier attempt trained in amp_fp16
        learner.scaler.load_state_dict(state["scaler"])
    random.setstate(state["random"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and learner.on_gpu:
        torch.cuda.set_rng_state(state["cuda"])
    position = Position(**state["position"])
    return position, [f"resumed at step {position.step} from {found.path.name}"]


def read_checkpoint(path: Path, made_of: dict[str, Any], learner: Learner) -> dict[str, Any]:
    """What `checkpoint` wrote. Raises UnfitCheckpoint when it is of another run or its tensors have other shapes."""
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


def usage(position: Position, device: torch.device) -> Usage:
    """Memory and pace; the seconds on the card are the launcher's to count."""
    on_gpu = device.type == "cuda"
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
    return Usage(
        peak_memory_bytes=torch.cuda.max_memory_allocated() if on_gpu else peak_kib * 1024,
        memory_kind="gpu" if on_gpu else "host",
        samples_per_s=position.samples / position.train_s if position.train_s else None,
    )


def describe(device: torch.device, precision: str, data: Data) -> dict[str, str]:
    """What the result depends on beside the spec."""
    card = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    return {
        **versions(),
        "python": platform.python_version(),
        "card": card,
        "precision": precision,
        "image_size": str(data.image_size),
        "augment": data.augment,
        "validation": data.held_out,
        "revision": revision(),
    }


def revision() -> str:
    """The commit of this source tree, `unknown` outside a checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return "unknown"
    command = ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
