"""Writes catalog.json, every timm and torchvision classifier, and lab/costs.json, what the common ones cost.

Run by hand after an upgrade of timm or torchvision: `python -m agent.catalog_generate`. It needs torch; nothing that
runs in the agent does.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from lab.costs import NATIVE_SIZE

OUTPUT = Path(__file__).with_name("catalog.json")
COSTS = Path(__file__).parents[1] / "lab" / "costs.json"
MEASURED = re.compile(
    r"(resnet|resnext|wide_resnet|efficientnet|tf_efficientnet|mobilenet|densenet|vit_(tiny|small|base|large)_patch\d+_224$"
    r"|vit_b_|vit_l_|vgg|convnext|shufflenet"
    r"|swin_(tiny|small|base|t|s|b)|deit_|regnet"
    r"|squeezenet|alexnet|googlenet|mnasnet"
    r"|inception_v3|mixer_(s|b)|xception)"
)


def measure(model: Any) -> tuple[int, int]:
    """Parameters and multiply-adds of one 224-pixel image; on the meta device nothing is computed."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    model.eval()
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model(torch.empty(1, 3, NATIVE_SIZE, NATIVE_SIZE, device="meta"))
    # The counter counts a multiply-add as two operations.
    return sum(p.numel() for p in model.parameters()), counter.get_total_flops() // 2


def measure_all(timm_names: list[str], torchvision_names: list[str]) -> dict[str, tuple[int, int]]:
    """Costs by name; a model that cannot be built on the meta device at 224 pixels is left out."""
    import timm
    import torch
    import torchvision

    makers = {n: torchvision.models.get_model for n in torchvision_names} | {n: timm.create_model for n in timm_names}
    costs = {}
    for name, make in makers.items():
        if not MEASURED.match(name):
            continue
        try:
            with torch.device("meta"):
                model = make(name)
            costs[name] = measure(model)
        except Exception as error:  # noqa: BLE001  a missing figure is no reason to stop
            print(f"{name}: not measured ({type(error).__name__})")
    return costs


def main() -> None:
    """Write both files."""
    import timm
    import torchvision

    timm_names = [n for n in timm.list_models() if not n.startswith("test_")]
    torchvision_names = torchvision.models.list_models(module=torchvision.models)
    costs = measure_all(timm_names, torchvision_names)
    _write(OUTPUT, {"timm": timm_names, "torchvision": torchvision_names})
    _write(COSTS, {k: list(v) for k, v in sorted(costs.items())})
    print(f"{len(timm_names)} timm, {len(torchvision_names)} torchvision, {len(costs)} measured")


def _write(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
