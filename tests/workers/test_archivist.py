"""The leader archives what is old, one at a time, and goes on when one cannot be."""

from __future__ import annotations

import time

import pytest

from lab.archive import NAME
from lab.ledger import Ledger
from lab.settings import Settings
from tests.lab.test_archive import attempt
from tests.workers.under_test import Lab
from workers.archivist import DAY_S, LOOK_EVERY_S, Archivist


class Clock:
    """Monotonic seconds that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def end(lab: Lab) -> str:
    """Id of an experiment that ended just now."""
    experiment = lab.approve()
    lab.ledger.fail(f"{experiment.id}/1", attempt(lab.ledger, f"{experiment.id}/1"), "hang", "stuck")
    return experiment.id


def archived(ledger: Ledger) -> list[str]:
    """The experiments that are in files."""
    return [experiment.id for experiment in ledger.experiments() if experiment.archive]


def test_each_round_archives_one_of_those_that_ended_thirty_days_ago(lab: Lab, settings: Settings) -> None:
    """A year's worth at once would keep the leader from giving out cards."""
    old = [end(lab), end(lab)]
    clock = Clock()
    archivist = Archivist(lab.ledger, settings, clock)
    stages = []

    archivist.step(time.time() + 29 * DAY_S)
    stages.append(archived(lab.ledger))
    for _ in range(3):
        clock.now += LOOK_EVERY_S
        archivist.step(time.time() + 31 * DAY_S)
        stages.append(archived(lab.ledger))

    assert stages == [[], old[:1], old, old]
    assert all((settings.runs_dir / one / NAME).is_file() for one in old)


def test_one_that_cannot_be_archived_stops_no_other(
    lab: Lab, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told of, and tried again with the next look."""
    first, second = end(lab), end(lab)
    settings.runs_dir.mkdir(parents=True)
    (settings.runs_dir / first).write_text("in the way")
    archivist = Archivist(lab.ledger, settings)

    archivist.step(time.time() + 31 * DAY_S)
    archivist.step(time.time() + 31 * DAY_S)

    assert archived(lab.ledger) == [second]
    assert f"{first}: not archived" in caplog.text


def test_nothing_is_archived_where_that_is_switched_off(lab: Lab, settings: Settings) -> None:
    """Whoever has the memory may keep everything in Redis."""
    end(lab)

    Archivist(lab.ledger, settings.model_copy(update={"archive_days": 0.0})).step(time.time() + 400 * DAY_S)

    assert archived(lab.ledger) == []
