"""What the rules say of samples, by simulated time: a rule fires when it should, and never for what is not known."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeper.judge import Judge
from keeper.rules import METRICS, Finding, Sample, load_rules

EVERY_S = 5.0
LABELS = {"host": "node07", "card": "GPU-1", "index": "1", "run": "exp-3/1", "experiment": "exp-3", "owner": "U1"}


class Watch:
    """One metric of one card, sampled every 5 s."""

    def __init__(self, metric: str, **changes: object) -> None:
        self.metric = metric
        self.judge = Judge([rule for rule in load_rules(changes)[0] if rule.metric == metric], EVERY_S, 0.0)  # type: ignore[arg-type]
        self.now = 0.0
        self.firing: set[tuple[str, str]] = set()

    def see(self, values: Iterable[float | None]) -> list[Finding]:
        """Everything found while these values are seen, a sample each."""
        found = []
        for value in values:
            self.now += EVERY_S
            found += self.tick([Sample(self.metric, "GPU-1", value, LABELS, note="a note")])
        return found

    def tick(self, samples: list[Sample]) -> list[Finding]:
        found = self.judge.judge(samples, self.now, self.firing)
        for each in found:
            if each.verdict == "firing":
                self.firing.add((each.rule.name, each.member))
            else:
                self.firing.discard((each.rule.name, each.member))
        return found


def verdicts(found: list[Finding]) -> list[str]:
    return [finding.verdict for finding in found]


def minutes(n: float, value: float | None) -> list[float | None]:
    return [value] * round(n * 60 / EVERY_S)


def test_a_training_card_that_idles_is_told_after_five_minutes() -> None:
    """Not after one look, which a data loader's pause would fail, and not after ten minutes."""
    watch = Watch("card.utilization_pct")
    early = watch.see(minutes(4.8, 12.0))
    late = watch.see(minutes(0.3, 12.0))

    assert early == []
    assert verdicts(late)[0] == "firing"
    assert late[0].title == "exp-3 uses its cards little"
    assert late[0].text == "exp-3/1 on GPU 1 of node07: 12 % on average over 5 min (limit 30 %)"


def test_unknown_is_not_idle() -> None:
    """MIG slices have no utilisation; a host that is silent is another matter."""
    watch = Watch("card.utilization_pct")

    assert watch.see(minutes(30, None)) == []


def test_a_fifth_of_the_samples_may_be_missing_and_no_more() -> None:
    """A driver that answers now and then is no proof of anything."""
    some, few = Watch("card.utilization_pct"), Watch("card.utilization_pct")

    assert "firing" in verdicts(some.see([5.0, 5.0, 5.0, 5.0, None] * 30))
    assert few.see([5.0, 5.0, 5.0, None] * 40) == []


def test_what_hovers_around_the_limit_neither_fires_again_nor_ends() -> None:
    """Between 30 and 40 % nothing changes: that is what the gap between the two is for."""
    watch = Watch("card.utilization_pct")
    watch.see(minutes(6, 10.0))
    between = watch.see(minutes(6, 35.0))
    over = watch.see(minutes(2, 80.0))

    assert set(verdicts(between)) <= {"firing"}
    assert verdicts(over[-1:]) == ["clear"]


def test_a_lost_card_is_told_at_once() -> None:
    """There is nothing to wait for."""
    assert verdicts(Watch("card.lost").see([1.0])) == ["firing"]


def test_a_moment_of_heat_is_none() -> None:
    """A single odd reading does not wake anybody; half a minute does."""
    watch = Watch("card.temperature_c")

    assert "firing" not in verdicts(watch.see([91.0, *[70.0] * 20]))
    assert "firing" in verdicts(watch.see([95.0] * 7))


