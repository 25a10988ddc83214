"""Dispatch, worker and trainer together: a run's way from queued to its end."""

from __future__ import annotations

import time

import pytest

from lab import hosts
from lab.card import CardProcess, Host, HostCards
from lab.forecast import forecasts
from lab.leases import Leases
from lab.plan import Plan
from lab.run import Answer, RunResult, RunState
from lab.settings import Settings
from lab.store import Client
from tests.workers.under_test import Lab, cards_of, until
from workers.dispatch import Dispatcher


def test_runs_go_three_at_a_time_to_the_training_cards_and_never_to_the_kept_one(lab: Lab) -> None:
    """The point of the lab: N-1 cards train, the keeper's card is not given out."""
    experiment = lab.approve(seeds=6, steps=10)
    lab.start()
    most = 0

    def watch() -> bool:
        nonlocal most
        most = max(most, len({run.card for run in lab.ledger.runs_in(RunState.RUNNING)}))
        return lab.ledger.counts(experiment.id).get("finished") == 6

    until(watch)
    runs = lab.ended(experiment)

    assert most == 3
    assert {run.card for run in runs} == {f"SIM-lab-a-{index}" for index in range(3)}
    assert all(run.result and run.result.metrics["val_acc"] for run in runs)


def test_priority_goes_first_and_then_age(lab: Lab) -> None:
    """One card makes the order visible."""
    lab.train = 1
    hosts.publish_cards(lab.client, cards_of("lab-a", train=1))
    experiments = [lab.approve(steps=2, priority=p) for p in ("low", "normal", "high", "normal")]
    lab.start()

    runs = [lab.ended(experiment)[0] for experiment in experiments]

    started = sorted(runs, key=lambda run: run.started_at or 0)
    assert [run.experiment_id for run in started] == ["exp-3", "exp-2", "exp-4", "exp-1"]


@pytest.fixture
def dispatcher(settings: Settings, store: Client) -> Dispatcher:
    """A dispatcher on a host that is up, with workers for all its cards."""
    host = Host(host="lab-a", version="1", templates={"probe": {}}, cards=tuple(f"SIM-lab-a-{i}" for i in range(4)))
    hosts.publish_host(store, host)
    hosts.publish_cards(store, cards_of("lab-a"))
    return Dispatcher(settings, store)


def test_a_run_that_waits_for_the_network_leaves_its_card_to_others(dispatcher: Dispatcher, lab: Lab) -> None:
    """Its next attempt begins when its time has come, and not a moment earlier."""
    now = time.time()
    lab.approve()
    run = dispatcher.step()[0].run
    fence = dispatcher.recovery.leases.claim(run.id, 1, ("SIM-lab-a-0",), "w").fence
    lab.ledger.again(run.id, fence, "network/again", "started once more", not_before=now + 60)
    other = lab.approve()

    while_waiting = dispatcher._bind(now + 1)
    hosts.publish_cards(lab.client, cards_of("lab-a", read_at=now + 61))
    afterwards = dispatcher._bind(now + 61)

    assert [binding.run.id for binding in while_waiting] == [f"{other.id}/1"]
    assert [binding.run.id for binding in afterwards] == [run.id]


def test_old_readings_free_no_card(dispatcher: Dispatcher, lab: Lab) -> None:
    """Nobody knows what happened since."""
    hosts.publish_cards(lab.client, cards_of("lab-a", read_at=time.time() - 16))
    lab.approve()

    assert dispatcher.step() == []


def test_a_card_with_a_fault_is_not_given_out(dispatcher: Dispatcher, lab: Lab) -> None:
    """It would cost the run its time, and the next one too; the sound cards go on."""
    fine, xid, ecc, kept = cards_of("lab-a").cards
    faulty = (fine, xid.model_copy(update={"xid": 79}), ecc.model_copy(update={"ecc_errors": 2}), kept)
    hosts.publish_cards(lab.client, cards_of("lab-a").model_copy(update={"cards": faulty}))
    lab.approve(seeds=3)

    assert [card.uuid for binding in dispatcher.step() for card in binding.cards] == [fine.uuid]


def test_cards_of_a_host_whose_work_is_down_are_not_given_out(dispatcher: Dispatcher, lab: Lab) -> None:
    """The entry would lie in a queue that nobody serves."""
    hosts.withdraw_host(lab.client, "lab-a")
    lab.approve()

    assert dispatcher.step() == []


