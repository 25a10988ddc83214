"""What was lost is put back, and never while somebody may still have it."""

from __future__ import annotations

import time

import pytest

from lab import hosts, losses
from lab.card import Host
from lab.leases import Lease, Leases
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, Progress, RequestState, Run, RunResult, RunState
from lab.runs import REPORTS_DUE
from lab.settings import Settings
from lab.store import Client
from workers import recover
from workers.recover import Recovery, lose

CARD = ("card-a",)


class Clock:
    """Monotonic seconds that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recovery(settings: Settings, store: Client, clock: Clock) -> Recovery:
    return Recovery(store, settings, clock)


def dispatched(ledger: Ledger) -> Run:
    """A run that is bound to card-a."""
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request
    experiment = ledger.propose(request.id, Plan(template="probe", models=("probe",)), None, Answer(kind="plan"))
    assert experiment
    ledger.approve(experiment.id, "U1")
    return ledger.bind(f"{experiment.id}/1", CARD, "lab-a", 0)


def running(ledger: Ledger, store: Client) -> tuple[Run, Lease]:
    """A run with an attempt under way and its lease."""
    run = dispatched(ledger)
    lease = Leases(store, 10).claim(run.id, run.dispatches, CARD, "lab-a.0.1.x")
    return ledger.start(run.id, lease.fence, 4711), lease


def rounds(recovery: Recovery, clock: Clock, seconds: float) -> None:
    """A round now and one after so many seconds."""
    recovery.step()
    clock.now += seconds
    recovery.step()


def test_a_running_run_without_a_lease_is_queued_again(
    recovery: Recovery, clock: Clock, ledger: Ledger, store: Client
) -> None:
    """Its host is gone; the lease was the last sign of it."""
    run, lease = running(ledger, store)
    Leases(store, 10).release(lease)

    rounds(recovery, clock, recover.LEASELESS_S)

    back = ledger.run(run.id)
    assert (back.state, back.losses, back.message) == (RunState.QUEUED, 1, "its host lab-a is gone")


def test_a_run_whose_lease_is_held_is_left_alone(
    recovery: Recovery, clock: Clock, ledger: Ledger, store: Client
) -> None:
    """A second attempt beside a live one is the worst that can happen."""
    run, _ = running(ledger, store)

    rounds(recovery, clock, 3600)

    assert ledger.run(run.id) == run


def test_one_look_is_not_enough(recovery: Recovery, clock: Clock, ledger: Ledger, store: Client) -> None:
    """Record and lease are read one after the other."""
    run, lease = running(ledger, store)
    Leases(store, 10).release(lease)

    recovery.step()
    seen_once = ledger.run(run.id).state
    ledger.finish(run.id, lease.fence, RunResult())
    clock.now += 10
    recovery.step()

    assert seen_once is RunState.RUNNING
    assert ledger.run(run.id).state is RunState.FINISHED


def test_a_dispatch_that_nobody_takes_is_undone(
    recovery: Recovery, clock: Clock, ledger: Ledger, store: Client
) -> None:
    """The entry, or the worker it was for, is gone."""
    run = dispatched(ledger)

    rounds(recovery, clock, recover.UNCLAIMED_S - 1)
    early = ledger.run(run.id).state
    clock.now += 2
    recovery.step()

    assert early is RunState.DISPATCHED
    assert (ledger.run(run.id).state, ledger.run(run.id).losses) == (RunState.QUEUED, 0)
    assert store.llen("rq:queue:card-card-a") == 0
    assert not store.keys("rq:job:exp-*")


def test_a_claim_that_comes_late_wins_over_the_undoing(
    recovery: Recovery, clock: Clock, ledger: Ledger, store: Client
) -> None:
    """Either of them, never both."""
    run = dispatched(ledger)
    recovery.step()
    Leases(store, 10).claim(run.id, 1, CARD, "w")

    clock.now += 100
    recovery.step()

    assert ledger.run(run.id).state is RunState.DISPATCHED


def test_a_cancelled_run_that_nobody_claimed_is_closed(recovery: Recovery, clock: Clock, ledger: Ledger) -> None:
    """No worker will say that it stopped."""
    run = dispatched(ledger)
    ledger.cancel_run(run.id, "U1")

    rounds(recovery, clock, recover.LEASELESS_S)

    assert ledger.run(run.id).state is RunState.CANCELLED


def test_the_third_loss_is_the_last(ledger: Ledger, store: Client) -> None:
    """A run that ends every worker must not go round for ever."""
    leases = Leases(store, 10)
    run = dispatched(ledger)
    for attempt in (1, 2, 3):
        lease = leases.claim(run.id, attempt, CARD, "w")
        run = lose(ledger, ledger.run(run.id), lease.fence, "its worker died", max_attempts=3)
        leases.release(lease)
        if attempt < 3:
            assert run.state is RunState.QUEUED
            run = ledger.bind(run.id, CARD, "lab-a", 0)

    assert (run.state, run.cause) == (RunState.FAILED, "preempted")
    assert run.message == "lost 3 times with its worker without getting beyond step 0, the last time: its worker died"


def lost(ledger: Ledger, store: Client, run: Run, step: int, *, with_host: bool = False) -> Run:
    """The run after one more attempt, which came to this step and was lost."""
    run = run if run.state is RunState.DISPATCHED else ledger.bind(run.id, CARD, "lab-a", 0)
    leases = Leases(store, 10)
    lease = leases.claim(run.id, run.dispatches, CARD, "w")
    ledger.start(run.id, lease.fence, 4711)
    ledger.report_progress(run.id, lease.fence, Progress(step=step))
    moved = lose(ledger, ledger.run(run.id), lease.fence, "it died", max_attempts=3, with_host=with_host)
    leases.release(lease)
    return moved


def test_a_run_that_gets_further_each_time_is_never_given_up(ledger: Ledger, store: Client) -> None:
    """Somebody restarts the host every ten minutes; the run saves what it does, and is done in the morning."""
    run = dispatched(ledger)
    for step in range(10, 200, 10):
        run = lost(ledger, store, run, step)

    assert (run.state, run.losses) == (RunState.QUEUED, 19)


def test_a_run_that_ends_its_worker_at_one_step_is_given_up(ledger: Ledger, store: Client) -> None:
    """It got to step 500 three times and would do so until the morning."""
    run = lost(ledger, store, dispatched(ledger), 300)
    for _ in range(3):
        run = lost(ledger, store, run, 500)

    assert (run.state, run.losses) == (RunState.FAILED, 3)
    assert run.message == "lost 3 times with its worker without getting beyond step 500, the last time: it died"


def test_a_host_that_dies_is_not_the_fault_of_its_runs(ledger: Ledger, store: Client) -> None:
    """Its runs come to nothing three times within a minute, all of them; but one that ends every host ends too."""
    run = dispatched(ledger)
    states = []
    while run.state is not RunState.FAILED:
        run = lost(ledger, store, run, 0, with_host=True)
        states.append(run.state)

    assert len(states) == losses.HOST_PATIENCE * 3
    assert run.message == "lost 12 times with its host without getting beyond step 0, the last time: it died"


def test_a_host_that_is_up_is_not_called_gone(recovery: Recovery, clock: Clock, ledger: Ledger, store: Client) -> None:
    """The morning's reader looks at the right thing."""
    run, lease = running(ledger, store)
    Leases(store, 10).release(lease)
    hosts.publish_host(store, Host(host="lab-a", version="1"))

    rounds(recovery, clock, recover.LEASELESS_S)

    assert ledger.run(run.id).message == "its worker stopped renewing the lease"


