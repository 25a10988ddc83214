"""`overnight doctor`: each part that Overnight stands on, tried once, with the key to fix."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Literal

from lab import hosts, store, tally
from lab.card import SERVING, Host, HostCards
from lab.errors import ConfigError, ModelError, OvernightError
from lab.run import Record
from lab.settings import Settings

DISK_LOW_BYTES = 5 * 2**30
"""Below this a night of checkpoints may not fit."""


SKEW_S = 2.0
"""Clocks further apart than this are told of, long before readings count as old (15 s)."""

State = Literal["ok", "off", "broken"]


class Finding(Record):
    """What one check found."""

    part: str
    state: State
    """`off` is a choice (no Slack tokens), not a fault."""
    detail: str
    key: str | None = None
    """The setting to look at."""

    def line(self) -> str:
        """`ok      redis: ...`"""
        hint = f" [{self.key}]" if self.key and self.state != "ok" else ""
        return f"{self.state:<7} {self.part}: {self.detail}{hint}"


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
    failing = [name for name in ("aof_last_write_status", "rdb_last_bgsave_status") if info.get(name, "ok") != "ok"]
    if failing:
        detail = f"it cannot write its file ({', '.join(failing)}) and takes nothing new; is its disk full?"
        yield Finding(part="redis", state="broken", detail=detail, key="redis_url")
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
        up, cards = hosts.hosts(client), hosts.cards(client)
        now = _clock(client)
    except store.AWAY:
        return
    if not up:
        yield Finding(part="hosts", state="broken", detail="no host is up; start `overnight up` or `overnight work`")
    for host in up:
        yield _serves(host, next((found for found in cards if found.host == host.host), None))
    yield from _space(up, settings)
    yield from _versions(up)
    published = {c.host: c.published_at for c in cards} | {h.host: h.published_at for h in up}
    yield from _clocks(now - time.time(), published, now)


def _serves(host: Host, cards: HostCards | None) -> Finding:
    """Whether the host has workers; if not, why."""
    if host.cards:
        n = len(host.cards)
        return Finding(part="hosts", state="ok", detail=f"{host.host} is up with {n} worker{'s' * (n != 1)}")
    why = "none of its cards may train, see `overnight cards`"
    if cards is None:
        why = "nobody publishes its cards; start `overnight keep` on it"
    elif cards.problem:
        why = cards.problem
    return Finding(part="hosts", state="broken", detail=f"{host.host} is up with 0 workers: {why}", key="gpu")


def _space(up: Sequence[Host], settings: Settings) -> Iterator[Finding]:
    """Hosts with little room; the disk of this one is looked at by itself."""
    for host in up:
        free, limit = host.disk_free_bytes, settings.run.disk_low_gb * 2**30
        if host.host == settings.host or free is None or free >= max(limit, DISK_LOW_BYTES):
            continue
        detail = f"{host.host} has {free / 2**30:.1f} GiB free"
        if free < limit:
            detail += f", less than {settings.run.disk_low_gb:g}: it starts no run, and those that it has are paused"
        yield Finding(part="hosts", state="broken", detail=f"{detail}; make room on it", key="run.disk_low_gb")


def _versions(up: Sequence[Host]) -> Iterator[Finding]:
    """Two versions side by side are for the minutes of an upgrade."""
    here = metadata.version("overnight")
    others = [f"{host.host} runs {host.version}" for host in up if host.version != here]
    if others:
        detail = f"{', '.join(others)}, this machine {here}; finish the upgrade (pull, `make .venv`, start again)"
        yield Finding(part="hosts", state="broken", detail=detail)


def _clocks(ahead_s: float, published: Mapping[str, float], now: float) -> Iterator[Finding]:
    """Clocks that differ: readings older than 15 s count for nothing, and those from the future no more.

    Args:
        ahead_s: by how much Redis' clock is ahead of this machine's.
        published: by each host's own clock, and `now` on Redis' one; a host that is merely silent is not told from one
            whose clock is behind, and shown by `overnight cards`.
    """
    if abs(ahead_s) > SKEW_S:
        way = "behind" if ahead_s > 0 else "ahead of"
        detail = f"this machine is {abs(ahead_s):.0f} s {way} Redis' one; set both by NTP"
        yield Finding(part="clock", state="broken", detail=detail)
    for host, at in published.items():
        if at - now > SKEW_S:
            detail = f"{host} is {at - now:.0f} s ahead of Redis' clock; set both by NTP"
            yield Finding(part="clock", state="broken", detail=detail)


def _clock(client: store.Client) -> float:
    """Redis' seconds since the epoch. Raises one of store.AWAY."""
    seconds, microseconds = client.time()
    return float(seconds + microseconds / 1e6)


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
    if len(missing) == 2:
        keys = ", ".join(f"slack.{key}" for key in missing)
        yield Finding(part="slack", state="off", detail=f"no {keys}: `overnight ask` is the entrance", key=keys)
        return
    from bot.app import check

    name, wrong = check(settings)
    for error in wrong:
        named = (error.problem, error.key) if isinstance(error, ConfigError) else (str(error), "slack.api_url")
        yield Finding(part="slack", state="broken", detail=named[0], key=named[1])
    if not wrong:
        yield Finding(part="slack", state="ok", detail=f"both tokens are taken; the bot is {name}")


def _disk(settings: Settings) -> Iterator[Finding]:
    folder = settings.data_dir
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    detail = f"{free / 2**30:.1f} GiB free below {settings.data_dir}"
    if free < settings.run.disk_low_gb * 2**30:
        detail += f", less than {settings.run.disk_low_gb:g} (run.disk_low_gb): nothing is started here; make room"
    elif free < DISK_LOW_BYTES:
        detail += ", too little for a night of checkpoints; make room"
    state: State = "broken" if "make room" in detail else "ok"
    yield Finding(part="disk", state=state, detail=detail, key="data_dir")


def _datasets(settings: Settings) -> Iterator[Finding]:
    from workers.datasets import available

    found = available(settings.datasets, settings.datasets_root)
    present = [d.name for d in found if d.present]
    if settings.data_root is not None and not settings.data_root.is_dir():
        detail = f"{settings.data_root} is no folder; make it or name the one that holds torchvision's data sets"
        yield Finding(part="data", state="broken", detail=detail, key="data_root")
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
