"""One frozen Settings object, read once at start from config.yaml and OVERNIGHT_*, and passed down."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from lab.errors import ConfigError
from lab.processes import MARK

PREFIX = "OVERNIGHT_"
WELL_KNOWN = {
    "OPENAI_API_KEY": ("model", "api_key"),
    "OPENAI_BASE_URL": ("model", "base_url"),
    "SLACK_BOT_TOKEN": ("slack", "bot_token"),
    "SLACK_APP_TOKEN": ("slack", "app_token"),
}
"""Names that other tools use too; a key in config.yaml or OVERNIGHT_* wins over them."""


def _expand(value: Any) -> Any:
    return Path(value).expanduser().absolute() if isinstance(value, str | Path) else value


Folder = Annotated[Path, BeforeValidator(_expand)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SlackSettings(Section):
    """How to reach Slack; both tokens are needed for `overnight bot`."""

    bot_token: SecretStr | None = None
    app_token: SecretStr | None = None
    api_url: str = "https://slack.com/api/"
    update_interval_s: float = Field(3.0, ge=0.2, le=60)


class ModelSettings(Section):
    """The OpenAI-compatible endpoint; without a key the reader works alone."""

    name: str = "gpt-4.1-mini"
    base_url: str | None = None
    api_key: SecretStr | None = None
    timeout_s: float = Field(20.0, gt=0, le=600)
    price_in: float | None = Field(None, ge=0)
    price_out: float | None = Field(None, ge=0)
    daily_tokens: int | None = Field(None, ge=0)
    daily_tokens_person: int | None = Field(None, ge=0)


class GpuSettings(Section):
    """Which cards are used, and which one is held back."""

    simulate: int = Field(0, ge=0, le=64)
    auto_detect: bool = True
    cards: tuple[str, ...] = ()
    reserve_last: bool | None = None


class KeeperSettings(Section):
    """The heartbeat on the reserved card."""

    enabled: bool = True
    mode: Literal["touch", "duty"] = "touch"
    interval_s: float = Field(300.0, ge=1, le=86_400)
    platform: str = "none"
    threshold_pct: float | None = Field(None, ge=0, le=90)
    window_min: float | None = Field(None, ge=1, le=10_080)
    margin_pct: float = Field(5.0, ge=0, le=50)
    max_hold_hours: float | None = Field(168.0, gt=0, le=8_760)
    price_per_hour: float | None = Field(None, ge=0)
    reading_interval_s: float = Field(2.0, ge=0.2, le=10)


class DefaultSettings(Section):
    """What a plan takes where the message says nothing; each is shown as assumed."""

    dataset: str | None = None
    seeds: int = Field(3, ge=1, le=100)
    epochs: int = Field(3, ge=1, le=10_000)
    lr: float = Field(1e-3, gt=0)
    batch_size: int = Field(64, ge=1)


class LimitSettings(Section):
    """Where a request is asked about or refused, and for how long a plan waits."""

    max_runs: int = Field(200, ge=1, le=100_000)
    plan_days: float = Field(7.0, gt=0, le=365)


class RunSettings(Section):
    """How attempts are held and stopped; times in seconds."""

    lease_s: float = Field(60.0, ge=3, le=3_600)
    renew_s: float = Field(10.0, ge=0.5, le=600)
    grace_s: float = Field(60.0, ge=0, le=3_600)
    max_attempts: int = Field(3, ge=1, le=100)
    max_retries: int = Field(3, ge=0, le=20)
    retry_wait_s: float = Field(30.0, ge=0, le=3_600)
    hang_s: float = Field(600.0, ge=1, le=86_400)
    disk_low_gb: float = Field(2.0, ge=0)
    preempt: bool = True
    first_look_s: float = Field(120.0, ge=0.5, le=86_400)
    preempt_after_s: float = Field(600.0, ge=0.5, le=604_800)
    preempt_every_s: float = Field(3600.0, ge=0.5, le=604_800)


class AgentSettings(Section):
    workers: int = Field(2, ge=1, le=16)


class AlertSettings(Section):
    """What is told of what goes wrong, where, and how often."""

    enabled: bool = True
    channel: str | None = Field(None, pattern=r"^[CG][A-Z0-9]{2,}$")
    interval_s: float = Field(5.0, ge=0.2, le=15)
    group_s: float = Field(5.0, ge=0, le=600)
    silence_s: float = Field(3600.0, ge=1, le=604_800)
    repeat_s: float = Field(14_400.0, ge=60, le=604_800)
    rules: dict[str, Any] = {}


class MetricsSettings(Section):
    """Where Prometheus reads."""

    port: int | None = Field(None, ge=1, le=65_535)
    address: str = "127.0.0.1"


class LogSettings(Section):
    """The log files of `overnight up`."""

    max_mb: float = Field(10.0, ge=0.01, le=10_000)
    keep: int = Field(5, ge=1, le=100)


class Settings(BaseSettings):
    """Every setting of Overnight; config.example.yaml lists them with a comment each."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_parse_none_str="null",
        hide_input_in_errors=True,
    )

    data_dir: Folder = Field(default_factory=lambda: Path.home() / ".overnight")
    redis_url: SecretStr | None = None
    host: str = Field(default_factory=socket.gethostname, min_length=1, max_length=200)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    data_root: Folder | None = None
    datasets: dict[str, Folder] = {}
    archive_days: float = Field(30.0, ge=0, le=36_500)
    admins: tuple[str, ...] = ()
    slack: SlackSettings = SlackSettings()
    model: ModelSettings = ModelSettings()
    gpu: GpuSettings = GpuSettings()
    keeper: KeeperSettings = KeeperSettings()
    defaults: DefaultSettings = DefaultSettings()
    limits: LimitSettings = LimitSettings()
    run: RunSettings = RunSettings()
    agent: AgentSettings = AgentSettings()
    alerts: AlertSettings = AlertSettings()
    metrics: MetricsSettings = MetricsSettings()
    logs: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (EnvSettingsSource(settings_cls), init_settings)

    @property
    def runs_dir(self) -> Path:
        """Where run directories lie: `exp-12/3/attempt-1/`."""
        return self.data_dir / "runs"

    @property
    def datasets_root(self) -> Path:
        """Where torchvision data sets are looked for."""
        return self.data_root or self.data_dir / "data"

    @property
    def socket_path(self) -> Path:
        """The Unix socket of the embedded Valkey."""
        return self.data_dir / "valkey" / "valkey.sock"


