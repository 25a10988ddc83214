"""How quick the whole path is: everything runs, the cards are simulated, Slack's other side is the simulator.

Prints one JSON object. Times in seconds:
event_to_ack, event_to_plan_card: from a message's delivery to its acknowledgement, to its plan card in the thread;
last_run_to_report: from the end of an experiment's last run to its verdict in the thread;
bot_memory_bytes: resident memory of the bot's process at the end; bot_holds_torch: whether torch is mapped in it.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bot.simulator import Simulator
from lab import store
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer
from lab.settings import load
from terminal.demo import CHANNEL, USER, write_config
from terminal.stack import Stack

REQUESTS = 30
EXPERIMENTS = 5
PAUSE_S = 1.5
"""Between two requests: Slack allows one message a second in a channel, and the courier keeps to that."""
MODELS = ("resnet18", "resnet34", "resnet50", "vgg11", "densenet121", "efficientnet_b0")


def main() -> None:
    """Measures and prints."""
    with Simulator() as slack, tempfile.TemporaryDirectory(prefix="on-") as name:
        path = write_config(slack, Path(name), cards=4)
        settings = load(path)
        with Stack(settings, environ={"OVERNIGHT_CONFIG": str(path)}) as stack:
            stack.wait_ready(120, cards=3)
            slack.wait_connected(timeout_s=60)
            time.sleep(15)  # the host measures its speed at start
            cards = [_plan_card(slack, f"train {MODELS[n % len(MODELS)]}, lr {n + 1}e-4") for n in range(REQUESTS)]
            reports = [_report(slack, stack, n) for n in range(EXPERIMENTS)]
            bot = _bot()
            figures = {
                "event_to_ack": _spread([ack.since_event_s for ack in slack.acks]),
                "event_to_plan_card": _spread(cards),
                "last_run_to_report": _spread(reports),
                "bot_memory_bytes": bot.memory_info().rss,
                "bot_holds_torch": any("torch" in m.path for m in bot.memory_maps()),
            }
    print(json.dumps(figures, indent=1))


def _plan_card(slack: Simulator, text: str) -> float:
    time.sleep(PAUSE_S)
    began = time.monotonic()
    ts = slack.say(CHANNEL, USER, f"<@{slack.workspace.bot.id}> {text}")
    slack.wait_for(lambda: len(slack.thread(CHANNEL, ts)) > 1, 30, "a plan card")
    return time.monotonic() - began


def _report(slack: Simulator, stack: Stack, n: int) -> float:
    """An experiment of three short probe runs in a conversation of the channel."""
    ledger = Ledger(store.connect(stack.settings))
    ts = slack.say(CHANNEL, USER, f"<@{slack.workspace.bot.id}> what is running? {n}")
    slack.wait_for(lambda: len(slack.thread(CHANNEL, ts)) > 1, 30, "an answer")
    asked = next(r for r in reversed(ledger.requests("answered")) if r.conversation.endswith(ts))  # type: ignore[arg-type]
    request = ledger.submit("probe", USER, asked.conversation)
    assert request is not None
    axes: dict[str, Any] = {"steps": (5,), "step_s": (0.05,), "seed": (0, 1, 2)}
    plan = Plan(template="probe", models=("probe",), axes=axes, anew=True)
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment is not None
    ledger.approve(experiment.id, USER)
    verdict = f"*{experiment.id}*: probe"

    def posted() -> bool:
        return any("val acc" in slack.shown(m) and verdict in slack.shown(m) and "GPU-h" in slack.shown(m)
                   and "again" in slack.shown(m) for m in slack.thread(CHANNEL, ts))  # fmt: skip

    slack.wait_for(posted, 120, "a report")
    ended = max(run.finished_at or 0.0 for run in ledger.runs(experiment.id))
    return time.time() - ended


def _bot() -> psutil.Process:
    me = psutil.Process()
    return next(p for p in me.children() if p.cmdline()[-2:] == ["overnight", "bot"])


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return {
        "n": len(ordered),
        "p50": round(statistics.median(ordered), 4),
        "p95": round(p95, 4),
        "max": round(ordered[-1], 4),
    }


if __name__ == "__main__":
    main()
