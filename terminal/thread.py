"""A conversation in a terminal: the request goes the way of every request, its answer and its runs are shown."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lab import estimate as estimates
from lab import events, freecards, planwords, reuse, store
from lab.cardtable import table
from lab.errors import OvernightError
from lab.estimate import duration, expected, place_words
from lab.forecast import Forecast, Place, forecasts
from lab.ledger import Ledger
from lab.plan import Plan
from lab.report import Report, summary_lines
from lab.run import FINAL_RUN, Answer, Experiment, ExperimentState, Progress, Run, RunState
from lab.settings import Settings
from lab.when import clock, stamped

ANSWER_WAIT_S = 60.0
"""Beyond the model's own time-out; no answer by then means that no agent is up."""
MANY = 12
"""Runs shown with a bar each; the others are counted."""


class NoAnswer(OvernightError):
    """Nobody answered the request in time."""


class Thread:
    """One conversation of a terminal, opaque to all others as `terminal:<id>`."""

    def __init__(self, settings: Settings, client: store.Client, console: Console, user: str) -> None:
        self.settings = settings
        self.client = client
        self.ledger = Ledger(client)
        self.console = console
        self.user = user
        self.id = f"terminal:{uuid.uuid4().hex}"

    def ask(self, text: str) -> Answer:
        """The answer to the text. Raises NoAnswer when no agent takes it within a minute and the model's time-out."""
        after = events.newest_id(self.client)
        request = self.ledger.submit(text, self.user, self.id)
        assert request is not None  # nothing was claimed
        deadline = time.monotonic() + ANSWER_WAIT_S + self.settings.model.timeout_s
        for event in events.follow(self.client, after, 200):
            if event is not None and event.kind == "request.answered" and event.subject == request.id:
                return Answer.model_validate(event.data)
            if time.monotonic() > deadline:
                break
        raise NoAnswer(f"{request.id} has no answer yet: is `overnight agent` (or `overnight up`) running?")

    def wishes_card(self) -> bool:
        """True when this conversation waits to be told of a free card."""
        return any(wish.conversation == self.id for wish in freecards.wishes(self.client))

    def free_card(self) -> str:
        """What was told when a card was free, or when the time for that was over."""
        for event in events.follow(self.client, "0", 500):
            if event is not None and event.kind == "card.free" and event.conversation == self.id:
                return freecards.told(self.client, event.subject) or ""
        return ""

    def show_answer(self, answer: Answer) -> None:
        """The answer stands in the terminal, a plan as its card."""
        if answer.kind == "plan" and answer.experiment_id:
            self.console.print(plan_card(self.ledger.experiment(answer.experiment_id)))
        elif answer.kind == "cards":
            self.console.print(table(self.ledger.shown_cards(), self.ledger.card_uses(), time.time()), markup=False)
        else:
            self.console.print(stamped(answer.text, clock), markup=False)
        if answer.note:
            self.console.print(f"({answer.note})", style="dim", markup=False)

    def follow(self, experiment_id: str) -> Report | None:
        """The experiment has ended, its progress was shown on the way; its report, None if it was cancelled."""
        with Bars(self.ledger, experiment_id, self.console) as bars:
            for event in events.follow(self.client, "0", 500):
                bars.update()
                if event is None or event.subject != experiment_id:
                    continue
                if event.kind == "experiment.notice":
                    text = self.ledger.notice_text(experiment_id, event.data.get("key", ""))
                    self.console.print(text or "", markup=False)
                if event.kind == "report.ready":
                    return self.report(experiment_id, event.data["revision"])
                if event.kind == "experiment.cancelled":
                    return None
        return None

    def report(self, experiment_id: str, revision: int) -> Report:
        """The report of the ledger. Raises OvernightError when it is gone."""
        found = self.ledger.report(experiment_id, revision)
        if found is None:
            raise OvernightError(f"{experiment_id} has no report {revision}")
        return Report.model_validate_json(found)

    def show_report(self, report: Report) -> None:
        """Verdict, table, what it used and the command to run it again."""
        for line in summary_lines(report):
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def save_figures(self, report: Report, folder: Path) -> list[Path]:
        """The report's figures lie in the folder; returns their paths."""
        raw = store.connect(self.settings, decode=False)
        saved = []
        for name in report.figures:
            data = self.ledger.figure(raw, report.experiment_id, report.revision, name)
            if data is not None:
                folder.mkdir(parents=True, exist_ok=True)
                path = folder / f"{report.experiment_id}-{name}"
                path.write_bytes(data)
                saved.append(path)
        return saved


