"""A strict local Slack: the real bot talks to it in tests and in the demo, and a browser can look on."""

from bot.simulator.simulator import Simulator

__all__ = ["Simulator"]
