"""`overnight demo`: one night in a few minutes, on one machine without a card, a Slack or a key."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from rich.console import Console

from lab import store
from lab.errors import OvernightError
from lab.ledger import Ledger
from lab.run import FINAL_RUN, ExperimentState
from lab.settings import PREFIX, load
from terminal.stack import Stack
from terminal.thread import Bars

if TYPE_CHECKING:
    from bot.simulator import Simulator

CHANNEL, USER = "C0LAB", "U0ALICE"
CARDS = 4
START_S, ANSWER_S, REPORT_S = 120.0, 120.0, 3600.0
"""How long each part may take before the demo gives up; a training on a busy laptop takes minutes."""
FILES = ("report.md", "curves.png")


class DemoFailed(OvernightError):
    """The demo did not get to its report; says how far it came."""


def run(text: str, out: Path, console: Console, *, keep_page: bool, port: int) -> int:
    """0 when the report arrived in the thread and lies in `out`; 1 with the reason otherwise."""
    out.mkdir(parents=True, exist_ok=True)
    for sig in (signal.SIGINT, signal.SIGTERM):  # a shell's background job starts with SIGINT ignored
        signal.signal(sig, signal.default_int_handler)
    with _simulator(port) as slack, _folder() as folder:
        config = write_config(slack, folder, _cards())
        environ = _own_environment(config)
        settings = load(config)
        console.print("Simulated: the Slack is a local page, the cards train on this machine's CPU.", style="yellow")
        console.print(f"The page in a browser: {slack.url}", markup=False)
        try:
            with Stack(settings, environ=environ) as stack:
                console.print("starting Valkey, keeper, dispatcher, workers, agent and bot ...")
                stack.wait_ready(START_S, measured=True)
                _converse(slack, stack, text, out, console)
                if keep_page:
                    console.print("The page stays up until Ctrl-C: write to it as you would in Slack.")
                    _until_interrupted(stack)
        except OvernightError as error:
            console.print(f"demo: {error}", style="red", markup=False)
            _save_thread(slack, out)
            _save_logs(folder, out)
            return 1
    return 0


def _converse(slack: Simulator, stack: Stack, text: str, out: Path, console: Console) -> None:
    """Asks, presses Run, shows the thread as it grows, and has the report's files in `out` at the end."""
    deadline = time.monotonic() + START_S
    while not slack.connections:
        stack.step()
        if time.monotonic() > deadline:
            raise DemoFailed(f"the bot did not connect; see {stack.log_path('bot')}")
        time.sleep(0.05)
    ts = slack.say(CHANNEL, USER, f"<@{slack.workspace.bot.id}> {text}")
    shown = _Shown(slack, ts, console)
    card = _wait_for_card(slack, stack, ts, shown)
    console.print(f"The thread in a browser: {slack.link(CHANNEL, card['ts'])}", markup=False)
    slack.press(CHANNEL, card["ts"], "run", USER)
    console.print("(pressed Run)", style="dim")
    ledger = Ledger(store.connect(stack.settings))
    experiment_id = _the_experiment(ledger, stack)
    _watch(ledger, experiment_id, stack, shown, console)
    _collect(slack, ts, out, stack, shown)
    console.print(f"{', '.join(FILES)} and thread.json lie in {out}", markup=False)


def _wait_for_card(slack: Simulator, stack: Stack, ts: str, shown: _Shown) -> dict[str, Any]:
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        stack.step()
        shown.update()
        for message in slack.thread(CHANNEL, ts)[1:]:
            if _has_button(message, "run"):
                return message
            if message.get("user") == slack.workspace.bot.id and not _has_button(message, "run"):
                raise DemoFailed("the answer is no plan; nothing was run")
        time.sleep(0.1)
    raise DemoFailed(f"no plan within {ANSWER_S:.0f} s; see {stack.log_path('agent')} and {stack.log_path('bot')}")


def _has_button(message: dict[str, Any], action_id: str) -> bool:
    elements = [e for block in message.get("blocks", []) for e in block.get("elements", []) if isinstance(e, dict)]
    return any(e.get("action_id") == action_id for e in elements)


def _the_experiment(ledger: Ledger, stack: Stack) -> str:
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        stack.step()
        for experiment in ledger.experiments():
            if experiment.state is not ExperimentState.PROPOSED:
                return experiment.id
        time.sleep(0.05)
    raise DemoFailed(f"Run was pressed and nothing was approved; see {stack.log_path('bot')}")


