"""Prints how the vision template's training pace compares with a plain PyTorch loop that does the same work, as JSON.

Both train the same model on the same images in memory, in one process, in turns: template, bare, bare, template, ...
so that a busy host slows both alike. `ratio` is the median over neighbouring turns of template pace / bare pace; 0.95
is the aim. `ratio_fastest` compares the fastest turn of each: where the two differ much, the host was too busy to tell.

    python tests/bench/vision_vs_bare.py [--model test_resnet] [--pairs 16] [--steps 20] [--threads 1]
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import tempfile
import time
from pathlib import Path

import timm
import torch
import torch.nn.functional as F  # noqa: N812  the name that every torch user knows

from lab.run import RunSpec
from workers.templates import vision
from workers.templates.attempt import Attempt
from workers.templates.data import load
from workers.templates.params import VisionParams

BATCH = 64
LR = 1e-3
TARGET = 0.95


class Never:
    asked = False

    def save_wanted(self) -> bool:
        return False


def template_pace(folder: Path, spec: RunSpec) -> float:
    """Training samples a second of the template, as it reports them."""
    folder.mkdir(parents=True)
    (folder.parent / "spec.json").write_text(spec.model_dump_json())
    attempt = Attempt(folder)
    result = vision.train(attempt, attempt.params(VisionParams), Never())
    assert result is not None
    assert result.usage.samples_per_s is not None
    return result.usage.samples_per_s


def bare_pace(spec: RunSpec, device: torch.device) -> float:
    """Training samples a second of the loop that one writes by hand."""
    data = load(spec, VisionParams(batch_size=BATCH), device)
    images = torch.cat([i for i, _ in data.train.batches([torch.arange(len(data.train))])])
    labels = torch.cat([y for _, y in data.train.batches([torch.arange(len(data.train))])])
    model = timm.create_model(spec.model, num_classes=10).to(device).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-4, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, spec.max_steps or 1)
    model(torch.zeros(2, 3, 32, 32, device=device))
    model.train()

    steps = samples = 0
    total_loss = total_hits = torch.zeros((), device=device)
    began = time.monotonic()
    while steps < (spec.max_steps or 1):
        for index in torch.randperm(len(images)).to(device).split(BATCH):
            x = (images[index].float() - data.mean) / data.std
            x = F.interpolate(x.expand(-1, 3, -1, -1), (32, 32), mode="bilinear", antialias=True)
            x = x.contiguous(memory_format=torch.channels_last)
            y = labels[index]
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                logits = model(x)
                loss = F.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
            total_loss = total_loss + loss.detach()
            total_hits = total_hits + (logits.argmax(1) == y).sum()
            steps += 1
            samples += len(y)
            if steps == spec.max_steps:
                break
    total_loss.item()
    return samples / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="test_resnet")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    logging.disable(logging.INFO)
    spec = RunSpec(
        run_id="bench-1/1",
        template="vision",
        model=asked.model,
        dataset="digits",
        params={"lr": LR, "batch_size": BATCH, "val_share": 0.05},
        max_steps=asked.steps,
        device=device.type,
        threads=asked.threads,
    )
    torch.set_num_threads(asked.threads)
    ratios, templates, bares = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(-1, asked.pairs):  # the pair before the first warms up and does not count
            where = Path(folder) / str(pair) / "attempt-1"
            if pair % 2 == 0:
                template, bare = template_pace(where, spec), bare_pace(spec, device)
            else:
                bare, template = bare_pace(spec, device), template_pace(where, spec)
            if pair >= 0:
                ratios.append(template / bare)
                templates.append(template)
                bares.append(bare)
    ratio = statistics.median(ratios)
    figures = {
        "name": "vision_vs_bare",
        "model": asked.model,
        "device": device.type,
        "ratio": round(ratio, 4),
        "ratio_fastest": round(max(templates) / max(bares), 4),
        "ratios": [round(r, 3) for r in ratios],
        "template_samples_per_s": round(statistics.median(templates), 1),
        "bare_samples_per_s": round(statistics.median(bares), 1),
        "target": TARGET,
        "ok": ratio >= TARGET,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
