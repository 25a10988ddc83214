"""The real bot between the simulator and a real Valkey; the agent is played by the tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.app import Bot
from bot.simulator import Simulator
from lab import store
from lab.ledger import Ledger
from lab.plan import Assumed, Plan
from lab.run import Answer, Estimate, Experiment, Progress, Request, RequestState, RunResult
from lab.settings import Settings, SlackSettings

LAB, ALICE, BEN, BOT = "C0LAB", "U0ALICE", "U0BEN", "<@U0BOT>"

PLAN = Plan(
    models=("resnet50", "efficientnet_b0"),
    dataset="digits",
    axes={"lr": (0.001,), "seed": (0, 1)},
    epochs=3,
    metric="val_acc",
    assumed=(
        Assumed(field="dataset", reason="the only data set on these hosts"),
        Assumed(field="epochs", reason="the lab's default"),
        Assumed(field="axes.lr", reason="the lab's default"),
        Assumed(field="axes.seed", reason="the lab's default"),
    ),
)
ESTIMATE = Estimate(wall_s=240, gpu_hours=0.2, cards=3, basis="rough: no history yet")


@pytest.fixture(scope="session", autouse=True)
def brisk() -> Iterator[None]:
    """One message a second a channel is right for Slack and slow for tests; test_web.py holds the true figure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bot.web.POSTS_PER_S", 100.0)
        patch.setattr("bot.web.UPDATES_PER_MINUTE", 6_000)
        yield


@pytest.fixture(scope="session")
def valkey() -> Iterator[Settings]:
    """One Valkey for all tests of the bot; its data folder is in the settings."""
    folder = Path(tempfile.mkdtemp(prefix="on-"))
    settings = Settings(data_dir=folder)
    with store.embedded(settings):
        yield settings
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def scene(valkey: Settings) -> Iterator[Scene]:
    """A running bot that all tests share, each in threads of its own."""
    with Simulator() as slack:
        scene = Scene(slack, settings_for(slack, data_dir=valkey.data_dir))
        with scene.bot():
            yield scene


@pytest.fixture
def alone(valkey: Settings) -> Iterator[Scene]:
    """A Slack and an empty store of its own for a test that starts and stops bots or makes trouble."""
    url = SecretStr(f"unix://{valkey.socket_path}?db=1")
    with Simulator(ack_timeout_s=3.0, redelivery_s=(0.0, 0.4, 0.4)) as slack:
        scene = Scene(slack, settings_for(slack, data_dir=valkey.data_dir, redis_url=url))
        scene.client.flushdb()
        yield scene


def settings_for(slack: Simulator, **others: Any) -> Settings:
    tokens = SlackSettings(
        bot_token=SecretStr(slack.bot_token),
        app_token=SecretStr(slack.app_token),
        api_url=slack.api_url,
        update_interval_s=0.2,
    )
    return Settings(slack=tokens, **others)


class Scene:
    """Slack, the bot and the ledger, and what the other processes would do."""

    def __init__(self, slack: Simulator, settings: Settings) -> None:
        self.slack = slack
        self.settings = settings
        self.client = store.connect(settings)
        self.ledger = Ledger(self.client)

    @contextmanager
    def bot(self) -> Iterator[Bot]:
        with Bot(self.settings) as bot:
            self.slack.wait_connected()
            yield bot

    def wait(self, predicate: Callable[[], Any], what: str = "", timeout_s: float = 8.0) -> Any:
        return self.slack.wait_for(predicate, timeout_s, what)

    def requests(self, root: str, channel: str = LAB) -> list[Request]:
        """The requests of a thread."""
        name = f"slack:T0LAB:{channel}:{root}"
        return [r for r in self.ledger.requests(*RequestState) if r.conversation == name]

    def ask(self, text: str = f"{BOT} compare ResNet50 vs EfficientNet", channel: str = LAB) -> tuple[str, Request]:
        """Alice asks; the ts of her message, and the request it became."""
        ts = self.slack.say(channel, ALICE, text)
        self.wait(lambda: self.requests(ts, channel), "the request")
        return ts, self.requests(ts, channel)[0]

    def now(self, message: dict[str, Any], channel: str = LAB) -> str:
        """What the message reads now."""
        return self.slack.shown(self.slack.message(channel, message["ts"]))

    def whispered(self, root: str, to: str = ALICE) -> list[str]:
        """What one person alone reads in the thread."""
        return [self.slack.shown(e) for e in self.slack.ephemerals if e["to"] == to and e.get("thread_ts") == root]

    def propose(self, request: Request, plan: Plan = PLAN, note: str | None = None) -> Experiment:
        proposed = self.ledger.propose(request.id, plan, ESTIMATE, Answer(kind="plan", note=note))
        assert proposed is not None
        return proposed

    def planned(self, plan: Plan = PLAN) -> tuple[str, Experiment, dict[str, Any]]:
        """Root ts, the proposed experiment, and its plan card."""
        ts, request = self.ask()
        experiment = self.propose(request, plan)
        return ts, experiment, self.card(ts, "'run'")

    def card(self, root: str, word: str, channel: str = LAB) -> dict[str, Any]:
        """The newest message of the thread with this word in its blocks."""
        found: dict[str, Any] = self.wait(lambda: self.find(root, word, channel), f"a message with {word!r}")
        return found

    def find(self, root: str, word: str, channel: str = LAB) -> dict[str, Any] | None:
        replies = self.slack.thread(channel, root)[1:]
        return next((m for m in reversed(replies) if word in str(m.get("blocks")) + self.slack.shown(m)), None)

    def start(self, run_id: str) -> int:
        """The run starts on a card; its fence."""
        self.ledger.bind(run_id, ("GPU-1",), "host", 0)
        fence = int(self.client.hincrby(f"on:run:{run_id}", "fence", 1))
        self.ledger.start(run_id, fence, pid=1)
        return fence

    def finish(self, run_id: str, fence: int | None = None) -> None:
        self.ledger.finish(run_id, fence or self.start(run_id), RunResult(metrics={"val_acc": 0.951}))

    def progress(self, run_id: str, fence: int, epoch: int) -> None:
        metrics: dict[str, float | None] = {"val_acc": 0.1 * epoch}
        progress = Progress(step=epoch * 10, steps_total=30, epoch=epoch, epochs_total=3, eta_s=60, metrics=metrics)
        self.ledger.report_progress(run_id, fence, progress)
