"""Budgets: once an experiment has used up its GPU-hours, or its time is over, none of its runs starts any more."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence

from lab.errors import MoveRefused
from lab.language import Phrasebook, is_chinese
from lab.ledger import Ledger
from lab.plan import number
from lab.run import HOLDS_CARD, Experiment, Run
from lab.wishes import WAITS

log = logging.getLogger(__name__)

OVERNIGHT = "overnight"
NAMED = 3
"""Runs that the thread is told by name; the others are counted."""
WORDS = Phrasebook(
    {
        "gpu_hours": (
            "not run: the budget of {most} GPU-h is used up ({used:.3g})",
            "未运行：预算 {most} GPU 小时已用完（已用 {used:.3g}）",
        ),
        "wall_hours": (
            "not run: {most} h after the approval the budget is used up",
            "未运行：批准后已过 {most} 小时，预算已用完",
        ),
        "told": (
            "{why}. {n} of {all} runs of {id} {are} not started: {runs}. What runs now is finished. To run them too, "
            "ask again with a larger budget.",
            "{why}。{id} 的 {all} 个 run 中有 {n} 个不再启动：{runs}。正在跑的会跑完。要跑剩下的，"
            "请用更大的预算重新提问。",
        ),
        "more": ("{list} and {n} more", "{list} 等，另有 {n} 个"),
    }
)


class Budgets:
    """The experiments that have a budget, for the dispatcher that leads."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._unlimited: set[str] = set()
        """Experiments without a budget; a plan stands once it runs."""

    def allows(self, run: Run) -> bool:
        """True when the run may start; else its experiment's waiting runs that never began are cancelled.

        A run that has begun is finished: what it used would else be lost.
        """
        if run.fence or run.experiment_id in self._unlimited:
            return True
        experiment = self.ledger.experiment(run.experiment_id)
        if experiment.plan.budget is None:
            self._unlimited.add(experiment.id)
            return True
        runs = self.ledger.runs(experiment.id)
        why = used_up(experiment, runs, time.time())
        if why is not None:
            self._call_off(experiment, runs, why)
        return why is None

    def _call_off(self, experiment: Experiment, runs: Sequence[Run], why: str) -> None:
        called_off = []
        for run in runs:
            if run.state in WAITS and run.fence == 0:
                with contextlib.suppress(MoveRefused):  # its card was free just now
                    self.ledger.cancel_run(run.id, OVERNIGHT, why)
                    called_off.append(run.id)
        if called_off:
            log.info("%s: %d runs %s", experiment.id, len(called_off), why)
            self.ledger.notice(experiment.id, f"budget:{called_off[0]}", told(experiment, called_off, len(runs), why))


def used_up(experiment: Experiment, runs: Sequence[Run], now: float) -> str | None:
    """Why nothing more may start, with what was used, in the asker's language; None while there is some left."""
    budget, chinese = experiment.plan.budget, is_chinese(experiment.plan.request_text)
    if budget is None:
        return None
    if budget.gpu_hours is not None:
        holding = (run.held(now).gpu_s for run in runs if run.state in HOLDS_CARD)
        used = (sum(run.used.gpu_s for run in runs) + sum(holding)) / 3600
        if used >= budget.gpu_hours:
            return WORDS.say("gpu_hours", chinese, most=number(budget.gpu_hours), used=used)
    if budget.wall_hours is not None and now - (experiment.approved_at or now) >= budget.wall_hours * 3600:
        return WORDS.say("wall_hours", chinese, most=number(budget.wall_hours))
    return None


def told(experiment: Experiment, called_off: Sequence[str], total: int, why: str) -> str:
    """What the thread is told of the runs that do not start."""
    chinese, more = is_chinese(experiment.plan.request_text), len(called_off) - NAMED
    runs = ", ".join(called_off[:NAMED])
    return WORDS.say(
        "told",
        chinese,
        why=why[0].upper() + why[1:],
        id=experiment.id,
        n=len(called_off),
        all=total,
        are="is" if len(called_off) == 1 else "are",
        runs=WORDS.say("more", chinese, list=runs, n=more) if more > 0 else runs,
    )
