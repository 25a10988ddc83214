"""The alert engine by simulated time: told once, summed up, brought to mind, resolved only where it was told."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keeper import alerts
from keeper.alerts import SHOW_S, Policy
from keeper.rules import Finding, load_rules
from lab.alert import KEPT_S, Alert, AlertState, Board, Outcome, Silence, alert_id

RULES = {rule.name: rule for rule in load_rules({})[0]}
POLICY = Policy(group_s=5.0, silence_s=3600.0, repeat_s=4 * 3600.0)
EVERY_S = 5.0
NIGHT = 1_700_000_000.0


def finding(rule: str, verdict: Any = "firing", member: str | None = None, **labels: str) -> Finding:
    labels = {"host": "node07", **({} if member else {"card": "GPU-1"}), **labels}
    name = member or labels.get("run") or labels["card"]
    return Finding(RULES[rule], name, verdict, labels, f"{rule} {name}", f"{rule} of {labels['host']}", "do something")


def failed(run: str, cause: str = "oom") -> Finding:
    experiment = run.split("/")[0]
    labels = {"run": run, "experiment": experiment, "owner": "U1", "cause": cause}
    return Finding(
        RULES["run_failed"], run, "happened", labels, f"{run}: {cause}", f"{experiment}: runs fail with {cause}"
    )


@dataclass
class Night:
    """An engine, its clock, and what people read: root messages, and what is said in their threads."""

    policy: Policy = POLICY
    now: float = NIGHT
    board: Board = field(default_factory=Board)
    roots: list[tuple[float, str, int]] = field(default_factory=list)
    """When, alert, episode."""
    said: list[tuple[float, str, str]] = field(default_factory=list)
    edits: int = 0
    digests: list[str] = field(default_factory=list)
    _lines: dict[tuple[str, int], int] = field(default_factory=dict)

    def step(self, *found: Finding) -> Outcome:
        outcome = alerts.step(self.board, found, self.policy, self.now)
        self.board = _after(self.board, outcome)
        for event in outcome.events:
            self._read(event.kind, event.subject)
        return outcome

    def go(self, seconds: float, *found: Finding) -> None:
        """Time passes, and the rules find this all along."""
        for _ in range(round(seconds / EVERY_S)):
            self.now += EVERY_S
            self.step(*found)

    def quiet(self, scope: Any, subject: str, seconds: float) -> None:
        silence = Silence(id="si-1", scope=scope, subject=subject, until=self.now + seconds, by="U1", at=self.now)
        self.board = _after(self.board, Outcome(silences=[silence]))

    def restart(self) -> None:
        """What stands in the store is all that is left."""
        self.board = Board(
            {k: Alert.model_validate_json(a.model_dump_json()) for k, a in self.board.alerts.items()},
            {k: Silence.model_validate_json(s.model_dump_json()) for k, s in self.board.silences.items()},
        )

    def alert(self, found: Finding) -> Alert:
        return self.board.alerts[alert_id(found.fingerprint)]

    def _read(self, kind: str, subject: str) -> None:
        """As the courier does it: the first sight is the root message, then edits and what was said aloud since."""
        if kind == "silence.over":
            self.digests.append(self.board.silences[subject].digest)
            return
        alert = self.board.alerts[subject]
        if alert.told_at is None:
            return
        seen = (alert.id, alert.episode)
        if seen not in self._lines:
            self.roots.append((self.now, *seen))
        else:
            self.edits += 1
            new = enumerate(alert.history, start=alert.n_lines - len(alert.history) + 1)
            self.said += [(self.now, alert.id, line.text) for n, line in new if n > self._lines[seen] and line.aloud]
        self._lines[seen] = alert.n_lines


def _after(board: Board, outcome: Outcome) -> Board:
    gone = set(outcome.gone)
    alerts_now = {**board.alerts, **{a.id: a for a in outcome.alerts}}
    silences = {**board.silences, **{s.id: s for s in outcome.silences}}
    return Board(
        {k: a for k, a in alerts_now.items() if k not in gone}, {k: s for k, s in silences.items() if k not in gone}
    )


LOST = finding("card_lost")
WELL = finding("card_lost", "clear")


def test_an_alert_is_told_resolved_and_forgotten() -> None:
    """The life of an alert."""
    night = Night()
    night.go(60, LOST)
    night.go(60, WELL)
    over = night.alert(LOST)
    night.now += KEPT_S + 60
    night.step()

    assert [at - NIGHT for at, _, _ in night.roots] == [10.0]
    assert [text for _, _, text in night.said] == ["resolved after 60 s"]
    assert over.state is AlertState.RESOLVED
    assert night.board.alerts == {}


def test_what_is_over_before_it_was_told_is_never_told() -> None:
    """A message about what is fine again is noise."""
    night = Night()
    night.step(LOST)
    night.go(600, WELL)

    assert (night.roots, night.said, night.edits) == ([], [], 0)


def test_cards_that_fall_together_are_one_message() -> None:
    """Eight cards of one host have one cause."""
    night = Night()
    cards = [finding("card_lost", card=f"GPU-{n}") for n in range(8)]
    night.go(120, *cards)

    assert len(night.roots) == 1
    assert len(night.alert(cards[0]).members) == 8


def test_eight_hosts_that_miss_slack_make_one_alert() -> None:
    """The outage is Slack's, not each host's."""
    night = Night()
    night.go(120, *(finding("service_away", host=f"node{n}", member=f"node{n}", service="Slack") for n in range(8)))

    assert len(night.roots) == 1


def test_a_lost_card_hides_that_it_idles_and_a_silent_host_hides_its_cards() -> None:
    """One cause, one message."""
    night = Night()
    idle = finding("low_utilization", run="exp-3/1", experiment="exp-3")
    night.go(600, LOST, idle)
    elsewhere = finding("low_utilization", host="node08", card="GPU-9", run="exp-4/1", experiment="exp-4")
    night.go(600, finding("host_silent", member="node07"), finding("too_hot", card="GPU-2"), elsewhere)

    told = {night.board.alerts[name].rule for _, name, _ in night.roots}
    assert told == {"card_lost", "host_silent", "low_utilization"}
    assert alert_id(idle.fingerprint) not in night.board.alerts


def test_ten_thousand_equal_failures_are_told_once_and_counted() -> None:
    """The channel is not muted, and nobody is misled about how bad it is."""
    night = Night()
    for batch in range(100):
        night.step(*(failed(f"exp-31/{batch * 100 + n}") for n in range(100)))
        night.now += 5
        if batch == 50:
            night.restart()
    night.go(POLICY.silence_s)

    assert len(night.roots) == 1
    assert [text for _, _, text in night.said] == ["9800 more since then, 10000 in all"]
    assert night.edits <= 500 / SHOW_S + POLICY.silence_s / SHOW_S
    assert night.alert(failed("exp-31/1")).count == 10_000
    assert len(json.dumps(night.alert(failed("exp-31/1")).model_dump())) < 20_000


def test_a_new_kind_of_failure_speaks_at_once() -> None:
    """A silence about running out of memory must not swallow a NaN."""
    night = Night()
    night.go(60, failed("exp-31/1"))
    night.go(60, failed("exp-31/2", "nan_loss"))

    assert [night.board.alerts[name].labels["cause"] for _, name, _ in night.roots] == ["oom", "nan_loss"]


def test_failures_that_end_are_over_without_a_word() -> None:
    """What happened once stays told once."""
    night = Night()
    night.step(failed("exp-31/1"))
    night.go(2 * POLICY.silence_s)

    assert len(night.roots) == 1
    assert night.said == []
    assert night.alert(failed("exp-31/1")).state is AlertState.RESOLVED


def test_three_in_a_row_make_the_alert_graver_and_not_a_second_one() -> None:
    """It is the same matter."""
    night = Night()
    night.go(15, failed("exp-31/1"))
    row = finding("failing_in_a_row", "happened", run="exp-31/3", experiment="exp-31", cause="oom")
    night.go(SHOW_S, row)

    assert len(night.roots) == 1
    assert night.alert(row).title == row.title
    assert night.edits == 1


def test_what_lasts_is_brought_to_mind_until_somebody_looks_after_it() -> None:
    """A card that is lost at midnight is still lost at four."""
    night = Night()
    night.go(9 * 3600, LOST)
    reminders = [text for _, _, text in night.said]
    acknowledged = night.alert(LOST).model_copy(update={"state": AlertState.ACKNOWLEDGED, "acknowledged_by": "U1"})
    night.board = _after(night.board, Outcome(alerts=[acknowledged]))
    night.go(9 * 3600, LOST)

    assert reminders == ["still so after 4.0 h", "still so after 8.0 h"]
    assert len(night.said) == 2
    assert len(night.roots) == 1


def test_what_comes_and_goes_is_one_message_with_a_count() -> None:
    """Flapping is the way to a muted channel."""
    night = Night()
    for _ in range(60):
        night.go(20, LOST)
        night.go(20, WELL)

    assert len(night.roots) == 1
    assert len(night.said) <= 1
    assert night.edits <= 2400 / SHOW_S + 2
    assert night.alert(LOST).count == 60


def test_what_comes_back_the_next_night_is_a_message_of_its_own() -> None:
    """An edit of yesterday's message is read by nobody."""
    night = Night()
    night.go(60, LOST)
    night.go(10 * 3600, WELL)
    night.go(60, LOST)

    assert [episode for _, _, episode in night.roots] == [1, 2]


