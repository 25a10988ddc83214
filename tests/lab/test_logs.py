"""The log files of `up`: whole lines, whoever writes them and in whatever pieces."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from lab.logs import LogFile, collect


def test_lines_of_several_writers_stand_whole_in_one_file(tmp_path: Path) -> None:
    """A part and its workers share the pipe; a handler of its own in each would rotate the file under the others."""
    reader, writer = os.pipe()
    texts = [b"".join(b"%d:%d\n" % (who, n) for n in range(500)) for who in range(3)]
    threads = [threading.Thread(target=write_in_pieces, args=(os.dup(writer), text)) for text in texts]
    for thread in threads:
        thread.start()
    os.close(writer)

    collect({reader: LogFile(tmp_path / "work.log", 10_000_000, 2)})

    lines = (tmp_path / "work.log").read_text().splitlines()
    assert [line for line in lines if line.startswith("1:")] == [f"1:{n}" for n in range(500)]
    assert len(lines) == 1_500


def write_in_pieces(pipe: int, text: bytes) -> None:
    for line in text.splitlines(keepends=True):
        os.write(pipe, line)
    os.close(pipe)


def test_a_line_that_comes_in_pieces_is_one_line(tmp_path: Path) -> None:
    """A read ends where the pipe's content did, not where the line does; the last one may have no end at all."""
    file = LogFile(tmp_path / "work.log", 10_000_000, 2)
    for piece in (b"one l", b"ine\nanother ", b"\xe5", b"\xa4\x9c\nthe l", b"ast"):
        file.write(piece)
    file.close()

    assert (tmp_path / "work.log").read_text() == "one line\nanother 夜\nthe last\n"


def test_a_file_that_cannot_be_written_is_told_of_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A full disk would otherwise be told of with every line, and the parts must not stop for it."""
    file = LogFile(tmp_path / "work.log", 10, 2)
    (tmp_path / "work.log.1").mkdir()
    (tmp_path / "work.log.1" / "in the way").touch()
    for _ in range(5):
        file.write(b"a line of more than ten bytes\n")
    file.close()

    assert capsys.readouterr().err.count("cannot be written") == 1
