"""The idle rules of platforms, read from platforms.yaml: what a keeper is checked against, and where it refuses."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from lab.errors import ConfigError

Signal = Literal["cpu", "memory", "gpu", "gpu_memory", "network", "kernels", "terminals", "unpublished"]

_WORDS: dict[Signal, str] = {
    "cpu": "CPU load",
    "memory": "memory",
    "gpu": "GPU utilisation",
    "gpu_memory": "GPU memory",
    "network": "network traffic",
    "kernels": "notebook kernels",
    "terminals": "terminals",
    "unpublished": "what it does not publish",
}


class Platform(BaseModel):
    """One platform's idle rule; the fields are explained at the top of platforms.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    looks_at: tuple[Signal, ...]
    idle_when: Literal["all", "any"]
    threshold_pct: float | None
    window_min: float | None
    own_setting: str
    terms: Literal["forbidden", "check"]
    source: str

    @property
    def sees_utilization(self) -> bool:
        """True when a card's utilisation alone keeps the instance from counting as idle."""
        return "gpu" in self.looks_at and (self.idle_when == "all" or self.looks_at == ("gpu",))

    @property
    def forbidden(self) -> str | None:
        """Why no keeper may run there, as a sentence; None when nothing is known against it."""
        if self.terms != "forbidden":
            return None
        return f"not kept: the terms of {self.title} forbid a keep-alive ({self.source}); {self.own_setting}"

    @property
    def what_is_seen(self) -> str:
        """What the platform looks at, for people: `CPU load and GPU utilisation`."""
        return " and ".join(_WORDS[signal] for signal in self.looks_at) or "nothing"


@functools.cache
def platforms() -> dict[str, Platform]:
    """Every platform by its name."""
    text = Path(__file__).with_name("platforms.yaml").read_text(encoding="utf-8")
    found = TypeAdapter(list[Platform]).validate_python(yaml.safe_load(text))
    return {platform.name: platform for platform in found}


def platform(name: str) -> Platform:
    """The platform of this name.

    Raises:
        ConfigError: there is none.
    """
    known = platforms()
    if name not in known:
        raise ConfigError("keeper.platform", f"no platform {name!r} is known; wanted one of {', '.join(known)}")
    return known[name]
