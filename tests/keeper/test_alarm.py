"""The watch over a lab in a real store: what hosts publish and runs do becomes alerts, told once across restarts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest

from keeper.alarm import Alarm
from lab import beacons, freecards, hosts
from lab.alert import Alert, Alerts, AlertState
from lab.card import Card, Host, HostCards, KeeperStatus
from lab.events import STREAM
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, Experiment, Progress, RunResult
from lab.settings import AlertSettings, Settings
from lab.store import Client

GIB = 2**30
PLAN = Plan(models=("resnet18",), dataset="digits", axes={"seed": tuple(range(8))})


class Lab:
    """Two cards of one host, and a watch whose clock the test turns."""

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        self.settings, self.ledger, self.client = settings, ledger, ledger.client
        self.now = time.time()
        self.alerts = Alerts(self.client)
        self.alarm = Alarm(settings, self.client, self.now)
        self.card = Card(uuid="GPU-1", index=0, name="X", host="node07", memory_total_bytes=100 * GIB)
        self.keeper: KeeperStatus | None = None
        self.problem: str | None = None
        self.free_bytes = 500 * GIB
        self.speaks = True
        self.each: Callable[[], None] = lambda: None

    def publish(self) -> None:
        card = self.card.model_copy(update={"read_at": self.now})
        cards = HostCards(host="node07", cards=(card,), keeper=self.keeper, problem=self.problem, published_at=self.now)
        hosts.publish_cards(self.client, cards)
        host = Host(host="node07", version="1", disk_free_bytes=self.free_bytes, published_at=self.now)
        hosts.publish_host(self.client, host)

    def go(self, seconds: float) -> None:
        """Time passes, a look every 5 s."""
        end = self.now + seconds
        while self.now < end:
            self.now += 5
            self.each()
            if self.speaks:
                self.publish()
            self.alarm.step(self.now)

    def open(self) -> dict[str, Alert]:
        return {a.rule: a for a in self.alerts.board().alerts.values() if a.is_open}

    def told(self) -> list[str]:
        """Rules of what the courier was asked to tell, in order."""
        found = [fields for _, fields in self.client.xrange(STREAM) if fields["kind"] == "alert.firing"]
        return [self.alerts.alert(fields["subject"]).rule for fields in found]

    def experiment(self, conversation: str = "slack:T:C:1.1") -> Experiment:
        request = self.ledger.submit("compare", "U1", conversation)
        assert request is not None
        experiment = self.ledger.propose(request.id, PLAN, None, Answer(kind="plan"))
        assert experiment is not None
        return self.ledger.approve(experiment.id, "U1")

    def start(self, run_id: str) -> int:
        self.ledger.bind(run_id, ("GPU-1",), "node07", 0)
        fence = int(self.client.hincrby(f"on:run:{run_id}", "fence", 1))
        self.ledger.start(run_id, fence, pid=1)
        return fence

    def fail(self, run_id: str, cause: str = "oom") -> None:
        self.ledger.fail(run_id, self.start(run_id), cause, f"CUDA {cause}", advice="a smaller batch")


@pytest.fixture
def lab(settings: Settings, ledger: Ledger) -> Lab:
    lab = Lab(settings, ledger)
    lab.go(10)
    return lab


def test_a_lab_in_order_has_no_alerts(lab: Lab) -> None:
    """Quiet is the first thing that an alert must be able to do."""
    lab.keeper = KeeperStatus(card="GPU-9", pid=1, last_beat_at=lab.now, interval_s=300)
    lab.go(600)

    assert lab.alerts.board().alerts == {}


def test_a_lost_card_is_told_and_resolved_when_it_is_back(lab: Lab) -> None:
    """Within fifteen seconds, through the store."""
    began = lab.now
    lab.card = lab.card.model_copy(update={"lost": True, "problem": "GPU is lost", "role": "none"})
    lab.go(15)
    alert = lab.open()["card_lost"]
    lab.card = lab.card.model_copy(update={"lost": False, "problem": None})
    lab.go(90)

    assert alert.told_at is not None
    assert alert.told_at - began <= 15
    assert next(iter(alert.members.values())).text == "GPU 0 (GPU-1): GPU is lost"
    assert lab.alerts.alert(alert.id).state is AlertState.RESOLVED


def test_a_dead_host_is_told_though_nobody_is_left_to_say_so(lab: Lab) -> None:
    """Its record expires; what remains is that it was there."""
    lab.speaks = False
    lab.go(40)
    early = lab.open()
    lab.go(60)
    lab.client.delete("on:host:node07", "on:cards:node07")
    lab.go(3600)
    late = lab.open()
    lab.speaks = True
    lab.go(60)

    assert early == {}
    assert list(late) == ["host_silent"]
    assert lab.told() == ["host_silent"]
    assert lab.open() == {}


def test_a_host_whose_cards_nobody_reads_is_told(lab: Lab) -> None:
    """`overnight keep` died and `work` did not: no card there is free any more, and nobody would know why."""
    lab.speaks = False
    lab.each = lambda: hosts.publish_host(lab.client, Host(host="node07", version="1", published_at=lab.now))
    lab.go(150)
    alert = lab.open()["cards_unreadable"]
    lab.each = lambda: None
    lab.speaks = True
    lab.go(60)

    assert "overnight keep" in next(iter(alert.members.values())).text
    assert lab.open() == {}


def test_a_host_that_leaves_in_order_is_no_alert(lab: Lab) -> None:
    """`overnight up` ended by Ctrl-C wakes nobody."""
    lab.speaks = False
    hosts.withdraw_cards(lab.client, "node07")
    hosts.withdraw_host(lab.client, "node07")
    lab.go(600)

    assert lab.alerts.board().alerts == {}


def test_a_card_that_idles_under_a_run_is_told_in_its_thread(lab: Lab) -> None:
    """Not while the run starts, and not during its evaluation."""
    experiment = lab.experiment()
    fence = lab.start(f"{experiment.id}/1")
    lab.each = lambda: lab.ledger.report_progress(
        f"{experiment.id}/1", fence, Progress(step=1, phase="train", at=lab.now)
    )
    lab.card = lab.card.model_copy(update={"utilization_pct": 4.0})
    lab.go(180 + 280)
    early = lab.open()
    lab.go(35)
    alert = lab.open()["low_utilization"]

    assert early == {}
    assert alert.conversation == experiment.conversation
    assert "4 % on average over 5 min" in next(iter(alert.members.values())).text


def test_an_evaluation_is_no_idling(lab: Lab) -> None:
    """It reads from disk and keeps the card half asleep, as it should."""
    experiment = lab.experiment()
    fence = lab.start(f"{experiment.id}/1")
    lab.each = lambda: lab.ledger.report_progress(
        f"{experiment.id}/1", fence, Progress(step=1, phase="evaluation", at=lab.now)
    )
    lab.card = lab.card.model_copy(update={"utilization_pct": 4.0})
    lab.go(1200)

    assert lab.open() == {}


def test_fragmented_memory_is_told_from_what_the_trainer_reports(lab: Lab) -> None:
    """The driver cannot see it."""
    experiment = lab.experiment()
    fence = lab.start(f"{experiment.id}/1")
    split: dict[str, float | None] = {"reserved_bytes": 60.0 * GIB, "inactive_split_bytes": 20.0 * GIB}
    lab.each = lambda: lab.ledger.report_progress(
        f"{experiment.id}/1", fence, Progress(step=1, at=lab.now, metrics=split)
    )
    lab.go(400)

    assert list(lab.open()) == ["fragmentation"]


def test_failures_are_told_once_an_experiment_and_cause_and_counted(lab: Lab) -> None:
    """And three of one configuration in a row make the same alert graver."""
    experiment = lab.experiment()
    for number in (1, 2, 3):
        lab.fail(f"{experiment.id}/{number}")
        lab.go(20)
    alert = lab.open()["run_failed"]
    lab.fail(f"{experiment.id}/4", "nan_loss")
    lab.go(20)

    assert (alert.count, alert.labels["cause"], alert.advice) == (3, "oom", "a smaller batch")
    assert alert.title == f"{experiment.id}: three runs of one configuration failed in a row with oom"
    assert lab.told() == ["run_failed", "run_failed"]


def test_a_finished_run_between_breaks_the_row(lab: Lab) -> None:
    """Three of five is not three in a row."""
    experiment = lab.experiment()
    lab.fail(f"{experiment.id}/1")
    lab.fail(f"{experiment.id}/2")
    lab.ledger.finish(f"{experiment.id}/3", lab.start(f"{experiment.id}/3"), RunResult())
    lab.fail(f"{experiment.id}/4")
    lab.go(20)

    assert "in a row" not in lab.open()["run_failed"].title


def test_a_restart_tells_nothing_again_and_misses_nothing(lab: Lab) -> None:
    """What failed while nobody watched is told by the next one; what was told is not."""
    experiment = lab.experiment()
    lab.fail(f"{experiment.id}/1")
    lab.go(20)
    lab.fail(f"{experiment.id}/2")
    lab.alarm = Alarm(lab.settings, lab.client, lab.now)
    lab.go(20)

    assert lab.told() == ["run_failed"]
    assert lab.open()["run_failed"].count == 2


def test_a_restart_in_the_middle_of_a_window_does_not_begin_it_anew(lab: Lab) -> None:
    """Five minutes are five minutes, even if the dispatcher is restarted every four; and so is a leak of twenty."""
    experiment = lab.experiment()
    fence = lab.start(f"{experiment.id}/1")
    begun = lab.now

    def trains() -> None:
        leaked = int(20 * GIB + (lab.now - begun) / 3600 * 8 * GIB)
        lab.card = lab.card.model_copy(update={"utilization_pct": 4.0, "memory_used_bytes": leaked})
        lab.ledger.report_progress(f"{experiment.id}/1", fence, Progress(step=1, phase="train", at=lab.now))

    def restart_at(second: float) -> None:
        lab.go(begun + second - lab.now)
        lab.now += 20  # nobody looks meanwhile
        lab.alarm = Alarm(lab.settings, lab.client, lab.now)

    lab.each = trains
    restart_at(180 + 240)
    lab.go(begun + 180 + 275 - lab.now)
    early = set(lab.open())
    lab.go(35)
    after_five = set(lab.open())
    restart_at(180 + 900)
    lab.go(begun + 180 + 1220 - lab.now)
    leak = lab.open()["memory_grows"]

    assert early == set()
    assert after_five == {"low_utilization"}
    assert "+8.0 % of the card an hour" in next(iter(leak.members.values())).text
    assert "loss.item()" in leak.advice


def test_a_stand_by_that_takes_over_knows_what_the_leader_saw(lab: Lab) -> None:
    """It has looked at nothing itself, or at something long ago; and it keeps no more than the rules look back on."""
    experiment = lab.experiment()
    fence = lab.start(f"{experiment.id}/1")
    lab.each = lambda: lab.ledger.report_progress(
        f"{experiment.id}/1", fence, Progress(step=1, phase="train", at=lab.now)
    )
    lab.card = lab.card.model_copy(update={"utilization_pct": 4.0})
    other, first = Alarm(lab.settings, lab.client, lab.now), lab.alarm
    lab.go(180)
    lab.alarm = other
    lab.go(120)
    lab.alarm = first
    lab.client.rpush("on:alert:samples", "of another version")
    lab.go(200)

    assert "low_utilization" in lab.open()
    assert lab.client.llen("on:alert:samples") <= 1 + first.judge.window_s / first.interval_s


def test_two_watches_count_each_event_once(lab: Lab) -> None:
    """Two leaders for a moment do no harm."""
    experiment = lab.experiment()
    other = Alarm(lab.settings, lab.client, lab.now)
    board = lab.alerts.board()
    lab.fail(f"{experiment.id}/1")
    lab.now += 5
    lab.alarm.step(lab.now)
    other.step(lab.now)

    assert lab.alerts.board().place != board.place
    assert lab.open()["run_failed"].count == 1


def test_what_failed_before_anybody_watched_is_no_news(settings: Settings, ledger: Ledger) -> None:
    """The first start of a new version must not tell a year of failures."""
    lab = Lab(settings, ledger)
    lab.fail(f"{lab.experiment().id}/1")
    lab.go(20)

    assert lab.open() == {}


def test_a_keeper_that_fails_or_falls_silent_is_told(lab: Lab) -> None:
    """A platform may take the instance away with the night's work."""
    lab.keeper = KeeperStatus(card="GPU-9", pid=1, verdict="ineffective", reason="reads 0 %", last_beat_at=lab.now)
    lab.each = lambda: None
    lab.go(90)
    problem = lab.open()["keeper_problem"]
    lab.keeper = KeeperStatus(card="GPU-9", pid=1, last_beat_at=lab.now - 1000, interval_s=300)
    lab.go(120)

    assert next(iter(problem.members.values())).text == "reads 0 %"
    assert "keeper_silent" in lab.open()


