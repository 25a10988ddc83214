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

from lab import store
from lab.ledger import Ledger
from lab.run import FINAL_RUN, Experiment, ExperimentState
from lab.settings import Settings
from terminal.thread import Thread, plan_card, run_line


def experiments_table(experiments: Sequence[Experiment], counts: Mapping[str, Mapping[str, int]]) -> Table:
    """One line an experiment: id, what, state, runs, owner, when."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "what", "state", "runs", "owner", "proposed"):
        grid.add_column(name)
    for experiment in experiments:
        ended = counts[experiment.id]
        runs = ", ".join(f"{n} {state}" for state, n in sorted(ended.items())) or f"{experiment.n_runs}"
        when = datetime.fromtimestamp(experiment.created_at).strftime("%m-%d %H:%M")
        title = escape(experiment.plan.title())
        grid.add_row(experiment.id, title, experiment.state.value, runs, escape(experiment.owner), when)
    return grid


def show_experiment(
    settings: Settings, client: store.Client, console: Console | None, experiment_id: str
) -> dict[str, Any]:
    """The experiment as a JSON document; printed for people too when there is a console. Raises UnknownRecord."""
    ledger = Ledger(client)
    experiment_id = experiment_id.split("/")[0]  # a run is shown with its experiment
    experiment = ledger.experiment(experiment_id)
    approved = experiment.approved_at is not None
    runs = ledger.runs(experiment_id) if approved else []
    progress = ledger.progress(run.id for run in runs if run.state not in FINAL_RUN)
    report = ledger.report(experiment_id, experiment.report_revision) if experiment.report_revision else None
    if console is not None:
        thread = Thread(settings, client, console, "")
        console.print(plan_card(experiment))
        console.print(f"  {_state_words(experiment)}", markup=False)
        for run in runs:
            console.print(run_line(run, experiment.plan, progress.get(run.id)), markup=False, highlight=False)
        if report is not None:
            console.print()
            thread.show_report(thread.report(experiment_id, experiment.report_revision))
    return {
        "experiment": experiment.model_dump(mode="json"),
        "runs": [run.model_dump(mode="json") for run in runs],
        "progress": {run_id: p.model_dump(mode="json") for run_id, p in progress.items()},
        "report": None if report is None else json.loads(report),
    }


def _state_words(experiment: Experiment) -> str:
    if experiment.state is ExperimentState.PROPOSED:
        return f"proposed {round((time.time() - experiment.created_at) / 60)} min ago, waits for Run"
    by = f", approved by {experiment.approved_by}" if experiment.approved_by else ""
    return f"{experiment.state.value}{by}"