def test_a_request_that_lost_its_entry_is_queued_again(
    recovery: Recovery, clock: Clock, ledger: Ledger, store: Client
) -> None:
    """It was acknowledged to a person, so it must have an answer."""
    request = ledger.submit("hi", "U1", "slack:1")
    assert request
    rounds(recovery, clock, 3600)
    untouched = ledger.request(request.id).tries
    store.delete("rq:queue:agent")

    rounds(recovery, clock, recover.UNANSWERED_S)

    assert untouched == 0
    assert ledger.request(request.id).tries == 1
    assert store.lrange("rq:queue:agent", 0, -1) == [f"{request.id}-2"]


def test_a_request_whose_worker_died_while_it_took_it_is_queued_again(
    recovery: Recovery, clock: Clock, ledger: Ledger, store: Client
) -> None:
    """RQ leaves the entry in its intermediate list, and looks there after ten minutes at the earliest."""
    request = ledger.submit("hi", "U1", "slack:1")
    assert request
    store.lmove("rq:queue:agent", "rq:queue:agent:intermediate")

    rounds(recovery, clock, recover.UNANSWERED_S)

    assert store.lrange("rq:queue:agent", 0, -1) == [f"{request.id}-2"]


def test_a_request_that_ends_every_worker_is_answered(
    recovery: Recovery, clock: Clock, ledger: Ledger, store: Client
) -> None:
    """One polite sentence instead of silence."""
    request = ledger.submit("hi", "U1", "slack:1")
    assert request
    for _ in range(recover.TRIES + 1):
        store.delete("rq:queue:agent")
        rounds(recovery, clock, recover.UNANSWERED_S)

    answered = ledger.request(request.id)
    assert answered.state is RequestState.ANSWERED
    assert answered.answer
    assert answered.answer.kind == "error"


