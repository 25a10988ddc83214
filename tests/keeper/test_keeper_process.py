"""`python -m keeper` as a real process: signals, messages, exit statuses."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

GENEROUS_S = 3.0
"""The promise is one second; a busy test machine gets three, and the measured time is printed."""


@dataclass
class Keeper:
    """A running `python -m keeper` and what it has logged so far."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def until(self, text: str) -> str:
        """The next logged line with this text."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} was never logged, but:\n{''.join(self.lines)}")

    def end(self, sig: signal.Signals) -> float:
        """Seconds from the signal to the end."""
        begun = time.monotonic()
        self.process.send_signal(sig)
        _, rest = self.process.communicate(timeout=20)
        self.lines.append(rest)
        return time.monotonic() - begun

    @property
    def log(self) -> str:
        return "".join(self.lines)


@pytest.fixture
def keep() -> Iterator[Callable[..., Keeper]]:
    """Starts `python -m keeper` with these arguments and environment."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **environment: str) -> Keeper:
        command = [sys.executable, "-m", "keeper", *arguments]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        started.append(process)
        return Keeper(process)

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def cuda(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with two cards: a libcuda.so.1 that counts two, and fake_torch."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not here, so there is no library to put in the driver's place")
    source = tmp_path / "cuda.c"
    source.write_text(
        "#include <stdlib.h>\n"
        "static int of(const char *name, int usual) { return getenv(name) ? atoi(getenv(name)) : usual; }\n"
        'int cuInit(unsigned flags) { return of("FAKE_CUINIT", 0); }\n'
        'int cuDeviceGetCount(int *count) { *count = of("FAKE_CARDS", 2); return 0; }\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", source], check=True)
    torch = Path(__file__).with_name("fake_torch")
    return {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(torch), "FAKE_TORCH": str(tmp_path)}


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("delay_s", [0.0, 0.1, 0.3])
def test_it_ends_at_once_while_it_is_starting(keep: Callable[..., Keeper], sig: signal.Signals, delay_s: float) -> None:
    keeper = keep("--gpu", "3", "--interval", "300", "--simulate")
    keeper.until("GPU Keeper starting on GPU 3")
    time.sleep(delay_s)

    took_s = keeper.end(sig)

    print(f"{sig.name} {delay_s} s after the start: ended in {took_s:.3f} s")
    assert keeper.process.returncode == 0
    assert keeper.log.rstrip().endswith("GPU Keeper stopped.")
    assert "Traceback" not in keeper.log
    assert took_s < GENEROUS_S


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_in_the_middle_of_a_wait(keep: Callable[..., Keeper], sig: signal.Signals) -> None:
    keeper = keep("--gpu", "3", "--interval", "300", "--simulate")
    held = keeper.until("held by PID")
    child = psutil.Process(int(held.split("PID ")[1].split(",")[0]))

    took_s = keeper.end(sig)

    print(f"{sig.name} in a wait of 300 s: ended in {took_s:.3f} s")
    assert keeper.process.returncode == 0
    assert keeper.log.rstrip().endswith("GPU Keeper stopped.")
    assert not child.is_running()
    assert took_s < GENEROUS_S


def test_ctrl_c_in_a_terminal_reaches_the_whole_group_and_ends_it_in_order(keep: Callable[..., Keeper]) -> None:
    keeper = keep("--gpu", "0", "--interval", "300", "--simulate")
    keeper.until("held by PID")
    for child in psutil.Process(keeper.process.pid).children():
        child.send_signal(signal.SIGINT)

    keeper.end(signal.SIGINT)

    assert keeper.process.returncode == 0
    assert "Traceback" not in keeper.log


def test_it_ends_at_once_while_torch_is_being_loaded(keep: Callable[..., Keeper], cuda: dict[str, str]) -> None:
    """Loading torch's libraries holds the interpreter's lock for seconds, so no handler in that process would run."""
    Path(cuda["FAKE_TORCH"], "import_s").write_text("20")
    keeper = keep("--gpu", "1", **cuda)
    keeper.until("GPU Keeper starting on GPU 1")
    log = Path(cuda["FAKE_TORCH"], "log")
    while not log.exists():
        time.sleep(0.02)

    took_s = keeper.end(signal.SIGTERM)

    print(f"SIGTERM while torch is loaded: ended in {took_s:.3f} s")
    assert keeper.process.returncode == 0
    assert keeper.log.rstrip().endswith("GPU Keeper stopped.")
    assert took_s < GENEROUS_S


def test_it_ends_at_once_while_the_driver_hangs(keep: Callable[..., Keeper], cuda: dict[str, str]) -> None:
    """The process in the driver is killed then, which frees its memory too."""
    Path(cuda["FAKE_TORCH"], "hang_s").write_text("20")
    keeper = keep("--gpu", "1", **cuda)
    keeper.until("GPU Keeper starting on GPU 1")
    log = Path(cuda["FAKE_TORCH"], "log")
    while not log.exists() or "add" not in log.read_text():
        time.sleep(0.02)

    took_s = keeper.end(signal.SIGTERM)

    print(f"SIGTERM while a kernel hangs: ended in {took_s:.3f} s")
    assert keeper.process.returncode == 0
    assert keeper.log.rstrip().endswith("GPU Keeper stopped.")
    assert not psutil.pid_exists(int(log.read_text().split()[0]))
    assert took_s < GENEROUS_S


def test_it_holds_1024_float32_on_the_card_and_frees_them(keep: Callable[..., Keeper], cuda: dict[str, str]) -> None:
    keeper = keep("--gpu", "1", "--interval", "300", **cuda)
    keeper.until("held by PID")

    keeper.end(signal.SIGTERM)

    log = Path(cuda["FAKE_TORCH"], "log").read_text()
    done = [line.split(" ", 1)[1] for line in log.splitlines()]
    assert done == [
        "import order=PCI_BUS_ID visible=None",
        "zeros 1024 float32 cuda:1",
        "add",
        "zero",
        "freed",
        "empty_cache",
    ]
    assert "utilisation percentages" in keeper.log


def test_a_card_named_by_its_uuid_is_the_only_one_that_cuda_sees(
    keep: Callable[..., Keeper], cuda: dict[str, str]
) -> None:
    keeper = keep("--uuid", "GPU-abc", **cuda)
    keeper.until("GPU Keeper starting on GPU-abc")
    keeper.until("held by PID")

    keeper.end(signal.SIGTERM)

    log = Path(cuda["FAKE_TORCH"], "log").read_text()
    assert "visible=GPU-abc" in log
    assert "zeros 1024 float32 cuda:0" in log


def test_it_survives_cuda_errors_first_by_retries_and_then_in_a_new_process(
    keep: Callable[..., Keeper], cuda: dict[str, str]
) -> None:
    """A faulted CUDA context never recovers in its own process."""
    Path(cuda["FAKE_TORCH"], "fail").write_text("5")
    keeper = keep("--gpu", "0", "--interval", "0.1", **cuda)

    keeper.until("beat failed: CUDA error: an illegal memory access")
    keeper.until("the heartbeat's process ended with status 4")
    keeper.until("next try in 1 s")
    keeper.until("held by PID")
    keeper.end(signal.SIGTERM)

    log = Path(cuda["FAKE_TORCH"], "log").read_text()
    assert len({line.split()[0] for line in log.splitlines()}) == 2
    assert keeper.process.returncode == 0


def test_duty_computes_on_the_card_and_ends_at_once_in_the_middle_of_it(
    keep: Callable[..., Keeper], cuda: dict[str, str]
) -> None:
    keeper = keep("--gpu", "1", "--mode", "duty", "--threshold", "40", "--price", "2", "--hours", "3", **cuda)
    keeper.until("for at most 3 h, at 2 an hour, 6.00 in all")
    keeper.until("held by PID")
    log = Path(cuda["FAKE_TORCH"], "log")
    until = time.monotonic() + 10
    while "mm" not in log.read_text() and time.monotonic() < until:
        time.sleep(0.02)

    took_s = keeper.end(signal.SIGTERM)

    print(f"SIGTERM while it computes: ended in {took_s:.3f} s")
    assert keeper.process.returncode == 0
    assert "zeros 512 512 float32 cuda:1" in log.read_text()
    assert [line.split(" ", 1)[1] for line in log.read_text().splitlines()][-1] == "empty_cache"
    assert took_s < GENEROUS_S


def test_a_card_that_is_full_in_the_middle_of_the_duty_is_said_and_tried_again(
    keep: Callable[..., Keeper], cuda: dict[str, str]
) -> None:
    Path(cuda["FAKE_TORCH"], "fail_mm").write_text("1")
    keeper = keep("--gpu", "0", "--mode", "duty", "--threshold", "40", **cuda)

    keeper.until("beat failed: CUDA error: out of memory")
    keeper.until("held by PID")
    keeper.end(signal.SIGTERM)

    assert keeper.process.returncode == 0


def test_where_the_terms_forbid_it_it_refuses_and_ends_with_1(keep: Callable[..., Keeper]) -> None:
    keeper = keep("--gpu", "0", "--simulate", "--platform", "colab")

    keeper.until("the terms of Google Colab forbid a keep-alive")

    assert keeper.process.wait(10) == 1


def test_the_card_is_free_when_the_keeper_is_killed(keep: Callable[..., Keeper]) -> None:
    """Nothing may go on holding a card behind a keeper that is gone."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the kernel ends children with their parent on Linux only")
    keeper = keep("--gpu", "0", "--simulate")
    child = psutil.Process(int(keeper.until("held by PID").split("PID ")[1].split(",")[0]))

    keeper.process.kill()

    _, alive = psutil.wait_procs([child], timeout=GENEROUS_S)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["--gpu", "2"], {}, "there is no GPU 2: CUDA sees 2, GPU 0 to 1, here"),
        (["--gpu", "1"], {"FAKE_CARDS": "1"}, "there is no GPU 1: CUDA sees one, GPU 0, here"),
        (["--gpu", "0"], {"FAKE_CUINIT": "100"}, "there is no GPU 0: CUDA sees none here"),
        (["--gpu", "0"], {"FAKE_CUINIT": "803"}, "the NVIDIA driver does not work (cuInit gives 803)"),
        (["--uuid", "GPU-x"], {"FAKE_CUINIT": "100"}, "CUDA sees no card GPU-x"),
    ],
)
def test_what_cannot_be_held_is_said_and_ends_with_1(
    keep: Callable[..., Keeper], cuda: dict[str, str], arguments: list[str], environment: dict[str, str], message: str
) -> None:
    keeper = keep(*arguments, **{**cuda, **environment})

    keeper.until(message)

    assert keeper.process.wait(10) == 1


def test_without_a_driver_it_says_so_and_ends_with_1(keep: Callable[..., Keeper]) -> None:
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver")
    keeper = keep("--gpu", "3", "--interval", "300")

    keeper.until("GPU Keeper starting on GPU 3")
    keeper.until("there is no NVIDIA driver here")

    assert keeper.process.wait(10) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of the arguments --gpu --uuid is required"),
        (["--gpu", "-1"], "indexes count from 0"),
        (["--gpu", "two"], "two is no card"),
        (["--gpu", "0", "--uuid", "GPU-x"], "not allowed with"),
        (["--gpu", "0", "--interval", "0"], "between 0.1 and 86400"),
        (["--gpu", "0", "--interval", "nan"], "between 0.1 and 86400"),
        (["--gpu", "0", "--interval", "inf"], "between 0.1 and 86400"),
        (["--gpu", "0", "--interval", "soon"], "invalid"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    from keeper.__main__ import main

    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert message in capsys.readouterr().err
