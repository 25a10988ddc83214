"""The kernel's own count of kills for want of memory."""

from __future__ import annotations

from pathlib import Path

from workers import oomkills


def test_kills_are_counted_between_two_looks(tmp_path: Path) -> None:
    """A trainer killed meanwhile ran out of memory; one killed without a count was shot by somebody."""
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("nr_free_pages 12\noom_kill 3\n")
    before = oomkills.count(vmstat)
    vmstat.write_text("nr_free_pages 12\noom_kill 4\n")

    assert before == 3
    assert oomkills.since(before, vmstat) == 1


def test_where_the_kernel_does_not_tell_nothing_is_claimed(tmp_path: Path) -> None:
    """Unknown is not 0."""
    assert oomkills.count(tmp_path / "none") is None
    assert oomkills.since(None) is None
