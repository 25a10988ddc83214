"""The searches that run: the leader draws values for their runs and stops those that need not go on.

A draw is a function of the ledger, and stands once it is written; so does a run that was told to stop. Nothing else is
kept: what is remembered here only saves reading the curves of ended runs again.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from lab.errors import MoveRefused
from lab.language import Phrasebook, is_chinese
from lab.ledger import Ledger
from lab.objective import choose_metric
from lab.plan import Plan, number
from lab.pruning import REDUCTION
from lab.report import fixed, higher_is_better, metric_name
from lab.run import FINAL_RUN, Run, RunState
from lab.trials import Curve, by_epoch, curve_of, trials_of
from workers.sampler import Hopeless, hopeless, propose

log = logging.getLogger(__name__)


WORDS = Phrasebook(
    {
        "median": (
            "pruned at epoch {epoch}: {metric} {value}, worse than the median of {others} others",
            "在第 {epoch} 轮被剪枝：{metric} {value}，不如其他 {others} 个的中位数",
        ),
        "halving": (
            "pruned at epoch {epoch}: {metric} {value}, worse than the best 1/{n} of {others} others",
            "在第 {epoch} 轮被剪枝：{metric} {value}，不在其他 {others} 个中最好的 1/{n} 之列",
        ),
    }
)
"""Why a run was stopped, by rule."""


class Searches:
    """The searches of the ledger, for the dispatcher that leads."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._plans: dict[str, Plan] = {}
        self._ended: dict[str, Curve] = {}
        """Curves of ended runs, which never change."""
        self._seen: dict[str, int | None] = {}
        """Epoch at which each running one was last looked at."""

    def draw(self, run: Run) -> None:
        """The run has its values, drawn from what the trials before it came to."""
        if not run.to_draw:
            return
        experiment, runs = self.ledger.experiment(run.experiment_id), self.ledger.runs(run.experiment_id)
        plan, like = experiment.plan, [r for r in runs if _study(r) == _study(run)]
        metric, _ = choose_metric(plan.metric, runs)
        values = propose(
            plan.search,
            plan.drawn,
            trials_of(like, plan.drawn, metric),
            plan.trials or 1,
            f"{experiment.id}/{run.point.model}/{run.point.dataset}/{run.trial}",
            higher_is_better(metric),
        )
        trial = [r for r in like if r.trial == run.trial and r.to_draw and r.state not in FINAL_RUN]
        if self.ledger.draw(trial, values):
            drawn = ", ".join(f"{name} {number(value)}" for name, value in values.items())
            log.info("%s: trial %s drawn: %s", run.id, run.trial, drawn)

    def prune(self, holding: Sequence[Run]) -> None:
        """Running runs that their plan's rule calls hopeless are told to stop; looked at once an epoch."""
        running = [run for run in holding if run.state is RunState.RUNNING and run.trial and self._plan(run).prune]
        progress = self.ledger.progress(run.id for run in running)
        news = {run.id for run in running if run.id in progress and self._seen.get(run.id) != progress[run.id].epoch}
        self._seen = {run.id: progress[run.id].epoch for run in running if run.id in progress}
        for experiment_id in dict.fromkeys(run.experiment_id for run in running if run.id in news):
            runs = self.ledger.runs(experiment_id)
            metric, _ = choose_metric(self._plans[experiment_id].metric, runs)
            curves = {run.id: self._curve(run, metric) for run in runs}
            for run in running:
                if run.id in progress and run.experiment_id == experiment_id:
                    curves[run.id] = by_epoch(progress[run.id].curves.get(metric, []))
            for run in running:
                if run.id in news and run.experiment_id == experiment_id:
                    others = [curves[r.id] for r in runs if r.id != run.id and _study(r) == _study(run)]
                    self._judge(run, curves[run.id], others, metric)

    def _judge(self, run: Run, mine: Curve, others: Sequence[Curve], metric: str) -> None:
        plan = self._plan(run)
        if plan.prune is None or plan.epochs is None:
            return
        found = hopeless(plan.prune, mine, others, plan.epochs, higher_is_better(metric))
        if found is None:
            return
        why = words(found, metric, is_chinese(plan.request_text))
        with contextlib.suppress(MoveRefused):
            self.ledger.prune(run.id, found.epoch, why)
            log.info("%s: %s", run.id, why)

    def _plan(self, run: Run) -> Plan:
        """The plan of the run's experiment, which stands once it runs."""
        if run.experiment_id not in self._plans:
            self._plans[run.experiment_id] = self.ledger.experiment(run.experiment_id).plan
        return self._plans[run.experiment_id]

    def _curve(self, run: Run, metric: str) -> Curve:
        if run.state not in FINAL_RUN:
            return {}
        return self._ended.setdefault(run.id, curve_of(run, metric))


def words(found: Hopeless, metric: str, chinese: bool = False) -> str:
    """Why a run was stopped: `pruned at epoch 2: val acc 0.310, worse than the median of 7 others`."""
    value = fixed(found.value, 3)
    return WORDS.say(
        found.rule,
        chinese,
        epoch=found.epoch,
        metric=metric_name(metric),
        value=value,
        n=REDUCTION,
        others=found.others,
    )


def _study(run: Run) -> tuple[str, str | None]:
    """Runs that are searched together: one model on one data set."""
    return run.point.model, run.point.dataset