class Bars:
    """How an experiment's runs are doing, for `with`.

    In a terminal the bars move in place; elsewhere a line is printed when a run changes its state.
    """

    def __init__(self, ledger: Ledger, experiment_id: str, console: Console) -> None:
        self._ledger, self._id, self._console = ledger, experiment_id, console
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        self._states: dict[str, RunState] = {}
        self._expected = ""
        """What was said of its end, once."""
        self._plan = ledger.experiment(experiment_id).plan

    def __enter__(self) -> Bars:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self) -> None:
        """What the ledger says now is shown."""
        runs = self._ledger.runs(self._id)
        forecast = forecasts(self._ledger.client, [self._id]).get(self._id)
        if self._live is not None:
            progress = self._ledger.progress(run.id for run in runs if run.state not in FINAL_RUN)
            self._live.update(progress_view(self._ledger.experiment(self._id), runs, progress, forecast))
            return
        if forecast and not self._expected:
            self._expected = ", ".join(expected(forecast, time.time(), clock))
            self._console.print(f"{self._id}: {self._expected}", markup=False, highlight=False)
        for run in runs:
            if self._states.get(run.id) != run.state and (run.room or run.state in (*FINAL_RUN, RunState.RUNNING)):
                self._console.print(run_line(run, self._plan), markup=False, highlight=False)
            self._states[run.id] = run.state


def plan_card(experiment: Experiment) -> Group:
    """What would run, how long it takes, and what was assumed."""
    plan = experiment.plan
    lines = [
        Text.assemble((f"{experiment.id}: ", "bold"), planwords.title(plan)),
        Text(f"  {planwords.arithmetic(plan)}, {estimates.words(experiment.estimate)}"),
    ]
    reused = reuse.words(experiment.reused, experiment.n_runs, chinese=False)
    lines += [Text(f"  {reused}")] if reused else []
    said = "; ".join(planwords.stated(plan))
    if said:
        lines.append(Text(f"  as you said: {said}"))
    if plan.assumed:
        lines.append(Text(f"  assumed: {'; '.join(planwords.assumptions(plan))}"))
    remarks = experiment.estimate.remarks if experiment.estimate else ()
    lines += [Text(f"  note: {stamped(note, clock)}", style="yellow") for note in (*remarks, *plan.notes)]
    return Group(*lines)


def run_line(run: Run, plan: Plan, progress: Progress | None = None, place: Place | None = None) -> str:
    """One run in a line: number, what tells it from the others, how far it is or what it came to."""
    return f"{run.number:>3} {run.point.label(plan.varying)}  {run_words(run, progress, place)}"


def run_words(run: Run, progress: Progress | None = None, place: Place | None = None) -> str:
    """How far a run is, where it stands, or what it came to: `epoch 2/3, val acc 0.951, about 12 s left`."""
    if run.state is RunState.QUEUED and (place or run.room):
        room = [f"made room for {run.room.for_run}"] if run.room else []
        return ", ".join(["queued", *room, *([place_words(place, time.time())] if place else [])])
    if run.state in FINAL_RUN:
        metrics = run.result.metrics if run.result else {}
        said = [] if run.state is RunState.FINISHED else [run.message or run.cause or ""]
        said += [f"from {run.reused_from}"] if run.reused_from else []
        return ", ".join([run.state.value, *_metric_words(metrics), *filter(None, said)])
    if progress is None:
        return run.state.value
    parts = [f"step {progress.step}/{progress.steps_total or '?'}"]
    if progress.epochs_total:
        parts = [f"epoch {progress.epoch or 0}/{progress.epochs_total}"]
    left = [] if progress.eta_s is None else [f"about {duration(progress.eta_s)} left"]
    return ", ".join([*parts, *_metric_words(progress.metrics), *left])


def _metric_words(metrics: Mapping[str, float | None]) -> list[str]:
    shown = ((name, metrics.get(name)) for name in ("val_acc", "val_loss"))
    return [f"{name.replace('_', ' ')} {value:.3f}" for name, value in shown if value is not None]


def progress_view(
    experiment: Experiment, runs: list[Run], progress: dict[str, Progress], forecast: Forecast | None
) -> Group:
    """How many runs are done, and a bar for each that is not."""
    done = sum(run.state in FINAL_RUN for run in runs)
    live = [run for run in runs if run.state not in FINAL_RUN and run.state is not RunState.QUEUED]
    waiting = sum(run.state is RunState.QUEUED for run in runs)
    head = Text(f"{experiment.id}: {done} of {experiment.n_runs} done", style="bold")
    if experiment.state is ExperimentState.FINISHED:
        head.append(", writing the report")
    for words in expected(forecast, time.time(), clock) if live or waiting else ():
        head.append(f", {words}")
    grid = Table.grid(padding=(0, 1))
    for run in [*[r for r in runs if r.state in FINAL_RUN][-MANY:], *live[:MANY]]:
        now = progress.get(run.id)
        share = 1.0 if run.state is RunState.FINISHED else (now.share if now else None) or 0.0
        grid.add_row(
            str(run.number),
            escape(run.point.label(experiment.plan.varying)),
            ProgressBar(total=1.0, completed=share, width=20),
            Text(run_words(run, now)),
        )
    rest = [Text(f"and {waiting} waiting for a card", style="dim")] if waiting else []
    return Group(head, grid, *rest)
