"""`overnight usage`: GPU-hours and energy of the runs that ended lately, by person, experiment or run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from lab import meter
from lab.run import Record, Spent
from lab.usage import Used

By = Literal["person", "experiment", "run"]
JOULES_PER_KWH = 3.6e6


class Share(Record):
    """What one person, experiment or run used."""

    name: str
    runs: int
    gpu_hours: float
    lost_gpu_hours: float
    """The part of that in attempts which were lost with their card, worker or host."""
    energy_kwh: float | None
    """Of the runs for which it is known; None where it is known for none."""
    energy_runs: int
    """For how many it is known."""
    simulated_runs: int
    """How many trained on simulated cards, and so used no GPU at all."""


def shares(used: Iterable[Used], by: By) -> list[Share]:
    """A share each, the largest first."""
    groups: dict[str, list[Used]] = {}
    for one in used:
        name = {"person": one.owner or "nobody", "experiment": one.experiment_id, "run": one.run_id}[by]
        groups.setdefault(name, []).append(one)
    return sorted((_share(name, group) for name, group in groups.items()), key=lambda s: (-s.gpu_hours, s.name))


def total(used: Iterable[Used]) -> Share:
    """All of it."""
    return _share("all", list(used))


def _share(name: str, group: list[Used]) -> Share:
    joules = [one.usage.energy_j for one in group if one.usage.energy_j is not None]
    return Share(
        name=name,
        runs=len(group),
        gpu_hours=round(sum(one.usage.gpu_s for one in group) / 3600, 4),
        lost_gpu_hours=round(sum(one.lost_gpu_s for one in group) / 3600, 4),
        energy_kwh=round(sum(joules) / JOULES_PER_KWH, 4) if joules else None,
        energy_runs=len(joules),
        simulated_runs=sum(one.simulated for one in group),
    )


def table(found: list[Share], all_: Share, by: By) -> Table:
    """The shares for a terminal, their sum below."""
    drawn = Table(by, "runs", "GPU-h", "energy", box=None, show_footer=True)
    for column, footer in zip(drawn.columns, _cells(all_), strict=True):
        column.footer = Text(footer, style="bold")
        column.justify = "left" if column is drawn.columns[0] else "right"
    for share in found:
        drawn.add_row(*(Text(cell) for cell in _cells(share)))
    return drawn


def notes(all_: Share, days: float) -> list[str]:
    """What to keep in mind when reading the numbers."""
    lines = [f"runs that ended in the last {days:g} days, with all their attempts"]
    if all_.lost_gpu_hours:
        lines.append(
            f"{all_.lost_gpu_hours:.2f} GPU-h went to attempts that were lost with their card, worker or host; "
            "their energy is not always known"
        )
    if all_.simulated_runs:
        lines.append(f"{all_.simulated_runs} of {all_.runs} runs trained on simulated cards: their hours are CPU time")
    if all_.energy_runs < all_.runs:
        lines.append(f"energy is known for {all_.energy_runs} of {all_.runs} runs")
    return lines


def model_lines(spent: Mapping[str, Spent]) -> list[str]:
    """What the language model took on those days (UTC), and who it worked for; nothing where it was not asked."""
    if meter.LAB not in spent:
        return []
    people = sorted((who for who in spent if who != meter.LAB), key=lambda who: (-spent[who].tokens, who))
    lines = [f"language model: {meter.words(spent[meter.LAB])}"]
    return lines + [f"  {who}: {meter.words(spent[who])}" for who in people]


def model_json(spent: Mapping[str, Spent]) -> dict[str, Any]:
    """The same for programs."""
    plain = {who: part.model_dump(mode="json", exclude={"schema_version"}) for who, part in spent.items()}
    return {"total": plain.pop(meter.LAB, None), "people": plain}


def _cells(share: Share) -> tuple[str, str, str, str]:
    energy = "-" if share.energy_kwh is None else f"{share.energy_kwh:.2f} kWh"
    if share.energy_kwh is not None and share.energy_runs < share.runs:
        energy += f" ({share.energy_runs} of {share.runs})"
    return share.name, str(share.runs), f"{share.gpu_hours:.2f}", energy
