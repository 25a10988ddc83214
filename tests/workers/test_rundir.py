"""The files of an attempt as their reader meets them: whole, half written, or written by something else."""

from __future__ import annotations

import json
from pathlib import Path

from workers.rundir import Metrics, read_result


def test_lines_that_are_no_metrics_are_passed_over(tmp_path: Path) -> None:
    """A trainer's library may print into the file; the attempt goes on."""
    lines = [
        b'{"step": 1, "loss": 0.5}',
        b"\xff\x00",
        b"[" * 100_000,
        b'{"step": "x"}',
        b'{"val_acc": 1e999, "loss": NaN}',
    ]
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join(lines) + b'\n{"step": 2}\n{"step": 3')
    metrics = Metrics(tmp_path)

    assert metrics.read() == "step"
    assert metrics.progress.step == 2
    assert metrics.progress.metrics == {"loss": None, "val_acc": None}


def test_a_result_holds_no_number_that_json_has_no_word_for(tmp_path: Path) -> None:
    """A diverged run is a result; NaN would spoil every mean and `show --json`."""
    (tmp_path / "result.json").write_text(
        '{"metrics": {"val_acc": NaN, "val_loss": 1.5}, "curves": {"val_loss": [[1, Infinity], [2, 1.5]]}}'
    )

    result = read_result(tmp_path)

    assert result is not None
    assert result.metrics == {"val_acc": None, "val_loss": 1.5}
    assert json.dumps(result.model_dump(mode="json"), allow_nan=False)
