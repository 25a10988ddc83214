"""From the log and the end of an attempt to the cause of its failure: pure, and the rules are a table."""

from lab.diagnose.rules import CAUSES, Cause
from lab.diagnose.verdict import Diagnosis, diagnose

__all__ = ["CAUSES", "Cause", "Diagnosis", "diagnose"]