def test_disk_driver_queue_progress_and_services_are_watched(lab: Lab) -> None:
    """One look at each of the others."""
    lab.free_bytes = 3 * GIB
    lab.problem = "NVML: driver/library version mismatch"
    beacons.tell(lab.client, "the language model", "connection refused", lab.now)
    experiment = lab.experiment()
    lab.start(f"{experiment.id}/1")
    lab.go(60)
    soon = set(lab.open())
    lab.now += 7300
    lab.go(20)

    assert soon == {"disk_low", "cards_unreadable", "service_away"}
    assert {"queue_wait", "no_progress"} <= set(lab.open())


def test_a_long_wait_is_told_in_the_thread_that_waits(lab: Lab) -> None:
    """Who asked wants to know; the operators' channel cannot do anything about somebody else's queue."""
    first, second = lab.experiment("slack:T:C:1.1"), lab.experiment("slack:T:C:2.2")
    lab.go(20)
    lab.now += 7300
    lab.go(20)
    waits = {a.labels["experiment"]: a for a in lab.alerts.board().alerts.values() if a.rule == "queue_wait"}
    for number in range(1, 9):
        lab.ledger.bind(f"{first.id}/{number}", ("GPU-1",), "node07", 0)
    lab.go(130)

    assert {name: a.conversation for name, a in waits.items()} == {
        first.id: "slack:T:C:1.1",
        second.id: "slack:T:C:2.2",
    }
    assert waits[first.id].title == f"{first.id} waits long for a card"
    assert next(iter(waits[first.id].members.values())).text == "8 of its runs waiting, the first for 2.0 h"
    assert [a.labels["experiment"] for a in lab.alerts.board().alerts.values() if a.is_open] == [second.id]


