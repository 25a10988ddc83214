"""What a plan may set for each template, with bounds; light to import, since hosts publish it without loading torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Seed = Annotated[int, Field(ge=0, lt=2**32, description="Seed of the weights, the order of the data and augmentation")]


class TemplateParams(BaseModel):
    """Parameters of a template: immutable, unknown names refused, no NaN and no infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seed: Seed = 0
    skip_steps: str = Field(
        "",
        pattern=r"^(\d+-\d+(,\d+-\d+)*)?$",
        max_length=200,
        description="Steps whose batches are left out, `33-40,71-78`, counted from 1: they pass and change no weight",
    )

    def skips(self, step: int) -> bool:
        """True when the step, counted from 1, is one of `skip_steps`."""
        spans = (span.split("-") for span in self.skip_steps.split(",") if span)
        return any(int(first) <= step <= int(last) for first, last in spans)


class VisionParams(TemplateParams):
    """Parameters of `vision`; epochs and steps come from the plan, and nothing here reaches the evaluation."""

    lr: float = Field(1e-3, gt=0, le=10, description="Peak learning rate, reached after the warm-up")
    batch_size: int = Field(64, ge=1, le=65_536, description="Samples of one optimizer step, all of its parts together")
    grad_accum_steps: int = Field(
        1, ge=1, le=4096, description="Parts in which a batch is computed: more parts, less memory, the same batch"
    )
    optimizer: Literal["adamw", "adam", "sgd", "rmsprop", "nadam", "adagrad"] = Field(
        "adamw", description="The optimizer, as torch.optim has it; sgd takes Nesterov's step when momentum is above 0"
    )
    weight_decay: float = Field(
        1e-4, ge=0, le=1, description="Weight decay of all parameters: decoupled with adamw, else an L2 term"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="Momentum of sgd and rmsprop; the others have their own")
    schedule: Literal["cosine", "constant", "step"] = Field(
        "cosine",
        description="Learning rate after the warm-up: falling to 0 along a cosine, constant, or divided by 10 at 60 % "
        "and at 85 % of the steps",
    )
    warmup: float = Field(0.05, ge=0, le=0.5, description="Share of the steps in which the learning rate rises to lr")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="Label smoothing of the training loss")
    mixup_alpha: float = Field(0.0, ge=0, le=10, description="Mixup: parameter of the Beta distribution, 0 for none")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout before the classifier, where the model has one")
    drop_path: float = Field(0.0, ge=0, lt=1, description="Stochastic depth, where the model has it")
    grad_clip: float = Field(0.0, ge=0, le=1000, description="Largest norm of the gradient, 0 for no limit")
    precision: Literal["auto", "fp32", "tf32", "amp_bf16", "amp_fp16"] = Field(
        "auto", description="Precision of training; auto is mixed precision on a GPU and fp32 on a CPU"
    )
    image_size: int = Field(
        0, ge=0, le=1024, description="Side of the square image in pixels, at least 8; 0 for the data set's own"
    )
    augment: Literal["auto", "none", "crop", "crop_flip", "resized_crop"] = Field(
        "auto", description="Augmentation of training images; auto is what suits the data set, none for digits"
    )
    val_share: float = Field(
        0.2,
        gt=0,
        le=0.5,
        description="Share held out for validation where the data set has no split of its own; the same samples for "
        "every seed, so that runs are compared in pairs",
    )
    pretrained: bool = Field(False, description="Start from the library's pretrained weights")
    freeze_backbone: bool = Field(False, description="Train the classifier only")
    num_workers: int = Field(
        -1, ge=-1, le=64, description="Processes that read images from files; -1 chooses, sets held in memory need none"
    )

    @field_validator("image_size")
    @classmethod
    def _wide_enough(cls, size: int) -> int:
        if 0 < size < 8:
            raise ValueError(f"an image is at least 8 pixels wide, not {size} (0 takes the data set's own size)")
        return size

    @model_validator(mode="after")
    def _parts_fit_the_batch(self) -> VisionParams:
        if self.grad_accum_steps > self.batch_size:
            raise ValueError(f"a batch of {self.batch_size} has no {self.grad_accum_steps} parts")
        return self


class ProbeParams(TemplateParams):
    """Parameters of `probe`."""

    steps: int = Field(20, ge=1, le=1_000_000, description="Steps in all, unless the plan sets max_steps")
    step_s: float = Field(0.05, ge=0, le=3600, description="Seconds a step takes")
    fail: Literal[
        "none",
        "error",
        "oom_gpu",
        "oom_fragmented",
        "oom_shared",
        "oom_host",
        "oom_host_kill",
        "nan",
        "hang",
        "exit_silently",
        "sigkill",
        "bad_args",
        "shm",
        "disk_full",
        "nccl",
        "hardware",
        "illegal_access",
        "time_limit",
        "preempted",
        "port_in_use",
        "network",
        "import_error",
        "data_missing",
        "permission",
        "auth",
        "checkpoint_mismatch",
        "device_assert",
        "compile_error",
        "driver_mismatch",
        "arch_mismatch",
        "fork_cuda",
    ] = Field("none", description="How it fails")
    fail_at_step: int = Field(5, ge=0, description="Step at which it fails, counted from 1; 0: in its smoke step")
    fail_attempts: int = Field(
        1_000_000, ge=1, description="Attempts that fail; from the next one on it runs through, to test recovery"
    )
    fits: int = Field(
        0, ge=0, description="Largest part of a batch that fits the pretended card: above it, oom_gpu fails"
    )
    final_acc: float = Field(0.9, ge=0, le=1, description="Accuracy at the end, before noise")
    noise: float = Field(0.01, ge=0, le=1, description="Standard deviation of the accuracy over seeds")
    curve: Literal["saturating", "linear", "flat", "falling"] = Field(
        "saturating", description="Shape of the accuracy over the run: linear is still rising at the end"
    )
    lr: float = Field(1e-3, gt=0, le=10, description="Written to the metrics, without effect")
    batch_size: int = Field(64, ge=1, le=65_536, description="Counted in samples a second, without effect")
    grad_accum_steps: int = Field(1, ge=1, le=4096, description="Parts of a batch, for `fits`")
    num_workers: int = Field(0, ge=0, le=64, description="Without effect")
