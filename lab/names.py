"""Names of the models that can be trained, published by the agent, so that a form can say at once which one is none."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from lab.store import PREFIX, Client

KEY = f"{PREFIX}models"
"""A hash; every way to write a name, squashed, and the name."""
LIKENESS = 0.75
"""Similarity from which a name counts as a typo of another."""


def squash(name: str) -> str:
    """The name in lower case without separators: `ViT-B/16` and `vit_b_16` say the same."""
    return re.sub(r"[\s_\-./:]+", "", name.lower())


def publish(client: Client, names: Mapping[str, str]) -> None:
    """These are the names now: each squashed way to write one, and the name it stands for."""
    with client.pipeline() as pipe:
        pipe.delete(KEY)
        pipe.hset(KEY, mapping=dict(names))
        pipe.execute()


def find(client: Client, called: Iterable[str]) -> dict[str, str | None] | None:
    """What each of these is called properly, None for one that nobody knows; None where no names are published."""
    wanted = list(called)
    with client.pipeline(transaction=False) as pipe:
        pipe.exists(KEY)
        pipe.hmget(KEY, [squash(name) for name in wanted] or [""])
        published, found = pipe.execute()
    return dict(zip(wanted, found, strict=False)) if published else None


def nearest(client: Client, name: str, count: int = 3) -> list[str]:
    """Published names that look like this one, the nearest first."""
    known: dict[str, str] = client.hgetall(KEY)
    close = difflib.get_close_matches(squash(name)[:40], known, n=count * 4, cutoff=LIKENESS)
    return list(dict.fromkeys(known[key] for key in close))[:count]
