"""Training and validation images of a data set, as uint8 batches on the device.

What fits is held on the device as one tensor; the rest is read by a DataLoader. Either way an image is decoded the
same each time and random changes are made on the device, from (seed, epoch, batch) alone: so a resumed run sees what
an uninterrupted one would have seen, and the order of the data does not depend on the model.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the name that every torch user knows
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from lab.errors import OperatorError, RequestError
from lab.run import RunSpec
from workers import datasets
from workers.datasets import Augment, FolderProblem, TorchvisionSet, canonical, check_image_folder
from workers.templates.params import VisionParams

SPLIT_SEED = 20_240_229
"""Seed of the held-out share: a constant, so that every seed and model is judged on the same images."""

HOLD_AT_MOST_BYTES = 256 * 2**20
"""Sets read from files that are smaller than this once decoded are decoded once; three trainers may share a host."""

MARGIN = 8 / 7
"""Images from files are decoded this much larger than they are trained on: 256 for 224, as is usual for ImageNet."""

FOLDER_IMAGE_SIZE = 224
WORKERS_AT_MOST = 8

SYNTHETIC_SAMPLES = (2048, 512)
"""For training and for validation."""


class Images(Protocol):
    """A part of a data set."""

    def __len__(self) -> int: ...

    def batches(self, indices: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """For each tensor of indices the images, uint8 (batch, 1 or 3, height, width), and labels, int64 (batch,)."""
        ...


@dataclass(frozen=True)
class HeldImages:
    """Images that lie on the device as one tensor."""

    images: Tensor  # uint8 (n, 1 or 3, height, width)
    labels: Tensor  # int64 (n,)

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, indices: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """See Images."""
        if not indices:
            return
        # One copy to the device an epoch, not one a step.
        order = torch.cat(list(indices)).to(self.images.device)
        for here in torch.split(order, [len(index) for index in indices]):
            yield self.images[here], self.labels[here]

    def part(self, indices: Tensor) -> HeldImages:
        """Those of the indices alone."""
        return HeldImages(self.images[indices], self.labels[indices])

    def to(self, device: torch.device) -> HeldImages:
        """The same on a device."""
        return HeldImages(self.images.to(device), self.labels.to(device))


@dataclass(frozen=True)
class FileImages:
    """Images that are read from files while training, by processes of their own."""

    files: Dataset[tuple[Tensor, int]]
    count: int
    device: torch.device
    workers: int

    def __len__(self) -> int:
        return self.count

    def batches(self, indices: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """See Images."""
        on_gpu = self.device.type == "cuda"
        loader = DataLoader(
            self.files,
            batch_sampler=[index.tolist() for index in indices],
            num_workers=self.workers,
            pin_memory=on_gpu,
            worker_init_fn=_ignore_sigterm,
        )
        for images, labels in loader:
            yield images.to(self.device, non_blocking=on_gpu), labels.to(self.device, non_blocking=on_gpu)

    def held(self) -> HeldImages:
        """All of it, decoded once."""
        every = torch.split(torch.arange(self.count), 256)
        images, labels = zip(*self.batches(every), strict=True)
        return HeldImages(torch.cat(images), torch.cat(labels))


@dataclass(frozen=True)
class Data:
    """A data set, split, and how its images become the model's input."""

    train: Images
    val: Images
    classes: int
    image_size: int
    margin: bool
    """True when images come larger than image_size and are cropped to it; else they are scaled to it."""
    mean: Tensor  # (1, 3, 1, 1), in units of the uint8 image
    std: Tensor  # (1, 3, 1, 1)
    augment: Augment
    held_out: str
    """What the validation set is, in words."""

    def normalised_by(self, mean: Sequence[float], std: Sequence[float]) -> Data:
        """The same with the mean and deviation, in 0..1, that pretrained weights expect."""
        device = self.mean.device
        return replace(self, mean=_per_channel(mean, device), std=_per_channel(std, device))

    def inputs(self, images: Tensor, changes: Tensor | None = None) -> Tensor:
        """uint8 (batch, 1 or 3, h, w) -> float32 (batch, 3, image_size, image_size), normalised.

        Args:
            images: as Images gives them.
            changes: what `random_changes` drew for this batch, (batch, 2, 3); None for no augmentation.
        """
        size, batch = self.image_size, len(images)
        x = (images.expand(-1, 3, -1, -1) - self.mean) / self.std
        if not self.margin and x.shape[-2:] != (size, size):
            x = F.interpolate(x, (size, size), mode="bilinear", antialias=True)
        if changes is not None:
            grid = F.affine_grid(changes.to(x.device, non_blocking=True), [batch, 3, size, size], align_corners=False)
            return F.grid_sample(x, grid, align_corners=False)  # outside the image lies 0, the mean
        if self.margin:
            top, left = (x.shape[-2] - size) // 2, (x.shape[-1] - size) // 2
            x = x[..., top : top + size, left : left + size]
        return x

    def random_changes(self, batch: int, generator: torch.Generator) -> Tensor | None:
        """Affine maps (batch, 2, 3) from output to input, in units where the image spans -1..1; None for none."""
        if self.augment == "none":
            return None
        u = torch.rand(5, batch, generator=generator)
        width = height = torch.full((batch,), 1 / MARGIN if self.margin else 1.0)
        if self.augment == "resized_crop":
            area, ratio = 0.25 + 0.75 * u[0], torch.exp((2 * u[1] - 1) * math.log(4 / 3))
            width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
        # A crop as large as the image is shifted by an eighth of it, as the padding of 4 on 32 pixels does.
        padding = 0.25 if self.augment != "resized_crop" and not self.margin else 0.0
        reach_x, reach_y = 1 - width + padding, 1 - height + padding
        mirror = torch.where(u[2] < 0.5, -1.0, 1.0) if self.augment in ("crop_flip", "resized_crop") else 1.0
        changes = torch.zeros(batch, 2, 3)
        changes[:, 0, 0], changes[:, 1, 1] = width * mirror, height
        changes[:, 0, 2], changes[:, 1, 2] = (2 * u[3] - 1) * reach_x, (2 * u[4] - 1) * reach_y
        return changes


