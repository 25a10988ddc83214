"""Cards in quarantine are seen as such, and an operator takes one out or puts one in."""

from __future__ import annotations

import pytest

from lab import hosts
from lab.errors import RequestError
from lab.ledger import Ledger
from lab.settings import Settings
from lab.store import Client
from terminal.cards import look
from terminal.quarantine import document, lift, lines, put, quarantined
from tests.workers.under_test import cards_of


@pytest.fixture
def two_hosts(store: Client) -> None:
    for name in ("lab-a", "lab-b"):
        hosts.publish_cards(store, cards_of(name, train=2))


@pytest.mark.usefixtures("two_hosts")
def test_the_table_of_cards_says_why_and_for_how_long(ledger: Ledger, settings: Settings) -> None:
    """It read FREE, and no run came."""
    ledger.quarantine("SIM-lab-a-0", "exp-3/1: uncorrectable ECC error", 3600)

    seen = look(settings)
    (line, free, *_) = [line for line in seen.text().splitlines() if "Simulated card" in line]

    assert line.endswith("← in quarantine for 60 min: exp-3/1: uncorrectable ECC error")
    assert free.endswith("← FREE")
    assert "in quarantine" in seen.document()["hosts"][0]["cards"][0]["not_free"]


@pytest.mark.usefixtures("two_hosts")
def test_an_operator_lifts_a_quarantine(ledger: Ledger) -> None:
    """The fault was a loose cable, and an hour of eight cards is worth something."""
    ledger.quarantine("SIM-lab-b-1", "Xid 79", 3600)

    said = [lift(ledger, "lab-b/1"), lift(ledger, "SIM-lab-b-1")]

    assert said == ["lab-b/1 (SIM-lab-b-1) may be used again", "lab-b/1 (SIM-lab-b-1) was in no quarantine"]
    assert list(lines(quarantined(ledger))) == ["no card is in quarantine"]


@pytest.mark.usefixtures("two_hosts")
def test_an_operator_puts_a_card_into_quarantine(ledger: Ledger) -> None:
    """Before a fan is changed."""
    said = put(ledger, "lab-a/1", 2, "ann changes its fan")

    assert said == "lab-a/1 (SIM-lab-a-1) gets no new run for 2 h; a run on it goes on"
    assert list(lines(quarantined(ledger))) == ["lab-a/1: in quarantine for 2.0 h: ann changes its fan"]
    assert document(quarantined(ledger)) == [{"card": "lab-a/1", "why": "ann changes its fan", "left_s": 7200}]


@pytest.mark.usefixtures("two_hosts")
@pytest.mark.parametrize(("name", "many"), [("lab-c/1", "no"), ("SIM-lab-b", "3"), ("1", "no")])
def test_a_name_of_no_card_or_of_several_is_refused(name: str, many: str, ledger: Ledger) -> None:
    """The wrong card would be taken out, or none without a word."""
    with pytest.raises(RequestError, match=f"{name} names {many} card"):
        lift(ledger, name)
