"""Silence asked for in words: about what and until when is read by code and said in the answer."""

from __future__ import annotations

from datetime import datetime

import pytest

from agent import commands
from agent.understand import understand
from keeper.alerts import Policy, step
from keeper.rules import Finding, load_rules
from lab import hosts
from lab.alert import Alerts, Silence
from lab.card import Card, HostCards
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, Experiment, Request

PLAN = Plan(models=("resnet18",), dataset="digits", axes={"seed": (0,)})


@pytest.fixture
def lab(ledger: Ledger) -> Ledger:
    """A lab with hosts node07 and lab-a, a card 0 each, and a card 3 on node07."""
    for name, indexes in (("node07", (0, 3)), ("lab-a", (0,))):
        cards = tuple(Card(uuid=f"GPU-{name}-{i}", index=i, name="X", host=name) for i in indexes)
        hosts.publish_cards(ledger.client, HostCards(host=name, cards=cards, published_at=1.0))
    return ledger


def ask(ledger: Ledger, text: str, before: tuple[Experiment, ...] = (), user: str = "U0ALICE") -> Answer:
    """Through the reader, as a message goes."""
    request = ledger.submit(text, user, "slack:T:C:1.1")
    assert request is not None
    understood = understand(text)
    assert understood.intent == "silence", understood
    return commands.carry_out(understood, request, before, ledger)


def experiment(ledger: Ledger) -> Experiment:
    request: Request | None = ledger.submit("compare", "U0ALICE", "slack:T:C:1.1")
    assert request is not None
    made = ledger.propose(request.id, PLAN, None, Answer(kind="plan"))
    assert made is not None
    return made


def silences(ledger: Ledger) -> list[Silence]:
    return list(Alerts(ledger.client).board().silences.values())


def test_an_experiment_until_tonight(lab: Ledger) -> None:
    """The issue's first sentence."""
    found = experiment(lab)
    answer = ask(lab, f"be quiet about {found.id} until tonight")
    silence = silences(lab)[0]
    until = datetime.fromtimestamp(silence.until).astimezone()

    assert (silence.scope, silence.subject, silence.by) == ("experiment", found.id, "U0ALICE")
    assert answer.kind == "reply"
    assert f"Quiet about {found.id} until {until:%Y-%m-%d %H:%M}" in answer.text
    assert "Critical hardware alerts are still sent" in answer.text
    assert (until.hour, until.minute) in ((20, 0), (8, 0))


def test_a_host_under_repair_in_chinese(lab: Ledger) -> None:
    """The issue's second sentence: today means until midnight."""
    answer = ask(lab, "node07 在修，今天别提醒了")
    silence = silences(lab)[0]
    until = datetime.fromtimestamp(silence.until)

    assert (silence.scope, silence.subject) == ("host", "node07")
    assert (until.hour, until.minute) == (0, 0)
    assert "node07" in answer.text
    assert "严重硬件告警仍会发送" in answer.text
    assert f"{until:%Y-%m-%d %H:%M}" in answer.text


@pytest.mark.parametrize(
    ("text", "scope", "subject"),
    [
        ("silence the temperature alerts tonight", "rule", "too_hot"),
        ("pls stop the disk alerts until monday", "rule", "disk_low"),
        ("snooze the temp alert on gpu 3 for 1h", "card", "GPU-node07-3"),
        ("mute gpu 0 of lab-a for 2 hours", "card", "GPU-lab-a-0"),
        ("mute all alerts for 2 hours", "all", ""),
        ("don't ping me until tomorrow 9am", "owner", "U0ALICE"),
        ("静音到明天早上", "owner", "U0ALICE"),
        ("mute alerts for lab-a for 3 hours", "host", "lab-a"),
    ],
)
def test_what_a_silence_is_about(lab: Ledger, text: str, scope: str, subject: str) -> None:
    """Nothing named means the asker's own: nobody silences the lab by leaving a word out."""
    ask(lab, text)

    assert [(s.scope, s.subject) for s in silences(lab)] == [(scope, subject)]


def test_in_a_thread_it_is_the_threads_experiment(lab: Ledger) -> None:
    """`mute this thread`"""
    found = experiment(lab)
    ask(lab, "mute this thread", (found,))

    assert [(s.scope, s.subject) for s in silences(lab)] == [("experiment", found.id)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mute gpu 0 for 2 hours", "of which host: lab-a, node07?"),
        ("mute gpu 9 for 2 hours", "There is no GPU 9"),
        ("be quiet about exp-999 until tonight", "exp-999"),
    ],
)
def test_what_is_not_there_or_is_several_is_asked_about(lab: Ledger, text: str, says: str) -> None:
    """A silence about the wrong thing is worse than a question."""
    answer = ask(lab, text)

    assert answer.kind == "question"
    assert says in answer.text
    assert silences(lab) == []


def test_it_counts_what_is_open_and_ends_when_told(lab: Ledger) -> None:
    """The answer says what is hidden now; `unmute` ends what the asker asked for."""
    rule = next(rule for rule in load_rules({})[0] if rule.name == "disk_low")
    labels = {"host": "node07"}
    Alerts(lab.client).change(
        lambda board: step(board, [Finding(rule, "node07", "firing", labels, "x", "x")], Policy(0.0), 1.0)
    )
    answer = ask(lab, "mute alerts of node07 for 2 hours")
    ask(lab, "mute all alerts for 2 hours", user="U0BEN")
    again = ask(lab, "unmute alerts")
    nothing = ask(lab, "unmute alerts")

    assert "1 of its alerts is open now" in answer.text
    assert again.text == "Alerts are told again: node07."
    assert nothing.text == "Nothing of that is silenced."


def test_a_silence_is_no_longer_than_a_month(lab: Ledger) -> None:
    """Nobody remembers it after that."""
    ask(lab, "mute alerts for 900 days")
    silence = silences(lab)[0]

    assert silence.until - silence.at == pytest.approx(30 * 86_400, abs=7200)
