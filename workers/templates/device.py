"""The device that a run of `vision` trains on: how it is opened, what it has used, and what a result depends on."""

from __future__ import annotations

import platform
import random
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from lab.errors import OperatorError
from lab.run import RunSpec, Usage
from workers.templates.data import Data
from workers.templates.models import versions
from workers.templates.params import VisionParams
from workers.templates.saved import Position


def open_device(spec: RunSpec) -> torch.device:
    """The one visible card, or the CPU where the spec says that the card is simulated.

    Raises:
        OperatorError: the spec wants a card and torch sees none; training on the CPU all night would hide it.
    """
    if spec.threads:
        torch.set_num_threads(spec.threads)
    if spec.device == "cuda" and not torch.cuda.is_available():
        raise OperatorError(f"{spec.run_id}: the run is bound to a card, but torch {torch.__version__} sees none")
    return torch.device(spec.device)


def precision_for(params: VisionParams, device: torch.device) -> str:
    """The precision of training, `auto` made definite."""
    if params.precision != "auto":
        return params.precision
    if device.type != "cuda":
        return "fp32"
    return "amp_bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "amp_fp16"


def seed_everything(seed: int) -> None:
    """Every generator that a model or a library may draw from starts from the seed."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def memory(device: torch.device) -> dict[str, int]:
    """Memory of a card as torch's allocator sees it: NVML cannot see how fragmented it is. Empty on the CPU."""
    if device.type != "cuda":
        return {}
    stats = torch.cuda.memory_stats()
    return {
        "allocated_bytes": stats["allocated_bytes.all.current"],
        "reserved_bytes": stats["reserved_bytes.all.current"],
        "inactive_split_bytes": stats["inactive_split_bytes.all.current"],
    }


def usage(position: Position, device: torch.device) -> Usage:
    """Memory and pace; the seconds on the card are the launcher's to count."""
    on_gpu = device.type == "cuda"
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
    return Usage(
        peak_memory_bytes=torch.cuda.max_memory_allocated() if on_gpu else peak_kib * 1024,
        memory_kind="gpu" if on_gpu else "host",
        samples_per_s=position.samples / position.train_s if position.train_s else None,
    )


def describe(device: torch.device, precision: str, data: Data) -> dict[str, str]:
    """What the result depends on beside the spec."""
    card = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    return {
        **versions(),
        "python": platform.python_version(),
        "card": card,
        "precision": precision,
        "image_size": str(data.image_size),
        "augment": data.augment,
        "validation": data.held_out,
        "revision": revision(),
    }


def revision() -> str:
    """The commit of this source tree, `unknown` outside a checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return "unknown"
    command = ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return found.stdout.strip() or "unknown"
