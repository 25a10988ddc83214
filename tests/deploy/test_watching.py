"""Rules and dashboard ask for figures that there are, and a real Prometheus can answer them."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import hosts, tally
from lab.card import Card, Host, HostCards, KeeperStatus
from lab.census import Census
from lab.leader import DISPATCH, leader_key
from lab.store import Client
from terminal.exporter import Exporter
from terminal.metrics import Seen, families

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "overnight.json"
NAME = re.compile(r"\bovernight_[a-z0-9_]+")
NOT_OF_OURS = frozenset({"overnight_redis_up"})
"""Told by the collector itself, with or without the rest."""


def exported() -> set[str]:
    """Every name that a scrape can carry."""
    states = {kind: {"queued": 1} for kind in ("request", "experiment", "run")}
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    found = {f.name + suffix for f in families(Seen(Census(states)), 0.0) for suffix in suffixes[f.type]}
    return found | NOT_OF_OURS


def panels() -> list[dict[str, Any]]:
    board: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def dashboard_queries() -> dict[str, str]:
    """Every query of the dashboard by panel, for all hosts."""
    return {
        f"{panel['title']} {target['refId']}": target["expr"].replace("$host", ".*")
        for panel in panels()
        for target in panel["targets"]
    }


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} (Debian: package prometheus)")
    return found


def test_every_query_asks_for_figures_that_there_are() -> None:
    """A renamed figure would leave an empty panel, or a rule that never fires, which nobody notices."""
    asked = {
        name for expr in [*dashboard_queries().values(), *(r["expr"] for r in rules())] for name in NAME.findall(expr)
    }

    assert asked <= exported()


def test_every_figure_is_looked_at() -> None:
    """A figure that neither rule nor panel uses is one to leave out, or to show."""
    asked = {
        name for expr in [*dashboard_queries().values(), *(r["expr"] for r in rules())] for name in NAME.findall(expr)
    }
    left = exported() - asked - {"overnight_queue_wait_seconds_sum", "overnight_queue_wait_seconds_count"}

    assert left <= {
        "overnight_keeper_beats_total",
        "overnight_requests",
        "overnight_experiments",
    }


def test_the_dashboard_is_what_its_script_makes() -> None:
    """It is edited there, not here; the other way round the next build would take it back."""
    pytest.importorskip("grafana_foundation_sdk", reason="grafana-foundation-sdk is not installed")

    assert runpy.run_path(str(DEPLOY / "grafana" / "build.py"))["dashboard"]() == DASHBOARD.read_text()


def test_dashboard_and_data_source_find_each_other() -> None:
    """By a fixed uid, so that the provisioned dashboard works at its first look; panels have ids of their own."""
    source = yaml.safe_load((DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yml").read_text())
    uids = {panel["datasource"]["uid"] for panel in panels()}
    ids = [panel["id"] for panel in json.loads(DASHBOARD.read_text())["panels"]]

    assert uids == {source["datasources"][0]["uid"]}
    assert len(set(ids)) == len(ids)


def test_compose_mounts_what_grafana_and_prometheus_read() -> None:
    """The paths stand in three files."""
    services = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text())["services"]
    provider = yaml.safe_load((DEPLOY / "grafana" / "provisioning" / "dashboards" / "overnight.yml").read_text())
    mounts = dict(volume.split(":")[:2] for name in ("grafana", "prometheus") for volume in services[name]["volumes"])
    target = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"][0]

    assert mounts["./deploy/grafana/dashboards"] == provider["providers"][0]["options"]["path"]
    home = Path(services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (str(home.parent), home.name) == (mounts["./deploy/grafana/dashboards"], DASHBOARD.name)
    assert mounts["./deploy/prometheus"] == "/etc/prometheus"
    assert target["static_configs"][0]["targets"] == [f"metrics:{services['metrics']['command'][-1]}"]


def test_grafana_refuses_to_start_without_a_password() -> None:
    """Its own default is admin, admin."""
    grafana = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text())["services"]["grafana"]
    script = grafana["entrypoint"][-1].replace("$$", "$").replace("exec /run.sh", "echo started")

    for password, status in (("", 2), ("s3cret", 0)):
        done = subprocess.run(["sh", "-c", script], env={"GF_SECURITY_ADMIN_PASSWORD": password}, capture_output=True)
        assert bool(done.returncode) is bool(status)
    assert grafana["environment"]["GF_SECURITY_ADMIN_PASSWORD"] == "${GRAFANA_PASSWORD:-}"


# -- with Prometheus' own tools ----------------------------------------------------------------------------------


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run([tool("promtool"), *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_config_and_rules() -> None:
    """What Prometheus refuses, it refuses at its start."""
    promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")
    promtool("check", "rules", RULES)


def test_rules_fire_when_they_should_and_not_on_a_quiet_night() -> None:
    """Made-up series through Prometheus' own engine."""
    promtool("test", "rules", Path(__file__).parent / "rules_test.yml")