def test_a_silence_holds_back_counts_and_says_so_at_its_end() -> None:
    """Nothing is lost by asking for quiet."""
    night = Night()
    night.quiet("experiment", "exp-31", 3 * 3600)
    night.go(600, failed("exp-31/1"), failed("exp-40/1"))
    during = [night.board.alerts[name].labels["experiment"] for _, name, _ in night.roots]
    night.go(3 * 3600)

    assert during == ["exp-40"]
    assert night.digests == ["exp-31: runs fail with oom (x120)"]
    assert len(night.roots) == 1


def test_what_still_lasts_when_a_silence_ends_is_told_then() -> None:
    """And not in the sum too: nothing is told twice."""
    night = Night()
    night.quiet("host", "node07", 1800)
    disk = finding("disk_low", member="node07")
    night.go(2400, disk)

    assert [at - NIGHT for at, _, _ in night.roots] == [1800.0]
    assert night.digests == []


def test_critical_hardware_is_told_through_any_silence() -> None:
    """Quiet about a host under repair is no reason to hide that a card is dying elsewhere."""
    night = Night()
    night.quiet("all", "", 8 * 3600)
    night.go(60, LOST, finding("disk_low", member="node07"))

    assert [night.board.alerts[name].rule for _, name, _ in night.roots] == ["card_lost"]


