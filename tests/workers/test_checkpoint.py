"""Checkpoints: whole or absent, and the one before when the last is damaged."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from workers.checkpoint import Writable, load_newest, save


def put(folder: Path, step: int, best: bool = False) -> Path:
    def write(file: Writable) -> None:
        file.write(b"state ")
        file.write(str(step).encode())

    return save(folder, step, write, suffix="bin", best=best)


def test_the_newest_is_loaded(tmp_path: Path) -> None:
    """An attempt goes on from the last step that was saved."""
    put(tmp_path, 5)
    put(tmp_path, 10)

    loaded = load_newest(tmp_path, Path.read_bytes)

    assert loaded is not None
    assert (loaded.step, loaded.state) == (10, b"state 10")


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped"])
def test_a_damaged_one_falls_back_to_the_one_before(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A power cut may leave the last file short; the night goes on from the one before, and the log says so."""
    put(tmp_path, 5)
    last = put(tmp_path, 10)
    content = last.read_bytes()
    last.write_bytes({"cut": content[:-3], "empty": b"", "flipped": b"S" + content[1:]}[damage])

    with caplog.at_level(logging.WARNING):
        loaded = load_newest(tmp_path, Path.read_bytes)

    assert loaded is not None
    assert loaded.step == 5
    assert last.name in caplog.text


def test_nothing_whole_is_nothing(tmp_path: Path) -> None:
    """Then the attempt starts anew, instead of failing over a file of its predecessor."""
    put(tmp_path, 5).write_bytes(b"")

    assert load_newest(tmp_path, Path.read_bytes) is None
    assert load_newest(tmp_path / "absent", Path.read_bytes) is None


def test_the_last_two_and_the_best_remain(tmp_path: Path) -> None:
    """A night of checkpoints must not fill the disk."""
    for step in range(1, 7):
        put(tmp_path, step, best=step in (1, 3))

    names = sorted(path.name.split(".")[0] for path in tmp_path.iterdir())

    assert names == ["best-000000003", "step-000000005", "step-000000006"]


def test_the_best_serves_when_the_others_are_damaged(tmp_path: Path) -> None:
    """Old work is better than none."""
    put(tmp_path, 1, best=True)
    for step in (2, 3):
        put(tmp_path, step).write_bytes(b"x")

    loaded = load_newest(tmp_path, Path.read_bytes)

    assert loaded is not None
    assert loaded.step == 1


def test_a_writer_that_dies_leaves_the_earlier_ones_alone(tmp_path: Path) -> None:
    """The disk fills up, or the process is killed, in the middle of a checkpoint."""
    put(tmp_path, 5)

    def write(file: Writable) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        save(tmp_path, 10, write, suffix="bin")

    loaded = load_newest(tmp_path, Path.read_bytes)
    assert loaded is not None
    assert loaded.step == 5
