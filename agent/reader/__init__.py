"""Understands a message with no model: names, numbers, axes, intents, changes, and what has to be asked or refused."""

from agent.reader.commands import named
from agent.reader.read import read
from agent.reader.reading import PreviousPlan, Reading

__all__ = ["PreviousPlan", "Reading", "named", "read"]
