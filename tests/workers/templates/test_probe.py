"""The probe: what doctor and the other tests rely on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lab.run import RunResult, RunSpec


def prepare(folder: Path, number: int = 1, **spec: Any) -> Path:
    """An attempt directory with its spec one level up."""
    values = {"run_id": "exp-1/1", "template": "probe", "model": "resnet50", "dataset": None} | spec
    (folder / "spec.json").write_text(RunSpec.model_validate(values).model_dump_json())
    attempt = folder / f"attempt-{number}"
    attempt.mkdir()
    return attempt


def start(attempt: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "workers.templates.probe", str(attempt)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(attempt: Path) -> tuple[int, str]:
    process = start(attempt)
    output, _ = process.communicate(timeout=30)
    return process.returncode, output


def lines(attempt: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (attempt / "metrics.jsonl").read_text().splitlines()]


def test_leaves_metrics_and_a_result(tmp_path: Path) -> None:
    """Everything downstream is tested with what the probe leaves, so it has the form of a real run."""
    attempt = prepare(tmp_path, epochs=3, params={"steps": 6, "step_s": 0.01, "noise": 0})

    code, output = run(attempt)

    assert code == 0, output
    result = RunResult.model_validate_json((attempt / "result.json").read_bytes())
    assert result.metrics["val_acc"] == pytest.approx(0.9)
    assert [x for x, _ in result.curves["val_acc"]] == [1, 2, 3]
    epochs = [line for line in lines(attempt) if line["kind"] == "epoch"]
    assert [line["epoch"] for line in epochs] == [1, 2, 3]
    assert epochs[-1]["step"] == epochs[-1]["steps_total"] == 6


@pytest.mark.parametrize(
    ("how", "code", "evidence"),
    [
        ("error", 1, "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        ("oom_gpu", 1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"),
        ("nan", 1, "FloatingPointError: loss is nan at step 2"),
        ("oom_host_kill", -signal.SIGKILL, "oom_kill"),
        ("sigkill", -signal.SIGKILL, ""),
        ("exit_silently", 0, ""),
        ("bad_args", 2, "unrecognized arguments"),
    ],
)
def test_fails_as_it_is_told(tmp_path: Path, how: str, code: int, evidence: str) -> None:
    """The diagnosis reads these logs and statuses, and no result must come out of any of them."""
    attempt = prepare(tmp_path, params={"steps": 3, "step_s": 0, "fail": how, "fail_at_step": 2})

    actual, output = run(attempt)

    assert actual == code, output
    assert evidence in output
    assert not (attempt / "result.json").exists()
    assert all(line["t"] > 0 for line in lines(attempt))


def test_a_stop_leaves_a_checkpoint_and_the_next_attempt_goes_on(tmp_path: Path) -> None:
    """Pause, preemption and a lost card all come down to this."""
    first = prepare(tmp_path, params={"steps": 1000, "step_s": 0.02, "noise": 0})
    process = start(first)
    while not (first / "metrics.jsonl").exists() or not (first / "metrics.jsonl").read_text():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == 143
    params = {"steps": 1000, "step_s": 0, "noise": 0}
    second = prepare(tmp_path, 2, params=params, checkpoint_dir=str(first / "checkpoints"))

    code, output = run(second)

    assert code == 0, output
    assert "resuming from" in output
    assert lines(second)[0]["step"] > 1


def test_a_failure_can_be_limited_to_the_first_attempts(tmp_path: Path) -> None:
    """Recovery is tested with a run that fails once and then passes."""
    params = {"steps": 2, "step_s": 0, "fail": "error", "fail_at_step": 1, "fail_attempts": 1}

    codes = [run(prepare(tmp_path, number, params=params))[0] for number in (1, 2)]

    assert codes == [1, 0]


def test_a_hang_does_not_answer_sigterm(tmp_path: Path) -> None:
    """A stuck collective does not either: the launcher needs its SIGKILL."""
    attempt = prepare(tmp_path, params={"steps": 3, "step_s": 0, "fail": "hang", "fail_at_step": 2})
    process = start(attempt)
    while not (attempt / "metrics.jsonl").exists() or not lines(attempt):
        time.sleep(0.02)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)

    process.kill()
    process.wait()


def test_does_not_load_torch(tmp_path: Path) -> None:
    """Doctor starts one and a worker imports the registry; neither should wait for torch."""
    code = "import sys, workers.templates, workers.datasets, workers.templates.probe; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
