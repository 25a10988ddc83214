"""The vision template with real torch on the CPU: it trains, stops, resumes and says what is wrong."""

from __future__ import annotations

import json
import logging
import math
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, UnidentifiedImageError

from lab.diagnose import diagnose
from lab.errors import OperatorError, RequestError
from lab.run import RunResult, RunSpec
from workers.templates import data as template_data
from workers.templates import vision
from workers.templates.attempt import Attempt
from workers.templates.course import epoch_batches, lr_at
from workers.templates.params import VisionParams

FAST = {"model": "test_resnet", "dataset": "digits", "epochs": 2}
SMALL = {"lr": 0.01, "batch_size": 128, "val_share": 0.5}
"""Of 1797 digits about 898 train, in 8 steps an epoch, the last of them small."""


class Never:
    asked = False

    def save_wanted(self) -> bool:
        return False


class AfterSteps:
    """Asks to stop after so many looks: one look a step while training."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    @property
    def asked(self) -> bool:
        self._left -= 1
        return self._left < 0

    def save_wanted(self) -> bool:
        return False


def prepare(folder: Path, number: int = 1, params: dict[str, Any] | None = None, **spec: Any) -> Attempt:
    values = {"run_id": "exp-1/1", "template": "vision", "device": "cpu", "threads": 1} | FAST | spec
    folder.mkdir(exist_ok=True)
    (folder / "spec.json").write_text(
        RunSpec.model_validate(values | {"params": SMALL | (params or {})}).model_dump_json()
    )
    path = folder / f"attempt-{number}"
    path.mkdir()
    return Attempt(path)


def train(folder: Path, **arguments: Any) -> RunResult:
    attempt = prepare(folder, **arguments)
    result = vision.train(attempt, attempt.params(VisionParams), Never())
    assert result is not None
    return result


def stop_after(steps: int, folder: Path, **arguments: Any) -> Attempt:
    attempt = prepare(folder, **arguments)
    assert vision.train(attempt, attempt.params(VisionParams), AfterSteps(steps)) is None
    return attempt


def lines(attempt: Path) -> list[dict[str, Any]]:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    text = (attempt / "metrics.jsonl").read_text()
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def test_learns_and_leaves_metrics_and_a_result(tmp_path: Path) -> None:
    """The whole point: real numbers from a real network, in the form that the others read."""
    result = train(tmp_path, params={"val_share": 0.2})

    folder = tmp_path / "attempt-1"
    epochs = [line for line in lines(folder) if line["kind"] == "epoch"]
    steps = [line for line in lines(folder) if line["kind"] == "step"]
    assert result == RunResult.model_validate_json((folder / "result.json").read_bytes())
    assert result.metrics["val_acc"] is not None
    assert result.metrics["val_acc"] > 0.4
    assert [line["epoch"] for line in epochs] == [1, 2]
    assert {"train_loss", "train_acc", "val_loss", "val_acc", "lr", "eta_s", "steps_total", "t"} <= epochs[0].keys()
    assert {"step", "steps_total", "epoch", "epochs_total", "loss", "lr", "eta_s", "t"} <= steps[0].keys()
    assert steps[-1]["step"] == steps[-1]["steps_total"] == 2 * 12
    assert result.usage.memory_kind == "host"
    assert result.usage.peak_memory_bytes is not None
    assert result.usage.peak_memory_bytes > 100 * 2**20
    assert result.environment["validation"].startswith("359 of 1797 samples held out")


DEMANDING = {"mixup_alpha": 0.2, "augment": "crop", "dropout": 0.1}
"""All that draws random numbers while training."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run that was never stopped."""
    return train(tmp_path_factory.mktemp("whole"), params=DEMANDING)


@pytest.mark.parametrize("after", [4, 7, 8, 12], ids=["in an epoch", "at its end", "evaluating", "in the second"])
def test_a_resumed_run_ends_as_one_that_never_stopped(tmp_path: Path, whole: RunResult, after: int) -> None:
    """Nobody should have to ask whether a number comes from a run that was interrupted."""
    first = stop_after(after, tmp_path, params=DEMANDING)

    resumed = train(tmp_path, number=2, params=DEMANDING, checkpoint_dir=str(first.checkpoints))

    assert resumed.metrics == whole.metrics
    assert resumed.curves["val_acc"] == whole.curves["val_acc"]
    assert resumed.curves["train_loss"] == whole.curves["train_loss"]
    assert any("resumed at step" in warning for warning in resumed.warnings)


