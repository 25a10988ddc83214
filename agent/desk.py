"""What a queue function of the agent works with: settings and ledger, made anew in each process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from lab import store
from lab.ledger import Ledger
from lab.settings import Settings, load


@dataclass(frozen=True)
class Desk:
    settings: Settings
    client: store.Client
    ledger: Ledger


_settings: Settings | None = None


def lay(settings: Settings) -> None:
    """The settings of this process and of those it forks; called once at start."""
    global _settings
    _settings = settings


def current() -> Desk:
    """The desk of this process; a forked one gets connections of its own."""
    return _desk(os.getpid())


@cache
def _desk(pid: int) -> Desk:
    settings = _settings or load()
    client = store.connect(settings)
    return Desk(settings, client, Ledger(client))
