"""What people ask of experiments and runs that exist: cancel, pause, resume, retry, another priority.

One place for every face (a message, a button, the command line): who may, on what, and what is said about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from lab.errors import MoveRefused, OvernightError, RequestError, UnknownRecord
from lab.language import Phrasebook, state_word
from lab.ledger import Ledger
from lab.plan import Priority
from lab.planwords import PRIORITIES
from lab.run import FINAL_EXPERIMENT, FINAL_RUN, Experiment, ExperimentState, Run, RunState, experiment_of

Verb = Literal["cancel", "pause", "resume", "retry", "priority"]

MINE = "mine"
"""Subject of an order on everything of the asker's that still waits for a card."""

WORDS = Phrasebook(
    {
        "is": ("{what} is {now}.", "{what} {now}。"),
        "are": ("{where}: {list}.", "{where}：{list}。"),
        "count": ("{n} {now}", "{n} 个{now}"),
        "comma": (", ", "，"),
        "experiments": ("{n} experiments", "{n} 个实验"),
        "stops": (
            "{what} stops: {n} running run{s} write{verb} a checkpoint first.",
            "{what} 正在停止：{n} 个运行中的 run 先写检查点。",
        ),
        "again": (
            "Once more: {list}. A new revision of the report follows.",
            "重跑：{list}。之后会有新一版报告。",
        ),
        "as": ("{old} as {new}", "{old} 改为 {new}"),
        "nothing_waits": ("Nothing of yours waits for a card.", "你没有在等卡的任务。"),
        "none_paused": ("Nothing of yours is paused.", "你没有已暂停的任务。"),
        "priority": ("{now}, {priority}", "{now}，{priority}"),
        "queued": ("waiting for a card", "在等卡"),
        "paused": ("paused", "已暂停"),
        "cancelled": ("cancelled", "已取消"),
        "cancelling": ("stopping", "正在停止"),
        "running": ("asked to pause at its next checkpoint", "将在下一个检查点暂停"),
        "dispatched": ("asked to pause at its next checkpoint", "将在下一个检查点暂停"),
        "nothing_to": ("Nothing to {verb}: {what} is {state}.", "没有可{verb}的：{what} {state}。"),
        "not_yours": (
            "{what} is somebody else's: only its owner or an admin can change it.",
            "{what} 是别人的：只有本人或管理员可以修改。",
        ),
        "name_it": (
            "Name what to retry: exp-12, or one run of it, exp-12/3.",
            "请指明要重试哪个：exp-12，或其中一个 run，exp-12/3。",
        ),
        "unknown": (
            "There is no {what}; `overnight list` shows what there is.",
            "没有 {what}；发“进度”可以看到现有的实验。",
        ),
    }
)
VERBS: dict[str, str] = {"cancel": "取消", "pause": "暂停", "resume": "恢复", "retry": "重试", "priority": "修改"}


WAITING = (RunState.QUEUED, RunState.PAUSED)
WAITS: dict[Verb, tuple[RunState, ...]] = {"pause": (RunState.QUEUED,), "resume": (RunState.PAUSED,)}
"""Runs for which an order on MINE is meant; WAITING where nothing stands here."""
CHANGED: dict[Verb, str] = {
    "cancel": "cancelled",
    "pause": "paused",
    "resume": "resumed",
    "retry": "retried",
    "priority": "a run of another priority",
}
"""What an order would have made of it, for a refusal."""


class Unnamed(RequestError):
    """A retry has to name what it retries."""

    def __init__(self) -> None:
        super().__init__("name what to retry: exp-12, or one run of it, exp-12/3")


