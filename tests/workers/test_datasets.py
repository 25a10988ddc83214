"""What a host says about its data sets, from the files alone."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from lab.card import DataSet
from workers.datasets import TORCHVISION, FolderProblem, available, check_image_folder, folder_of


def listed(named: dict[str, Path], root: Path | None) -> dict[str, DataSet]:
    return {entry.name: entry for entry in available(named, root)}


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_built_in_sets_are_always_there(tmp_path: Path) -> None:
    """A host without any data can still run the demonstration."""
    found = listed({}, tmp_path)

    assert found["digits"].present
    assert found["synthetic"].present
    assert folder_of("digits", {}, tmp_path) is None


def test_an_absent_set_comes_with_the_command_that_gets_it(tmp_path: Path) -> None:
    """It is shown on the plan card; it has to work when pasted."""
    found = listed({}, tmp_path / "my data")["cifar10"]

    assert not found.present
    assert found.how_to_get is not None
    make, python = found.how_to_get.split(" && ")
    assert shlex.split(make) == ["mkdir", "-p", str(tmp_path / "my data" / "cifar10")]
    command = shlex.split(python)
    assert command[:2] == ["python", "-c"]
    compile(command[2], "how_to_get", "exec")
    assert "download=True" in command[2]


@pytest.mark.parametrize("name", sorted(TORCHVISION))
@pytest.mark.parametrize("place", ["below its name", "in the root", "in its own folder"])
def test_a_torchvision_set_is_found_by_its_files(tmp_path: Path, name: str, place: str) -> None:
    """All three are usual; a download that broke off is not taken for the set."""
    root = {"below its name": tmp_path / name, "in the root": tmp_path, "in its own folder": tmp_path / "elsewhere"}[
        place
    ]
    named = {name: root} if place == "in its own folder" else {}
    markers = TORCHVISION[name].markers
    touch(root, *markers[:-1])
    assert not listed(named, tmp_path)[name].present

    touch(root, *markers)

    assert listed(named, tmp_path)[name].present
    assert folder_of(name, named, tmp_path) == root


def test_a_named_folder_of_images_is_a_data_set(tmp_path: Path) -> None:
    """The lab's own images, as the settings name them."""
    touch(tmp_path, "train/cat/1.jpg", "train/cat/2.JPG", "train/dog/deep/3.png", "val/cat/4.jpg", "val/dog/5.jpg")

    found = listed({"Pets-At-Home": tmp_path}, None)["pets_at_home"]

    assert (found.present, found.classes, found.train_samples) == (True, 2, 3)
    assert folder_of("pets-at-home", {"Pets-At-Home": tmp_path}, None) == tmp_path


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ([], "no subfolder"),
        (["cat/1.jpg"], "one class only, cat"),
        (["cat/1.jpg", "dog/notes.txt"], "dog has no images"),
        (
            ["train/cat/1.jpg", "train/dog/1.jpg", "val/cat/1.jpg", "val/wolf/1.jpg"],
            "differ in their classes: dog, wolf",
        ),
    ],
)
def test_a_folder_that_is_no_data_set_says_why(tmp_path: Path, files: list[str], problem: str) -> None:
    """Whoever made the folder can mend it from the message."""
    touch(tmp_path, *files)

    found = listed({"mine": tmp_path}, None)["mine"]

    assert not found.present
    assert problem in str(found.how_to_get)
    assert folder_of("mine", {"mine": tmp_path}, None) is None
    with pytest.raises(FolderProblem, match=problem):
        check_image_folder(tmp_path)


def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    """A mount that is missing tonight."""
    assert "is no folder" in str(listed({"mine": tmp_path / "gone"}, None)["mine"].how_to_get)


def test_without_a_root_the_settings_are_named(tmp_path: Path) -> None:
    """A command would have nowhere to put the files."""
    assert "settings" in str(listed({}, None)["cifar10"].how_to_get)
    assert "settings" in str(listed({}, None)["imagenet1k"].how_to_get)
