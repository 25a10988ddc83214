"""`overnight doctor`: each part that Overnight stands on, tried once, with the key to fix."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from typing import Literal

from lab import hosts, store, tally
from lab.card import SERVING
from lab.errors import ConfigError, ModelError, OperatorError, OvernightError
from lab.run import Record
from lab.settings import Settings

DISK_LOW_BYTES = 5 * 2**30
"""Below this a night of checkpoints may not fit."""


class Finding(Record):
    """What one check found."""

    part: str
    state: Literal["ok", "off", "broken"]
    """`off` is a choice (no Slack tokens), not a fault."""
    detail: str
    key: str | None = None
    """The setting to look at."""

    def line(self) -> str:
        """`ok      redis: ...`"""
        hint = f" [{self.key}]" if self.key and self.state != "ok" else ""
        return f"{self.state:<7} {self.part}: {self.detail}{hint}"


Check = Callable[[Settings], Iterator[Finding]]


def examine(settings: Settings) -> list[Finding]:
    """Every check's findings; a check that breaks is itself a finding."""
    findings: list[Finding] = []
    for check in (_redis, _cards, _hosts, _model, _slack, _disk, _datasets, _ledger, _estimates):
        try:
            findings += check(settings)
        except (OvernightError, OSError) as error:
            findings.append(Finding(part=check.__name__.strip("_"), state="broken", detail=str(error)))
    return findings


def _redis(settings: Settings) -> Iterator[Finding]:
    client = store.connect(settings)
    where = "redis_url" if settings.redis_url else f"embedded Valkey at {settings.socket_path}"
    try:
        store.check(client, settings)
    except OvernightError as error:
        yield Finding(part="redis", state="broken", detail=str(error), key="redis_url")
        return
    info = client.info()
    version = f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {info['redis_version']}"
    yield Finding(part="redis", state="ok", detail=f"{where} answers ({version})")
    if info.get("maxmemory", 0) and info.get("maxmemory_policy") != "noeviction":
        yield Finding(
            part="redis",
            state="broken",
            detail=f"maxmemory-policy is {info['maxmemory_policy']}; set it to noeviction, or queued work may vanish",
            key="redis_url",
        )


def _cards(settings: Settings) -> Iterator[Finding]:
    from terminal.cards import read_here

    here = read_here(settings)
    if here.problem:
        yield Finding(part="cards", state="broken", detail=here.problem, key="gpu.simulate")
        return
    training = sum(card.role in SERVING for card in here.cards)
    kind = "simulated, training on the CPU" if here.simulated else "real"
    kept = "one reserved for the keeper" if any(c.role == "keeper" for c in here.cards) else "none reserved"
    yield Finding(part="cards", state="ok", detail=f"{len(here.cards)} here ({kind}): {training} to train on, {kept}")
    for card in here.cards:
        if card.problem:
            yield Finding(part="cards", state="broken", detail=f"card {card.index} ({card.uuid}): {card.problem}")


def _hosts(settings: Settings) -> Iterator[Finding]:
    client = store.connect(settings)
    try:
        up = hosts.hosts(client)
    except store.AWAY:
        return
    if not up:
        yield Finding(part="hosts", state="broken", detail="no host is up; start `overnight up` or `overnight work`")
    for host in up:
        yield Finding(part="hosts", state="ok", detail=f"{host.host} is up with {len(host.cards)} workers")


def _model(settings: Settings) -> Iterator[Finding]:
    from agent.desk import model_door

    door = model_door(settings)
    if door is None:
        detail = "no key: requests are understood without a language model"
        yield Finding(part="model", state="off", detail=detail, key="model.api_key")
        return
    try:
        door.propose("compare resnet18 and resnet34 on digits", None)
    except ModelError as error:
        yield Finding(part="model", state="broken", detail=f"{door.base_url}: {error}", key="model.base_url")
    else:
        yield Finding(part="model", state="ok", detail=f"{door.base_url}: {door.model} answers")


def _slack(settings: Settings) -> Iterator[Finding]:
    missing = [key for key in ("bot_token", "app_token") if getattr(settings.slack, key) is None]
    if missing:
        keys = ", ".join(f"slack.{key}" for key in missing)
        yield Finding(part="slack", state="off", detail=f"no {keys}: `overnight ask` is the entrance", key=keys)
        return
    from bot.app import check

    try:
        yield Finding(part="slack", state="ok", detail=f"both tokens are taken; the bot is {check(settings)}")
    except ConfigError as error:
        yield Finding(part="slack", state="broken", detail=error.problem, key=error.key)
    except OperatorError as error:
        yield Finding(part="slack", state="broken", detail=str(error), key="slack.api_url")


def _disk(settings: Settings) -> Iterator[Finding]:
    folder = settings.data_dir
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    low = free < DISK_LOW_BYTES
    yield Finding(
        part="disk",
        state="broken" if low else "ok",
        detail=f"{free / 2**30:.0f} GiB free below {settings.data_dir}{', too little for a night' if low else ''}",
        key="data_dir",
    )


def _datasets(settings: Settings) -> Iterator[Finding]:
    from workers.datasets import available

    found = available(settings.datasets, settings.datasets_root)
    present = [d.name for d in found if d.present]
    yield Finding(part="data", state="ok", detail=f"on this host: {', '.join(present)}", key="data_root")
    for dataset in found:
        if not dataset.present and dataset.name in settings.datasets:
            detail = f"{dataset.name}: {dataset.how_to_get}"
            yield Finding(part="data", state="broken", detail=detail, key=f"datasets.{dataset.name}")


def _ledger(settings: Settings) -> Iterator[Finding]:
    from terminal.agreement import examine

    try:
        seen = examine(settings, store.connect(settings))
    except store.AWAY:
        return
    for disagreement in seen.found:
        yield Finding(part="ledger", state="broken", detail=str(disagreement))
    if not seen.found:
        kept = f"{seen.n_runs} runs of {seen.n_experiments} experiments"
        yield Finding(part="ledger", state="ok", detail=f"{kept}; ledger and run directories agree")


def _estimates(settings: Settings) -> Iterator[Finding]:
    """How right the lengths of runs were told; nothing before the first."""
    try:
        told = tally.parse(store.connect(settings).hgetall(tally.KEY)).predictions
    except store.AWAY:
        return
    for basis, seen in sorted(told.items()):
        share, factor = seen.within_p90 / seen.runs, math.exp(seen.abs_log_error / seen.runs)
        what = "runs of known kinds" if basis == "known" else "runs of kinds that were new"
        right = f"{100 * share:.0f} % within p90 (90 wanted), p50 off by a factor of {factor:.2f} (mean)"
        yield Finding(part="estimates", state="ok", detail=f"{seen.runs} {what}: {right}")