def test_a_full_disk_is_told_to_those_who_wait_for_its_host(dispatcher: Dispatcher, lab: Lab) -> None:
    """They were told "next, starts any moment", all night."""
    full = hosts.hosts(lab.client)[0].model_copy(update={"disk_free_bytes": 2**20})
    hosts.publish_host(lab.client, full)
    experiment = lab.approve()
    bound = dispatcher.step()
    told = forecasts(lab.client, [experiment.id])[experiment.id]

    assert bound == []
    assert (told.waiting, told.end) == ({}, None)
    assert told.stuck == {1: "no room on the disk of lab-a, where nothing starts until there is"}


def test_one_leads_and_another_takes_over(dispatcher: Dispatcher, settings: Settings, lab: Lab) -> None:
    """A dispatcher that died at night must not stop the lab."""
    second = Dispatcher(settings, lab.client)
    lab.approve(seeds=2)
    first_bound = dispatcher.step()
    stood_by = second.step()

    dispatcher.leadership.release()
    lab.approve()
    bound_after = second.step()

    assert len(first_bound) == 2
    assert stood_by == []
    assert len(bound_after) == 1
    assert dispatcher.step() == []
    assert not dispatcher.leads


def test_a_real_card_is_free_the_moment_its_run_has_ended(dispatcher: Dispatcher, lab: Lab) -> None:
    """The last reading is from before the end: it still shows the trainer and its memory."""
    experiment = lab.approve(seeds=2)
    busy = CardProcess(pid=4711, memory_bytes=9 << 30, name="python")
    reading = cards_of("lab-a", train=1).cards[0].model_copy(update={"simulated": False})
    hosts.publish_cards(lab.client, HostCards(host="lab-a", cards=(reading,)))
    first = dispatcher.step()
    run = first[0].run
    fence = dispatcher.recovery.leases.claim(run.id, 1, (reading.uuid,), "w").fence
    lab.ledger.start(run.id, fence, 4711)
    in_use = reading.model_copy(update={"processes": (busy,), "memory_used_bytes": 9 << 30, "read_at": time.time()})
    hosts.publish_cards(lab.client, HostCards(host="lab-a", cards=(in_use,)))
    while_running = dispatcher.step()

    lab.ledger.finish(run.id, fence, RunResult())
    after = dispatcher.step()

    assert len(first) == 1
    assert while_running == []
    assert [binding.run.id for binding in after] == [f"{experiment.id}/2"]


def test_a_strangers_process_keeps_a_card_busy(dispatcher: Dispatcher, lab: Lab) -> None:
    """Somebody trains there by hand."""
    lab.approve()
    reading = cards_of("lab-a", train=1).cards[0]
    theirs = {"simulated": False, "processes": (CardProcess(pid=9, name="python"),)}
    hosts.publish_cards(lab.client, HostCards(host="lab-a", cards=(reading.model_copy(update=theirs),)))

    assert dispatcher.step() == []


def test_a_run_without_its_data_set_waits_and_the_log_says_why(
    dispatcher: Dispatcher, lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told once, not at every look."""
    request = lab.ledger.submit("x", "U1", "terminal:1")
    assert request
    plan = Plan(template="probe", models=("probe",), dataset="svhn")
    experiment = lab.ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment
    lab.ledger.approve(experiment.id, "U1")

    with caplog.at_level("WARNING"):
        bound = dispatcher.step() + dispatcher.step()

    assert bound == []
    assert [r.message for r in caplog.records].count(f"{experiment.id}/1: waits, no host has the data set svhn") == 1


def test_a_gang_holds_all_its_cards(lab: Lab) -> None:
    """Its second card is nobody else's while it runs."""
    gang = lab.approve(gpus=2, steps=20)
    lab.start()
    run = until(lambda: next(iter(lab.ledger.runs_in(RunState.RUNNING)), None))
    held = set(lab.ledger.card_uses())
    leases = Leases(lab.client, 10)
    holders = {str((leases.held(card) or {}).get("run_id")) for card in run.cards}

    ended = lab.ended(gang)[0]

    assert held == set(run.cards)
    assert len(run.cards) == 2
    assert holders == {run.id}
    assert ended.result
    assert ended.finished_at
    assert ended.started_at
    assert ended.result.usage.gpu_s > 1.5 * (ended.finished_at - ended.started_at - 0.5)