def test_a_card_that_gets_too_hot_has_its_run_saved(lab: Lab) -> None:
    """A card that is too hot slows down first and is gone after that."""
    experiment = lab.experiment()
    lab.start(f"{experiment.id}/1")
    lab.card = lab.card.model_copy(update={"temperature_c": 93.0})
    lab.go(60)

    assert "too_hot" in lab.open()
    assert lab.ledger.run(f"{experiment.id}/1").wish == "checkpoint"


def test_uncorrectable_errors_and_throttling_are_told(lab: Lab) -> None:
    """As the driver reports them."""
    lab.card = lab.card.model_copy(update={"ecc_errors": 2, "throttled": "heat"})
    lab.go(150)
    texts = {rule: next(iter(alert.members.values())).text for rule, alert in lab.open().items()}

    assert texts == {
        "card_broken": "GPU 0 (GPU-1): 2 uncorrectable memory errors since the driver was loaded",
        "throttled": "GPU 0: heat",
    }


def test_a_fatal_xid_is_told(lab: Lab) -> None:
    """Told by the driver before any run fails on the card."""
    lab.card = lab.card.model_copy(update={"xid": 79})
    lab.go(15)

    alert = lab.open()["card_broken"]
    assert next(iter(alert.members.values())).text == "GPU 0 (GPU-1): Xid 79: it fell off the bus"
    assert alert.told_at is not None