def test_a_restart_in_the_middle_tells_nothing_again() -> None:
    """What was told stands in the store, not in a process."""
    night = Night()
    night.go(60, LOST, failed("exp-31/1"))
    told = list(night.roots)
    night.restart()
    night.go(600, LOST, failed("exp-31/2"))

    assert night.roots == told


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fire", "clear", "gone", "fail", "fail other", "nothing", "restart", "quiet", "acknowledge"]),
        st.integers(0, 2),
        st.sampled_from([5, 5, 60, 900, 4000]),
    ),
    max_size=60,
)


def _play(night: Night, steps: list[tuple[str, int, int]]) -> set[str]:
    """The night goes so; gives the ids of what ever fired."""
    fired: set[str] = set()
    for what, n, seconds in steps:
        found: list[Finding] = []
        match what:
            case "fire":
                found = [finding("disk_low", host=f"h{n}", member=f"h{n}")]
            case "clear" | "gone":
                found = [finding("disk_low", what, host=f"h{n}", member=f"h{n}")]
            case "fail" | "fail other":
                found = [failed(f"exp-{n}/1", "oom" if what == "fail" else "nan_loss")]
            case "restart":
                night.restart()
            case "quiet":
                night.quiet("host", f"h{n}", 600)
            case "acknowledge":
                for alert in list(night.board.alerts.values())[n : n + 1]:
                    if alert.state is AlertState.FIRING:
                        moved = alert.model_copy(update={"state": AlertState.ACKNOWLEDGED, "acknowledged_by": "U1"})
                        night.board = _after(night.board, Outcome(alerts=[moved]))
        fired |= {alert_id(f.fingerprint) for f in found if f.verdict in ("firing", "happened")}
        night.step(*found)
        night.go(min(seconds, 60))
        night.now += max(0, seconds - 60)
        night.step()
    return fired


@settings(deadline=None, max_examples=120)
@given(STEPS)
def test_in_any_order_of_things_people_are_told_once_and_truly(steps: list[tuple[str, int, int]]) -> None:
    """No message without a firing; one root an episode and none twice within the silence; resolved only if told."""
    night = Night()
    fired = _play(night, steps)
    roots = [(name, episode) for _, name, episode in night.roots]

    assert {name for name, _ in roots} <= fired
    assert len(set(roots)) == len(roots)
    for name in fired:
        times = [at for at, told, _ in night.roots if told == name]
        assert all(late - early >= POLICY.silence_s for early, late in itertools.pairwise(times))
        aloud = [at for at, told, _ in night.said if told == name]
        assert not aloud or (times and min(aloud) >= times[0])
        resolved = [at for at, told, text in night.said if told == name and text.startswith("resolved")]
        assert len(resolved) <= len(times) + (night.now - NIGHT) / POLICY.silence_s


@settings(deadline=None, max_examples=80)
@given(STEPS)
def test_nothing_new_is_swallowed(steps: list[tuple[str, int, int]]) -> None:
    """In the end everything that fired long enough was told, summed up, or resolved before anybody could be."""
    night = Night()
    fired = _play(night, steps)
    night.go(2000)
    told = {name for _, name, _ in night.roots}

    for name in fired - told:
        alert = night.board.alerts[name]
        assert not alert.is_open
        assert alert.resolved_at is not None
        brief = alert.resolved_at - alert.since <= POLICY.group_s
        assert brief or any(alert.title in digest for digest in night.digests) or alert.told_at is not None


@settings(deadline=None, max_examples=60)
@given(st.lists(st.booleans(), min_size=10, max_size=400))
def test_flapping_is_bounded_by_time_not_by_flaps(well: list[bool]) -> None:
    """However often it comes and goes: a few messages an hour."""
    night = Night()
    for is_well in well:
        night.go(5, WELL if is_well else LOST)
    hours = (night.now - NIGHT) / 3600

    assert len(night.roots) <= 1 + hours
    assert len(night.said) <= 2 + 2 * hours
    assert night.edits <= 3 + 3 * (night.now - NIGHT) / SHOW_S


@pytest.mark.parametrize("scope", ["all", "rule", "host", "alert"])
def test_silences_of_every_scope_hold_back(scope: str) -> None:
    """Each is a way in which people name what they do not want to hear of."""
    disk = finding("disk_low", member="node07")
    subject = {"all": "", "rule": "disk_low", "host": "node07", "alert": alert_id(disk.fingerprint)}[scope]
    night = Night()
    night.quiet(scope, subject, 3600)
    night.go(600, disk)

    assert night.roots == []
