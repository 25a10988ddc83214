"""`overnight ask` beyond experiments: what a terminal waits for."""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path

from rich.console import Console

from lab import freecards
from lab.card import Card
from lab.ledger import Ledger
from lab.run import Answer, RequestState
from lab.settings import Settings
from lab.store import Client
from terminal.ask import run


def test_who_asks_for_a_free_card_in_a_terminal_is_told_there(
    settings: Settings, store: Client, tmp_path: Path
) -> None:
    """A terminal that ended could be told nothing, so it waits."""
    ledger, out = Ledger(store), io.StringIO()

    def agent_and_alarm() -> None:
        until = time.monotonic() + 20
        while not (asked := ledger.requests(RequestState.RECEIVED)) and time.monotonic() < until:
            time.sleep(0.02)
        words = freecards.ask(ledger, asked[0].user, asked[0].conversation, time.time())
        ledger.answer(asked[0].id, Answer(kind="reply", text=words))
        time.sleep(0.5)
        (wish,) = freecards.wishes(store)
        freecards.tell(store, wish, [Card(uuid="GPU-2", index=2, name="H200", host="node07")])

    others = threading.Thread(target=agent_and_alarm)
    others.start()
    status = run(settings, store, Console(file=out, width=200), "tell me when a card is free", yes=False, out=tmp_path)
    others.join(20)

    assert status == 0
    assert out.getvalue().splitlines() == [
        "No card is free now. You will be told once, as soon as one is, within the next 24 hours.",
        "Free now: GPU 2 of node07 (H200).",
    ]