def load(path: Path | None = None) -> Settings:
    """The settings of this process: OVERNIGHT_* over config.yaml over the defaults.

    Args:
        path: a YAML file; by default the one that OVERNIGHT_CONFIG names, else ./config.yaml if it is there.

    Raises:
        ConfigError: a key is unknown or its value unusable; names the key and what was wanted.
    """
    env = os.environ
    chosen = path or (Path(env["OVERNIGHT_CONFIG"]) if env.get("OVERNIGHT_CONFIG") else None)
    if chosen and not chosen.is_file():
        raise ConfigError("OVERNIGHT_CONFIG", f"{chosen} is no file; name a YAML file such as config.example.yaml")
    data = _read(chosen or Path("config.yaml"))
    _check_environment(env)
    for name, (section, key) in WELL_KNOWN.items():
        inner = data.setdefault(section, {}) if isinstance(data.get(section, {}), dict) else {}
        if env.get(name) and inner.get(key) is None:
            inner[key] = env[name]
    try:
        return Settings(**data)
    except ValidationError as error:
        raise _explain(error) from None
    except ValueError as error:  # an OVERNIGHT_* value that should be JSON and is not
        raise ConfigError(PREFIX + "*", f"{error}; lists and maps are written as JSON") from None


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"is no readable YAML: {error}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(str(path), "wanted a map of settings as in config.example.yaml")
    return {str(k): v for k, v in data.items() if v is not None}


def _check_environment(env: Mapping[str, str]) -> None:
    """pydantic-settings ignores unknown names with its prefix; a misspelt one must not pass in silence."""
    for name in env:
        if not name.upper().startswith(PREFIX) or name in ("OVERNIGHT_CONFIG", MARK):
            continue
        first = name[len(PREFIX) :].split("__")[0].lower()
        if first not in Settings.model_fields:
            raise ConfigError(name, f"no such setting; wanted one of {', '.join(sorted(Settings.model_fields))}")


def _explain(error: ValidationError) -> ConfigError:
    first = error.errors(include_url=False, include_input=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return ConfigError(key, f"no such setting; wanted one of {', '.join(_siblings(first['loc']))}")
    return ConfigError(key, first["msg"])


def _siblings(loc: tuple[int | str, ...]) -> list[str]:
    model: type[BaseModel] = Settings
    for part in loc[:-1]:
        inner = model.model_fields[str(part)].annotation if str(part) in model.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            break
        model = inner
    return sorted(model.model_fields)