@pytest.fixture
def prometheus(store: Client, tmp_path: Path) -> Iterator[str]:
    """Address of a Prometheus that scrapes an exporter on a lab in which something happened."""
    tool("prometheus")
    fill(store)
    exporter = Exporter(store, "127.0.0.1", 0)
    exporter.start()
    with run_prometheus(exporter.url.removeprefix("http://"), tmp_path) as address:
        yield address
    exporter.stop()


@contextmanager
def run_prometheus(target: str, folder: Path) -> Iterator[str]:
    """Address of a Prometheus with our configuration that scrapes the target four times a second."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "250ms", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES)]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [
            tool("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'series'}",
            f"--web.listen-address={address}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(20)


def fill(client: Client) -> None:
    """A host with a card of each kind, a keeper, messages, alerts and counts."""
    now = time.time()
    known: dict[str, Any] = {
        "name": "H200",
        "host": "lab-a",
        "memory_total_bytes": 2**37,
        "memory_used_bytes": 2**36,
        "utilization_pct": 90.0,
        "temperature_c": 60.0,
        "power_mw": 600_000,
        "pcie_rx_bytes_per_s": 10**9,
        "pcie_tx_bytes_per_s": 10**8,
        "read_at": now + 3600,
    }
    cards = (Card(uuid="GPU-0", index=0, **known), Card(uuid="GPU-1", index=1, role="keeper", xid=79, **known))
    lost = Card(uuid="GPU-2", index=2, lost=True, **known)
    keeper = KeeperStatus(card="GPU-1", pid=7, last_beat_at=now)
    hosts.publish_cards(client, HostCards(host="lab-a", cards=(*cards, lost), keeper=keeper, published_at=now))
    hosts.publish_host(client, Host(host="lab-a", version="0.1.0", disk_free_bytes=2**40))
    client.set(leader_key(DISPATCH), "me")
    client.set("on:quarantine:GPU-0", "Xid 79")
    hot = json.dumps({"rule": "too_hot", "severity": "critical", "state": "firing"})
    client.hset("on:alert:records", "al-1", hot)
    client.xgroup_create("on:events", "courier", id="0", mkstream=True)
    with client.pipeline() as pipe:
        tally.count_wait(pipe, "normal", 30)
        tally.count_attempt(pipe, "failed", "oom_gpu")
        tally.count_answer(pipe, "plan")
        tally.count_prediction(pipe, 0.2, within=True, rough=False)
        pipe.execute()


def ask(prometheus: str, expr: str) -> list[Any]:
    """The result of an instant query; fails where Prometheus does not understand it."""
    with urllib.request.urlopen(
        f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expr})}", timeout=10
    ) as got:
        answer = json.load(got)
    assert answer["status"] == "success"
    found: list[Any] = answer["data"]["result"]
    return found


def test_a_real_prometheus_answers_every_query_of_the_dashboard(prometheus: str) -> None:
    """Names, labels and joins, as the panels put them; only what this lab lacks is empty."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if ask(prometheus, "count_over_time(overnight_redis_up[1m]) > 4"):
                break
        except OSError:
            time.sleep(0.2)

    empty = {title for title, expr in dashboard_queries().items() if not ask(prometheus, expr)}
    assert empty == {"Memory of Redis B", "Language model: calls and cost a day B"}
    assert ask(prometheus, "overnight_card_lost == 1")
    assert not ask(prometheus, 'overnight_card_temperature_celsius{card="GPU-2"}')
