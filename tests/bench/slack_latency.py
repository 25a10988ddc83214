"""How soon Slack has its acknowledgement, and how large the bot is. Prints JSON: `python tests/bench/slack_latency.py`.

The bot runs as a process of its own against the simulator and an embedded Valkey; the plan card's time is counted up to
the card in the thread, with the agent's answer given by this program at once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from pydantic import SecretStr

from bot.simulator import Simulator
from lab import store
from lab.ledger import Ledger
from lab.run import Answer, RequestState
from lab.settings import Settings, SlackSettings

MESSAGES = 60
CHANNEL, ALICE = "C0LAB", "U0ALICE"
START = "from bot.app import main; from lab.settings import load; main(load())"


def main() -> None:
    """One JSON document on standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    messages = parser.parse_args().messages
    with tempfile.TemporaryDirectory(prefix="on-", ignore_cleanup_errors=True) as name, Simulator() as slack:
        settings = _settings(Path(name), slack)
        with store.embedded(settings):
            bot = subprocess.Popen([sys.executable, "-c", START], env=_environment(Path(name), slack))
            try:
                slack.wait_connected(2, timeout_s=60)
                figures = measure(slack, Ledger(store.connect(settings)), messages)
                figures |= process(psutil.Process(bot.pid))
            finally:
                bot.terminate()
                began = time.monotonic()
                bot.wait(30)
    print(json.dumps(figures | {"stop_s": round(time.monotonic() - began, 2)}, indent=2))


def measure(slack: Simulator, ledger: Ledger, messages: int) -> dict[str, Any]:
    """Mentions one after the other, each acknowledged twice (app_mention and message), then commands."""
    cards_ms = [_ask(slack, ledger, i) for i in range(messages)]
    for _ in range(messages // 3):
        delivery = slack.command("/gpu-monitor", user=ALICE)
        slack.wait_for(lambda d=delivery: d.state == "acked", 10)  # type: ignore[misc]
    by_kind: dict[str, list[float]] = {}
    for ack in slack.acks:
        if ack.kind == "slash_commands" or ack.event == "app_mention":
            by_kind.setdefault(ack.event, []).append(ack.since_event_s * 1000)
    return {f"ack_ms {event}": summary(values) for event, values in by_kind.items()} | {
        "answer_to_message_ms": summary(cards_ms)
    }


def _ask(slack: Simulator, ledger: Ledger, number: int) -> float:
    """Milliseconds from the agent's answer to its message in the thread."""
    channel = slack.im(ALICE) if number % 2 else CHANNEL  # two channels, each takes one message a second
    ts = slack.say(channel, ALICE, f"<@U0BOT> compare resnet50 vs efficientnet_b0, lr 0.{number + 1}")
    slack.wait_for(lambda: ledger.requests(RequestState.RECEIVED), 10)
    request = ledger.requests(RequestState.RECEIVED)[0]
    time.sleep(0.6)
    began = time.monotonic()
    ledger.answer(request.id, Answer(kind="reply", text=f"answer {number}"))
    slack.wait_for(lambda: len(slack.thread(channel, ts)) == 2, 20)
    return (time.monotonic() - began) * 1000


def summary(values_ms: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values_ms, n=20, method="inclusive")
    return {"n": len(values_ms), "p50": round(statistics.median(values_ms), 1), "p95": round(cuts[18], 1)}


def process(bot: psutil.Process) -> dict[str, Any]:
    """Memory of the process, and which heavy libraries it has mapped or imported."""
    maps = " ".join(m.path for m in bot.memory_maps())
    heavy = [name for name in ("torch", "matplotlib", "scipy", "openai", "sklearn") if f"/{name}/" in maps]
    return {"rss_mb": round(bot.memory_info().rss / 1e6, 1), "threads": bot.num_threads(), "heavy_libraries": heavy}


def _settings(folder: Path, slack: Simulator) -> Settings:
    return Settings(data_dir=folder, slack=SlackSettings(bot_token=SecretStr(slack.bot_token), api_url=slack.api_url))


def _environment(folder: Path, slack: Simulator) -> dict[str, str]:
    ours = {
        "OVERNIGHT_DATA_DIR": str(folder),
        "OVERNIGHT_SLACK__BOT_TOKEN": slack.bot_token,
        "OVERNIGHT_SLACK__APP_TOKEN": slack.app_token,
        "OVERNIGHT_SLACK__API_URL": slack.api_url,
    }
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OVERNIGHT_", "SLACK_"))}
    return kept | ours


if __name__ == "__main__":
    main()
