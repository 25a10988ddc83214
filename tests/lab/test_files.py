"""Files that are whole or absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.files import replace_file


def test_a_replaced_file_holds_the_new_content_alone(tmp_path: Path) -> None:
    """Its folder is made where it is missing, and nothing else is left in it."""
    target = tmp_path / "deep" / "result.json"
    replace_file(target, b"old")
    replace_file(target, b"new")

    assert target.read_bytes() == b"new"
    assert [p.name for p in target.parent.iterdir()] == ["result.json"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk in the middle of a result must not cost the one before."""
    target = tmp_path / "result.json"
    replace_file(target, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(target, b"new")

    assert target.read_bytes() == b"old"
