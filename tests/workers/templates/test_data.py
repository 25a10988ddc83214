"""How images reach the model: from memory, from files, and changed at random."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from lab.errors import OperatorError, RequestError
from lab.run import RunSpec
from workers.templates import data
from workers.templates.params import VisionParams

CPU = torch.device("cpu")


def load(dataset: str, folder: Path | None = None, **params: Any) -> data.Data:
    dirs = {dataset: str(folder)} if folder else {}
    spec = RunSpec(run_id="exp-1/1", template="vision", model="x", dataset=dataset, data_dirs=dirs, device="cpu")
    return data.load(spec, VisionParams(**params), CPU)


def draw_images(folder: Path, count: int) -> None:
    """Red squares of one class and blue ones of the other, in several sizes and one in grey."""
    for part in ("train", "val"):
        for label, colour in (("blue", (0, 0, 255)), ("red", (255, 0, 0))):
            (folder / part / label).mkdir(parents=True)
            for index in range(count):
                image = Image.new("RGB", (40 + index, 50), colour)
                image.save(folder / part / label / f"{index}.png")
    Image.new("L", (40, 50), 128).save(folder / "train" / "red" / "grey.png")


@pytest.mark.parametrize("hold", [True, False], ids=["held", "read by processes"])
def test_a_folder_of_images_gives_the_same_either_way(
    tmp_path: Path, hold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a set fits into memory must not change what is trained on."""
    draw_images(tmp_path, 3)
    if not hold:
        monkeypatch.setattr(data, "HOLD_AT_MOST_BYTES", 0)

    found = load("squares", tmp_path, image_size=32, num_workers=0 if hold else 2)
    batches = list(found.train.batches([torch.tensor([0, 4]), torch.tensor([6])]))

    assert isinstance(found.train, data.HeldImages) is hold
    assert (len(found.train), len(found.val), found.classes) == (7, 6, 2)
    assert [labels.tolist() for _, labels in batches] == [[0, 1], [1]]
    assert batches[0][0].shape == (2, 3, 37, 37)  # room for augmentation to move in
    assert batches[0][0][0, :, 10, 10].tolist() == [0, 0, 255]
    assert found.inputs(batches[0][0]).shape == (2, 3, 32, 32)


def test_a_folder_without_val_is_split(tmp_path: Path) -> None:
    """Many labs have one folder a class and nothing more."""
    draw_images(tmp_path, 5)

    found = load("squares", tmp_path / "val", image_size=16)

    assert (len(found.train), len(found.val)) == (8, 2)
    assert found.held_out == "2 of 10 samples held out, each class alike, the same for every seed"


def test_a_bad_folder_is_for_the_operator(tmp_path: Path) -> None:
    """The host published it and it has changed since."""
    with pytest.raises(OperatorError, match="no subfolder"):
        load("mine", tmp_path)


def test_unknown_and_unplaced_sets_are_told_apart() -> None:
    """One is the asker's slip, the other the operator's."""
    with pytest.raises(RequestError, match="there is no data set 'cifar11'"):
        load("cifar11")
    with pytest.raises(OperatorError, match="no folder is given for data set cifar10"):
        load("cifar10")


def test_a_torchvision_set_is_read_from_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small CIFAR-10 in the real format: no download, its own test split, normalised channels."""
    base = tmp_path / "cifar-10-batches-py"
    base.mkdir()
    rng = np.random.default_rng(0)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        content = {"data": rng.integers(0, 256, (20, 3072), dtype=np.uint8), "labels": [i % 10 for i in range(20)]}
        (base / name).write_bytes(pickle.dumps(content))
    (base / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    monkeypatch.setattr("torchvision.datasets.CIFAR10._check_integrity", lambda self: True)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)

    found = load("cifar10", tmp_path)
    images, labels = next(found.train.batches([torch.arange(100)]))

    assert (len(found.train), len(found.val), found.augment) == (100, 20, "crop_flip")
    assert images.shape == (100, 3, 32, 32)
    assert found.inputs(images).mean().abs() < 0.01
    assert labels[:3].tolist() == [0, 1, 2]


def test_a_torchvision_set_that_is_not_there_is_named(tmp_path: Path) -> None:
    """torchvision's own message goes with it; nothing is fetched."""
    with pytest.raises(OperatorError, match="data set cifar10 cannot be read in"):
        load("cifar10", tmp_path)


def test_digits_are_scaled_up_and_normalised() -> None:
    """8 x 8 in grey become 32 x 32 in three channels."""
    found = load("digits")
    images, _ = next(found.train.batches([torch.arange(len(found.train))]))

    inputs = found.inputs(images)

    assert inputs.shape == (1438, 3, 32, 32)
    assert inputs.mean().abs() < 0.05
    assert torch.equal(inputs[:, 0], inputs[:, 2])


@pytest.mark.parametrize("augment", ["crop", "crop_flip", "resized_crop"])
@pytest.mark.parametrize("margin", [True, False])
def test_augmentation_moves_images_and_keeps_their_size(augment: Any, margin: bool) -> None:
    """The same generator draws the same changes, so a resumed run sees the same images."""
    side = 37 if margin else 32
    images = torch.randint(0, 256, (16, 3, side, side), dtype=torch.uint8)
    held = data.HeldImages(images, torch.zeros(16, dtype=torch.int64))
    ones = torch.ones(1, 3, 1, 1)
    found = data.Data(held, held, 1, 32, margin, ones, ones, augment, "")

    changes = [found.random_changes(16, torch.Generator().manual_seed(1)) for _ in range(2)]

    assert changes[0] is not None
    assert changes[1] is not None
    assert torch.equal(changes[0], changes[1])
    changed = found.inputs(images, changes[0])
    assert changed.shape == (16, 3, 32, 32)
    assert not torch.equal(changed, found.inputs(images))
    if margin or augment == "resized_crop":  # the crop stays inside the image
        assert (changes[0][:, :, :2].abs().sum(2) + changes[0][:, :, 2].abs()).max() <= 1 + 1e-6


def test_no_change_is_the_plain_image() -> None:
    """The affine map that changes nothing gives what the evaluation sees."""
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    held = data.HeldImages(images, torch.zeros(2, dtype=torch.int64))
    ones = torch.ones(1, 3, 1, 1)
    found = data.Data(held, held, 1, 32, False, ones, ones, "crop", "")
    same = torch.eye(2, 3).expand(2, 2, 3)

    assert torch.allclose(found.inputs(images, same), found.inputs(images), atol=1e-3)
