"""The doctor names everything that is wrong, with the key to fix, and nothing that is not."""

from __future__ import annotations

import time
from collections import namedtuple
from pathlib import Path

import pytest
from pydantic import SecretStr

from bot.simulator import Simulator
from lab import hosts
from lab.card import Host, HostCards
from lab.settings import Settings, SlackSettings
from lab.store import Client
from terminal import doctor
from terminal.doctor import Finding, examine
from tests.workers.under_test import cards_of
from workers.provenance import version

HERE = version("overnight") or ""
Usage = namedtuple("Usage", "total used free")


def host(name: str = "lab-a", **changed: object) -> Host:
    """A host that is well."""
    well = Host(host=name, version=HERE, cards=(f"SIM-{name}-0",), disk_free_bytes=2**40, published_at=time.time())
    return well.model_copy(update=changed)


def found(settings: Settings, part: str) -> list[Finding]:
    """What is said of a part."""
    return [finding for finding in examine(settings) if finding.part == part]


def broken(settings: Settings, part: str) -> list[str]:
    """The details of what is wrong with a part."""
    return [finding.detail for finding in found(settings, part) if finding.state == "broken"]


def test_a_lab_that_is_well_has_nothing_broken(settings: Settings, store: Client) -> None:
    """A finding that is always there is read by nobody."""
    hosts.publish_host(store, host())
    hosts.publish_cards(store, cards_of("lab-a"))

    assert [finding.line() for finding in examine(settings) if finding.state == "broken"] == []


def test_a_data_root_that_is_not_there_is_named(settings: Settings, store: Client, tmp_path: Path) -> None:
    """Its data sets are missing, and the reason is a typing error."""
    nowhere = settings.model_copy(update={"data_root": tmp_path / "nowhere"})

    (finding,) = [f for f in found(nowhere, "data") if f.state == "broken"]

    assert finding.key == "data_root"
    assert str(tmp_path / "nowhere") in finding.detail


@pytest.mark.parametrize(
    ("cards", "why"),
    [
        (None, "nobody publishes its cards; start `overnight keep` on it"),
        (HostCards(host="lab-a", problem="the driver is gone"), "the driver is gone"),
        (cards_of("lab-a", train=0), "none of its cards may train, see `overnight cards`"),
    ],
)
def test_a_host_without_workers_is_not_well(
    cards: HostCards | None, why: str, settings: Settings, store: Client
) -> None:
    """It is up, and no run will ever start there."""
    hosts.publish_host(store, host(cards=()))
    if cards is not None:
        hosts.publish_cards(store, cards)

    assert broken(settings, "hosts") == [f"lab-a is up with 0 workers: {why}"]


def test_both_tokens_that_slack_refuses_are_named(settings: Settings, store: Client) -> None:
    """Else the second one is found after the first has been put right."""
    with Simulator() as slack:
        tokens = SlackSettings(
            bot_token=SecretStr("xoxb-wrong"), app_token=SecretStr("xapp-wrong"), api_url=slack.api_url
        )
        findings = found(settings.model_copy(update={"slack": tokens}), "slack")

    assert [(f.state, f.key) for f in findings] == [("broken", "slack.bot_token"), ("broken", "slack.app_token")]


def test_good_tokens_are_taken(settings: Settings, store: Client) -> None:
    """With the bot's name, so that the wrong workspace is seen."""
    with Simulator() as slack:
        tokens = SlackSettings(
            bot_token=SecretStr(slack.bot_token), app_token=SecretStr(slack.app_token), api_url=slack.api_url
        )
        (finding,) = found(settings.model_copy(update={"slack": tokens}), "slack")

    assert (finding.state, "overnight" in finding.detail) == ("ok", True)


def test_one_token_without_the_other_is_a_fault_and_not_a_choice(settings: Settings, store: Client) -> None:
    """Whoever sets one wants Slack."""
    tokens = SlackSettings(app_token=SecretStr("xapp-1"), api_url="http://127.0.0.1:9/")

    findings = found(settings.model_copy(update={"slack": tokens}), "slack")

    assert ("broken", "slack.bot_token") in [(f.state, f.key) for f in findings]


def test_slack_that_does_not_answer_is_said_once(settings: Settings, store: Client) -> None:
    """Both calls fail for the same reason."""
    tokens = SlackSettings(bot_token=SecretStr("xoxb-1"), app_token=SecretStr("xapp-1"), api_url="http://127.0.0.1:9/")

    (finding,) = found(settings.model_copy(update={"slack": tokens}), "slack")

    assert (finding.state, finding.key) == ("broken", "slack.api_url")


def test_hosts_of_other_versions_are_named(settings: Settings, store: Client) -> None:
    """An upgrade that was forgotten on one host."""
    for one in (host("lab-a"), host("lab-b", version="0.0.9")):
        hosts.publish_host(store, one)
        hosts.publish_cards(store, cards_of(one.host))

    (detail,) = broken(settings, "hosts")

    assert "lab-b runs 0.0.9" in detail
    assert f"this machine {HERE}" in detail


def test_clocks_that_differ_are_named(settings: Settings, store: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings from the future and from long ago both count for nothing, and the cards look busy for no reason."""
    hosts.publish_host(store, host("lab-b", published_at=time.time() + 60))
    monkeypatch.setattr(doctor, "_clock", lambda client: time.time() + 30)

    details = broken(settings, "clock")

    assert details == [
        "this machine is 30 s behind Redis' one; set both by NTP",
        "lab-b is 30 s ahead of Redis' clock; set both by NTP",
    ]


def test_a_host_with_a_full_disk_is_named(settings: Settings, store: Client) -> None:
    """Its runs are paused, and whoever asks why looks here."""
    for one in (host("lab-b", disk_free_bytes=2**30), host("lab-c", disk_free_bytes=3 * 2**30)):
        hosts.publish_host(store, one)
        hosts.publish_cards(store, cards_of(one.host))

    assert broken(settings, "hosts") == [
        "lab-b has 1.0 GiB free, less than 2: it starts no run, and those that it has are paused; make room on it",
        "lab-c has 3.0 GiB free; make room on it",
    ]


@pytest.mark.parametrize(("free_gb", "says"), [(1, "nothing is started here"), (4, "too little for a night")])
def test_a_disk_that_is_almost_full_is_named(
    free_gb: int, says: str, settings: Settings, store: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the night, not in it."""
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: Usage(2**40, 0, free_gb * 2**30))

    (detail,) = broken(settings, "disk")

    assert says in detail
