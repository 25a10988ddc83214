"""What a queue function of the agent works with: settings and ledger, made anew in each process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from agent.model import FORMS, ModelDoor
from agent.model import load as load_client
from agent.preferences import Usual
from agent.understand import Defaults
from lab import store
from lab.ledger import Ledger
from lab.settings import Settings
from lab.settings import load as load_settings

OPENAI = "https://api.openai.com/v1"
"""Where a key without a base_url belongs."""
FORM_S = 86_400
"""An endpoint that refused a form of asking is asked in it again after so long: it may have learnt it."""


@dataclass(frozen=True)
class Desk:
    """The lab as one process of the agent has it."""

    settings: Settings
    client: store.Client
    ledger: Ledger


def model_door(settings: Settings, client: store.Client | None = None) -> ModelDoor | None:
    """The language model that the settings name; None where they name neither a key nor an endpoint.

    Args:
        client: knows in which form that endpoint took the last question; None asks in the best one.
    """
    model = settings.model
    if model.api_key is None and model.base_url is None:
        return None
    door = ModelDoor(
        base_url=model.base_url or OPENAI,
        api_key=model.api_key.get_secret_value() if model.api_key else "none",
        model=model.name,
        timeout_s=model.timeout_s,
        price_in=model.price_in,
        price_out=model.price_out,
    )
    taken = client.get(_form_key(door)) if client is not None else None
    door.form = next((form for form in FORMS if form == taken), door.form)
    return door


def remember_form(client: store.Client, door: ModelDoor) -> None:
    """The next door to the same model begins with the form in which this one was answered."""
    if door.form != FORMS[0]:
        client.set(_form_key(door), door.form, ex=FORM_S)


def _form_key(door: ModelDoor) -> str:
    return f"{store.PREFIX}model:form:{door.base_url} {door.model}"


def defaults(settings: Settings, dataset: str | None, why: str, usual: Usual | None = None) -> Defaults:
    """What a plan assumes in this lab where a message is silent.

    Args:
        dataset: the data set for a message that names none, and `why` that one; None asks.
        usual: the asker's preferences, which outrank the lab's defaults.
    """
    chosen = settings.defaults
    return Defaults(
        dataset=chosen.dataset or dataset,
        dataset_reason="the lab's default" if chosen.dataset else why,
        comparison_seeds=chosen.seeds,
        epochs=chosen.epochs,
        lr=chosen.lr,
        batch_size=chosen.batch_size,
        max_runs=settings.limits.max_runs,
        usual=dict(usual or {}),
    )


_settings: Settings | None = None


def set_settings(settings: Settings) -> None:
    """This process, and those it forks, work with these settings; called once at start."""
    global _settings
    _settings = settings


def load() -> None:
    """What answers need is imported, so that forked processes find it; the model's client where there is a model."""
    import agent.intake
    import agent.reporting  # noqa: F401

    if model_door(_settings or load_settings()) is not None:
        load_client()


def current() -> Desk:
    """The desk of this process; a forked one gets connections of its own."""
    return _desk(os.getpid())


@cache
def _desk(pid: int) -> Desk:
    settings = _settings or load_settings()
    client = store.connect(settings)
    return Desk(settings, client, Ledger(client))
