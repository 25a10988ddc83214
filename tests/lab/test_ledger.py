"""The ledger: moves are compare-and-set, events are written with them, finished states never change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lab import events
from lab.errors import MoveRefused, UnknownRecord
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, Experiment, ExperimentState, Progress, RequestState, Run, RunResult, RunState
from lab.store import Client


def proposed(ledger: Ledger, seeds: int = 2) -> Experiment:
    """A proposed experiment of so many probe runs."""
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request
    plan = Plan(template="probe", models=("probe",), axes={"seed": tuple(range(seeds))})
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment
    return experiment


def running(ledger: Ledger, run_id: str) -> Run:
    """The run with an attempt under way, whose fence is 1."""
    ledger.bind(run_id, ("card-a",), "lab-a", 0)
    ledger.client.hincrby(f"on:run:{run_id}", "fence", 1)
    return ledger.start(run_id, 1, 4711)


def kinds(client: Client) -> list[str]:
    """The kinds of all events so far."""
    return [events.parse(i, f).kind for i, f in client.xrange(events.STREAM)]


def test_a_message_that_arrives_twice_is_one_request(ledger: Ledger) -> None:
    """Chat services deliver again; nobody wants two experiments."""
    first = ledger.submit("hi", "U1", "slack:1", claims=["slack:E1", "slack:ts1"])
    again = ledger.submit("hi", "U1", "slack:1", claims=["slack:E2", "slack:ts1"])

    assert first
    assert again is None
    assert [request.id for request in ledger.requests(RequestState.RECEIVED)] == [first.id]


def test_text_that_utf8_cannot_hold_is_taken_all_the_same(ledger: Ledger) -> None:
    """Half an emoji, or bytes of another encoding in a terminal: the person gets an answer, not silence."""
    request = ledger.submit("train resnet18 \ud83d", "U1", "slack:1")

    assert request
    assert ledger.request(request.id).text == "train resnet18 ?"


def test_a_record_that_cannot_be_read_hides_no_other(ledger: Ledger, store: Client) -> None:
    """One run of another version must not stop the whole lab."""
    experiment = proposed(ledger, seeds=2)
    ledger.approve(experiment.id, "U1")
    store.hset(f"on:run:{experiment.id}/1", "point", "{")

    assert [run.number for run in ledger.runs_in(RunState.QUEUED)] == [2]
    assert [run.number for run in ledger.runs(experiment.id)] == [2]


def test_the_same_message_at_once_is_one_request(ledger: Ledger) -> None:
    """Two bots may hear it in the same millisecond."""
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: ledger.submit("hi", "U1", "slack:1", claims=["slack:E1"]), range(16)))

    assert sum(request is not None for request in made) == 1


def test_a_request_is_answered_once(ledger: Ledger, store: Client) -> None:
    """A second answer would be a second message in the thread."""
    request = ledger.submit("hi", "U1", "slack:1")
    assert request

    first = ledger.answer(request.id, Answer(kind="reply", text="hello"))
    second = ledger.answer(request.id, Answer(kind="reply", text="hello again"))

    assert (first, second) == (True, False)
    assert kinds(store).count("request.answered") == 1


def test_approving_twice_queues_the_runs_once(ledger: Ledger, store: Client) -> None:
    """Two people may press Run."""
    experiment = proposed(ledger, seeds=3)

    def approve(person: int) -> bool:
        try:
            ledger.approve(experiment.id, f"U{person}")
        except MoveRefused:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        approvals = sum(pool.map(approve, range(8)))

    assert approvals == 1
    assert kinds(store).count("experiment.approved") == 1
    assert kinds(store).count("run.queued") == 3
    assert [run.state for run in ledger.runs(experiment.id)] == [RunState.QUEUED] * 3


def test_a_run_is_bound_once(ledger: Ledger) -> None:
    """Two dispatchers may lead for a moment."""
    experiment = proposed(ledger, seeds=1)
    ledger.approve(experiment.id, "U1")

    def bind(card: int) -> bool:
        try:
            ledger.bind(f"{experiment.id}/1", (f"card-{card}",), "lab-a", card)
        except MoveRefused:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(bind, range(8))) == 1
    assert ledger.run(f"{experiment.id}/1").dispatches == 1


def test_a_finished_run_never_changes(ledger: Ledger) -> None:
    """What a report said must stay true."""
    experiment = proposed(ledger, seeds=1)
    ledger.approve(experiment.id, "U1")
    run = running(ledger, f"{experiment.id}/1")
    finished = ledger.finish(run.id, 1, RunResult(metrics={"val_acc": 0.9}))

    for move in (
        lambda: ledger.fail(run.id, 1, "user_code", "no"),
        lambda: ledger.finish(run.id, 1, RunResult()),
        lambda: ledger.give_back(run.id, 1, "no"),
        lambda: ledger.cancel_run(run.id, "U1"),
        lambda: ledger.bind(run.id, ("card-b",), "lab-a", 1),
        lambda: ledger.start(run.id, 1, 1),
        lambda: ledger.cancel(experiment.id, "U1"),
    ):
        with pytest.raises(MoveRefused):
            move()
    assert ledger.run(run.id) == finished


def test_the_last_run_ends_the_experiment_and_asks_for_its_report(ledger: Ledger, store: Client) -> None:
    """Both in one transaction, so that no experiment waits for a report that nobody writes."""
    experiment = proposed(ledger, seeds=2)
    ledger.approve(experiment.id, "U1")
    ledger.finish(running(ledger, f"{experiment.id}/1").id, 1, RunResult())
    before = ledger.experiment(experiment.id).state
    ledger.fail(running(ledger, f"{experiment.id}/2").id, 1, "nan_loss", "loss is nan")

    assert before is ExperimentState.RUNNING
    assert ledger.experiment(experiment.id).state is ExperimentState.FINISHED
    assert ledger.counts(experiment.id) == {"finished": 1, "failed": 1}
    assert store.lrange("rq:queue:agent", 0, -1)[-1] == f"{experiment.id}-report-1-1"


def test_all_ends_at_once_are_all_counted(ledger: Ledger) -> None:
    """A lost count would leave the experiment running for ever."""
    experiment = proposed(ledger, seeds=8)
    ledger.approve(experiment.id, "U1")
    runs = [running(ledger, run.id) for run in ledger.runs(experiment.id)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda run: ledger.finish(run.id, 1, RunResult()), runs))

    assert ledger.counts(experiment.id) == {"finished": 8}
    assert ledger.experiment(experiment.id).state is ExperimentState.FINISHED


def test_cancelling_ends_what_waits_and_tells_what_runs(ledger: Ledger) -> None:
    """A trainer gets time for a checkpoint; a waiting run needs none."""
    experiment = proposed(ledger, seeds=3)
    ledger.approve(experiment.id, "U1")
    running(ledger, f"{experiment.id}/1")

    ledger.cancel(experiment.id, "U1")

    states = [run.state for run in ledger.runs(experiment.id)]
    assert states == [RunState.CANCELLING, RunState.CANCELLED, RunState.CANCELLED]
    ledger.cancelled(f"{experiment.id}/1", 1, "cancelled by U1")
    assert ledger.experiment(experiment.id).state is ExperimentState.CANCELLED


def test_a_run_that_was_given_back_holds_no_card_and_counts_its_losses(ledger: Ledger) -> None:
    """A card must not stay taken by a run that waits; three lost attempts are enough."""
    experiment = proposed(ledger, seeds=1)
    ledger.approve(experiment.id, "U1")
    run = running(ledger, f"{experiment.id}/1")
    in_use = ledger.card_uses()

    back = ledger.give_back(run.id, 1, "its worker died", lost=True)

    assert in_use["card-a"].pid == 4711
    assert (back.state, back.card, back.cards, back.pid, back.losses) == (RunState.QUEUED, None, (), None, 1)
    assert ledger.run(run.id) == back
    assert ledger.card_uses() == {}


def test_every_card_of_a_run_is_in_use(ledger: Ledger) -> None:
    """Else a gang's second card would be given out again."""
    experiment = proposed(ledger, seeds=1)
    ledger.approve(experiment.id, "U1")

    ledger.bind(f"{experiment.id}/1", ("card-a", "card-b"), "lab-a", 0)

    assert set(ledger.card_uses()) == {"card-a", "card-b"}


