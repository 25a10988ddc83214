"""When it is done, in Slack: on the progress card and in answers, by each reader's own clock."""

from __future__ import annotations

import re
import time

from lab import forecast
from lab.forecast import End, Forecast, Place, Queue
from lab.run import Answer
from lab.when import stamp
from tests.bot.conftest import ALICE, LAB, Scene

DATE = r"<!date\^(\d+)\^{time}\|[^>]+ UTC>"


def test_the_progress_card_tells_place_start_and_end_and_moves_on(scene: Scene) -> None:
    """Whoever waits looks there; Slack shows the moment in the reader's time zone."""
    root, experiment, plan = scene.planned()
    now = time.time()
    waits = {n: Place(n + 1, now + 720 + n, now + 900 + n) for n in (1, 2, 3, 4)}
    told = Forecast(waiting=waits, end=End(now + 3600, now + 7200))
    forecast.publish(scene.client, {experiment.id: told}, Queue(), 600.0)
    scene.slack.press(LAB, plan["ts"], "run", ALICE)
    card = scene.card(root, "cancel_experiment")

    scene.wait(lambda: "2nd in the queue, starts in about 12 min" in scene.now(card), "the place")
    shown = scene.now(card)
    found = re.search(rf"about 60 min left, done at about {DATE} \(nine times in ten by {DATE}\)", shown)
    assert found, shown
    assert int(found[1]) == int(now + 3600)
    assert "5th in the queue" in shown

    forecast.publish(scene.client, {experiment.id: Forecast(end=End(now + 50, now + 51))}, Queue(), 600.0)
    scene.wait(lambda: "in the queue" not in scene.now(card), "the queue to be over")


def test_a_moment_in_an_answer_is_on_the_readers_clock(scene: Scene) -> None:
    """The agent that wrote it knows no time zone."""
    root, request = scene.ask()
    scene.ledger.answer(request.id, Answer(kind="reply", text=f"exp-1: done at about {stamp(1_700_000_000)}"))
    shown = scene.slack.shown(scene.card(root, "done at about"))

    assert re.search(r"done at about <!date\^1700000000\^", shown), shown
