"""Names of models and data sets: which ones there are, what people call them, and which are nearest to a typo.

The lists come from catalog.json (written by catalog_generate, so that neither torch nor timm is loaded here) and from
aliases.json (kept by hand). Being in the catalogue means that the name is known, not that a host can train it.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from lab.names import squash as squash

Kind = Literal["model", "dataset"]
Source = Literal["timm", "torchvision", "outside"]

LONGEST_NAME = 8
"""Pieces of letters and digits that a name is made of at most: vit_small_patch16_224 has four."""
PIECE = re.compile(r"[A-Za-z0-9]+(?:\+{1,2}(?![A-Za-z0-9+]))?")
GAP = re.compile(r"[\s_\-./:]?")
LONGEST_TYPO = 40
"""Characters; the longest names of timm have 45, and comparing takes the square of the length."""
NEAR = 0.75
"""Similarity from which a name counts as a typo of another; lower ones suggest names that only look alike."""


@dataclass(frozen=True)
class Found:
    """A name found in a text, from `start` up to `end`."""

    start: int
    end: int
    kind: Kind
    name: str
    family: bool = False
    """True when the text named a family (`EfficientNet`) and the usual member of it stands for it."""


@dataclass(frozen=True)
class Catalog:
    """Every name, by its letters and digits alone."""

    names: dict[str, tuple[Kind, str]]
    families: dict[str, str]
    sources: dict[str, Source]
    outside: re.Pattern[str]
    han: re.Pattern[str]
    """The names with Chinese characters in them."""


@cache
def catalog() -> Catalog:
    """The catalogue, read once a process."""
    here = Path(__file__).parent
    listed = json.loads((here / "catalog.json").read_text(encoding="utf-8"))
    kept = json.loads((here / "aliases.json").read_text(encoding="utf-8"))
    names: dict[str, tuple[Kind, str]] = {}
    for source in ("torchvision", "timm"):
        names |= {squash(n): ("model", n) for n in listed[source]}
    tables: tuple[tuple[Kind, dict[str, list[str]]], ...] = (
        ("model", kept["families"]),
        ("model", kept["models"]),
        ("dataset", kept["datasets"]),
    )
    for kind, table in tables:
        for name, aliases in table.items():
            names |= {squash(a): (kind, name) for a in [*([] if table is kept["families"] else [name]), *aliases]}
    sources: dict[str, Source] = dict.fromkeys(listed["torchvision"], "torchvision")
    sources |= dict.fromkeys(listed["timm"], "timm")
    return Catalog(
        names=names,
        families={squash(a): name for name, aliases in kept["families"].items() for a in aliases},
        sources=sources,
        han=re.compile("|".join(sorted((n for n in names if not n.isascii()), key=len, reverse=True)), re.IGNORECASE),
        outside=re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(kept['outside'])})(?![A-Za-z0-9+])", re.IGNORECASE),
    )


def find(text: str) -> Iterator[Found]:
    """Every known name in the text from left to right, the longest first where several begin at one place; a Chinese
    one may hold another (`中文bert`), which comes after it."""
    yield from sorted((*_han(text), *_pieces(text)), key=lambda found: found.start)


def _han(text: str) -> Iterator[Found]:
    known = catalog()
    return (Found(*m.span(), *known.names[m[0].lower()]) for m in known.han.finditer(text))


def _pieces(text: str) -> Iterator[Found]:
    pieces = list(PIECE.finditer(text))
    index = 0
    while index < len(pieces):
        hit = _longest(text, pieces, index)
        if hit is None:
            index += 1
            continue
        found, index = hit
        yield found


def _longest(text: str, pieces: list[re.Match[str]], first: int) -> tuple[Found, int] | None:
    known, best = catalog(), None
    joined = ""
    for last in range(first, min(first + LONGEST_NAME, len(pieces))):
        if last > first and not GAP.fullmatch(text[pieces[last - 1].end() : pieces[last].start()]):
            break
        joined += pieces[last].group().lower()
        entry = known.names.get(joined)
        if entry:
            found = Found(pieces[first].start(), pieces[last].end(), *entry, family=joined in known.families)
            best = (found, last + 1)
    outside = known.outside.match(text, pieces[first].start())
    if outside and (best is None or outside.end() > best[0].end):
        name = re.sub(r"[\s_]+", "-", outside.group().lower())
        end = outside.end()
        return Found(outside.start(), end, "model", name), next(
            (i for i in range(first, len(pieces)) if pieces[i].start() >= end), len(pieces)
        )
    return best


def model(name: str) -> str | None:
    """The catalogue's name of a model; None when nobody knows it."""
    return _whole(name, "model")


def dataset(name: str) -> str | None:
    """The catalogue's name of a data set; None when nobody knows it."""
    return _whole(name, "dataset")


def _whole(name: str, kind: Kind) -> str | None:
    found = next(find(name), None)
    whole = found and found.kind == kind and squash(name[: found.start] + name[found.end :]) == ""
    return found.name if found and whole else None


def source(name: str) -> Source:
    """The library that has this model, timm before torchvision; `outside` when neither has."""
    return catalog().sources.get(name, "outside")


def trainable() -> dict[str, str]:
    """Every squashed way to write a model that the libraries here can build, and its name."""
    known = catalog()
    return {key: name for key, (kind, name) in known.names.items() if kind == "model" and name in known.sources}


def nearest(name: str, kind: Kind, count: int = 3, likeness: float = NEAR) -> list[str]:
    """Known names that look like this one, the nearest first; empty when none does."""
    if len(name) > LONGEST_TYPO:
        return []
    keys = [k for k, (its, _) in catalog().names.items() if its == kind]
    close = difflib.get_close_matches(squash(name), keys, n=count * 4, cutoff=likeness)
    return list(dict.fromkeys(catalog().names[k][1] for k in close))[:count]
