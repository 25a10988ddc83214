from __future__ import annotations

import pytest

from keeper.platforms import platform, platforms
from keeper.policy import Policy, policy
from keeper.proof import PIECES, Proof
from lab.errors import ConfigError
from lab.settings import KeeperSettings

DSW = Policy(platform=platform("pai-dsw"), threshold_pct=10.0, window_s=600.0)


def judged(chosen: Policy, *readings: float | None, every_s: float = 10.0) -> tuple[str, str]:
    proof = Proof(chosen)
    for number, reading in enumerate(readings):
        proof.add(number * every_s, reading)
    judgement = proof.judge((len(readings) - 1) * every_s)
    return judgement.verdict, judgement.reason


@pytest.mark.parametrize(
    ("readings", "verdict", "reason"),
    [
        ([15.0] * 60, "verified", "utilisation 15.0 % over 10 min, above the 10 % that Alibaba Cloud PAI-DSW asks for"),
        ([0.0] * 60, "ineffective", "utilisation 0.0 % over 10 min, not above the 10 %"),
        ([10.0] * 60, "ineffective", "not above"),
        ([15.0] * 30, "unverified", "read for 5 of 10 min so far"),
        ([15.0] * 30 + [None] * 30, "unverified", "read for 5 of 10 min so far"),
        ([None] * 60, "unverified", "the driver does not tell the utilisation"),
        ([0.0] * 60 + [20.0] * 60, "verified", "20.0 %"),
    ],
)
def test_a_verdict_needs_most_of_the_window_and_has_its_reason(
    readings: list[float | None], verdict: str, reason: str
) -> None:
    """Unknown is never 0: a card that tells nothing is not called idle."""
    found = judged(DSW, *readings)

    assert found[0] == verdict
    assert reason in found[1]


def test_nothing_read_yet_is_unverified() -> None:
    assert Proof(DSW).judge(0.0).reason == "the card's utilisation has not been read yet"


def test_a_reading_that_stopped_long_ago_proves_nothing() -> None:
    proof = Proof(DSW)
    for number in range(60):
        proof.add(number * 10.0, 50.0)

    assert proof.judge(599.0).verdict == "verified"
    assert proof.judge(2000.0).verdict == "unverified"


def test_what_a_proof_remembers_does_not_grow() -> None:
    proof = Proof(DSW)
    for number in range(100_000):
        proof.add(number * 1.0, 5.0)

    assert len(proof._pieces) == PIECES


@pytest.mark.parametrize("name", ["sagemaker-studio", "vertex-workbench", "azure-ml", "tencent-ti"])
def test_where_the_card_is_not_looked_at_the_platforms_own_setting_is_named(name: str) -> None:
    verdict, reason = judged(Policy(platform=platform(name)), *[100.0] * 60)

    assert verdict == "ineffective"
    assert platform(name).own_setting in reason


def test_every_rule_has_its_source_and_says_what_to_set_instead() -> None:
    """The file is read by people who decide about money."""
    for one in platforms().values():
        assert one.name == "none" or one.source.startswith("https://")
        assert one.own_setting
        assert (one.threshold_pct is not None) == ("gpu" in one.looks_at)


def test_a_platform_that_forbids_it_says_so_with_its_source() -> None:
    forbidden = [one.name for one in platforms().values() if one.forbidden]

    assert forbidden == ["colab"]
    assert "https://" in (platform("colab").forbidden or "")


def test_settings_win_over_what_is_known_of_a_platform() -> None:
    chosen = policy(KeeperSettings(platform="pai-dsw", threshold_pct=30, window_min=20, margin_pct=4, mode="duty"))

    assert (chosen.threshold_pct, chosen.window_s, chosen.target_pct) == (30, 1200, 34)
    assert policy(KeeperSettings(platform="pai-dsw")).threshold_pct == 10


@pytest.mark.parametrize(
    ("settings", "key", "wanted"),
    [
        (KeeperSettings(platform="dsw"), "keeper.platform", "wanted one of pai-dsw"),
        (KeeperSettings(mode="duty"), "keeper.mode", "set keeper.threshold_pct"),
        (KeeperSettings(mode="duty", platform="azure-ml"), "keeper.mode", "looks at notebook kernels and terminals"),
    ],
)
def test_settings_that_do_not_fit_name_their_key(settings: KeeperSettings, key: str, wanted: str) -> None:
    with pytest.raises(ConfigError, match=wanted) as error:
        policy(settings)

    assert error.value.key == key


def test_the_cost_is_said_before_it_arises() -> None:
    priced = policy(KeeperSettings(price_per_hour=2.5, max_hold_hours=10))

    assert priced.terms() == "for at most 10 h, at 2.5 an hour, 25.00 in all"
    assert priced.cost(7200.0) == 5.0
    assert policy(KeeperSettings()).cost(7200.0) is None
