"""What a keeper is to do: settings and the platform's rule put together, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keeper.platforms import Platform, platform
from lab.errors import ConfigError
from lab.settings import KeeperSettings

Mode = Literal["touch", "duty"]

NO_PLATFORM = platform("none")
USUAL_WINDOW_S = 600.0
"""Over how long a threshold is checked that comes with no window."""


@dataclass(frozen=True)
class Policy:
    """How a card is kept.

    Attributes:
        interval_s: between two touches.
        threshold_pct: utilisation that the card has to stay above; None when nobody asks for any.
        window_s: over how long.
        margin_pct: how far above it mode `duty` aims.
        max_hold_s: when the card is let go; None is never.
        price_per_hour: of the card; None when nobody said.
    """

    mode: Mode = "touch"
    interval_s: float = 300.0
    platform: Platform = NO_PLATFORM
    threshold_pct: float | None = None
    window_s: float = USUAL_WINDOW_S
    margin_pct: float = 5.0
    max_hold_s: float | None = None
    price_per_hour: float | None = None

    @property
    def target_pct(self) -> float:
        """The utilisation at which mode `duty` aims."""
        return (self.threshold_pct or 0.0) + self.margin_pct

    def cost(self, held_s: float) -> float | None:
        """What so many seconds cost; None without a price."""
        return None if self.price_per_hour is None else held_s / 3600 * self.price_per_hour

    def terms(self) -> str:
        """What holding costs and when it ends, for the log."""
        ends = f"for at most {self.max_hold_s / 3600:g} h" if self.max_hold_s else "without an end"
        if self.price_per_hour is None:
            return f"{ends}; keeper.price_per_hour is not set, so its cost is not shown"
        most = f", {self.cost(self.max_hold_s):.2f} in all" if self.max_hold_s else ""
        return f"{ends}, at {self.price_per_hour:g} an hour{most}"


def policy(settings: KeeperSettings) -> Policy:
    """The policy that the settings ask for.

    Raises:
        ConfigError: the platform is unknown, or mode `duty` has no utilisation to aim at.
    """
    where = platform(settings.platform)
    threshold_pct = settings.threshold_pct if settings.threshold_pct is not None else where.threshold_pct
    if settings.mode == "duty" and threshold_pct is None and where.forbidden is None:
        raise ConfigError(
            "keeper.mode",
            f"duty has nothing to aim at: set keeper.threshold_pct ({where.title} looks at {where.what_is_seen})",
        )
    window_min = settings.window_min or where.window_min
    return Policy(
        mode=settings.mode,
        interval_s=settings.interval_s,
        platform=where,
        threshold_pct=threshold_pct,
        window_s=window_min * 60 if window_min else USUAL_WINDOW_S,
        margin_pct=settings.margin_pct,
        max_hold_s=settings.max_hold_hours * 3600 if settings.max_hold_hours else None,
        price_per_hour=settings.price_per_hour,
    )
