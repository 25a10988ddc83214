"""What a result depends on beside its run's configuration: whose code trained on which files, on what kind of card."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Provenance(BaseModel):
    """Two results of one configuration and one provenance stand for each other."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    code: str
    """Hash of the trainers' source and of the versions of the libraries that they use."""
    data: str | None = None
    """Fingerprint of the data set's files as that host had them; None for a set that comes with the code."""
    device: Literal["cuda", "cpu"] = "cuda"
    """`cpu` for a simulated card: there `precision auto` is another one, and speed and memory say something else."""
