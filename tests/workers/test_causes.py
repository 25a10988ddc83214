"""Every cause that a diagnosis can name, from a process that fails of it to what the thread and the report tell.

One lab for the whole file: dispatcher, workers, RQ and Valkey are real, all experiments are approved at once, and each
test waits for its own. What can fail on any machine really fails (workers/templates/faults.py); what needs a card, a
scheduler or a second host says the last words of the real failure.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent import report as reports
from bot.render.report import report_card
from lab import hosts
from lab import store as stores
from lab.diagnose import CAUSES
from lab.ledger import Ledger
from lab.plan import Plan
from lab.report import to_markdown
from lab.run import Experiment, Run, RunState
from lab.settings import GpuSettings, KeeperSettings, RunSettings, Settings
from tests.workers.under_test import Lab, cards_of

WITHIN_S = 120.0
"""For all runs together; half of that on two cores that are free."""


@dataclass(frozen=True)
class Failure:
    """How a probe fails, what is tried, and what people read in the end."""

    cause: str
    tells: str
    """Stands in the report: of a run that failed its deciding line, of a cured one what was changed."""
    cures: tuple[str, ...] = ()
    ok: bool = False
    """Whether it finishes after the cures."""
    params: tuple[tuple[str, Any], ...] = ()
    fail: str = ""
    """As the probe calls it, where that is not the cause."""


def failure(cause: str, tells: str, *cures: str, ok: bool = False, fail: str = "", **params: Any) -> Failure:
    return Failure(cause, tells, tuple(f"{cause}/{cure}" for cure in cures), ok, tuple(params.items()), fail or cause)


ONCE = {"ok": True, "fail_attempts": 1}

FAILURES = {
    # memory of the card
    "too large": failure(
        "oom_gpu", "micro-batch halved to 16 (4 parts a step)", "split", "split", ok=True, batch_size=64, fits=16
    ),
    "too large at a sample": failure(
        "oom_gpu", "not even the smallest part of a batch fits the card: torch.OutOfMemoryError", "split", batch_size=2
    ),
    "in fragments": failure(
        "oom_gpu", "started with expandable segments after memory lay", "segments", ok=True, fail="oom_fragmented"
    ),
    "shared card": failure(
        "oom_gpu", "moved after another process filled its card; nothing was", "move", fail="oom_shared", **ONCE
    ),
    # memory and disk of the host
    "host memory": failure(
        "oom_host", "loads its data with 2 processes after memory ran out", "fewer_workers", num_workers=4, **ONCE
    ),
    "killed for host memory": failure(
        "oom_host",
        "Some of the step tasks have been OOM Killed. (killed by SIGKILL)",
        "fewer_workers",
        "no_workers",
        fail="oom_host_kill",
        num_workers=2,
    ),
    "shared memory": failure(
        "shm", "loads its data with 2 processes after memory ran out", "fewer_workers", num_workers=4, **ONCE
    ),
    "quota": failure("disk_full", "OSError: [Errno 28] No space left on device"),
    # numbers
    "nan": failure("nan_loss", "steps 1-1 left out after the loss was NaN", "skip", ok=True, fail="nan"),
    # cards, drivers, kernels, ranks
    "ranks": failure(
        "nccl", "moved to another card after its processes lost each", "again", "move", ok=True, fail_attempts=2
    ),
    "assert": failure("device_assert", "Assertion `t >= 0 && t < n_classes` failed."),
    "illegal access": failure("illegal_access", "moved to another card after an illegal memory access", "move", **ONCE),
    "faulty card": failure("hardware", "moved after a fault of its card, which is left alone for an", "move", **ONCE),
    "old driver": failure("driver_mismatch", "The NVIDIA driver on your system is too old"),
    "other card": failure("arch_mismatch", "no kernel image is available for execution on the device"),
    "forked": failure("fork_cuda", "Cannot re-initialize CUDA in forked subprocess"),
    # outside
    "port": failure("port_in_use", "started once more after its port was taken, 0.2 s later", "again", **ONCE),
    "network": failure("network", "started once more after the network failed, 0.2 s later", "again", **ONCE),
    "network for ever": failure("network", "Connection refused; 3 retries did not help", "again", "again", "again"),
    "token": failure("auth", "Cannot access gated repo. You must be authenticated"),
    "preempted": failure("preempted", "went on from its checkpoint after it was stopped from", "resume", **ONCE),
    "killed": failure("preempted", "went on from its checkpoint after it was", "resume", fail="sigkill", **ONCE),
    "time limit": failure("time_limit", "went on from its checkpoint after a time limit", "resume", **ONCE),
    "hang": failure("hang", "started once more, on another card where there is", "move", fail_at_step=2, **ONCE),
    # the program and its files
    "import": failure("import_error", "ModuleNotFoundError: No module named 'a_module_that_nobody_wrote'"),
    "data": failure("data_missing", "FileNotFoundError: [Errno 2] No such file or directory"),
    "permission": failure("permission", "PermissionError: [Errno 13] Permission denied"),
    "weights": failure("checkpoint_mismatch", "Error(s) in loading state_dict for ResNet"),
    "arguments": failure("bad_args", "train.py: error: unrecognized arguments: --lr-decay 0.1"),
    "compiler": failure("compile_error", "C++ compile error"),
    "code": failure("user_code", "mat1 and mat2 shapes cannot be multiplied", fail="error"),
    "no result": failure("user_code", "exited with status 0 and without a result", fail="exit_silently"),
}


@pytest.fixture(scope="module")
def lab(_valkey: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab at work, in a database of its own, whose runs wait and hang for fractions of what they do in life."""
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("causes") / "data",
        redis_url=f"unix://{_valkey / 'valkey' / 'valkey.sock'}?db=1",
        host="lab-a",
        gpu=GpuSettings(simulate=4),
        keeper=KeeperSettings(reading_interval_s=0.5),
        run=RunSettings(lease_s=20, renew_s=1, grace_s=2, retry_wait_s=0.2, hang_s=2),
    )
    client = stores.connect(settings)
    client.flushdb()
    hosts.publish_cards(client, cards_of(settings.host))
    at_work = Lab(settings, client, Ledger(client))
    at_work.start()
    yield at_work
    at_work.close()
    client.close()


