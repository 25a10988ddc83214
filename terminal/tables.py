"""Tables of experiments and runs for a terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lab import planwords, store
from lab.archive import NotHereError
from lab.estimate import expected
from lab.forecast import Forecast, forecasts
from lab.ledger import Ledger
from lab.run import FINAL_RUN, Experiment, ExperimentState, experiment_of
from lab.settings import Settings
from lab.when import clock
from terminal.thread import Thread, plan_card, run_line


def experiments_table(
    experiments: Sequence[Experiment], counts: Mapping[str, Mapping[str, int]], forecasts: Mapping[str, Forecast]
) -> Table:
    """One line an experiment: id, what, state, runs, owner, when, and when it is done as far as that is known."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "what", "state", "runs", "owner", "proposed", "done at (p90)"):
        grid.add_column(name)
    for experiment in experiments:
        ended = counts[experiment.id]
        runs = ", ".join(f"{n} {state}" for state, n in sorted(ended.items())) or f"{experiment.n_runs}"
        when = datetime.fromtimestamp(experiment.created_at).strftime("%m-%d %H:%M")
        title, end = escape(planwords.title(experiment.plan)), _end(forecasts.get(experiment.id))
        grid.add_row(experiment.id, title, experiment.state.value, runs, escape(experiment.owner), when, end)
    return grid


def _end(forecast: Forecast | None) -> str:
    return f"{clock(forecast.end.p50)} ({clock(forecast.end.p90)})" if forecast and forecast.end else ""


def show_experiment(
    settings: Settings, client: store.Client, console: Console | None, experiment_id: str
) -> dict[str, Any]:
    """The experiment as a JSON document; printed for people too when there is a console. Raises UnknownRecord."""
    ledger = Ledger(client)
    experiment_id = experiment_of(experiment_id)  # a run is shown with its experiment
    experiment = ledger.experiment(experiment_id)
    approved = experiment.approved_at is not None
    try:
        runs, away = ledger.runs(experiment_id) if approved else [], None
    except NotHereError as error:
        runs, away = [], str(error)
    progress = ledger.progress(run.id for run in runs if run.state not in FINAL_RUN)
    forecast = forecasts(client, [experiment_id]).get(experiment_id)
    written = experiment.report_revision if away is None else 0
    report = ledger.report(experiment_id, written) if written else None
    if console is not None:
        thread = Thread(settings, client, console, "")
        console.print(plan_card(experiment))
        told = ", ".join([_state_words(experiment), *expected(forecast, time.time(), clock)])
        console.print(f"  {told}", markup=False)
        if away is not None:
            console.print(f"  {away}", markup=False)
        for run in runs:
            place = forecast.waiting.get(run.number) if forecast else None
            line = run_line(run, experiment.plan, progress.get(run.id), place)
            console.print(line, markup=False, highlight=False)
        if report is not None:
            console.print()
            thread.show_report(thread.report(experiment_id, experiment.report_revision))
    return {
        "experiment": experiment.model_dump(mode="json"),
        "runs": [run.model_dump(mode="json") for run in runs],
        "progress": {run_id: p.model_dump(mode="json") for run_id, p in progress.items()},
        "forecast": None if forecast is None else forecast.model_dump(mode="json"),
        "report": None if report is None else json.loads(report),
    }


def _state_words(experiment: Experiment) -> str:
    if experiment.state is ExperimentState.PROPOSED:
        return f"proposed {round((time.time() - experiment.created_at) / 60)} min ago, waits for Run"
    by = f", approved by {experiment.approved_by}" if experiment.approved_by else ""
    return f"{experiment.state.value}{by}"
