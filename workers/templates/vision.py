"""Trains one image classifier and evaluates it on held-out images after every epoch.

`python -m workers.templates.vision <attempt directory>` reads the spec one level above that directory. Read this file
downwards: `train` is the whole story. What a plan may set is in params.py; `evaluate` looks at none of it.

A run is a function of its spec: the weights follow from the seed, the order of the data and its augmentation from
(seed, epoch, batch), the learning rate from the step. So a resumed run goes on as if it had never stopped.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F  # noqa: N812  the name that every torch user knows
from torch import Tensor, nn

from lab.run import RunResult
from workers.templates.attempt import EXIT_STOPPED, Attempt, StopSignal, last_values, log_to_stdout, thinned
from workers.templates.clock import Clock
from workers.templates.course import Length, draw, epoch_batches, length_of, lr_at
from workers.templates.data import Data, load
from workers.templates.device import describe, memory, open_device, precision_for, seed_everything, usage
from workers.templates.models import Built, build, check_size
from workers.templates.params import VisionParams
from workers.templates.saved import Learner, Position, checkpoint, identity, read_checkpoint, restore, resume, write

log = logging.getLogger("vision")

AMP_DTYPES = {"amp_fp16": torch.float16, "amp_bf16": torch.bfloat16}
EVAL_BATCH = 256
"""Largest batch of the evaluation; it keeps no gradients, so twice the training's part fits wherever that did."""


class Stop(Protocol):
    """What somebody wants of the training, asked between steps."""

    @property
    def asked(self) -> bool:
        """True when it is to end."""
        ...

    def save_wanted(self) -> bool:
        """True once when a checkpoint is wanted."""
        ...


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
    learner = Learner(model, optimizer, scaler, precision)
    length = length_of(spec, len(data.train), params.batch_size)
    position, warnings = resume(attempt, length, learner)
    warnings = [*built.warnings, *warnings, *notes_on(params, learner)]
    environment = describe(device, precision, data)
    for line in (*warnings, *(f"{k}: {v}" for k, v in environment.items())):
        log.info("%s", line)
    log.info("%s %s on %s: step %d of %d", spec.run_id, built.name, spec.dataset, position.step, length.steps)
    if position.step == 0:
        try_out(attempt, length, learner, data, params)
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
            loss, hits = learn(learner, data, params, position, length, images, labels)
            pending.append((loss, hits, len(images)))
            position.step += 1
            position.batch += 1

            # Between steps: figures now and then, a checkpoint in long epochs or when told to stop.
            lr = lr_at(position.step - 1, length.steps, params)
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
        scores = evaluate(model, data, eval_batch(params), stop)
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


def notes_on(params: VisionParams, learner: Learner) -> list[str]:
    """What the training does other than its parameters say at first sight."""
    notes = [f"steps {params.skip_steps} were left out"] if params.skip_steps else []
    most = max(1, params.batch_size // learner.smallest_part)
    if params.grad_accum_steps > most:
        notes.append(
            f"a batch of {params.batch_size} was computed in {most} parts, not {params.grad_accum_steps}: batch norm "
            f"needs {learner.smallest_part} samples in each"
        )
    return notes


# One step, and the trial of everything that a run does, before it begins.


def learn(
    learner: Learner,
    data: Data,
    params: VisionParams,
    position: Position,
    length: Length,
    images: Tensor,
    labels: Tensor,
) -> tuple[Tensor, Tensor]:
    """The weights have made the step at the position; returns its mean loss and its hits, still on the device.

    Args:
        images: uint8 (batch, 1 or 3, height, width).
        labels: int64 (batch,).
    """
    changes, mix = draw(data, params, position.epoch, position.batch, len(images))
    inputs = data.inputs(images, changes)  # float32 (batch, 3, size, size)
    targets = F.one_hot(labels, data.classes).float() if mix else labels  # (batch,) or (batch, classes)
    if mix:
        inputs, targets = mix.apply(inputs), mix.apply(targets)
    inputs = inputs.contiguous(memory_format=torch.channels_last)
    model, optimizer, scaler = learner.model, learner.optimizer, learner.scaler
    for group in optimizer.param_groups:
        group["lr"] = lr_at(position.step, length.steps, params)

    # A batch in parts gives the gradient of the whole: each part weighs what it holds.
    parts = max(1, min(params.grad_accum_steps, len(images) // learner.smallest_part))
    loss, hits = (torch.zeros((), device=inputs.device) for _ in range(2))
    amp_dtype = AMP_DTYPES.get(learner.precision)
    for x, y in zip(inputs.tensor_split(parts), targets.tensor_split(parts), strict=True):
        with torch.autocast(inputs.device.type, amp_dtype, enabled=amp_dtype is not None):
            logits = model(x)  # (part, classes)
            part_loss = F.cross_entropy(logits, y, label_smoothing=params.label_smoothing)
            part_loss = part_loss * (len(x) / len(images))
        scaler.scale(part_loss).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        with torch.no_grad():
            loss += part_loss
            hits += (logits.argmax(1) == (y.argmax(1) if mix else y)).sum()
    if params.grad_clip:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], params.grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return loss, hits


def try_out(attempt: Attempt, length: Length, learner: Learner, data: Data, params: VisionParams) -> None:
    """The smoke step: a training batch, an evaluation batch and a checkpoint went through, and nothing remains of them.

    What is wrong with the evaluation or with the folder of checkpoints shows in the first seconds, not after an epoch.
    The checkpoint is written before the batches and read after them, which takes every weight and generator back: the
    run that follows is the one that it would have been.
    """
    began = time.monotonic()
    log.info("smoke step: a training batch, an evaluation batch, a checkpoint")
    path = write(attempt, length, Position(), learner)
    learner.model.train()
    for images, labels in data.train.batches(epoch_batches(len(data.train), params, 0)[:1]):
        learn(learner, data, params, Position(), length, images, labels)
    learner.model.eval()
    with torch.no_grad():
        for images, labels in data.val.batches([torch.arange(min(len(data.val), eval_batch(params)))]):
            score(learner.model, data, images, labels)
    restore(read_checkpoint(path, identity(attempt.spec, length), learner), learner)
    path.unlink()
    log.info("smoke step passed in %.1f s", time.monotonic() - began)


def eval_batch(params: VisionParams) -> int:
    """Samples that are evaluated at once."""
    return min(EVAL_BATCH, max(2, 2 * params.batch_size // params.grad_accum_steps))


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
        batch_loss, batch_hits = score(model, data, images, labels)
        loss += batch_loss.double()
        hits += batch_hits
        if stop.asked:
            return None
    return Scores(loss.item() / len(data.val), hits.item() / len(data.val))


def score(model: nn.Module, data: Data, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy summed over the batch, and how many of it are right."""
    inputs = data.inputs(images).contiguous(memory_format=torch.channels_last)
    logits = model(inputs).float()  # (batch, classes)
    return F.cross_entropy(logits, labels, reduction="sum"), (logits.argmax(1) == labels).sum()


# What follows serves the story above, in the order in which it is told.


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


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
