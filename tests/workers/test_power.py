"""Energy is said where the power is known, and not guessed elsewhere."""

from __future__ import annotations

import pytest

from lab.card import Card
from workers.power import Power


def card(uuid: str, power_mw: int | None, read_at: float = 100.0) -> Card:
    return Card(uuid=uuid, index=0, name="H200", host="lab-a", power_mw=power_mw, read_at=read_at)


def test_energy_is_mean_power_of_all_cards_times_seconds() -> None:
    """Two cards at 600 and 400 W, then 700 and 500 W, for ten seconds."""
    power = Power(("A", "B"))

    power.sample([card("A", 600_000), card("B", 400_000), card("C", 999_000)], 100)
    power.sample([card("A", 700_000), card("B", 500_000)], 100)

    assert power.energy_j(10) == pytest.approx(11_000)


@pytest.mark.parametrize(
    "readings",
    [
        [],
        [card("A", None), card("B", 400_000)],
        [card("A", 600_000)],
        [card("A", 600_000, read_at=80.0), card("B", 400_000)],
    ],
    ids=["none published", "one unknown", "one missing", "one old"],
)
def test_a_sample_that_is_not_whole_is_no_sample(readings: list[Card]) -> None:
    """Half of the cards is not half of an answer."""
    power = Power(("A", "B"))

    power.sample(readings, 100)

    assert power.energy_j(10) is None


def test_energy_is_unknown_when_most_samples_were() -> None:
    """One reading at the start of a night does not stand for the night; a short gap does no harm."""
    mostly, hardly = Power(("A",)), Power(("A",))

    for known in (True, True, False):
        mostly.sample([card("A", 500_000)] if known else [], 100)
    for known in (True, False, False):
        hardly.sample([card("A", 500_000)] if known else [], 100)

    assert mostly.energy_j(60) == 30_000
    assert hardly.energy_j(60) is None


def test_without_a_sample_there_is_no_energy() -> None:
    """An attempt of half a second ends before its first sample."""
    assert Power(("A",)).energy_j(0.5) is None