@pytest.mark.parametrize("metric", ["card.throttled", "host.unreadable", "keeper.problem", "service.away"])
def test_a_moment_of_what_is_or_is_not_is_none(metric: str) -> None:
    """An average above 0 would fire at the first of it: a reconnect of Slack, one slow reading of the driver."""
    watch = Watch(metric)
    window_s = next(rule.for_s for rule in watch.judge.rules.values())
    blink = watch.see([*minutes(3, 0.0), 1.0, 1.0, *minutes(3, 0.0)])
    lasting = watch.see([1.0] * (round(window_s / EVERY_S) + 1))
    over = watch.see(minutes(3, 0.0))

    assert "firing" not in verdicts(blink)
    assert "firing" in verdicts(lasting)
    assert verdicts(over[-1:]) == ["clear"]


def test_a_leak_is_told_and_a_full_cache_is_not() -> None:
    """PyTorch's allocator takes much at first and then no more; a leak goes on."""
    leak, cache = Watch("card.memory_pct"), Watch("card.memory_pct")

    assert "firing" in verdicts(leak.see(40 + 0.02 * step for step in range(300)))
    assert "firing" not in verdicts(cache.see([*[20.0] * 20, *[60.0] * 400]))


def test_a_card_that_is_gone_ends_its_alert_after_a_while() -> None:
    """Somebody took it out: nothing will ever say that it is well again."""
    watch = Watch("card.lost")
    watch.see([1.0])
    watch.now += 60
    soon = watch.tick([])
    watch.now += 100

    assert soon == []
    assert verdicts(watch.tick([])) == ["gone"]


def test_a_rule_that_was_taken_out_ends_its_alerts() -> None:
    """An alert of a rule that nobody judges any more would fire for ever."""
    judge = Judge([], EVERY_S, 0.0)

    assert [(f.rule.name, f.member, f.verdict) for f in judge.judge([], 1.0, [("old", "GPU-1")])] == [
        ("old", "GPU-1", "gone")
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"when": "card.temperature_c >> 88"}, "is no condition"),
        ({"when": "card.temperature > 88"}, "there is no metric 'card.temperature'"),
        ({"when": "__import__('os').system('x')"}, "is no condition"),
        ({"when": "card.temperature_c > hot"}, "is no condition"),
        ({"for_s": -1}, "for_s"),
        ({"clear": 95}, "wrong side"),
        ({"severity": "loud"}, "severity"),
        ({"title": "{host"}, "too_hot"),
        ({"titel": "x"}, "titel"),
        ("off", "too_hot"),
    ],
)
def test_a_rule_that_cannot_be_used_is_off_by_name_and_the_rest_goes_on(change: object, says: str) -> None:
    """A slip in one rule must not leave the lab without any."""
    rules, broken = load_rules({"too_hot": change})  # type: ignore[dict-item]
    others = {rule.name for rule in load_rules({})[0]} - {"too_hot"}

    assert says in str(broken["too_hot"])
    assert "alerts.rules.too_hot" in str(broken["too_hot"])
    assert {rule.name for rule in rules} == others


def test_a_rule_is_changed_switched_off_and_added_in_the_config() -> None:
    """Labs differ in what they call hot."""
    rules, broken = load_rules(
        {
            "too_hot": {"when": "card.temperature_c > 80", "clear": 75},
            "queue_wait": {"enabled": False},
            "card_full": {"when": "card.memory_pct > 98", "title": "full"},
        }
    )
    by_name = {rule.name: rule for rule in rules}

    assert broken == {}
    assert by_name["too_hot"].limit == 80
    assert "queue_wait" not in by_name
    assert by_name["card_full"].metric == "card.memory_pct"


def test_the_rules_as_shipped_can_be_used_and_know_each_other() -> None:
    """A misspelt name in hidden_by or joins would hide nothing, and nobody would notice."""
    rules, broken = load_rules({})
    names = {rule.name for rule in rules}

    assert broken == {}
    assert {rule.metric for rule in rules} == set(METRICS)
    assert {name for rule in rules for name in (*rule.hidden_by, *([rule.joins] if rule.joins else []))} <= names


@given(st.lists(st.none(), max_size=200), st.sampled_from(sorted(METRICS)))
def test_missing_samples_never_fire(values: list[None], metric: str) -> None:
    """Whatever the rule: what is not known is no alert."""
    watch = Watch(metric)

    assert [f for f in watch.see(values) if f.verdict in ("firing", "clear")] == []
