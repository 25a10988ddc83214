"""The alarm: looks at the whole lab every few seconds, judges it by the rules, and keeps the alerts.

One leads by a lock of its own, wherever `overnight dispatch` runs; others stand by. It speaks by events alone.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from keeper import alerts, lookback, observe
from keeper.alerts import Policy
from keeper.judge import Judge
from keeper.rules import Finding, Sample, load_rules
from lab import events, freecards, store
from lab.alert import Alerts, AlertState, Board, Outcome
from lab.errors import MoveRefused, UnknownRecord
from lab.events import Event
from lab.leader import Leadership
from lab.ledger import Ledger
from lab.run import Run, RunState, experiment_of
from lab.settings import Settings
from lab.store import Client

log = logging.getLogger(__name__)

MOST_EVENTS = 2_000
"""Events of one step; the rest follows at once."""
IN_A_ROW = 3
PAUSE = 2.5
"""So many intervals without a look, and what was seen meanwhile has to be looked up."""
REMEMBERED = 200
"""Experiments with failures whose runs' ends are kept in memory."""


class Alarm:
    """The watch over the lab, in a thread of its own: `with Alarm(settings):`.

    Args:
        now: seconds since the epoch, when the watch begins.
    """

    def __init__(self, settings: Settings, client: Client | None = None, now: float | None = None) -> None:
        self.client = client or store.connect(settings)
        self.ledger = Ledger(self.client)
        self.alerts = Alerts(self.client)
        rules, broken = load_rules(settings.alerts.rules)
        self._broken = {name: error.problem for name, error in broken.items()}
        for error in broken.values():
            log.error("alarm: %s", error)
        chosen = settings.alerts
        self.interval_s = chosen.interval_s
        self.policy = Policy(chosen.group_s, chosen.silence_s, chosen.repeat_s)
        self._rules = rules
        self._judged_at = -math.inf
        self.judge = Judge(rules, self.interval_s, time.time() if now is None else now)
        self.leadership = Leadership(self.client, "alerts", max(10.0, 2 * self.interval_s))
        self._leads = False
        self._free: frozenset[str] = frozenset()
        self._free_at = -math.inf
        """Cards that were free when somebody last wanted to know, and when that was."""
        self._ended: dict[str, dict[str, End]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alarm", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        """Steps until it is stopped; a Redis outage is waited out."""
        away = False
        while not self._stop.is_set():
            try:
                self.turn()
                away = False
            except store.AWAY as error:
                if not away:
                    log.warning("alarm: Redis is away: %s", error)
                away = True
            except Exception:  # the edge of the thread: the next look may go well
                log.exception("alarm: this look failed")
            self._stop.wait(self.interval_s)
        if self._leads:
            try:
                self.leadership.release()
            except store.AWAY:
                log.warning("alarm: Redis is away; another one leads in a moment")

    def turn(self) -> None:
        """One look, if this one leads."""
        led, self._leads = self._leads, self.leadership.hold()
        if self._leads != led:
            log.info("alarm: %s", "leads" if self._leads else "stands by")
        while self._leads and self.step(time.time()) >= MOST_EVENTS:
            pass

    def step(self, now: float) -> int:
        """The alerts are as the lab shows them now; returns how many new events were looked at."""
        board = self.alerts.board()
        if board.place is None:  # what failed before anybody watched is no news
            board = self._begin()
        if now - self._judged_at > PAUSE * self.interval_s:
            self._look_back(now)
        seen = observe.look(self.client, self.ledger, board.hosts, self._broken, now)
        news = events.since(self.client, board.place or "0", MOST_EVENTS)
        firing = [(a.rule, member) for a in board.alerts.values() for member in a.members]
        samples = observe.samples(seen)
        found = self.judge.judge([*samples, *self._happened(news)], now, firing)
        if now != self._judged_at:  # a step that only had more events looked at nothing new
            lookback.keep(self.client, self.judge, self.interval_s, now, self.judge.looked_back_on(samples))
        self._judged_at = now
        place = news[-1].id if news else board.place

        def decide(as_it_is: Board) -> Outcome:
            if as_it_is.place != board.place:  # another one was faster
                return Outcome()
            decided = alerts.step(as_it_is, found, self.policy, now)
            return Outcome(
                decided.alerts, decided.silences, decided.gone, decided.events, place, observe.words_of(seen)
            )

        outcome = self.alerts.change(decide)
        self._save(found, board)
        self._tell_free(now)
        self._log(outcome)
        return len(news)

    def _look_back(self, now: float) -> None:
        """The rules know what was seen while this one did not look: before its start, or while another one led."""
        self.judge = Judge(self._rules, self.interval_s, now)
        lookback.recall(self.client, self.judge)

    def _save(self, found: Sequence[Finding], before: Board) -> None:
        """Runs on cards that have just begun to fire under a rule that saves are asked for a checkpoint."""
        known = {(alert.rule, member) for alert in before.alerts.values() for member in alert.members}
        new = [f for f in found if f.verdict == "firing" and f.rule.saves and (f.rule.name, f.member) not in known]
        uses = self.ledger.card_uses() if new else {}
        for use in {uses[card].run_id: uses[card] for f in new if (card := f.labels.get("card", "")) in uses}.values():
            try:
                self.ledger.wish(use.run_id, "checkpoint", "overnight")
                log.warning("%s: asked for a checkpoint, its card is in danger", use.run_id)
            except (MoveRefused, UnknownRecord) as refused:
                log.info("%s: no checkpoint: %s", use.run_id, refused)

    def _tell_free(self, now: float) -> None:
        """Who asked for it was told of cards that were free at the last look too: between two runs none is free."""
        wishes = freecards.wishes(self.client)
        cards = freecards.free_cards(self.ledger, now) if wishes else []
        stayed = [card for card in cards if card.uuid in self._free and now != self._free_at]
        if now != self._free_at:
            self._free, self._free_at = frozenset(card.uuid for card in cards), now
        for wish in wishes:
            if (stayed or now >= wish.until) and freecards.tell(self.client, wish, stayed):
                log.info("%s: told to %s: %d cards free", wish.id, wish.user, len(stayed))

    def _begin(self) -> Board:
        place = events.newest_id(self.client)
        self.alerts.change(lambda board: Outcome(place=place if board.place is None else None))
        return self.alerts.board()

    def _happened(self, news: Sequence[Event]) -> list[Sample]:
        """Failures among the events, as samples; three of one configuration in a row once more as such."""
        failed = [event.subject for event in news if event.kind == "run.failed"]
        runs = {run.id: run for run in map(self._run_of, dict.fromkeys(failed)) if run is not None}
        found = [failure(runs[run_id]) for run_id in failed if run_id in runs]
        self._remember_ends(runs, [event.subject for event in news if event.kind == "run.finished"])
        for experiment in dict.fromkeys(run.experiment_id for run in runs.values()):
            found += in_a_row(list(self._ended[experiment].values()), runs)
        return found

    def _remember_ends(self, failed: Mapping[str, Run], finished: Sequence[str]) -> None:
        """How runs ended in experiments with failures: all of it is read once, then what comes."""
        for run_id in finished:
            known = self._ended.get(experiment_of(run_id))
            run = self._run_of(run_id) if known is not None else None
            if known is not None and run is not None:
                known[run_id] = End.of(run)
        for run in failed.values():
            if run.experiment_id not in self._ended:
                self._ended[run.experiment_id] = {r.id: End.of(r) for r in self.ledger.runs(run.experiment_id)}
            self._ended[run.experiment_id][run.id] = End.of(run)
        for old in list(self._ended)[:-REMEMBERED]:
            del self._ended[old]

    def _run_of(self, run_id: str) -> Run | None:
        try:
            return self.ledger.run(run_id)
        except (UnknownRecord, ValueError):
            return None

    def _log(self, outcome: Outcome) -> None:
        """Without Slack this is where alerts are read, and in `overnight alerts`."""
        changed = {alert.id: alert for alert in outcome.alerts}
        for event in outcome.events:
            alert = changed.get(event.subject)
            if alert is None or event.kind == "alert.changed":
                continue
            bad = alert.state is not AlertState.RESOLVED
            level = logging.INFO if not bad else logging.ERROR if alert.severity == "critical" else logging.WARNING
            log.log(level, "%s: %s, %s: %s", alert.id, event.kind.removeprefix("alert."), alert.severity, alert.title)


def failure(run: Run) -> Sample:
    """A run that failed, for the rules."""
    cause = run.cause or "an unknown cause"
    labels = {**_labels(run), "cause": cause, "advice": run.advice or ""}
    return Sample("run.failed", run.id, 1.0, labels, run.conversation, run.message or cause)


@dataclass(frozen=True)
class End:
    """How a run ended, as far as it did."""

    run_id: str
    configuration: str
    at: float
    state: RunState
    cause: str | None

    @classmethod
    def of(cls, run: Run) -> End:
        return cls(run.id, _configuration(run), run.finished_at or 0.0, run.state, run.cause)


def in_a_row(ends: Sequence[End], new: Mapping[str, Run]) -> list[Sample]:
    """The configurations of an experiment whose last three runs failed alike, the last of them just now."""
    copies: dict[str, list[End]] = {}
    for end in sorted(ends, key=lambda end: end.at):
        if end.state in (RunState.FINISHED, RunState.FAILED):
            copies.setdefault(end.configuration, []).append(end)
    found = []
    for label, ended in copies.items():
        last = ended[-IN_A_ROW:]
        alike = len(last) == IN_A_ROW and len({(end.state, end.cause) for end in last}) == 1
        if alike and last[-1].state is RunState.FAILED and last[-1].run_id in new:
            run = new[last[-1].run_id]
            labels = {**_labels(run), "cause": run.cause or "an unknown cause"}
            note = f"{label}: {', '.join(end.run_id for end in last)}: {run.message or run.cause}"
            found.append(Sample("run.failed_in_a_row", run.id, 1.0, labels, run.conversation, note))
    return found


def _labels(run: Run) -> dict[str, str]:
    """A failure is the experiment's, not the host's: it must not hide behind a silence of that host."""
    return {"run": run.id, "experiment": run.experiment_id, "owner": run.owner}


def _configuration(run: Run) -> str:
    """What is the same in all copies: everything but the seed."""
    params = [f"{name} {value}" for name, value in sorted(run.point.params.items()) if name != "seed"]
    return " ".join([run.point.model, *([run.point.dataset] if run.point.dataset else []), *params])
