"""On what this host's runs train: the code of the trainers and the files of the data sets, as fingerprints.

Nothing here imports torch, and no file of a data set is read: a look takes milliseconds, also over a network.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterable
from pathlib import Path

from lab.provenance import Provenance
from lab.run import RunSpec
from lab.settings import Settings
from workers import datasets

HERE = Path(__file__).parent
SOURCES = (HERE / "templates", HERE / "checkpoint.py", HERE / "datasets.py")
"""Files and folders of everything of ours that runs in a trainer, the contracts in lab/ left out."""
LIBRARIES = ("torch", "torchvision", "timm", "scikit-learn")
"""What trainers use and what may change a result; hosts publish their versions."""


def version(library: str) -> str | None:
    """The installed version, by its metadata alone; None when it is not installed."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def code(sources: Iterable[Path] = SOURCES) -> str:
    """Hash of the trainers' source as it is on disk now, which the next trainer loads, and of their libraries."""
    digest = hashlib.sha256(repr([(name, version(name)) for name in LIBRARIES]).encode())
    for source in sources:
        for file in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            text = file.read_bytes()
            digest.update(f"{file.relative_to(source.parent)} {len(text)}\n".encode() + text)
    return digest.hexdigest()[:16]


def stated(spec: RunSpec, before: RunSpec | None, settings: Settings) -> RunSpec:
    """The spec of an attempt that starts now, with its provenance.

    Args:
        before: the spec of the attempt whose checkpoints it goes on from: where code or data changed between them,
            nobody can say what the result comes from.
    """
    data = datasets.fingerprint(spec.dataset, settings.datasets, settings.datasets_root) if spec.dataset else None
    here = Provenance(code=code(), data=data, device="cpu" if spec.device == "cpu" else "cuda")
    return spec.model_copy(update={"provenance": None if before and before.provenance != here else here})