def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    tmp_path: Path, whole: RunResult, caplog: pytest.LogCaptureFixture
) -> None:
    """The host lost power while the last one was being written."""
    first = stop_after(12, tmp_path, params=DEMANDING)
    last = max(first.checkpoints.glob("step-*"))
    os.truncate(last, last.stat().st_size // 2)

    with caplog.at_level(logging.WARNING):
        resumed = train(tmp_path, number=2, params=DEMANDING, checkpoint_dir=str(first.checkpoints))

    told = next(warning for warning in resumed.warnings if last.name in warning)
    assert last.name in caplog.text
    assert "is damaged or cut short" in told
    assert told.endswith("; the one before was used")
    assert any("resumed at step 8" in warning for warning in resumed.warnings)
    assert resumed.metrics == whole.metrics


def test_the_smoke_step_leaves_nothing_behind(
    tmp_path: Path, whole: RunResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is a function of its spec: the batch that was tried first must not have been trained on."""
    monkeypatch.setattr(vision, "try_out", lambda *_: None)

    without = train(tmp_path, params=DEMANDING)

    assert without.metrics == whole.metrics
    assert without.curves["train_loss"] == whole.curves["train_loss"]


def test_an_evaluation_that_cannot_work_fails_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broken image of the validation set: without the smoke step it is met at the end of the first epoch."""
    monkeypatch.setattr(template_data, "HOLD_AT_MOST_BYTES", 0)
    for part in ("train", "val"):
        for label in ("blue", "red"):
            (tmp_path / "set" / part / label).mkdir(parents=True)
            for index in range(4):
                Image.new("RGB", (40, 40), label).save(tmp_path / "set" / part / label / f"{index}.png")
    (tmp_path / "set" / "val" / "red" / "3.png").write_bytes(b"cut short")
    dirs = {"squares": str(tmp_path / "set")}
    params = {"batch_size": 4, "num_workers": 0, "image_size": 32}
    attempt = prepare(tmp_path / "run", dataset="squares", data_dirs=dirs, params=params)

    with pytest.raises(UnidentifiedImageError, match=r"3\.png"):
        vision.train(attempt, attempt.params(VisionParams), Never())

    assert lines(attempt.folder) == []


def test_checkpoints_that_cannot_be_written_fail_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses what exceeds the limit of a file's size, as it does on a full disk."""
    attempt = prepare(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises((OSError, RuntimeError)) as error:
            vision.train(attempt, attempt.params(VisionParams), Never())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    log = "".join(traceback.format_exception(error.value))
    assert diagnose(log, 1).cause == "disk_full"
    assert lines(attempt.folder) == []


def test_a_resumed_run_tries_nothing_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It has shown already that it works."""
    with caplog.at_level(logging.INFO):
        first = stop_after(4, tmp_path)
        fresh = caplog.text.count("smoke step passed")
        train(tmp_path, number=2, checkpoint_dir=str(first.checkpoints))

    assert (fresh, caplog.text.count("smoke step passed")) == (1, 1)


def test_parts_too_small_for_batch_norm_are_told(tmp_path: Path) -> None:
    """More parts than the net can take: the report must not say that they were."""
    result = train(tmp_path, max_steps=1, params={"batch_size": 4, "grad_accum_steps": 4})

    assert result.warnings == ("a batch of 4 was computed in 2 parts, not 4: batch norm needs 2 samples in each",)


def test_no_checkpoint_starts_anew_and_says_so(tmp_path: Path) -> None:
    """The first attempt's host is gone, with its checkpoints."""
    result = train(tmp_path, max_steps=2, checkpoint_dir=str(tmp_path / "gone"))

    assert any("started anew" in warning for warning in result.warnings)


def test_nan_stops_with_step_and_last_loss(tmp_path: Path) -> None:
    """A diverged run ends at once and says where, instead of training on nothing until morning."""
    params = {"lr": 10, "optimizer": "sgd", "momentum": 0.99, "warmup": 0}
    attempt = prepare(tmp_path, model="torchvision:squeezenet1_1", params=params, epochs=20)

    with pytest.raises(FloatingPointError, match=r"loss is (nan|inf) at step \d+ \(lr .*\); the last finite loss was"):
        vision.train(attempt, attempt.params(VisionParams), Never())

    assert not (attempt.folder / "result.json").exists()
    assert all(math.isfinite(line["loss"]) for line in lines(attempt.folder) if line["kind"] == "step")


def test_sigterm_leaves_a_checkpoint_and_143(tmp_path: Path) -> None:
    """Pausing, giving way and ending a lease early all come down to this, in a process of its own."""
    attempt = prepare(tmp_path, epochs=1000)
    command = [sys.executable, "-m", "workers.templates.vision", str(attempt.folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 60
    while process.poll() is None and len(lines(attempt.folder)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)

    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=20)

    assert process.returncode == 143, output
    assert list(attempt.checkpoints.glob("step-*.pt"))
    assert not (attempt.folder / "result.json").exists()


def test_the_seed_decides_and_nothing_else(tmp_path: Path) -> None:
    """Runs of a comparison are paired: same seed, same numbers; another seed, other numbers."""
    first, again, other = (
        train(tmp_path / name, max_steps=3, params={"seed": seed}) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )

    assert first.metrics == again.metrics
    assert first.metrics != other.metrics


def test_the_order_of_the_data_does_not_depend_on_the_model() -> None:
    """Two models with one seed see the same batches."""
    params = VisionParams(seed=3)
    order = epoch_batches(100, params, 1)
    torch.rand(7)

    assert all(torch.equal(a, b) for a, b in zip(order, epoch_batches(100, params, 1), strict=True))
    assert not torch.equal(order[0], epoch_batches(100, params, 2)[0])


def test_every_seed_is_judged_on_the_same_images() -> None:
    """Otherwise differences between seeds would be differences between validation sets."""
    labels = torch.arange(100) % 4
    spec = RunSpec(run_id="exp-1/1", template="vision", model="x", dataset="digits", device="cpu")
    parts = [template_data.load(spec, VisionParams(seed=seed), torch.device("cpu")) for seed in (0, 1)]

    train_part, val_part = template_data.split(labels, 0.2)

    assert torch.equal(parts[0].val.labels, parts[1].val.labels)  # type: ignore[attr-defined]
    assert torch.equal(labels[val_part].bincount(), torch.full((4,), 5))
    assert not set(train_part.tolist()) & set(val_part.tolist())


def test_a_last_batch_of_one_does_not_break_batch_norm(tmp_path: Path) -> None:
    """At 32 pixels a deep network ends in one value a channel and sample: a batch of one has no variance."""
    attempt = prepare(tmp_path, epochs=1)
    data = template_data.load(attempt.spec, attempt.params(VisionParams), torch.device("cpu"))
    batch_size = len(data.train) // 2  # an odd number of samples leaves one over

    result = train(tmp_path / "odd", epochs=1, params={"batch_size": batch_size})

    assert len(data.train) == 2 * batch_size + 1
    assert [line["steps_total"] for line in lines(tmp_path / "odd" / "attempt-1")][-1] == 2
    assert result.metrics["train_loss"] is not None


def test_a_batch_in_parts_equals_the_whole_batch(tmp_path: Path) -> None:
    """Recovery from a full card halves the parts and must not change the experiment."""
    common: dict[str, Any] = {"model": "test_vit", "max_steps": 4}
    sgd = {"optimizer": "sgd", "batch_size": 60, "lr": 0.05}
    whole = train(tmp_path / "whole", params=sgd, **common)

    parts = train(tmp_path / "parts", params=sgd | {"grad_accum_steps": 7}, **common)

    for name, value in whole.metrics.items():
        assert parts.metrics[name] == pytest.approx(value, rel=1e-4), name


@pytest.mark.parametrize("model", ["test_vit", "vit_tiny_patch16_224", "torchvision:mnasnet0_5", "Test-ResNet"])
def test_models_of_both_libraries_take_small_images(tmp_path: Path, model: str) -> None:
    """ViTs must be told the size of the images; mnasnet0_5 is torchvision's alone."""
    result = train(tmp_path, model=model, max_steps=1, params={"batch_size": 8})

    assert result.metrics["val_acc"] is not None


def test_an_unknown_model_comes_back_with_the_nearest_names(tmp_path: Path) -> None:
    """The asker can answer with one word."""
    attempt = prepare(tmp_path, model="resnet500")

    with pytest.raises(RequestError, match=r"no model 'resnet500' in timm .* nearest: .*resnet50"):
        vision.train(attempt, attempt.params(VisionParams), Never())


def test_a_model_that_cannot_take_the_size_says_so(tmp_path: Path) -> None:
    """Found before the first step, in words, not after an hour in a stack trace."""
    attempt = prepare(tmp_path, model="torchvision:alexnet")

    with pytest.raises(RequestError, match="alexnet does not take images of 32 x 32"):
        vision.train(attempt, attempt.params(VisionParams), Never())


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"lr": -1}, "lr = -1"),
        ({"lr": float("nan")}, "lr"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"optimizer": "lion"}, "optimizer = 'lion'"),
        ({"learning_rate": 0.1}, "learning_rate"),
        ({"batch_size": 2, "grad_accum_steps": 4}, "a batch of 2 has no 4 parts"),
        ({"image_size": 4}, "at least 8 pixels"),
    ],
)
def test_parameters_out_of_bounds_are_named_with_their_value(
    tmp_path: Path, params: dict[str, Any], problem: str
) -> None:
    """A bad plan ends with one sentence."""
    attempt = prepare(tmp_path)
    spec = attempt.spec.model_copy(update={"params": params})
    attempt.spec = spec

    with pytest.raises(RequestError) as caught:
        attempt.params(VisionParams)

    assert problem in str(caught.value)


