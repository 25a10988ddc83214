"""The main job, end to end: a message in Slack becomes a report in its thread.

Everything is real but the cards (simulated, training on the CPU) and Slack's other side (the simulator): slack-bolt,
Valkey, RQ, the agent, the dispatcher, the keeper, torch. Slow by nature, so one night serves several tests.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from bot.simulator import Simulator
from lab import store
from lab.ledger import Ledger
from lab.plan import Plan
from lab.report import Report
from lab.run import FINAL_RUN, Answer, ExperimentState, RunState
from lab.settings import load
from terminal.cards import look
from terminal.demo import write_config
from terminal.stack import Stack

CHANNEL, ALICE = "C0LAB", "U0ALICE"
ASKED = "compare resnet18 vs mobilenetv3_small_050 on digits, 2 seeds, 2 epochs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@dataclass
class Night:
    """The running lab with the conversation's root and its report."""

    slack: Simulator
    stack: Stack
    ledger: Ledger
    ts: str = ""
    experiment_id: str = ""

    def thread(self) -> list[dict[str, Any]]:
        return self.slack.thread(CHANNEL, self.ts)

    def said(self) -> str:
        return "\n".join(self.slack.shown(message) for message in self.thread()[1:])


@pytest.fixture(scope="module")
def night() -> Iterator[Night]:
    with Simulator() as slack, tempfile.TemporaryDirectory(prefix="on-", ignore_cleanup_errors=True) as name:
        path = write_config(slack, Path(name), cards=4)
        settings = load(path)
        with Stack(settings, environ={"OVERNIGHT_CONFIG": str(path)}) as stack:
            stack.wait_ready(60, cards=3)
            slack.wait_connected(timeout_s=60)
            yield Night(slack, stack, Ledger(store.connect(settings)))


@pytest.fixture(scope="module")
def asked(night: Night) -> Night:
    """The plan card of the request stands in the thread."""
    night.ts = night.slack.say(CHANNEL, ALICE, f"<@{night.slack.workspace.bot.id}> {ASKED}")
    night.slack.wait_for(lambda: _card(night), 30, "a plan card")
    return night


@pytest.fixture(scope="module")
def morning(asked: Night) -> Night:
    """Run was pressed and the report has arrived."""
    asked.slack.press(CHANNEL, _card(asked)["ts"], "run", ALICE)
    asked.slack.wait_for(lambda: {f.name for f in asked.slack.files} >= {"curves.png", "report.md"}, 240, "the report")
    asked.experiment_id = asked.ledger.experiments()[0].id
    return asked


def _card(night: Night) -> dict[str, Any]:
    for message in night.thread():
        for block in message.get("blocks", []):
            if any(isinstance(e, dict) and e.get("action_id") == "run" for e in block.get("elements", [])):
                return message
    return {}


def test_the_plan_card_says_what_runs_and_what_was_assumed(asked: Night) -> None:
    """A person decides on this card; what he did not say must be there as assumed."""
    card = asked.slack.shown(_card(asked))

    assert "resnet18" in card
    assert "mobilenetv3_small_050" in card
    assert "4 runs = 2 models x 2 seeds" in card
    assert "assumed" in card.lower()
    assert "0.001" in card


@pytest.mark.timeout(420)
def test_a_message_becomes_a_report_in_its_thread(morning: Night) -> None:
    """The whole path at once: understood, approved, dispatched, trained by torch, judged, posted."""
    runs = morning.ledger.runs(morning.experiment_id)
    said = morning.said()

    assert [run.state for run in runs] == [RunState.FINISHED] * 4
    assert all(run.result and 0 < (run.result.metrics["val_acc"] or 0) <= 1 for run in runs)
    assert morning.ledger.experiment(morning.experiment_id).state is ExperimentState.FINISHED
    assert "val acc" in said
    assert "No winner can be named" in said
    assert "is better than" not in said  # two seeds never make a winner
    curves = next(f for f in morning.slack.files if f.name == "curves.png")
    assert curves.data is not None
    assert curves.data.startswith(b"\x89PNG")


