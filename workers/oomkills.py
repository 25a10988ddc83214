"""How often the kernel has killed for want of memory: tells a trainer that ran out of it from one that was shot."""

from __future__ import annotations

from pathlib import Path

VMSTAT = Path("/proc/vmstat")
"""Counts `oom_kill` for the whole host, cgroup limits included, since Linux 4.13."""


def count(vmstat: Path = VMSTAT) -> int | None:
    """Kills so far on this host; None where the kernel does not tell."""
    try:
        lines = vmstat.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def since(before: int | None, vmstat: Path = VMSTAT) -> int | None:
    """Kills since `before`; None when either count is unknown."""
    now = count(vmstat)
    return None if before is None or now is None else max(0, now - before)
