"""From log and exit status to a cause."""

from __future__ import annotations

import pytest

from lab.diagnose import diagnose

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'


@pytest.mark.parametrize(
    ("log", "code", "cause", "evidence"),
    [
        (
            TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
            1,
            "oom_gpu",
            "CUDA out of",
        ),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.", -9, "oom_host", "oom_kill"),
        ("epoch 3", -9, "oom_host", "SIGKILL"),
        (TRACEBACK + "FloatingPointError: loss is nan at step 5", 1, "nan_loss", "step 5"),
        (TRACEBACK + "OSError: [Errno 28] No space left on device", 1, "disk_full", "Errno 28"),
        (TRACEBACK + "ModuleNotFoundError: No module named 'apex'", 1, "import_error", "apex"),
        (TRACEBACK + "FileNotFoundError: [Errno 2] No such file: 'x'", 1, "data_missing", "'x'"),
        ("train.py: error: unrecognized arguments: --lr-decay", 2, "bad_args", "--lr-decay"),
        (TRACEBACK + "RuntimeError: mat1 and mat2 shapes cannot be multiplied", 1, "user_code", "mat1"),
        ("epoch 3", 143, "preempted", "SIGTERM"),
        ("", 7, "user_code", "exit status 7"),
        ("WARNING: caught CUDA out of memory, halved the batch\nepoch 3 val acc 0.9", 0, "none", "val acc 0.9"),
    ],
)
def test_a_cause_is_named_with_its_line(log: str, code: int, cause: str, evidence: str) -> None:
    """People read the deciding line, not the log."""
    found = diagnose(log, code)

    assert found.cause == cause
    assert evidence in found.evidence


def test_errors_of_the_user_are_not_retried() -> None:
    """They would fail again."""
    for line in ("ModuleNotFoundError: No module named 'apex'", "ValueError: lr must be positive"):
        assert not diagnose(TRACEBACK + line, 1).retryable
