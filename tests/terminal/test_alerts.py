"""`overnight alerts`: where a lab without Slack reads what is wrong."""

from __future__ import annotations

import io

from rich.console import Console

from keeper.alerts import Policy, step
from keeper.rules import Finding, load_rules
from lab.alert import Alerts
from lab.store import Client
from terminal.alerts import show_alerts

NOW = 1_700_000_000.0
RULES = {rule.name: rule for rule in load_rules({})[0]}


def find(store: Client, rule: str, at: float, verdict: str = "firing") -> None:
    labels = {"host": "node07", "card": "GPU-1"}
    found = Finding(RULES[rule], "GPU-1", verdict, labels, "GPU 1: \x1b[31mgone", f"{rule} on node07", "look")  # type: ignore[arg-type]
    Alerts(store).change(lambda board: step(board, [found], Policy(0.0), at))


def printed(store: Client, now: float) -> list[str]:
    out = io.StringIO()
    show_alerts(store, Console(file=out, soft_wrap=True), now)
    return out.getvalue().splitlines()


def test_open_ones_come_first_with_what_helps_and_old_ones_go(store: Client) -> None:
    """The gravest on top, then what is over since yesterday."""
    find(store, "disk_low", NOW)
    find(store, "card_lost", NOW + 60)
    find(store, "host_silent", NOW)
    find(store, "host_silent", NOW + 120, "clear")
    Alerts(store).be_quiet("host", "node07", NOW + 9000, "alice", NOW + 200)
    lines = printed(store, NOW + 300)
    document = show_alerts(store, None, NOW + 300)

    assert [line.split("  ")[1].strip() for line in lines if line.startswith("al-")] == [
        "critical",
        "warning",
        "resolved",
    ]
    assert lines[1:3] == ["    GPU 1:  [31mgone", "    look"]
    assert "silenced until" in next(line for line in lines if "disk_low" in line)
    assert "silenced until" not in lines[0]
    assert lines[-1].startswith("quiet about node07 until")
    assert [alert["rule"] for alert in document["alerts"]] == ["card_lost", "disk_low", "host_silent"]
    assert len(show_alerts(store, None, NOW + 200_000)["alerts"]) == 2


def test_a_lab_in_order_says_so(store: Client) -> None:
    """An empty screen could mean anything."""
    assert printed(store, NOW) == ["no alert now, none since yesterday"]
    assert show_alerts(store, None, NOW) == {"alerts": [], "silences": []}
