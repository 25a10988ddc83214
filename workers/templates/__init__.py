"""The trainers that a run can be started with; a plan names one, and nothing outside this list is ever started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workers.templates.params import ProbeParams, TemplateParams, VisionParams


@dataclass(frozen=True)
class Template:
    """A trainer: `python -m <module> <attempt directory>` runs it."""

    name: str
    params: type[TemplateParams]
    module: str
    does: str
    checkpoints: bool = True
    """It writes checkpoints, also when it is told to stop, and its next attempt goes on from there."""

    def schema(self) -> dict[str, Any]:
        """The JSON schema of its parameters, as hosts publish it."""
        return self.params.model_json_schema()


TEMPLATES: dict[str, Template] = {
    template.name: template
    for template in (
        Template(
            "vision",
            VisionParams,
            "workers.templates.vision",
            "trains a timm or torchvision image classifier and evaluates it every epoch",
        ),
        Template(
            "probe",
            ProbeParams,
            "workers.templates.probe",
            "pretends to train for a few seconds, and fails in the way it is told to",
        ),
    )
}
