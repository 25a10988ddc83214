"""The bot's process: what it needs at start, and how it lives with a Slack that comes and goes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import SecretStr

from bot.app import Bot, main
from lab.errors import ConfigError
from lab.settings import Settings, SlackSettings
from tests.bot.conftest import Scene


@pytest.mark.parametrize(
    ("slack", "key", "variable"),
    [
        (SlackSettings(), "slack.app_token", "SLACK_APP_TOKEN"),
        (SlackSettings(app_token=SecretStr("xapp-1")), "slack.bot_token", "SLACK_BOT_TOKEN"),
        (SlackSettings(app_token=SecretStr("xoxb-1")), "slack.app_token", "SLACK_APP_TOKEN"),
    ],
)
def test_a_missing_or_wrong_token_is_named(slack: SlackSettings, key: str, variable: str) -> None:
    """The first thing everybody gets wrong."""
    with pytest.raises(ConfigError) as error:
        main(Settings(slack=slack))

    assert error.value.key == key
    assert variable in str(error.value)


def test_a_refused_token_ends_the_start_with_one_sentence(alone: Scene) -> None:
    """Not with a loop of reconnects."""
    wrong = alone.settings.slack.model_copy(update={"bot_token": SecretStr("xoxb-wrong")})
    with (
        pytest.raises(ConfigError, match=r"slack.bot_token.*invalid_auth"),
        Bot(alone.settings.model_copy(update={"slack": wrong})),
    ):
        pass


def test_a_broken_connection_is_replaced_and_nothing_is_lost(alone: Scene) -> None:
    """Slack closes every connection about once an hour; laptops close them more often."""
    with alone.bot():
        alone.slack.disconnect()
        _, first = alone.ask()
        alone.slack.wait_connected(2, timeout_s=15)
        _, second = alone.ask()

    assert first.id != second.id


def test_the_bot_loads_nothing_heavy() -> None:
    """It stays below 150 MB; torch alone is more than that."""
    heavy = ("torch", "openai", "matplotlib", "scipy", "numpy", "sklearn")
    program = f"import bot.app, sys; print([m for m in {heavy!r} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == "[]"