def test_unknown_ids_are_told_apart_from_empty_ones(ledger: Ledger) -> None:
    """`show exp-99` must say that there is none."""
    for ask in (lambda: ledger.run("exp-9/1"), lambda: ledger.experiment("exp-9"), lambda: ledger.run("on:lease:x")):
        with pytest.raises(UnknownRecord):
            ask()


def test_fields_of_another_version_are_left_alone(ledger: Ledger, store: Client) -> None:
    """An older process must not wipe what a newer one wrote."""
    experiment = proposed(ledger, seeds=1)
    store.hset(f"on:exp:{experiment.id}", "from_the_future", '"kept"')

    ledger.approve(experiment.id, "U1")

    assert store.hget(f"on:exp:{experiment.id}", "from_the_future") == '"kept"'


def test_progress_is_overwritten(ledger: Ledger) -> None:
    """One value a run, however long it trains."""
    experiment = proposed(ledger, seeds=1)
    ledger.approve(experiment.id, "U1")
    run = running(ledger, f"{experiment.id}/1")

    for step in (1, 2):
        ledger.report_progress(run.id, 1, Progress(step=step, steps_total=4))

    assert ledger.progress([run.id])[run.id].share == 0.5


def test_a_report_is_announced_once(ledger: Ledger, store: Client) -> None:
    """The courier posts one message a report.ready."""
    experiment = proposed(ledger, seeds=1)

    saved = [ledger.save_report(experiment.id, 1, "{}", {}) for _ in range(2)]

    assert saved == [True, False]
    assert kinds(store).count("report.ready") == 1
    assert ledger.report(experiment.id, 1) == "{}"