def test_who_wants_a_free_card_is_told_when_one_stays_free(lab: Lab) -> None:
    """Between two runs a card is free for a moment, and to be told of that is to be told something false."""
    workers = lambda: hosts.publish_host(  # noqa: E731
        lab.client, Host(host="node07", version="1", cards=("GPU-1",), published_at=lab.now)
    )
    lab.card = lab.card.model_copy(update={"problem": "being looked at"})
    lab.go(10)
    freecards.ask(lab.ledger, "U1", "slack:T:U1:", lab.now)
    busy, free = lab.card, lab.card.model_copy(update={"problem": None})

    def look(card: Card) -> None:
        lab.now += 5
        lab.card = card
        lab.publish()
        workers()
        lab.alarm.step(lab.now)
        lab.alarm.step(lab.now)  # more events at the same moment are no second look

    said = []
    for card in (busy, free, busy, free, free, free):
        look(card)
        said.append(sum(fields["kind"] == "card.free" for _, fields in lab.client.xrange(STREAM)))

    assert said == [0, 0, 0, 0, 1, 1]
    assert freecards.told(lab.client, "cw-1") == "Free now: GPU 0 of node07 (X)."


def test_a_wish_for_a_free_card_ends_after_a_day_and_says_so(lab: Lab) -> None:
    lab.card = lab.card.model_copy(update={"problem": "broken"})
    freecards.ask(lab.ledger, "U1", "slack:T:U1:", lab.now)
    lab.now += freecards.LASTS_S - 20
    lab.go(10)
    early = freecards.told(lab.client, "cw-1")
    lab.go(20)

    assert early is None
    assert "No card was free within 24 hours" in (freecards.told(lab.client, "cw-1") or "")