def test_an_ended_experiment_without_a_report_gets_another_try(
    recovery: Recovery, clock: Clock, ledger: Ledger, store: Client
) -> None:
    """The answer is what everything was for."""
    run, lease = running(ledger, store)
    ledger.finish(run.id, lease.fence, RunResult())
    rounds(recovery, clock, 3600)
    with_entry = store.llen("rq:queue:agent")
    store.delete("rq:queue:agent")

    rounds(recovery, clock, recover.UNANSWERED_S)

    entries = store.lrange("rq:queue:agent", 0, -1)
    assert with_entry == 2  # the request's and the report's
    assert any(entry.startswith(f"{run.experiment_id}-report-1-") for entry in entries)


def test_the_lost_report_of_a_retry_gets_another_try(
    recovery: Recovery, clock: Clock, ledger: Ledger, store: Client
) -> None:
    """The first report stands, so nobody would notice that the retry's result is told nowhere."""
    run, lease = running(ledger, store)
    ledger.fail(run.id, lease.fence, "hang", "stuck")
    ledger.save_report(run.experiment_id, 1, "{}", {})
    Leases(store, 10).release(lease)
    (again,) = ledger.retry(run.id, "U1")
    bound = ledger.bind(again.id, CARD, "lab-a", 0)
    lease = Leases(store, 10).claim(again.id, bound.dispatches, CARD, "w")
    ledger.start(again.id, lease.fence, 4712)
    ledger.finish(again.id, lease.fence, RunResult())
    store.delete("rq:queue:agent")

    rounds(recovery, clock, recover.UNANSWERED_S)

    assert store.lrange("rq:queue:agent", 0, -1)[0].startswith(f"{run.experiment_id}-report-2-")


def test_a_report_that_an_earlier_version_owes_is_written(
    recovery: Recovery, clock: Clock, ledger: Ledger, store: Client
) -> None:
    """0.1 kept no set of reports that are due; an upgrade must not lose the one that waited."""
    run, lease = running(ledger, store)
    ledger.finish(run.id, lease.fence, RunResult())
    store.delete("rq:queue:agent", REPORTS_DUE)

    rounds(recovery, clock, recover.UNANSWERED_S)

    assert store.lrange("rq:queue:agent", 0, -1)[0].startswith(f"{run.experiment_id}-report-1-")


def test_a_report_that_cannot_be_written_is_told_of_once(
    recovery: Recovery, clock: Clock, ledger: Ledger, store: Client
) -> None:
    """Each try waits longer than the last; after all of them people know where their results are."""
    run, lease = running(ledger, store)
    ledger.finish(run.id, lease.fence, RunResult())
    entries = []
    for tries in range(recover.TRIES + 3):
        store.delete("rq:queue:agent")
        rounds(recovery, clock, recover.UNANSWERED_S * recover.LATER**tries)
        entries += store.lrange("rq:queue:agent", 0, -1)

    told = ledger.notice_text(run.experiment_id, "report:1")
    assert len([entry for entry in entries if "-report-1-" in entry]) == recover.TRIES
    assert told
    assert f"overnight show {run.experiment_id}" in told


def test_a_plan_that_nobody_approved_in_time_expires(recovery: Recovery, ledger: Ledger, store: Client) -> None:
    """Only that: a plan of yesterday still waits, and what was approved weeks ago goes on."""
    plans = []
    for _ in range(3):
        request = ledger.submit("probe", "U1", "terminal:1")
        assert request
        plan = Plan(template="probe", models=("probe",))
        plans.append(ledger.propose(request.id, plan, None, Answer(kind="plan")))
    old, young, approved = (plan.id for plan in plans if plan)
    week = recovery.settings.limits.plan_days * recover.DAY_S
    store.zadd("on:index:experiment:proposed", {old: time.time() - week - 60, young: time.time() - week + 60})
    ledger.approve(approved, "U1")

    recovery.step()

    assert [ledger.experiment(i).state for i in (old, young, approved)] == ["expired", "proposed", "approved"]