def load(spec: RunSpec, params: VisionParams, device: torch.device) -> Data:
    """The data set of the spec; nothing is downloaded.

    Raises:
        RequestError: there is no such data set.
        OperatorError: it should be on this host and is not, or not in the wanted form.
    """
    name = canonical(spec.dataset or "")
    folders = {canonical(key): Path(value) for key, value in spec.data_dirs.items()}
    if name == "digits":
        return _held_split(_digits(), params, device, 32, "none")
    if name == "synthetic":
        return _synthetic(params, device)
    if name not in folders:
        known = name in datasets.TORCHVISION or name == datasets.IMAGENET
        if known:
            raise OperatorError(f"{spec.run_id}: no folder is given for data set {name} on this host")
        raise RequestError(f"{spec.run_id}: there is no data set {spec.dataset!r} on this host")
    if name in datasets.TORCHVISION:
        return _torchvision(datasets.TORCHVISION[name], folders[name], params, device)
    return _folder(folders[name], params, device)


def split(labels: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Indices of the training and of the held-out samples: `share` of every class, the same at every call.

    A class with one sample trains; every other class has at least one sample on either side.
    """
    generator = torch.Generator().manual_seed(SPLIT_SEED)
    train, val = [], []
    for label in sorted(set(labels.tolist())):
        members = (labels == label).nonzero().flatten()
        members = members[torch.randperm(len(members), generator=generator)]
        count = min(max(1, round(len(members) * share)), len(members) - 1)
        val.append(members[:count])
        train.append(members[count:])
    return torch.cat(train).sort().values, torch.cat(val).sort().values


def _held_split(
    everything: tuple[Tensor, Tensor], params: VisionParams, device: torch.device, size: int, auto: Augment
) -> Data:
    images, labels = everything
    train, val = split(labels, params.val_share)
    whole = HeldImages(images, labels)
    return _held(whole.part(train), whole.part(val), params, device, size, auto, _words(len(val), len(labels)))


def _held(
    train: HeldImages,
    val: HeldImages,
    params: VisionParams,
    device: torch.device,
    size: int,
    auto: Augment,
    held_out: str,
) -> Data:
    """Data of two tensors; normalised by the mean and deviation of the training images."""
    mean, std = _moments(train.images)
    return Data(
        train=train.to(device),
        val=val.to(device),
        classes=int(torch.cat([train.labels, val.labels]).max()) + 1,
        image_size=params.image_size or size,
        margin=False,
        mean=_per_channel(mean, device),
        std=_per_channel(std, device),
        augment=auto if params.augment == "auto" else params.augment,
        held_out=held_out,
    )


def _words(held_out: int, total: int) -> str:
    return f"{held_out} of {total} samples held out, each class alike, the same for every seed"


def _moments(images: Tensor) -> tuple[list[float], list[float]]:
    """Mean and standard deviation a channel, in 0..1, in double precision without a double copy of the images."""
    channels = range(images.shape[1])
    counts = [torch.bincount(images[:, c].flatten(), minlength=256).double() for c in channels]
    values = torch.arange(256, dtype=torch.float64) / 255
    means = [float((n * values).sum() / n.sum()) for n in counts]
    stds = [float(((n * (values - m) ** 2).sum() / n.sum()).sqrt()) for n, m in zip(counts, means, strict=True)]
    return means, [max(s, 1e-3) for s in stds]


def _per_channel(values: Sequence[float], device: torch.device) -> Tensor:
    """(1, 3, 1, 1) in units of a uint8 image; one value stands for all three channels."""
    return (torch.tensor(values, device=device) * 255).expand(3).view(1, 3, 1, 1)


def _digits() -> tuple[Tensor, Tensor]:
    """scikit-learn's 1797 handwritten digits: uint8 (1797, 1, 8, 8) from values 0..16, scaled up while training."""
    from sklearn.datasets import load_digits  # 0.6 s, wanted by this data set only

    bunch = load_digits()
    images = torch.from_numpy(np.rint(bunch.images * (255 / 16)).astype(np.uint8)).unsqueeze(1)
    return images, torch.from_numpy(bunch.target).long()


def _synthetic(params: VisionParams, device: torch.device) -> Data:
    """Ten classes of blurred patterns under noise, uint8 (n, 3, 32, 32): learnable, and the same for every seed."""
    generator = torch.Generator().manual_seed(SPLIT_SEED)
    patterns = F.interpolate(torch.rand(10, 3, 4, 4, generator=generator), (32, 32), mode="bilinear")

    def draw(count: int) -> HeldImages:
        labels = torch.arange(count) % 10
        noise = torch.randn(count, 3, 32, 32, generator=generator) * 0.5
        return HeldImages(((patterns[labels] + noise).clamp(0, 1) * 255).to(torch.uint8), labels)

    train, val = (draw(count) for count in SYNTHETIC_SAMPLES)
    return _held(train, val, params, device, 32, "none", f"{len(val)} samples drawn apart, the same for every seed")


def _torchvision(entry: TorchvisionSet, root: Path, params: VisionParams, device: torch.device) -> Data:
    import torchvision.datasets as source

    size = params.image_size or entry.image_size
    augment: Augment = entry.augment if params.augment == "auto" else params.augment
    make = getattr(source, entry.cls)
    try:
        train = make(root, transform=Decoder(size, augment != "none"), **entry.train)
        val = make(root, transform=Decoder(size, False), **entry.val) if entry.val else None
    except (RuntimeError, OSError) as error:
        raise OperatorError(f"data set {entry.name} cannot be read in {root}: {error}") from error
    if hasattr(train, "data") and val is not None:
        words = f"{len(val)} samples of the set's own {(entry.val or {}).get('split', 'test')} split"
        return _held(_arrays(train), _arrays(val), params, device, entry.image_size, entry.augment, words)
    if val is None:
        val = make(root, transform=Decoder(size, False), **entry.train)
        labels = torch.as_tensor(getattr(train, "targets", None) or train.y)
        return _files(train, val, split(labels, params.val_share), entry.classes, size, augment, params, device)
    return _files(train, val, None, entry.classes, size, augment, params, device)


def _arrays(loaded: Any) -> HeldImages:
    """torchvision's sets that lie in memory, whatever their order of axes: uint8 (n, 1 or 3, height, width)."""
    images = torch.as_tensor(loaded.data)
    if images.ndim == 3:
        images = images.unsqueeze(1)
    elif images.shape[1] not in (1, 3):
        images = images.permute(0, 3, 1, 2)
    labels = loaded.targets if hasattr(loaded, "targets") else loaded.labels
    return HeldImages(images.contiguous(), torch.as_tensor(labels).long())


def _folder(folder: Path, params: VisionParams, device: torch.device) -> Data:
    """Images in a subfolder a class, below train/ and val/ or all together."""
    from torchvision.datasets import ImageFolder

    try:
        found = check_image_folder(folder)
    except FolderProblem as problem:
        raise OperatorError(f"{problem}") from None
    size = params.image_size or FOLDER_IMAGE_SIZE
    augment: Augment = "resized_crop" if params.augment == "auto" else params.augment
    train = ImageFolder(str(found.train), transform=Decoder(size, augment != "none"))
    val = ImageFolder(str(found.val or found.train), transform=Decoder(size, False))
    parts = None if found.val else split(torch.tensor(train.targets), params.val_share)
    return _files(train, val, parts, len(found.classes), size, augment, params, device)


def _files(
    train: Any,
    val: Any,
    parts: tuple[Tensor, Tensor] | None,
    classes: int,
    size: int,
    augment: Augment,
    params: VisionParams,
    device: torch.device,
) -> Data:
    """Data read from files; decoded once and held where that is small. `parts` splits a set without a split."""
    from workers.templates.models import IMAGENET_MEAN, IMAGENET_STD

    words = f"{len(val)} samples of the set's own split"
    if parts:
        words = _words(len(parts[1]), len(val))
        train, val = Subset(train, parts[0].tolist()), Subset(val, parts[1].tolist())
    workers = params.num_workers if params.num_workers >= 0 else _workers(device)
    images: list[Images] = [FileImages(part, len(part), device, workers) for part in (train, val)]
    margin = augment != "none"
    decoded_bytes = 3 * (len(train) * (_larger(size) if margin else size) ** 2 + len(val) * size**2)
    if decoded_bytes <= HOLD_AT_MOST_BYTES:
        images = [part.held() for part in images if isinstance(part, FileImages)]
    return Data(
        train=images[0],
        val=images[1],
        classes=classes,
        image_size=size,
        margin=True,
        mean=_per_channel(IMAGENET_MEAN, device),
        std=_per_channel(IMAGENET_STD, device),
        augment=augment,
        held_out=words,
    )


def _larger(size: int) -> int:
    return math.ceil(size * MARGIN)


def _workers(device: torch.device) -> int:
    """Reading processes: none beside a simulated card, whose cores are taken by the training."""
    return min(WORKERS_AT_MOST, os.cpu_count() or 1) if device.type == "cuda" else 0


@dataclass(frozen=True)
class Decoder:
    """An image file as uint8 (3, side, side): the shorter side scaled to image_size with the margin, centre cut out."""

    image_size: int
    keep_margin: bool
    """True leaves the margin for augmentation to move in."""

    def __call__(self, image: Any) -> Tensor:
        from torchvision.transforms import functional

        larger = _larger(self.image_size)
        scaled = functional.resize(image.convert("RGB"), larger)
        side = larger if self.keep_margin else self.image_size
        return torch.as_tensor(functional.pil_to_tensor(functional.center_crop(scaled, [side, side])))


def _ignore_sigterm(worker: int) -> None:
    """A stop goes to the whole process group; the readers must outlive it until the checkpoint is written."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