def test_an_option_that_a_model_lacks_is_left_out_with_a_warning(tmp_path: Path) -> None:
    """A comparison with dropout must not silently compare models without it."""
    result = train(tmp_path, model="torchvision:resnet18", max_steps=1, params={"dropout": 0.1, "batch_size": 8})

    assert any("no dropout" in warning for warning in result.warnings)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop", "nadam", "adagrad"])
def test_every_optimizer_takes_a_step(tmp_path: Path, optimizer: str) -> None:
    """Each is on offer in the schema."""
    params = {"optimizer": optimizer, "weight_decay": 0.01, "grad_clip": 1.0, "schedule": "step", "lr": 1e-3}
    result = train(tmp_path, max_steps=2, params=params)

    assert result.metrics["train_loss"] is not None
    assert result.curve_unit == "step"


def test_mixed_precision_trains_on_the_cpu_too(tmp_path: Path) -> None:
    """The path that a card takes by default, as far as a CPU can show it."""
    result = train(tmp_path, max_steps=2, params={"precision": "amp_bf16"})

    assert result.environment["precision"] == "amp_bf16"
    assert result.metrics["train_loss"] is not None


def test_the_learning_rate_warms_up_and_falls() -> None:
    """A pure function of the step, so that resuming cannot shift it."""
    params = VisionParams(lr=1.0, warmup=0.1)
    rates = [lr_at(step, 100, params) for step in range(100)]
    drops = [lr_at(s, 100, VisionParams(lr=1.0, warmup=0, schedule="step")) for s in (59, 60, 85)]

    assert rates[:2] == pytest.approx([0.1, 0.2])
    assert rates[10] == max(rates) == 1.0
    assert rates[99] < 0.001
    assert drops == pytest.approx([1.0, 0.1, 0.01])


def test_a_card_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Training on the CPU all night would hide it."""
    if torch.cuda.is_available():
        pytest.skip("this host has a card")
    attempt = prepare(tmp_path, device="cuda")

    with pytest.raises(OperatorError, match="sees none"):
        vision.train(attempt, attempt.params(VisionParams), Never())


def test_synthetic_images_can_be_learnt(tmp_path: Path) -> None:
    """A data set of colour images that needs no files."""
    result = train(tmp_path, dataset="synthetic", epochs=1, params={"augment": "crop_flip", "batch_size": 256})

    assert result.metrics["val_acc"] is not None
    assert result.metrics["val_acc"] > 0.1
