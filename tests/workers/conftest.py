"""Fixtures of the workers' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import hosts
from lab.ledger import Ledger
from lab.settings import Settings
from lab.store import Client
from tests.workers.under_test import Lab, cards_of


@pytest.fixture
def lab(settings: Settings, store: Client, ledger: Ledger) -> Iterator[Lab]:
    """A lab of one host with three training cards and a kept one; nothing runs until `start`."""
    hosts.publish_cards(store, cards_of(settings.host))
    under_test = Lab(settings, store, ledger)
    yield under_test
    under_test.close()