@pytest.mark.timeout(600)
def test_two_more_seeds_run_only_those_and_the_report_holds_all(morning: Night) -> None:
    """The follow-up of the next morning costs the new runs alone, and is answered by all of them."""
    slack, ledger = morning.slack, morning.ledger
    slack.say(CHANNEL, ALICE, f"<@{slack.workspace.bot.id}> one more seed please", morning.ts)
    slack.wait_for(lambda: _card(morning), 60, "the second plan card")
    card = _card(morning)
    there = f"4 of 6 runs are there already ({morning.experiment_id}), 2 new"
    assert there in slack.shown(card)

    slack.press(CHANNEL, card["ts"], "run", ALICE)
    more = ledger.experiments()[-1]
    slack.wait_for(lambda: ledger.experiment(more.id).report_revision, 300, "the second report")

    runs = ledger.runs(more.id)
    assert [run.state for run in runs] == [RunState.FINISHED] * 6
    assert [run.reused_from for run in runs] == [*(f"{morning.experiment_id}/{n}" for n in range(1, 5)), None, None]
    assert [run.fence > 0 for run in runs] == [False] * 4 + [True] * 2
    report = Report.model_validate_json(ledger.report(more.id, 1) or "")
    assert report.n_ok == 6
    assert [row.n_ok for row in report.rows] == [3, 3]
    assert report.gpu_hours == pytest.approx(sum(run.used.gpu_s for run in runs[4:]) / 3600)
    assert any("4 of 6 runs were there already" in note for note in report.notes)
    slack.wait_for(lambda: f"2 from {morning.experiment_id}" in morning.said(), 60, "the second report in the thread")


@pytest.mark.timeout(420)
def test_runs_took_the_three_training_cards_and_never_the_reserved_one(morning: Night) -> None:
    """The keeper's card must not be given out, or nothing holds the machine."""
    used = {run.card for run in morning.ledger.runs(morning.experiment_id)}

    assert len(used) <= 3
    assert f"SIM-{morning.stack.settings.host}-3" not in used


@pytest.mark.timeout(420)
def test_the_bot_holds_no_torch_and_little_memory(morning: Night) -> None:
    """The bot stays up for months beside the trainings."""
    bot = _process(morning.stack, "bot")
    maps = Path(f"/proc/{bot.pid}/maps")

    assert bot.memory_info().rss < 150 * 2**20
    if maps.exists():
        assert "libtorch" not in maps.read_text()


def test_the_embedded_valkey_listens_on_no_tcp_port(night: Night) -> None:
    """It has no password: the socket file's mode is its lock."""
    socket = night.stack.settings.socket_path
    servers = [p for p in psutil.process_iter(["cmdline"]) if str(socket) in " ".join(p.info["cmdline"] or [])]

    assert len(servers) == 1
    assert not servers[0].net_connections("tcp")
    assert socket.stat().st_mode & 0o077 == 0
    assert socket.parent.stat().st_mode & 0o077 == 0


@pytest.mark.timeout(420)
def test_the_page_shows_the_thread_in_a_browser(morning: Night, tmp_path: Path) -> None:
    """People look at the page; it must show the report without a script error."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    url = morning.slack.link(CHANNEL, morning.thread()[1]["ts"], live=False)
    command = [CHROMIUM, *flags.split(), "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path}"]
    command += ["--virtual-time-budget=8000", "--dump-dom", url]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    assert "4 runs = 2 models x 2 seeds" in shown
    assert "No winner can be named" in shown
    assert "<table" in shown
    assert "curves.png" in shown


@pytest.mark.timeout(420)
def test_six_probe_runs_share_three_cards_and_the_table_shows_it(morning: Night) -> None:
    """Three at once, the fourth card is the keeper's, and people can see so."""
    ledger = morning.ledger
    request = ledger.submit("probe", "U0BOB", "terminal:test")
    assert request is not None
    plan = Plan(template="probe", models=("probe",), axes={"steps": (40,), "step_s": (0.1,), "seed": tuple(range(6))})
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment is not None
    ledger.approve(experiment.id, "U0BOB")
    most, table = 0, ""
    deadline = time.monotonic() + 120
    while any(run.state not in FINAL_RUN for run in ledger.runs(experiment.id)) and time.monotonic() < deadline:
        running = [run for run in ledger.runs(experiment.id) if run.state is RunState.RUNNING]
        assert len({run.card for run in running}) == len(running)
        if len(running) > most:
            most, table = len(running), look(morning.stack.settings).text()
        time.sleep(0.1)

    runs = ledger.runs(experiment.id)
    assert [run.state for run in runs] == [RunState.FINISHED] * 6
    assert most == 3
    assert table.count("training exp-") == 3
    assert "keeper" in table.splitlines()[4]
    assert "simulated" in table


def _process(stack: Stack, name: str) -> psutil.Process:
    """The process of a part, by its command line."""
    return next(
        p
        for p in psutil.process_iter(["cmdline", "ppid"])
        if (p.info["cmdline"] or [])[-2:] == ["overnight", name] and p.info["ppid"] == psutil.Process().pid
    )
