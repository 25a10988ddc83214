"""What data a host has: sets that are built in, torchvision's sets by their files, and named folders of images.

Nothing here imports torch: a host publishes this list, and the dispatcher finds the folder of a set in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lab.card import DataSet

Augment = Literal["none", "crop", "crop_flip", "resized_crop"]

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""File names that torchvision's ImageFolder takes for images."""

TRAIN_FOLDERS = ("train", "training")
VAL_FOLDERS = ("val", "valid", "validation", "test")

COUNT_AT_MOST = 50_000
"""Images of a folder that are counted; a larger set has no count, walking it over a network takes minutes."""


@dataclass(frozen=True)
class Builtin:
    """A set that needs no files."""

    name: str
    classes: int
    train_samples: int
    """With the default val_share."""
    image_size: int


@dataclass(frozen=True)
class TorchvisionSet:
    """A set that torchvision reads, and how to tell whether its files are there."""

    name: str
    cls: str
    """Class in torchvision.datasets."""
    markers: tuple[str, ...]
    """Files and folders that lie below its root once it is downloaded and unpacked."""
    classes: int
    train_samples: int
    image_size: int
    train: dict[str, Any]
    """Arguments that give the training part."""
    val: dict[str, Any] | None
    """Arguments that give the held-out part; None where the set has none and is split here."""
    augment: Augment = "resized_crop"


BUILTIN = {
    b.name: b
    for b in (
        Builtin("digits", classes=10, train_samples=1437, image_size=32),
        Builtin("synthetic", classes=10, train_samples=2048, image_size=32),
    )
}

_TRAIN: dict[str, Any] = {"train": True}
_TEST: dict[str, Any] = {"train": False}
_BY_SPLIT: tuple[dict[str, Any], dict[str, Any]] = ({"split": "train"}, {"split": "test"})


def _mnist(name: str, cls: str) -> TorchvisionSet:
    raw = (f"{cls}/raw/train-images-idx3-ubyte", f"{cls}/raw/t10k-images-idx3-ubyte")
    return TorchvisionSet(name, cls, raw, 10, 60_000, 32, _TRAIN, _TEST, "none")


TORCHVISION = {
    t.name: t
    for t in (
        TorchvisionSet(
            "cifar10",
            "CIFAR10",
            ("cifar-10-batches-py/data_batch_1", "cifar-10-batches-py/test_batch"),
            10,
            50_000,
            32,
            _TRAIN,
            _TEST,
            "crop_flip",
        ),
        TorchvisionSet(
            "cifar100",
            "CIFAR100",
            ("cifar-100-python/train", "cifar-100-python/test"),
            100,
            50_000,
            32,
            _TRAIN,
            _TEST,
            "crop_flip",
        ),
        _mnist("mnist", "MNIST"),
        _mnist("fashion_mnist", "FashionMNIST"),
        _mnist("kmnist", "KMNIST"),
        TorchvisionSet(
            "emnist",
            "EMNIST",
            ("EMNIST/raw/emnist-balanced-train-images-idx3-ubyte", "EMNIST/raw/emnist-balanced-test-images-idx3-ubyte"),
            47,
            112_800,
            32,
            {"split": "balanced", "train": True},
            {"split": "balanced", "train": False},
            "none",
        ),
        TorchvisionSet("usps", "USPS", ("usps.bz2", "usps.t.bz2"), 10, 7_291, 32, _TRAIN, _TEST, "none"),
        TorchvisionSet("svhn", "SVHN", ("train_32x32.mat", "test_32x32.mat"), 10, 73_257, 32, *_BY_SPLIT, "crop"),
        TorchvisionSet(
            "stl10",
            "STL10",
            ("stl10_binary/train_X.bin", "stl10_binary/test_X.bin", "stl10_binary/unlabeled_X.bin"),
            10,
            5_000,
            96,
            *_BY_SPLIT,
            "crop_flip",
        ),
        TorchvisionSet(
            "food101", "Food101", ("food-101/meta/train.json", "food-101/images"), 101, 75_750, 224, *_BY_SPLIT
        ),
        TorchvisionSet(
            "flowers102",
            "Flowers102",
            ("flowers-102/jpg", "flowers-102/imagelabels.mat", "flowers-102/setid.mat"),
            102,
            1_020,
            224,
            {"split": "train"},
            {"split": "val"},
        ),
        TorchvisionSet(
            "oxford_pets",
            "OxfordIIITPet",
            ("oxford-iiit-pet/images", "oxford-iiit-pet/annotations/trainval.txt"),
            37,
            3_680,
            224,
            {"split": "trainval"},
            {"split": "test"},
        ),
        TorchvisionSet("eurosat", "EuroSAT", ("eurosat/2750",), 10, 27_000, 64, {}, None, "crop_flip"),
        TorchvisionSet(
            "gtsrb",
            "GTSRB",
            ("gtsrb/GTSRB/Training", "gtsrb/GTSRB/Final_Test/Images", "gtsrb/GT-final_test.csv"),
            43,
            26_640,
            32,
            *_BY_SPLIT,
            "crop",
        ),
        TorchvisionSet(
            "dtd",
            "DTD",
            ("dtd/dtd/images", "dtd/dtd/labels/train1.txt"),
            47,
            1_880,
            224,
            {"split": "train"},
            {"split": "val"},
        ),
        TorchvisionSet(
            "fgvc_aircraft",
            "FGVCAircraft",
            ("fgvc-aircraft-2013b/data/images",),
            100,
            6_667,
            224,
            {"split": "trainval"},
            {"split": "test"},
        ),
        TorchvisionSet("caltech101", "Caltech101", ("caltech101/101_ObjectCategories",), 101, 8_677, 224, {}, None),
        TorchvisionSet(
            "imagenette",
            "Imagenette",
            ("imagenette2-160/train", "imagenette2-160/val"),
            10,
            9_469,
            128,
            {"split": "train", "size": "160px"},
            {"split": "val", "size": "160px"},
        ),
    )
}

