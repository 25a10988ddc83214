"""Logging of a process: one line a transition, ids first, no user text above debug."""

from __future__ import annotations

import logging
import sys


def setup(level: str, process: str) -> None:
    """Every logger of this process writes to standard error: time, level, process, message."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter(f"%(asctime)s %(levelname)-7s {process} %(message)s", datefmt="%Y-%m-%d %H:%M:%S")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("rq", "slack_bolt", "slack_sdk", "openai", "httpx", "matplotlib", "urllib3", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