def _watch(ledger: Ledger, experiment_id: str, stack: Stack, shown: _Shown, console: Console) -> None:
    deadline = time.monotonic() + REPORT_S
    with Bars(ledger, experiment_id, console) as bars:
        while any(run.state not in FINAL_RUN for run in ledger.runs(experiment_id)):
            if time.monotonic() > deadline:
                raise DemoFailed(f"{experiment_id} did not end within {REPORT_S / 60:.0f} min")
            stack.step()
            bars.update()
            time.sleep(0.25)
        bars.update()


def _collect(slack: Simulator, ts: str, out: Path, stack: Stack, shown: _Shown) -> None:
    """The files of the report, as they were uploaded in the thread, lie in `out` once the whole thread was shown."""
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        stack.step()
        complete = shown.update()
        files = {file.name: file.data for file in slack.files if file.data is not None}
        if complete and all(name in files for name in FILES):
            for name in FILES:
                (out / name).write_bytes(files[name])
            _save_thread(slack, out)
            return
        time.sleep(0.1)
    raise DemoFailed(f"the runs ended, but no report arrived; see {stack.log_path('agent')}")


def _save_thread(slack: Simulator, out: Path) -> None:
    (out / "thread.json").write_text(json.dumps(slack.export(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _save_logs(folder: Path, out: Path) -> None:
    """What went wrong is in the logs; their folder goes with the demo, so they are copied."""
    for log in (folder / "data" / "logs").glob("*.log"):
        (out / log.name).write_bytes(log.read_bytes())


def _until_interrupted(stack: Stack) -> None:
    stop = threading.Event()
    with contextlib.suppress(KeyboardInterrupt):
        while not stop.wait(1.0):
            stack.step()


@contextlib.contextmanager
def _simulator(port: int) -> Iterator[Simulator]:
    """The simulated Slack. Raises DemoFailed when the port cannot be used."""
    from bot.simulator import Simulator

    try:
        slack = Simulator(port).start()
    except OSError as error:
        raise DemoFailed(f"port {port} of 127.0.0.1 cannot be used: {error.strerror}; try --port 0") from None
    try:
        yield slack
    finally:
        slack.stop()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder of the demo's own, short enough for a Unix socket, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="overnight-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def write_config(slack: Simulator, folder: Path, cards: int) -> Path:
    """A configuration for one machine with that many simulated cards and this simulator, as a file of the folder."""
    config = {
        "data_dir": str(folder / "data"),
        "gpu": {"simulate": cards},
        "keeper": {"interval_s": 30},
        "run": {"grace_s": 5},
        "slack": {"api_url": slack.api_url, "bot_token": slack.bot_token, "app_token": slack.app_token},
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def _own_environment(config: Path) -> dict[str, str | None]:
    """What the demo's processes get: its own configuration, and of the user's only the model's settings."""
    foreign = [name for name in os.environ if name.startswith(PREFIX) and not name.startswith(f"{PREFIX}MODEL")]
    for name in foreign:
        del os.environ[name]
    return {**dict.fromkeys(foreign), "OVERNIGHT_CONFIG": str(config)}


def _cards() -> int:
    asked = os.environ.get(f"{PREFIX}GPU__SIMULATE", "")
    return int(asked) if asked.isdigit() and int(asked) else CARDS


class _Shown:
    """The thread in the terminal: each message once, when it appears.

    The progress card, which is edited all the time, is held back with all that follows it until it is final: bars stand
    for it till then.
    """

    def __init__(self, slack: Simulator, ts: str, console: Console) -> None:
        self._slack, self._ts, self._console = slack, ts, console
        self._seen: set[str] = set()

    def update(self) -> bool:
        """Messages that are new stand in the terminal; False when some are held back."""
        for message in self._slack.thread(CHANNEL, self._ts):
            if _has_button(message, "cancel_experiment"):
                return False
            if message["ts"] not in self._seen:
                self._seen.add(message["ts"])
                name = self._slack.workspace.user(message["user"]).name
                self._console.print(f"[bold]{name:<10}[/bold]", end="")
                text = self._slack.shown(message).replace(f"<@{self._slack.workspace.bot.id}>", "@overnight")
                self._console.print(text.replace("\n", "\n" + " " * 10), markup=False)
        return True
