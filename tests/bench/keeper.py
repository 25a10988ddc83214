"""The watch over 64 cards of a fake driver: time and CPU of a reading, a card that hangs, memory over 24 simulated
hours; and a real keeper (simulated card) from an operator's release, and from SIGTERM, to its process being gone.

    python tests/bench/keeper.py      prints one JSON object

The driver is tests/keeper/fake_nvml.c under the real nvidia-ml-py: a call costs a few stat() of a small file, and what
a real driver takes is not in these figures. How a duty shows in a real card's utilisation was measured on none.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[0] = str(ROOT)  # else `keeper` is this file
SOURCE = ROOT / "tests" / "keeper" / "fake_nvml.c"
CARDS = 64
GIB = 1024**3
READINGS = 200
PAUSE_S = 0.1
"""Between two readings, which in use are 0.2 s apart at least: PCIe is measured in it."""
DAY_S, STEP_S = 86_400, 20
"""A reading every 20 simulated seconds: 4320 of them take a minute, one a second would take 15."""
WARM_UP = 300


def main() -> None:
    if "FAKE_NVML" in os.environ:
        print(json.dumps(measured(Path(os.environ["FAKE_NVML"]))))
        return
    with tempfile.TemporaryDirectory(prefix="on-", dir="/tmp") as folder:
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", f"{folder}/libnvidia-ml.so.1", SOURCE], check=True)
        state = Path(folder, "driver")
        state.mkdir()
        environ = {**os.environ, "LD_LIBRARY_PATH": folder, "FAKE_NVML": str(state), "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, __file__], env=environ, check=True, stdout=subprocess.PIPE, text=True)
        figures = json.loads(done.stdout)
        figures["keeper"] = _keeper(Path(folder))
    print(json.dumps(figures, indent=2))


def measured(state: Path) -> dict[str, Any]:
    """The figures of the watch, taken in a process that sees the fake driver as the machine's own."""
    from keeper.main import main as _imported  # noqa: F401  all that `overnight keep` loads
    from keeper.nvml import DriverCards
    from keeper.watch import Watch

    for number in range(CARDS):
        _card(state, number)
    source = DriverCards("node", deadline_s=0.8, open_wait_s=10.0)
    watch = Watch("node", lambda report: report.model_dump_json(), state, source=source, keep=False)
    watch.tick()
    figures = {
        "cards": CARDS,
        "collect": _timed(source.read, READINGS),
        "tick": _timed(watch.tick, READINGS),
        "hanging": _hanging(state, source),
        "day": _day(watch),
        "utilisation_of_a_duty": "unmeasured on a real card",
    }
    figures["core_share_at_1_hz_pct"] = round(figures["tick"]["cpu_ms"] / 10, 2)
    return figures


def _card(state: Path, number: int, more: str = "") -> None:
    text = (
        f"uuid GPU-{number}\nname NVIDIA L20X 144GB\nbus {16 + number}\ntotal {144 * GIB}\nused {2 * GIB}\n"
        f"v2_used {GIB}\nutil 5\ntemp 35\npower 70000\nprocs {os.getpid()}:{GIB}\nthrottle 0\necc 0\n"
        f"xids \npcie 1000 100\n{more}"
    )
    new = state / f".{number}"
    new.write_text(text)
    new.rename(state / str(number))


def _timed(call: Callable[[], object], times: int) -> dict[str, float]:
    """Wall milliseconds of a call, and the CPU milliseconds that all threads together spent on one."""
    walls_ms = []
    cpu = time.process_time()
    for _ in range(times):
        time.sleep(PAUSE_S)
        begin = time.perf_counter()
        call()
        walls_ms.append((time.perf_counter() - begin) * 1000)
    cpu_ms = (time.process_time() - cpu) * 1000 / times
    ordered = sorted(walls_ms)
    return {
        "p50_ms": round(statistics.median(ordered), 1),
        "p95_ms": round(ordered[round(0.95 * (times - 1))], 1),
        "cpu_ms": round(cpu_ms, 1),
        "n": times,
    }


def _hanging(state: Path, source: Any) -> dict[str, Any]:
    """Two readings while card 7 hangs: only the first waits for it, and all others are new in both."""
    before = source.read()
    _card(state, 7, "hang 1\n")
    took_ms, readings = [], []
    for _ in range(3):
        begin = time.perf_counter()
        readings.append(source.read())
        took_ms.append(round((time.perf_counter() - begin) * 1000, 1))
    _card(state, 7)
    fresh = sum(new.read_at > old.read_at for new, old in zip(readings[-1], before, strict=True))
    return {"readings_ms": took_ms, "fresh_cards": fresh, "problem": readings[-1][7].problem}


def _day(watch: Any) -> dict[str, float]:
    """Resident memory after a warm-up and after 24 simulated hours of ticks."""
    import psutil

    process = psutil.Process()
    for _ in range(WARM_UP):
        watch.tick()
    before = process.memory_info().rss
    for _ in range(DAY_S // STEP_S):
        watch.tick()
    after = process.memory_info().rss
    return {
        "ticks": DAY_S // STEP_S,
        "rss_mb": round(after / 2**20, 1),
        "growth_mb": round((after - before) / 2**20, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def _keeper(folder: Path) -> dict[str, float]:
    """Seconds from a release, and from SIGTERM, until the keeper's process is gone from its (simulated) card."""
    from lab import hosts, keeperorders, store
    from lab.card import KeeperStatus
    from lab.keeperorders import KeeperOrder
    from lab.settings import GpuSettings, Settings

    settings = Settings(data_dir=folder / "data", host="bench", gpu=GpuSettings(simulate=2))
    with store.embedded(settings):
        client = store.connect(settings)
        environ = {
            **os.environ,
            "OVERNIGHT_DATA_DIR": str(settings.data_dir),
            "OVERNIGHT_HOST": "bench",
            "OVERNIGHT_GPU__SIMULATE": "2",
        }
        process = subprocess.Popen([sys.executable, "-m", "overnight", "keep"], cwd=ROOT, env=environ)

        def keeper() -> KeeperStatus | None:
            return next((host.keeper for host in hosts.cards(client) if host.cards), None)

        try:
            pid = _until(lambda: (found := keeper()) and found.state == "holding" and found.pid)
            begin = time.monotonic()
            keeperorders.give(client, "bench", KeeperOrder(verb="release", by="bench"))
            _until(lambda: not Path(f"/proc/{pid}").exists())
            gone_s = time.monotonic() - begin
            _until(lambda: (found := keeper()) and found.state == "released")
            shown_s = time.monotonic() - begin
            keeperorders.give(client, "bench", KeeperOrder(verb="hold", by="bench"))
            pid = _until(lambda: (found := keeper()) and found.state == "holding" and found.pid)
            begin = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _until(lambda: not Path(f"/proc/{pid}").exists())
            signal_s = time.monotonic() - begin
            process.wait(20)
            return {
                "release_to_process_gone_s": round(gone_s, 3),
                "release_to_card_trains_s": round(shown_s, 3),
                "sigterm_to_process_gone_s": round(signal_s, 3),
                "sigterm_to_watch_gone_s": round(time.monotonic() - begin, 3),
            }
        finally:
            process.kill()
            process.wait()


def _until(found: Callable[[], Any]) -> Any:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        value = found()
        if value:
            return value
        time.sleep(0.005)
    raise TimeoutError("what the benchmark waits for did not happen within 30 s")


if __name__ == "__main__":
    main()
