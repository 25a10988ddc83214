"""/gpu-monitor with 64 cards, also while one hangs, and how soon what happens to a card is read in Slack. Prints JSON.

    python -P tests/bench/gpu_monitor.py

Real processes: `overnight keep` on the driver of tests/keeper/fake_nvml.c under the real nvidia-ml-py, `overnight
dispatch` with the alarm, and `overnight bot` against the simulator. A reply is counted until all of it is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bot.simulator import Simulator
from keeper.rules import load_rules
from lab import hosts, store
from lab.settings import Settings

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "keeper" / "fake_nvml.c"
CARDS, ASKED = 64, 40
GIB = 2**30
CHANNEL, ALICE = "C0LAB", "U0ALICE"
HANGS, LOST, HOT = 7, 11, 13


def main() -> dict[str, Any]:
    """The figures."""
    with (
        tempfile.TemporaryDirectory(prefix="on-", dir="/tmp", ignore_cleanup_errors=True) as name,
        Simulator() as slack,
    ):
        folder = Path(name)
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", SOURCE], check=True)
        settings = Settings(data_dir=folder / "data", host="node07")
        (folder / "driver").mkdir()
        for number in range(CARDS):
            card(folder, number)
        with store.embedded(settings), ExitStack() as parts:
            client = store.connect(settings)
            for part in ("keep", "dispatch", "bot"):
                parts.enter_context(running(part, folder, settings, slack))
            slack.wait_connected(2, timeout_s=60)
            until(lambda: any(len(host.cards) == CARDS for host in hosts.cards(client)), "the cards")
            figures: dict[str, Any] = {"cards": CARDS, "reply": replies(slack)}
            card(folder, HANGS, "hang 1\n")
            time.sleep(3)
            figures["reply_while_one_hangs"] = replies(slack)
            card(folder, HANGS)
            figures["breach_to_message"] = notices(slack, folder)
            return figures


def replies(slack: Simulator) -> dict[str, Any]:
    """Milliseconds from the command to the whole reply."""
    times_ms, text = [], ""
    for _ in range(ASKED):
        before = len(slack.ephemerals)
        begun = time.perf_counter()
        slack.command("/gpu-monitor", user=ALICE, channel=CHANNEL)
        until(lambda b=before: any("Refresh" in slack.shown(e) for e in slack.ephemerals[b:]), "the reply", 0.002)  # type: ignore[misc]
        times_ms.append((time.perf_counter() - begun) * 1000)
        text = "".join(slack.shown(e) for e in slack.ephemerals[before:])
    return spread(times_ms) | {"lines": text.count("← "), "not_answering": text.count("has not answered")}


def notices(slack: Simulator, folder: Path) -> dict[str, Any]:
    """Seconds from the driver's word to the message in the alert channel, beside the rule's window."""
    windows = {rule.name: rule.for_s for rule in load_rules({})[0]}
    found = {}
    for rule, number, line, words in (
        ("card_lost", LOST, "lost 1\n", "has lost cards"),
        ("card_broken", HOT + 1, "xids 48\n", "report errors"),
        ("too_hot", HOT, "temp 95\n", "are too hot"),
    ):
        begun = time.monotonic()
        card(folder, number, line)
        until(lambda w=words: any(w in slack.shown(m) for m in slack.messages(CHANNEL)), words, 0.05, 120)  # type: ignore[misc]
        found[rule] = {"window_s": windows[rule], "told_after_s": round(time.monotonic() - begun, 1)}
    return found


def card(folder: Path, number: int, more: str = "") -> None:
    """The driver's card; of two lines with one key the first counts."""
    text = (
        f"{more}uuid GPU-{number}\nname NVIDIA L20X 144GB\nbus {16 + number}\ntotal {144 * GIB}\nused {2 * GIB}\n"
        f"v2_used {GIB}\nutil 5\ntemp 35\npower 70000\nxids \npcie 1000 100\n"
    )
    new = folder / "driver" / f".{number}"
    new.write_text(text)
    new.rename(folder / "driver" / str(number))


@contextmanager
def running(part: str, folder: Path, settings: Settings, slack: Simulator) -> Iterator[None]:
    """The command of `overnight` runs, its log in the folder."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OVERNIGHT_", "SLACK_"))}
    environ = kept | {
        "LD_LIBRARY_PATH": str(folder),
        "FAKE_NVML": str(folder / "driver"),
        "OVERNIGHT_DATA_DIR": str(settings.data_dir),
        "OVERNIGHT_HOST": settings.host,
        "OVERNIGHT_ALERTS__CHANNEL": CHANNEL,
        "OVERNIGHT_KEEPER__ENABLED": "false",
        "OVERNIGHT_SLACK__BOT_TOKEN": slack.bot_token,
        "OVERNIGHT_SLACK__APP_TOKEN": slack.app_token,
        "OVERNIGHT_SLACK__API_URL": slack.api_url,
    }
    with (folder / f"{part}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "overnight", part], cwd=ROOT, env=environ, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def until(true: Callable[[], Any], what: str, every_s: float = 0.05, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(every_s)


def spread(times_ms: list[float]) -> dict[str, Any]:
    ordered = sorted(times_ms)
    p50, p95 = (round(ordered[round(share * (len(ordered) - 1))], 1) for share in (0.5, 0.95))
    return {"p50_ms": p50, "p95_ms": p95, "max_ms": round(ordered[-1], 1), "n": len(ordered)}


if __name__ == "__main__":
    print(json.dumps(main(), indent=2))