IMAGENET = "imagenet1k"
"""Read as a folder of images: its licence forbids a download by program, and labs keep it unpacked."""


class FolderProblem(Exception):
    """A folder cannot be used as a set of images; the message says what is missing and where."""


@dataclass(frozen=True)
class ImageFolder:
    """A folder of images that has passed the check: a subfolder a class."""

    train: Path
    val: Path | None
    """None where there is no folder of its own for validation: the images of `train` are split."""
    classes: tuple[str, ...]


def canonical(name: str) -> str:
    """The name as it is listed here, as the settings and a plan may write it: `Oxford-Pets` is `oxford_pets`."""
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def available(named_folders: Mapping[str, Path], data_root: Path | None) -> list[DataSet]:
    """Every set that this host has or could have; those that are absent say how to get them.

    Args:
        named_folders: data set name to its folder, from the settings; a name unknown to torchvision is a folder of
            images with a subfolder a class.
        data_root: where sets without a folder of their own lie, each in a subfolder of its name or directly.
    """
    folders = {canonical(name): Path(path) for name, path in named_folders.items()}
    own = [name for name in folders if name not in TORCHVISION and name not in BUILTIN]
    return [
        *(
            DataSet(
                name=b.name,
                present=True,
                classes=b.classes,
                train_samples=b.train_samples,
                image_size=b.image_size,
            )
            for b in BUILTIN.values()
        ),
        *(_torchvision(t, folders, data_root) for t in TORCHVISION.values()),
        *(_images(name, folders, data_root) for name in dict.fromkeys([*own, IMAGENET])),
    ]


def folder_of(name: str, named_folders: Mapping[str, Path], data_root: Path | None) -> Path | None:
    """The folder to put into RunSpec.data_dirs for `name`; None for a built-in set and for one that is not there."""
    name = canonical(name)
    folders = {canonical(key): Path(path) for key, path in named_folders.items()}
    if name in BUILTIN:
        return None
    if name in TORCHVISION:
        return _root_of(TORCHVISION[name], folders, data_root)
    for folder in _candidates(name, folders, data_root):
        try:
            check_image_folder(folder)
        except FolderProblem:
            continue
        return folder
    return None


def fingerprint(name: str, named_folders: Mapping[str, Path], data_root: Path | None) -> str | None:
    """As DataSet has it, of the set as it is on this host now; None for a built-in set and for one that is absent."""
    folder = folder_of(name, named_folders, data_root)
    if folder is None:
        return None
    entry = TORCHVISION.get(canonical(name))
    return _stamp(folder / marker for marker in entry.markers) if entry else _folder_stamp(check_image_folder(folder))


def _folder_stamp(found: ImageFolder) -> str:
    return _stamp(part / name for part in (found.train, found.val) if part for name in found.classes)