@pytest.fixture(scope="module")
def experiments(lab: Lab) -> dict[str, Experiment]:
    """Every failure as an approved experiment of one run, the model named like it."""
    return {name: lab.approve_plan(plan(name, each)) for name, each in FAILURES.items()}


def plan(name: str, each: Failure) -> Plan:
    params = {"fail": each.fail, "fail_at_step": 1, "steps": 20, "step_s": 0.0, "seed": 0} | dict(each.params)
    axes = {key: (value,) for key, value in params.items()}
    return Plan(template="probe", models=(name.replace(" ", "_"),), axes=axes)


def text_of(lab: Lab, run: Run) -> tuple[str, str]:
    """The report as the file has it, and as Slack's blocks show it; on one line each, without escapes."""
    report, _ = reports.build(lab.ledger.experiment(run.experiment_id), [run], time.time())
    return bare(to_markdown(report)), bare(" ".join(texts(report_card(report).blocks)))


def texts(block: Any) -> Iterator[str]:
    """Every text of a Slack block, whatever it stands in."""
    if isinstance(block, str):
        yield block
    elif isinstance(block, dict):
        yield from texts([block[key] for key in ("text", "elements", "rows") if key in block])
    elif isinstance(block, list | tuple):
        for part in block:
            yield from texts(part)


def bare(text: str) -> str:
    for mark, meant in (
        ("&gt;", ">"),
        ("&lt;", "<"),
        ("&amp;", "&"),
        ("\\", ""),
        ("`", "'"),
        ("\N{ASTERISK OPERATOR}", "*"),
    ):
        text = text.replace(mark, meant)
    return " ".join(text.split())


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_named_met_and_told(name: str, lab: Lab, experiments: dict[str, Experiment]) -> None:
    """The asker reads in the morning what happened, what was tried, and what is left to do."""
    expected = FAILURES[name]

    run = lab.ended(experiments[name], within_s=WITHIN_S)[0]

    assert run.cures == expected.cures
    assert run.state is (RunState.FINISHED if expected.ok else RunState.FAILED)
    assert run.cause == (None if expected.ok else expected.cause)
    for text in text_of(lab, run):
        assert bare(expected.tells) in text
        assert expected.ok or (run.advice and bare(run.advice) in text)
        assert expected.ok or expected.cause in text


def test_no_cause_is_left_out() -> None:
    """A cause that nobody ever saw fail is one whose cure nobody tried."""
    assert {each.cause for each in FAILURES.values()} == set(CAUSES) - {"none"}
