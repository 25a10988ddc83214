"""What operators watch: each figure is what stands in Redis, and what is not known is not there."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from bot.conversation import Conversation
from bot.outbox import Note, Outbox
from lab import hosts, meter, tally
from lab import store as stores
from lab.card import Card, Host, HostCards, KeeperStatus
from lab.errors import ConfigError
from lab.leader import DISPATCH, leader_key
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, Spent
from lab.settings import MetricsSettings, Settings
from lab.store import Client
from terminal import exporter
from terminal.doctor import examine
from terminal.exporter import Exporter, health
from terminal.metrics import Lab, families, look

CARD = {"host": "lab-a", "card": "GPU-1", "index": "1"}
GIB = 2**30


def card(number: int, **fields: object) -> Card:
    known = {
        "memory_total_bytes": 80 * GIB,
        "memory_used_bytes": 30 * GIB,
        "utilization_pct": 98.0,
        "temperature_c": 72.0,
        "power_mw": 650_000,
        "read_at": time.time(),
    }
    return Card.model_validate(
        {"uuid": f"GPU-{number}", "index": number, "name": "H200", "host": "lab-a", **known, **fields}
    )


def publish(client: Client, *cards: Card, keeper: KeeperStatus | None = None) -> None:
    hosts.publish_host(client, Host(host="lab-a", version="0.1.0", disk_free_bytes=7 * GIB, cards=("GPU-1",)))
    hosts.publish_cards(client, HostCards(host="lab-a", cards=cards, keeper=keeper, published_at=time.time()))


def queued(ledger: Ledger, runs: int) -> str:
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request is not None
    plan = Plan(template="probe", models=("probe",), axes={"seed": tuple(range(runs))})
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment is not None
    return ledger.approve(experiment.id, "U1").id


def running(ledger: Ledger, run_id: str, card: str) -> None:
    run = ledger.bind(run_id, (card,), "lab-a", 1)
    lease = Leases(ledger.client, 60).claim(run.id, run.dispatches, run.cards, "lab-a.1")
    ledger.start(run.id, lease.fence, 123)


def value(client: Client, name: str, /, **labels: str) -> float | None:
    """The sample's value; None where there is none."""
    found = [
        sample.value
        for family in Lab(client).collect()
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    assert len(found) <= 1
    return found[0] if found else None


# -- figures -----------------------------------------------------------------------------------------------------


def test_a_cards_readings_are_in_base_units(store: Client) -> None:
    """A dashboard of others, made for ratios, bytes, degrees and watts, works on ours."""
    publish(store, card(1))

    assert value(store, "overnight_card_utilization_ratio", **CARD) == pytest.approx(0.98)
    assert value(store, "overnight_card_memory_used_bytes", **CARD) == 30 * GIB
    assert value(store, "overnight_card_temperature_celsius", **CARD) == 72
    assert value(store, "overnight_card_power_watts", **CARD) == 650
    labels = CARD | {"name": "H200", "role": "train", "simulated": "false"}
    assert value(store, "overnight_card_info", **labels) == 1


def test_pcie_and_faults_are_told(store: Client) -> None:
    """A card that waits for its data shows there; a faulty one gets no run, and somebody should see why."""
    publish(store, card(1, pcie_rx_bytes_per_s=1_500_000, pcie_tx_bytes_per_s=300_000, xid=79))

    assert value(store, "overnight_card_pcie_receive_bytes_per_second", **CARD) == 1_500_000
    assert value(store, "overnight_card_pcie_transmit_bytes_per_second", **CARD) == 300_000
    assert value(store, "overnight_card_faulty", **CARD) == 1
    publish(store, card(1))
    assert value(store, "overnight_card_pcie_receive_bytes_per_second", **CARD) is None
    assert value(store, "overnight_card_faulty", **CARD) == 0


def test_the_language_models_tokens_and_money_are_told(store: Client) -> None:
    """A key that leaks, or a loop, shows there before the bill; without prices there is no cost, and no 0."""
    meter.count(store, "U1", Spent(calls=2, tokens_in=900, tokens_out=60, estimated=30), time.time())

    assert value(store, "overnight_model_calls_total") == 2
    assert value(store, "overnight_model_tokens_total", direction="in") == 900
    assert value(store, "overnight_model_tokens_total", direction="out") == 60
    assert value(store, "overnight_model_tokens_estimated_total") == 30
    assert value(store, "overnight_model_cost_total") is None
    meter.count(store, "U1", Spent(calls=1, money=0.25), time.time())
    assert value(store, "overnight_model_cost_total") == 0.25


def test_what_a_driver_does_not_tell_is_absent_and_not_zero(store: Client) -> None:
    """0 W would be an alarm, and a mean over zeros a lie."""
    publish(store, card(1, power_mw=None, utilization_pct=None))

    assert value(store, "overnight_card_power_watts", **CARD) is None
    assert value(store, "overnight_card_utilization_ratio", **CARD) is None


def test_an_old_reading_ends_and_only_its_age_goes_on(store: Client) -> None:
    """A host that hangs must not show 98 % all night."""
    publish(store, card(1, read_at=time.time() - 40))

    assert value(store, "overnight_card_utilization_ratio", **CARD) is None
    assert value(store, "overnight_card_reading_age_seconds", **CARD) == pytest.approx(40, abs=5)
    assert value(store, "overnight_card_memory_total_bytes", **CARD) == 80 * GIB


def test_a_lost_card_is_said_to_be_lost(store: Client) -> None:
    """Its last reading is worth nothing."""
    publish(store, card(1, lost=True))

    assert value(store, "overnight_card_lost", **CARD) == 1
    assert value(store, "overnight_card_temperature_celsius", **CARD) is None


def test_cards_in_use_and_in_quarantine_are_told_apart(store: Client, ledger: Ledger) -> None:
    """Low utilisation is only a matter on a card that an attempt holds."""
    publish(store, card(1), card(2))
    running(ledger, f"{queued(ledger, 1)}/1", "GPU-1")
    ledger.quarantine("GPU-2", "Xid 79", 60)

    other = CARD | {"card": "GPU-2", "index": "2"}
    assert [value(store, "overnight_card_leased", **labels) for labels in (CARD, other)] == [1, 0]
    assert [value(store, "overnight_card_quarantined", **labels) for labels in (CARD, other)] == [0, 1]


def test_waiting_runs_are_counted_by_priority_with_the_oldest(store: Client, ledger: Ledger) -> None:
    """Who waits longest is what people complain about."""
    experiment = queued(ledger, 3)
    ledger.set_priority(f"{experiment}/2", "high", "U1")
    running(ledger, f"{experiment}/3", "GPU-1")
    store.hset(f"on:run:{experiment}/2", "queued_at", json.dumps(time.time() - 500))

    assert value(store, "overnight_queue_runs", priority="normal") == 1
    assert value(store, "overnight_queue_runs", priority="high") == 1
    assert value(store, "overnight_queue_runs", priority="low") == 0
    assert value(store, "overnight_queue_oldest_wait_seconds", priority="high") == pytest.approx(500, abs=5)
    assert value(store, "overnight_queue_wait_seconds_count", priority="normal") == 1


def test_records_and_attempts_are_counted(store: Client, ledger: Ledger) -> None:
    """States from the indexes, causes from the counts that the ledger keeps."""
    experiment = queued(ledger, 3)
    running(ledger, f"{experiment}/1", "GPU-1")
    ledger.fail(f"{experiment}/1", 1, "oom_gpu", "out of memory")

    assert value(store, "overnight_runs", state="failed") == 1
    assert value(store, "overnight_runs", state="queued") == 2
    assert value(store, "overnight_experiments", state="running") == 1
    assert value(store, "overnight_requests", state="answered") == 1
    assert value(store, "overnight_answers_total", kind="plan") == 1
    assert value(store, "overnight_attempts_total", outcome="failed", cause="oom_gpu") == 1


def test_how_right_lengths_were_told_is_counted(store: Client, settings: Settings) -> None:
    """By who scrapes and by who asks the doctor; who reads 40 % within p90 knows what a promise is worth."""
    with store.pipeline() as pipe:
        for error, within in ((0.7, False), (0.1, True), (-0.2, True), (0.0, True)):
            tally.count_prediction(pipe, error, within=within, rough=False)
        pipe.execute()
    (finding,) = [f for f in examine(settings) if f.part == "estimates"]

    assert value(store, "overnight_predictions_total", basis="known") == 4
    assert value(store, "overnight_predictions_within_p90_total", basis="known") == 3
    assert value(store, "overnight_prediction_abs_log_error_total", basis="known") == pytest.approx(1.0)
    assert value(store, "overnight_prediction_bias", basis="known") == pytest.approx(0.15)
    assert finding.detail == "4 runs of known kinds: 75 % within p90 (90 wanted), p50 off by a factor of 1.28 (mean)"


def test_a_host_that_fell_silent_is_down_while_its_readings_last(store: Client) -> None:
    """Absent alone, it would never be missed by a rule."""
    publish(store, card(1))
    store.delete("on:host:lab-a")

    assert value(store, "overnight_host_up", host="lab-a") == 0
    assert value(store, "overnight_hosts_up") == 0
    assert value(store, "overnight_host_readable", host="lab-a") == 1


def test_the_keeper_the_outbox_the_disk_and_the_leader_are_told(store: Client) -> None:
    """Each of these ends a night when nobody looks."""
    keeper = KeeperStatus(card="GPU-1", pid=7, beats=12, last_beat_at=time.time() - 90, state="failing")
    publish(store, card(1), keeper=keeper)
    Outbox(store).add(
        Note("answer", "req-1", Conversation("T1", "C1", "1.0")), Note("plan", "exp-1", Conversation("T1", "C1", "2.0"))
    )
    store.set(leader_key(DISPATCH), "me")

    keeps = {"host": "lab-a", "card": "GPU-1"}
    assert value(store, "overnight_keeper_beats_total", **keeps) == 12
    assert value(store, "overnight_keeper_last_beat_age_seconds", **keeps) == pytest.approx(90, abs=5)
    labels = keeps | {"mode": "touch", "state": "failing", "verdict": "unverified"}
    assert value(store, "overnight_keeper_info", **labels) == 1
    assert value(store, "overnight_outbox_messages") == 2
    assert value(store, "overnight_host_disk_free_bytes", host="lab-a") == 7 * GIB
    assert value(store, "overnight_leader_present") == 1


def test_alerts_are_counted_by_rule_and_unreadable_ones_are_passed_over(store: Client) -> None:
    """One record of a newer version must not blind the dashboard."""
    hot = {"rule": "too_hot", "severity": "critical", "state": "firing"}
    store.hset("on:alert:records", mapping={"al-1": json.dumps(hot), "al-2": json.dumps(hot), "al-3": "{"})

    assert value(store, "overnight_alerts", rule="too_hot", severity="critical", state="firing") == 2


def test_an_empty_lab_has_figures_too(store: Client) -> None:
    """The first scrape comes before the first request; the stream does not exist then."""
    assert value(store, "overnight_runs", state="queued") == 0
    assert value(store, "overnight_leader_present") == 0
    assert value(store, "overnight_events_unread", reader="courier") is None


def test_names_follow_prometheus_conventions(store: Client) -> None:
    """Base units in the name, a help text each, no people and no experiments among the labels."""
    publish(store, card(1), keeper=KeeperStatus(card="GPU-1", pid=7))
    found: list[Metric] = list(families(look(store), time.time()))

    assert all(family.name.startswith("overnight_") and family.documentation.endswith(".") for family in found)
    assert len({family.name for family in found}) == len(found)
    labels = {label for family in found for sample in family.samples for label in sample.labels}
    assert not labels & {"owner", "user", "run", "experiment", "conversation", "pid"}
    assert not [f.name for f in found if f.name.endswith(("_pct", "_mw", "_ms", "_minutes", "_mib"))]


# -- the exporter ------------------------------------------------------------------------------------------------


@pytest.fixture
def served(store: Client) -> Iterator[str]:
    server = Exporter(store, "127.0.0.1", 0)
    server.start()
    yield server.url
    server.stop()


def get(url: str, accept: str = "") -> tuple[int, str, str]:
    """Status, content type and body."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=10) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_a_scrape_is_read_by_prometheus_own_parser(store: Client, served: str) -> None:
    """Text by default, OpenMetrics for who asks for it, as Prometheus does."""
    publish(store, card(1, name='H200 "NVL"\n\\'))

    status, kind, text = get(f"{served}/metrics")
    found = {family.name for family in text_string_to_metric_families(text)}
    assert (status, kind.split(";")[0]) == (200, "text/plain")
    assert {"overnight_redis_up", "overnight_runs", "overnight_card_info"} <= found
    _, kind, text = get(f"{served}/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


def test_health_is_503_until_leader_and_host_are_there_and_names_what_is_missing(store: Client, served: str) -> None:
    """Whoever asks is a load balancer or a person at night: both get what to do."""
    status, kind, body = get(f"{served}/health")
    assert (status, kind) == (503, "application/json")
    assert set(json.loads(body)["missing"]) == {"leader", "host"}

    publish(store, card(1))
    store.set(leader_key(DISPATCH), "me")

    status, _, body = get(f"{served}/health")
    assert (status, json.loads(body)) == (200, {"ok": True, "missing": {}})


def test_without_redis_the_exporter_still_answers() -> None:
    """An exporter that is gone with Redis could not say that Redis is; stale figures would be worse."""
    nowhere = stores.connect(Settings(data_dir=Path("/tmp/no-such-lab"), redis_url=None), patient=False)

    assert value(nowhere, "overnight_redis_up") == 0
    assert [family.name for family in Lab(nowhere).collect()] == ["overnight_redis_up"]
    assert set(health(nowhere).missing) == {"redis"}


def test_figures_come_back_with_redis() -> None:
    """One exporter outlives a restart of Redis."""
    folder = Path(tempfile.mkdtemp(prefix="on-", dir="/tmp"))
    settings = Settings(data_dir=folder)
    client = stores.connect(settings, patient=False)
    try:
        for _ in range(2):
            assert value(client, "overnight_redis_up") == 0
            with stores.embedded(settings):
                assert value(client, "overnight_redis_up") == 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_other_paths_are_404(served: str) -> None:
    """And the server says nothing about itself."""
    assert get(f"{served}/../etc/passwd")[0] == 404


def test_a_used_port_is_named(store: Client) -> None:
    """The setting to change stands in the message."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match=r"metrics\.port.*Address already in use"):
            Exporter(store, "127.0.0.1", taken.getsockname()[1])


def test_the_command_serves_until_it_is_told_to_stop(settings: Settings, store: Client) -> None:
    """Port and address come from the settings; it listens on this machine alone unless told otherwise."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    chosen = settings.model_copy(update={"metrics": MetricsSettings(port=port)})
    stop = threading.Event()
    thread = threading.Thread(target=exporter.main, args=(chosen, None, stop))

    thread.start()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            assert get(f"http://127.0.0.1:{port}/metrics")[0] == 200
            break
        except urllib.error.URLError:
            time.sleep(0.05)
    stop.set()
    thread.join(10)

    assert not thread.is_alive()
    assert Settings().metrics.address == "127.0.0.1"


def test_promtool_finds_nothing_to_complain_of(store: Client, ledger: Ledger, served: str) -> None:
    """Prometheus' own linter, on a lab in which something happened."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool (Debian: package prometheus)")
    publish(store, card(1), keeper=KeeperStatus(card="GPU-1", pid=7))
    running(ledger, f"{queued(ledger, 2)}/1", "GPU-1")

    text = get(f"{served}/metrics")[2]
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
