"""A host whose disk is full: it starts nothing, its runs pause, and they go on when there is room again."""

from __future__ import annotations

from collections.abc import Iterable

from lab.card import Host
from lab.language import Phrasebook
from lab.settings import Settings
from workers.host import disk_free

ROOM = 1.25
"""A host counts as having room again at so many times the limit, so that runs do not go back and forth."""


def is_full(settings: Settings) -> bool:
    """True when this host has less room than `run.disk_low_gb`; False when that cannot be told."""
    free = disk_free(settings)
    return free is not None and free < _limit(settings)


WORDS = Phrasebook(
    {
        "full": (
            "The disk of {host} is full (less than {low} GiB): its runs are paused with a checkpoint, and go on by "
            "themselves when there is room again.",
            "{host} 的磁盘满了（不足 {low} GiB）：它的 run 已存检查点并暂停，有空间后会自动继续。",
        ),
    }
)


def full_hosts(hosts: Iterable[Host], settings: Settings, before: frozenset[str] = frozenset()) -> frozenset[str]:
    """Names of the hosts that are full, by what they published; one of `before` only when it has some room to spare."""
    limits = {True: ROOM * _limit(settings), False: float(_limit(settings))}
    return frozenset(
        host.host
        for host in hosts
        if host.disk_free_bytes is not None and host.disk_free_bytes < limits[host.host in before]
    )


def message(host: str | None) -> str:
    """What a run says that was paused for it; recovery knows those runs by this."""
    return f"the disk of {host} is full"


def notice(host: str, settings: Settings, chinese: bool) -> str:
    """What people are told once an experiment."""
    return WORDS.say("full", chinese, host=host, low=f"{settings.run.disk_low_gb:g}")


def _limit(settings: Settings) -> int:
    return round(settings.run.disk_low_gb * 2**30)
