"""When a search looks whether a run is hopeless: words of the plan card and rule of the leader at once."""

from __future__ import annotations

REDUCTION = 3
"""Of the runs that reach a rung the best third goes on (Li et al. 2020, arXiv:1810.05934: eta of 3 or 4)."""
LEFT_ALONE = 2 / 3
"""Share of the epochs after which a run is left to finish: stopping it saves little."""


def rungs(epochs: int) -> list[int]:
    """The epochs 1, 3, 9, ... at which successive halving looks at runs of so many epochs."""
    found = [1]
    while found[-1] * REDUCTION < epochs * LEFT_ALONE:
        found.append(found[-1] * REDUCTION)
    return found