def test_a_quarantined_card_is_told(lab: Lab) -> None:
    """Uncorrectable errors show in a run's log; the card is set aside, and somebody has to look at it."""
    lab.ledger.quarantine("GPU-1", "exp-3/1: uncorrectable ECC error", 600)
    lab.go(20)

    assert next(iter(lab.open()["card_broken"].members.values())).text.endswith("uncorrectable ECC error")


def test_a_rule_that_cannot_be_used_is_told_and_the_rest_goes_on(
    settings: Settings, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log, and where alerts are read."""
    wrong = AlertSettings(rules={"too_hot": {"when": "card.temperatur > 3"}})
    with caplog.at_level(logging.ERROR):
        lab = Lab(settings.model_copy(update={"alerts": wrong}), ledger)
    lab.card = lab.card.model_copy(update={"lost": True})
    lab.go(20)

    assert "alerts.rules.too_hot" in caplog.text
    assert set(lab.open()) == {"rule_broken", "card_lost"}
    assert "there is no metric 'card.temperatur'" in next(iter(lab.open()["rule_broken"].members.values())).text


def test_a_record_of_another_version_is_left_alone(lab: Lab) -> None:
    """The watch goes on, and so does the other version."""
    lab.client.hset("on:alert:records", "al-0", '{"schema_version": 9}')
    lab.card = lab.card.model_copy(update={"lost": True})
    lab.go(20)

    assert "card_lost" in lab.open()
    assert lab.client.hget("on:alert:records", "al-0") == '{"schema_version": 9}'


def test_the_watch_runs_beside_another_and_lets_go(settings: Settings, ledger: Ledger) -> None:
    """As `overnight dispatch` runs it: a thread, a lock, and an end within a moment."""
    brisk = settings.model_copy(update={"alerts": AlertSettings(interval_s=0.2, group_s=0)})
    ledger.client.set("on:alert:place", "0")
    experiment = Lab(settings, ledger).experiment()
    with Alarm(brisk), Alarm(brisk):
        Lab(settings, ledger).fail(f"{experiment.id}/1")
        deadline = time.monotonic() + 10
        alerts = Alerts(ledger.client)
        while time.monotonic() < deadline and not any(a.told_at for a in alerts.board().alerts.values()):
            time.sleep(0.05)

    assert [a.count for a in alerts.board().alerts.values()] == [1]
    assert not ledger.client.exists("on:leader:alerts")


def test_an_outage_of_the_store_is_waited_out(
    settings: Settings, ledger: Ledger, store: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch is still there when the store is back."""
    import redis

    brisk = settings.model_copy(update={"alerts": AlertSettings(interval_s=0.2)})
    alarm = Alarm(brisk)
    turns = iter([redis.exceptions.ConnectionError("gone")] * 3)
    taken: list[float] = []

    def turn() -> None:
        error = next(turns, None)
        if error:
            raise error
        taken.append(1.0)

    monkeypatch.setattr(alarm, "turn", turn)
    with caplog.at_level(logging.WARNING), alarm:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and not taken:
            time.sleep(0.05)

    assert taken
    assert caplog.text.count("Redis is away") == 1