class NotYours(RequestError):
    """Somebody else's experiment; only its owner or an admin may change it."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(f"{experiment.id} is somebody else's: only its owner or an admin can change it")
        self.experiment = experiment


@dataclass(frozen=True)
class Order:
    """One order.

    Attributes:
        subject: `exp-12`, `exp-12/3`, or MINE.
        priority: the new one, for the verb `priority`.
    """

    verb: Verb
    subject: str
    priority: Priority | None = None


def carry_out(order: Order, ledger: Ledger, user: str, *, admin: bool = False, chinese: bool = False) -> str:
    """The order is carried out as far as it can be; returns what became of it, in a sentence.

    Args:
        chinese: the language of that sentence.

    Raises:
        UnknownRecord: there is no such experiment or run.
        NotYours: it belongs to somebody else, and the asker is no admin.
        MoveRefused: nothing of it is in a state in which this can be done; nothing was changed.
    """
    if order.subject == MINE:
        return _mine(order, ledger, user, chinese)
    experiment = ledger.experiment(experiment_of(order.subject))
    if experiment.owner != user and not admin:
        raise NotYours(experiment)
    if order.verb == "retry":
        new = ledger.retry(order.subject, user)
        pairs = [WORDS.say("as", chinese, old=run.retry_of, new=run.id) for run in new]
        return WORDS.say("again", chinese, list=WORDS.say("comma", chinese).join(pairs))
    if "/" in order.subject:
        return _said(order, [_move(order, ledger, user)(ledger.run(order.subject))], chinese)
    if order.verb == "cancel":
        return _cancel(order, experiment, ledger, user, chinese)
    return _each(order, ledger, user, experiment, _open_runs(experiment, ledger), chinese)


def refusal(error: OvernightError, order: Order, chinese: bool) -> str:
    """Why the order could not be carried out, in a sentence; what nobody translated is said as it is."""
    match error:
        case MoveRefused():
            state = state_word(error.state, chinese)
            verb = VERBS[order.verb] if chinese else "change" if order.verb == "priority" else order.verb
            return WORDS.say("nothing_to", chinese, verb=verb, what=error.subject, state=state)
        case NotYours():
            return WORDS.say("not_yours", chinese, what=error.experiment.id)
        case UnknownRecord():
            return WORDS.say("unknown", chinese, what=error.subject)
        case Unnamed():
            return WORDS.say("name_it", chinese)
    return f"{str(error)[:1].upper()}{str(error)[1:]}."


def _mine(order: Order, ledger: Ledger, user: str, chinese: bool) -> str:
    """Only what waits: what runs has to be named."""
    if order.verb == "retry":
        raise Unnamed
    runs = [run for run in ledger.runs_in(*WAITS.get(order.verb, WAITING)) if run.owner == user]
    if not runs:
        return WORDS.say("none_paused" if order.verb == "resume" else "nothing_waits", chinese)
    return _each(order, ledger, user, None, runs, chinese)


def _each(
    order: Order, ledger: Ledger, user: str, experiment: Experiment | None, runs: list[Run], chinese: bool
) -> str:
    """The order on every run that can take it; refused only when none can."""
    move = _move(order, ledger, user)
    moved: list[Run] = []
    refused: MoveRefused | None = None
    for run in runs:
        try:
            moved.append(move(run))
        except MoveRefused as refusal:
            refused = refusal
    if moved:
        return _said(order, moved, chinese)
    if refused is not None:
        raise refused
    raise MoveRefused(
        experiment.id if experiment else order.subject, experiment.state if experiment else "", CHANGED[order.verb]
    )


def _move(order: Order, ledger: Ledger, user: str) -> Callable[[Run], Run]:
    match order.verb:
        case "cancel":
            return lambda run: ledger.cancel_run(run.id, user)
        case "pause":
            return lambda run: ledger.wish(run.id, "pause", user)
        case "resume":
            return lambda run: ledger.resume(run.id, user)
        case "priority" if order.priority is not None:
            priority = order.priority
            return lambda run: ledger.set_priority(run.id, priority, user)
    raise RequestError(f"an order to {order.verb} needs more than {order.subject}")


def _cancel(order: Order, experiment: Experiment, ledger: Ledger, user: str, chinese: bool) -> str:
    retries = _open_runs(experiment, ledger) if experiment.state in FINAL_EXPERIMENT else []
    if retries:
        ledger.cancel(experiment.id, user)
        return _said(order, [ledger.run(run.id) for run in retries], chinese)
    state = ledger.cancel(experiment.id, user).state
    if state in FINAL_EXPERIMENT:
        return WORDS.say("is", chinese, what=experiment.id, now=state_word(state, chinese))
    left = sum(run.state is RunState.CANCELLING for run in ledger.runs(experiment.id))
    one = left == 1
    return WORDS.say("stops", chinese, what=experiment.id, n=left, s="" if one else "s", verb="s" if one else "")


def _open_runs(experiment: Experiment, ledger: Ledger) -> list[Run]:
    if experiment.state is ExperimentState.PROPOSED:
        raise MoveRefused(experiment.id, "proposed, not started", "changed")
    return [run for run in ledger.runs(experiment.id) if run.state not in FINAL_RUN]


def _said(order: Order, runs: list[Run], chinese: bool) -> str:
    """`exp-12/3 is paused.`, or the runs counted by what they are now."""
    if len(runs) == 1:
        return WORDS.say("is", chinese, what=runs[0].id, now=_is(order, runs[0], chinese))
    counts = Counter(_is(order, run, chinese) for run in runs)
    experiments = sorted({run.experiment_id for run in runs})
    where = experiments[0] if len(experiments) == 1 else WORDS.say("experiments", chinese, n=len(experiments))
    listed = WORDS.say("comma", chinese).join(WORDS.say("count", chinese, n=n, now=now) for now, n in counts.items())
    return WORDS.say("are", chinese, where=where, list=listed)


def _is(order: Order, run: Run, chinese: bool) -> str:
    """What the run is now, and its priority where that was the order."""
    training = run.state in (RunState.DISPATCHED, RunState.RUNNING) and run.wish != "pause"
    now = state_word(run.state, chinese) if training else WORDS.say(run.state.value, chinese)
    if order.verb != "priority":
        return now
    priority = PRIORITIES[run.priority] if chinese else f"{run.priority} priority"
    return WORDS.say("priority", chinese, now=now, priority=priority)