def _stamp(paths: Iterable[Path]) -> str:
    """Hash of names, sizes and times of change; of a folder the time at which a file in it last came, went or was
    replaced. Reading a large set over a network would take hours, and writing into an image in place is unusual."""
    digest = hashlib.sha256()
    for path in paths:
        found = path.stat()
        size = 0 if path.is_dir() else found.st_size
        digest.update(f"{path.parent.name}/{path.name} {size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def check_image_folder(folder: Path) -> ImageFolder:
    """What the folder holds; classes in the order that gives their numbers.

    Raises:
        FolderProblem: it is absent, has no class subfolder, a class without images, or other classes in validation.
    """
    if not folder.is_dir():
        raise FolderProblem(f"{folder} is no folder")
    train = next((folder / name for name in TRAIN_FOLDERS if (folder / name).is_dir()), None)
    val = next((folder / name for name in VAL_FOLDERS if (folder / name).is_dir()), None) if train else None
    classes = _classes(train or folder)
    if val and _classes(val) != classes:
        odd = sorted(set(_classes(val)) ^ set(classes))
        raise FolderProblem(f"{val} and {train} differ in their classes: {', '.join(odd[:5])}")
    return ImageFolder(train or folder, val, classes)


def _classes(folder: Path) -> tuple[str, ...]:
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    if not names:
        raise FolderProblem(f"{folder} has no subfolder, and a class is a subfolder of images")
    if len(names) == 1:
        raise FolderProblem(f"{folder} has one class only, {names[0]}")
    empty = [name for name in names if not any(_images_in(folder / name))]
    if empty:
        raise FolderProblem(f"{folder / empty[0]} has no images ({', '.join(IMAGE_SUFFIXES[:3])}, ...)")
    return tuple(names)


def _images_in(folder: Path) -> Iterator[str]:
    for _, _, files in os.walk(folder, followlinks=True):
        yield from (name for name in files if name.lower().endswith(IMAGE_SUFFIXES))


def _count(folder: Path) -> int | None:
    count = 0
    for count, _ in enumerate(_images_in(folder), 1):
        if count > COUNT_AT_MOST:
            return None
    return count


def _candidates(name: str, folders: Mapping[str, Path], data_root: Path | None) -> list[Path]:
    if name in folders:
        return [folders[name]]
    return [data_root / name] if data_root else []


def _root_of(entry: TorchvisionSet, folders: Mapping[str, Path], data_root: Path | None) -> Path | None:
    roots = _candidates(entry.name, folders, data_root)
    if data_root and entry.name not in folders:
        roots.append(data_root)
    return next((root for root in roots if all((root / marker).exists() for marker in entry.markers)), None)


def _torchvision(entry: TorchvisionSet, folders: Mapping[str, Path], data_root: Path | None) -> DataSet:
    root = _root_of(entry, folders, data_root)
    present = root is not None
    return DataSet(
        name=entry.name,
        present=present,
        how_to_get=None if present else _download(entry, folders, data_root),
        classes=entry.classes,
        train_samples=entry.train_samples,
        image_size=entry.image_size,
        fingerprint=_stamp(root / marker for marker in entry.markers) if root else None,
    )


def _download(entry: TorchvisionSet, folders: Mapping[str, Path], data_root: Path | None) -> str:
    """A command that puts the set where this host looks for it."""
    if entry.name not in folders and data_root is None:
        return f"name a folder for {entry.name}, or one for all data sets, in this host's settings"
    root = str(folders.get(entry.name) or (data_root or Path()) / entry.name)
    parts = [part for part in (entry.train, entry.val) if part is not None]
    calls = "; ".join(
        f"D({', '.join([json.dumps(root), *(f'{k}={_literal(v)}' for k, v in part.items())])}, download=True)"
        for part in parts
    )
    code = f"from torchvision.datasets import {entry.cls} as D; {calls}"
    return f"mkdir -p {shlex.quote(root)} && python -c {shlex.quote(code)}"


def _literal(value: Any) -> str:
    """A Python literal in double quotes, so that the shell's single quotes around the command stay readable."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _images(name: str, folders: Mapping[str, Path], data_root: Path | None) -> DataSet:
    candidates = _candidates(name, folders, data_root)
    if not candidates:
        return DataSet(name=name, present=False, how_to_get=f"name the folder of {name} in this host's settings")
    try:
        found = check_image_folder(candidates[0])
    except FolderProblem as problem:
        wanted = f"put images at {candidates[0]}/train/<class>/ and {candidates[0]}/val/<class>/"
        if name == IMAGENET:
            wanted += " (ILSVRC 2012, from image-net.org once its terms are accepted)"
        return DataSet(name=name, present=False, how_to_get=f"{problem}: {wanted}")
    count = _count(found.train)
    stamp = _folder_stamp(found)
    return DataSet(name=name, present=True, classes=len(found.classes), train_samples=count, fingerprint=stamp)
