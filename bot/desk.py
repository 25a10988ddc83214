"""What a note says: reads the records it is about, renders them, and brings the message into its thread."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bot.conversation import Conversation
from bot.outbox import Note, Posted
from bot.render.alert import alert_card, clock, digest, said
from bot.render.answer import choices, words
from bot.render.cards import cards
from bot.render.message import Message, message, plain
from bot.render.plan import plan_card
from bot.render.progress import RunLine, progress_card, run_line
from bot.render.report import REPORT_FILE, no_report, report_card, upload_comment
from bot.render.text import escape, shorten
from bot.render.words import chinese
from bot.web import File, Web
from lab import freecards, hosts
from lab.alert import Alert, Alerts
from lab.errors import UnknownRecord
from lab.estimate import expected, place_words
from lab.forecast import Forecast, forecasts
from lab.language import is_chinese
from lab.ledger import Ledger
from lab.report import Report, to_markdown
from lab.run import FINAL_EXPERIMENT, FINAL_RUN, Experiment, ExperimentState
from lab.store import Client

KEPT_UPDATES = 3.0
"""Of the updates of a minute, left to plan cards by the many edits of progress cards."""


class Desk:
    """Delivers notes, each by the state its records have now. Used by one thread; raises what Web raises."""

    def __init__(self, ledger: Ledger, posted: Posted, web: Web, raw: Client) -> None:
        self._ledger = ledger
        self._alerts = Alerts(ledger.client)
        self._posted = posted
        self._web = web
        self._raw = raw
        self._ended: dict[str, dict[int, RunLine]] = {}
        self._shown: dict[str, Message] = {}

    def deliver(self, note: Note, *, unsure: bool) -> None:
        """The note's message stands in its thread. `unsure`: it may stand there already, so look first."""
        match note.kind:
            case "answer":
                self._answer(note, unsure)
            case "plan":
                self._plan(note)
            case "progress":
                self._progress(note, unsure)
            case "report":
                self._report(note, unsure)
            case "notice":
                experiment_id, _, key = note.subject.partition(":")
                text = self._ledger.notice_text(experiment_id, key)
                if text:
                    self._once(note, experiment_id, f"notice:{key}", [plain(escape(text))], unsure)

            case "free":
                text = freecards.told(self._ledger.client, note.subject)
                if text:
                    there = Note("free", note.subject, self._home(note.place))
                    self._once(there, note.subject, "told", [plain(escape(text))], unsure)
            case "alert":
                self._alert(note, unsure)
            case "silence":
                silence = self._alerts.silence(note.subject)
                there = Note("silence", note.subject, self._home(note.place))
                self._once(there, note.subject, "digest", [digest(silence)], unsure)

    def forget_all_but(self, live: set[str]) -> None:
        """What is kept in memory about other experiments is let go."""
        for kept in (self._ended, self._shown):
            for experiment_id in set(kept) - live:
                del kept[experiment_id]

    def _answer(self, note: Note, unsure: bool) -> None:
        request = self._ledger.request(note.subject)
        answer = request.answer
        if answer is None or answer.kind in ("revised", "withdrawn"):  # the card says the one, silence the other
            return
        zh = is_chinese(request.text) or is_chinese(answer.text)  # a typed number speaks no language
        if answer.kind == "plan" and answer.experiment_id:
            experiment = self._ledger.experiment(answer.experiment_id)
            self._posted.set(experiment.id, "note", answer.note or "")
            self._once(note, experiment.id, "plan", [self._plan_card(experiment)], unsure)
        elif answer.kind == "cards":
            shown = cards(self._ledger.shown_cards(), self._ledger.card_uses(), time.time())
            self._once(note, note.subject, "answer", shown, unsure)
        elif answer.kind == "designs":
            self._once(note, note.subject, "answer", [choices(answer, note.subject, zh)], unsure)
        else:
            self._once(note, note.subject, "answer", [words(answer, not note.place.is_direct, zh)], unsure)

    def _plan(self, note: Note) -> None:
        """The card shows its experiment's state; one that is not posted yet will, when it is."""
        ts = self._posted.get(note.subject, "plan")
        if ts is not None:
            self._web.update(note.place.channel, ts, self._plan_card(self._ledger.experiment(note.subject)))

    def _plan_card(self, experiment: Experiment) -> Message:
        note, ended_by = (self._posted.get(experiment.id, part) for part in ("note", "ended_by"))
        return plan_card(experiment, note or None, ended_by, self._datasets(experiment))

    def _datasets(self, experiment: Experiment) -> list[str]:
        """Those that a plan which waits may choose among."""
        if experiment.state is not ExperimentState.PROPOSED:
            return []
        up = hosts.hosts(self._ledger.client)
        return sorted({dataset.name for host in up for dataset in host.datasets if dataset.present})

    def _progress(self, note: Note, unsure: bool) -> None:
        experiment = self._ledger.experiment(note.subject)
        if experiment.approved_at is None or experiment.state is ExperimentState.PROPOSED:
            return
        forecast = forecasts(self._ledger.client, [experiment.id]).get(experiment.id)
        told = expected(forecast, time.time(), clock, chinese(experiment))
        card = progress_card(experiment, self._lines(experiment, forecast), told)
        if self._shown.get(experiment.id) == card:
            return
        ts = self._posted.get(experiment.id, "progress")
        if ts is None:
            self._once(note, experiment.id, "progress", [card], unsure)
        else:
            keep = 0.0 if experiment.state in FINAL_EXPERIMENT else KEPT_UPDATES
            self._web.update(note.place.channel, ts, card, keep)
        self._shown[experiment.id] = card

    def _lines(self, experiment: Experiment, forecast: Forecast | None) -> list[RunLine]:
        """A line a run; those of ended runs are kept, since their results are long and never change."""
        ended = self._ended.setdefault(experiment.id, {})
        rest = [f"{experiment.id}/{n}" for n in range(1, experiment.total_runs + 1) if n not in ended]
        progress, zh = self._ledger.progress(rest), chinese(experiment)
        lines, places = dict(ended), forecast.waiting if forecast else {}
        for run_id in rest:
            run = self._ledger.run(run_id)
            place = place_words(places[run.number], time.time(), zh) if run.number in places else ""
            lines[run.number] = run_line(run, progress.get(run_id), experiment.plan, place, zh)
            if run.state in FINAL_RUN:
                ended[run.number] = lines[run.number]
        return [lines[number] for number in sorted(lines)]

    def _alert(self, note: Note, unsure: bool) -> None:
        """One message stands for the alert; what is said of it aloud stands in its thread, each line once."""
        alert = self._alerts.alert(note.subject)
        home = self._home(note.place)
        root = f"{alert.episode}@{home.channel}"
        ts = self._posted.get(alert.id, root)
        if ts is None:
            if alert.told_at is not None and (alert.is_open or alert.happens):
                self._once(Note("alert", alert.id, home), alert.id, root, [self._alert_card(alert)], unsure)
                self._posted.set(alert.id, f"said:{root}", str(alert.n_lines))
            return
        thread = home if home.root else Conversation(home.team, home.channel, ts)
        done = int(self._posted.get(alert.id, f"said:{root}") or 0)
        for number, line in enumerate(alert.history, start=alert.n_lines - len(alert.history) + 1):
            if number > done and line.aloud:
                self._once(Note("alert", alert.id, thread), alert.id, f"{root}:{number}", [said(alert, line)], unsure)
        self._posted.set(alert.id, f"said:{root}", str(alert.n_lines))
        self._web.update(home.channel, ts, self._alert_card(alert), KEPT_UPDATES if alert.is_open else 0.0)

    def _alert_card(self, alert: Alert) -> Message:
        try:
            silence = self._alerts.silence(alert.silenced_by) if alert.silenced_by else None
        except UnknownRecord:
            silence = None
        return alert_card(alert, silence)

    def _home(self, place: Conversation) -> Conversation:
        """The place, with a person's direct messages in the person's stead."""
        if place.channel[0] not in "UW":
            return place
        channel = self._posted.get(place.channel, "direct") or self._web.direct(place.channel)
        self._posted.set(place.channel, "direct", channel)
        return Conversation(place.team, channel, place.root)

    def _report(self, note: Note, unsure: bool) -> None:
        experiment_id, _, revision = note.subject.partition(":")
        text = self._ledger.report(experiment_id, int(revision))
        if text is None:
            block = no_report(experiment_id, int(revision), chinese(self._ledger.experiment(experiment_id)))
            self._once(note, experiment_id, f"report:{revision}", [message(block["text"]["text"], block)], unsure)
            return
        report = Report.model_validate_json(text)
        self._once(note, experiment_id, f"report:{revision}", [report_card(report)], unsure)
        if self._posted.get(experiment_id, f"files:{revision}") is None:
            files, missing = self._files(report)
            if not (unsure and self._web.find(note.place, files[-1].title)):
                self._web.upload(note.place, files, upload_comment(report, missing))
            self._posted.set(experiment_id, f"files:{revision}", "uploaded")

    def _files(self, report: Report) -> tuple[list[File], list[str]]:
        """The figures that are still there, the whole report, and the names of the figures that are gone."""
        found = {f: self._ledger.figure(self._raw, report.experiment_id, report.revision, f) for f in report.figures}
        title = f"{report.experiment_id}: {report.title}"
        alt = shorten(f"{title}. {report.verdict.headline}", 900)
        figures = [File(f, f"{report.experiment_id} {f}", data, alt) for f, data in found.items() if data][:9]
        revision = f" (revision {report.revision})" if report.revision > 1 else ""
        whole = File(REPORT_FILE, f"{report.experiment_id} {REPORT_FILE}{revision}", to_markdown(report).encode())
        return [*figures, whole], [f for f, data in found.items() if not data]

    def _once(self, note: Note, subject: str, part: str, messages: Sequence[Message], unsure: bool) -> None:
        """Each of the messages is posted, unless it was; the first one's ts is kept as `part`, and those after it."""
        for index, shown in enumerate(messages):
            kept = part if index == 0 else f"{part}:{index}"
            if self._posted.get(subject, kept) is not None:
                continue
            mark = f"{subject} {kept}"
            ts = self._web.find(note.place, mark) if unsure else None
            steady = note.kind in ("alert", "silence")
            self._posted.set(subject, kept, ts or self._web.post(note.place, shown, mark, steady=steady))
