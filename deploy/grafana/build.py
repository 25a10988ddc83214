"""Writes dashboards/overnight.json beside this file: `python deploy/grafana/build.py`, after every change here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.builders.dashboard import Dashboard, QueryVariable, Row, ThresholdsConfig
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import DataSourceRef, Threshold, ThresholdsMode

OUT = Path(__file__).parent / "dashboards" / "overnight.json"
SOURCE = DataSourceRef(type_val="prometheus", uid="overnight-prometheus")
GREEN, RED = "green", "red"

HOST = '{host=~"$host"}'
CARD = "{{host}} GPU {{index}}"


def dashboard() -> str:
    """The dashboard as Grafana's JSON."""
    board = (
        Dashboard("Overnight")
        .uid("overnight")
        .description("Cards, queue and runs of the lab. Made by deploy/grafana/build.py.")
        .tags(["overnight"])
        .timezone("browser")
        .refresh("30s")
        .time("now-12h", "now")
        .readonly()
        .with_variable(
            QueryVariable("host")
            .label("Host")
            .datasource(SOURCE)
            .query("label_values(overnight_host_up, host)")
            .multi(True)
            .include_all(True)
            .all_value(".*")
        )
    )
    ids = count(1)
    for title, panels in rows():
        board.with_row(Row(title).id(next(ids)))
        for panel in panels:
            board.with_panel(panel.id(next(ids)))
    return json.dumps(board.build(), cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def rows() -> Iterable[tuple[str, list[Stat | TimeSeries]]]:
    """What is shown, from whether the lab is up to what it used."""
    yield (
        "Is it up",
        [
            number("Redis", "overnight_redis_up", bad_below=1),
            number("Dispatcher", "overnight_leader_present", bad_below=1),
            number("Hosts up", "overnight_hosts_up", bad_below=1),
            number("Runs running", 'overnight_runs{state="running"}'),
            number("Runs queued", 'overnight_runs{state="queued"}'),
            number("Alerts", 'sum(overnight_alerts{state="firing"}) or vector(0)', bad_above=1),
            number("Oldest request", "overnight_request_oldest_wait_seconds", unit="s", bad_above=120),
            number("Slack behind", "overnight_outbox_oldest_age_seconds", unit="s", bad_above=300),
        ],
    )
    yield (
        "Cards",
        [
            curves("Utilisation", f"overnight_card_utilization_ratio{HOST}", CARD, unit="percentunit", top=1.0),
            curves(
                "Memory in use",
                f"overnight_card_memory_used_bytes{HOST} / overnight_card_memory_total_bytes{HOST}",
                CARD,
                unit="percentunit",
                top=1.0,
            ),
            curves("Temperature", f"overnight_card_temperature_celsius{HOST}", CARD, unit="celsius"),
            curves("Power", f"overnight_card_power_watts{HOST}", CARD, unit="watt"),
            curves(
                "PCIe, to and from the card",
                f"overnight_card_pcie_receive_bytes_per_second{HOST}",
                f"{CARD} in",
                unit="Bps",
                more=((f"overnight_card_pcie_transmit_bytes_per_second{HOST}", f"{CARD} out"),),
            ),
            curves(
                "Cards held by runs",
                f"sum by (host) (overnight_card_leased{HOST})",
                "{{host}} in use",
                more=(
                    (
                        'count by (host) (overnight_card_info{host=~"$host", role=~"train|shared"})',
                        "{{host}} usable",
                    ),
                    (f"sum by (host) (overnight_card_quarantined{HOST}) > 0", "{{host}} in quarantine"),
                    (f"sum by (host) (overnight_card_lost{HOST}) > 0", "{{host}} lost"),
                    (f"sum by (host) (overnight_card_faulty{HOST}) > 0", "{{host}} faulty"),
                ),
            ),
            curves(
                "Age of readings", f"max by (host) (overnight_card_reading_age_seconds{HOST})", "{{host}}", unit="s"
            ),
            curves("Keeper", f"overnight_keeper_info{HOST}", "{{host}} {{mode}}: {{state}}, {{verdict}}", top=1.0),
            curves(
                "Since the keeper's last beat",
                f"overnight_keeper_last_beat_age_seconds{HOST}",
                "{{host}}",
                unit="s",
                more=((f"overnight_keeper_interval_seconds{HOST}", "{{host}} interval"),),
            ),
        ],
    )
    yield (
        "Queue and runs",
        [
            curves("Runs that wait", "overnight_queue_runs", "{{priority}}"),
            curves("Oldest wait", "overnight_queue_oldest_wait_seconds", "{{priority}}", unit="s"),
            curves(
                "Wait for the first attempt, of runs that began within an hour",
                "histogram_quantile(0.5, sum by (le) (rate(overnight_queue_wait_seconds_bucket[1h])))",
                "median",
                unit="s",
                more=(
                    ("histogram_quantile(0.95, sum by (le) (rate(overnight_queue_wait_seconds_bucket[1h])))", "95 %"),
                ),
            ),
            curves("Runs by state", 'overnight_runs{state!~"finished|failed|cancelled"}', "{{state}}"),
            curves(
                "Attempts an hour, by how they ended",
                "sum by (outcome) (increase(overnight_attempts_total[1h]))",
                "{{outcome}}",
            ),
            curves(
                "Attempts an hour that went wrong, by cause",
                'sum by (cause) (increase(overnight_attempts_total{outcome=~"failed|retried|lost"}[1h]))',
                "{{cause}}",
            ),
            curves("Answers an hour, by kind", "sum by (kind) (increase(overnight_answers_total[1h]))", "{{kind}}"),
            curves(
                "Alerts by rule",
                'sum by (rule) (overnight_alerts{state!="resolved"})',
                "{{rule}}",
            ),
        ],
    )
    yield (
        "What it used, and what it stands on",
        [
            curves("GPU-hours a day", "increase(overnight_gpu_seconds_total[1d]) / 3600", "of ended runs"),
            curves(
                "Energy a day, of runs where it is known",
                "increase(overnight_energy_joules_total[1d]) / 3.6e6",
                "kWh",
                unit="kwatth",
            ),
            curves(
                "Language model: tokens a day",
                "sum by (direction) (increase(overnight_model_tokens_total[1d]))",
                "{{direction}}",
                more=(("increase(overnight_model_tokens_estimated_total[1d])", "estimated among them"),),
            ),
            curves(
                "Language model: calls and cost a day",
                "increase(overnight_model_calls_total[1d])",
                "calls",
                more=(("increase(overnight_model_cost_total[1d])", "cost"),),
            ),
            curves(
                "Runs within the length told nine in ten times (wanted: 0.9)",
                "overnight_predictions_within_p90_total / overnight_predictions_total",
                "{{basis}}",
            ),
            curves(
                "Error of lengths told, log(actual / told)",
                "overnight_prediction_abs_log_error_total / overnight_predictions_total",
                "{{basis}}, size",
                more=(("overnight_prediction_bias", "{{basis}}, bias"),),
            ),
            curves("Disk free for the data folder", f"overnight_host_disk_free_bytes{HOST}", "{{host}}", unit="bytes"),
            curves(
                "Memory of Redis",
                "overnight_redis_memory_used_bytes",
                "in use",
                unit="bytes",
                more=(("overnight_redis_memory_limit_bytes", "limit"),),
            ),
            curves("Messages to Slack that wait", "overnight_outbox_messages", "outbox"),
            curves("Events to deal with", "overnight_events_unread", "{{reader}}"),
            curves("Requests and reports that wait", "overnight_agent_queue_entries", "agent's queue"),
        ],
    )


def number(
    title: str, expr: str, *, unit: str = "short", bad_below: float | None = None, bad_above: float | None = None
) -> Stat:
    """One figure as it is now, red beyond its limit."""
    panel = Stat().title(title).datasource(SOURCE).unit(unit).height(4).span(3).with_target(query(expr, ""))
    steps = [Threshold(value=None, color=RED if bad_below is not None else GREEN)]
    if bad_below is not None:
        steps.append(Threshold(value=bad_below, color=GREEN))
    if bad_above is not None:
        steps.append(Threshold(value=bad_above, color=RED))
    return panel.thresholds(ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))


def curves(
    title: str,
    expr: str,
    legend: str,
    *,
    unit: str = "short",
    top: float | None = None,
    more: tuple[tuple[str, str], ...] = (),
) -> TimeSeries:
    """Curves over time; a gap where nothing is known."""
    panel = TimeSeries().title(title).datasource(SOURCE).unit(unit).min(0).height(8).span(12).span_nulls(False)
    panel.legend(
        VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM).show_legend(True)
    )
    if top is not None:
        panel.max(top)
    for number_, (more_expr, more_legend) in enumerate(((expr, legend), *more)):
        panel.with_target(query(more_expr, more_legend, chr(ord("A") + number_)))
    return panel


def query(expr: str, legend: str, ref: str = "A") -> Dataquery:
    """A PromQL query of a panel."""
    return Dataquery().expr(expr).legend_format(legend).ref_id(ref).datasource(SOURCE)


if __name__ == "__main__":
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(dashboard(), encoding="utf-8")
