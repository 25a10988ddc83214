"""The one door to NVML: what the driver says about each card, where a bad card or field costs only itself."""

from __future__ import annotations

from keeper.nvml.driver import DriverCards

__all__ = ["DriverCards"]
