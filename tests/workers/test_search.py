"""Searches on a lab in processes: values drawn when a card is free, hopeless runs stopped, leaders killed."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from lab import hosts
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Plan, Range, Scalar
from lab.run import FINAL_RUN, ExperimentState, Run, RunResult, RunState, Usage
from tests.workers.under_test import Lab, cards_of, until
from workers.search import Searches


def plan(**fields: Any) -> Plan:
    """A search over the accuracy that probe runs end with, so that the best point is known."""
    axes = {"final_acc": Range(low=0.1, high=1.0, scale="linear"), "noise": (0.0,), "seed": (0,)}
    axes |= fields.pop("axes", {})
    return Plan(
        **{"template": "probe", "models": ("probe",), "search": "bayesian", "trials": 6, "epochs": 2, "axes": axes}
        | fields
    )


def drawn(runs: list[Run], name: str = "final_acc") -> list[Scalar]:
    return [run.point.params[name] for run in runs]


def on_one_card(lab: Lab) -> Lab:
    lab.train = 1
    hosts.publish_cards(lab.client, cards_of("lab-a", train=1))
    return lab


def test_all_runs_of_a_search_are_there_at_once_without_the_values_that_are_drawn_later(lab: Lab) -> None:
    """Their number stands on the plan card, and people cancel, pause and count them like any others."""
    experiment = lab.approve_plan(plan(trials=3, axes={"seed": (0, 1)}))
    runs = lab.ledger.runs(experiment.id)

    assert [(run.number, run.trial, run.to_draw) for run in runs] == [
        (1, 1, True),
        (2, 1, True),
        (3, 2, True),
        (4, 2, True),
        (5, 3, True),
        (6, 3, True),
    ]
    assert [run.point.params for run in runs[:2]] == [{"noise": 0.0, "seed": 0}, {"noise": 0.0, "seed": 1}]


def test_a_search_runs_to_its_end_with_different_points(lab: Lab) -> None:
    """Three cards at once, real workers; each point in its range, none twice, and the report's order is kept."""
    experiment = lab.approve_plan(plan(axes={"steps": (4,)}))
    lab.start()
    runs = lab.ended(experiment, 60)

    assert [run.state for run in runs] == [RunState.FINISHED] * 6
    assert len(set(drawn(runs))) == 6
    assert all(0.1 <= float(value) <= 1.0 for value in drawn(runs))
    assert all(run.result and run.result.metrics["val_acc"] == run.point.params["final_acc"] for run in runs)
    assert lab.ledger.experiment(experiment.id).state is ExperimentState.FINISHED


def test_the_seeds_of_a_trial_share_its_values(lab: Lab) -> None:
    """Else their mean would be over different points."""
    experiment = lab.approve_plan(plan(trials=2, axes={"seed": (0, 1), "steps": (2,)}))
    lab.start()
    values = drawn(lab.ended(experiment, 60))

    assert values[0] == values[1]
    assert values[2] == values[3]
    assert values[0] != values[2]


def test_a_killed_leader_changes_no_point(lab: Lab) -> None:
    """The study is in the ledger, the seed in the question: whoever leads draws the same."""
    undisturbed = points_of_a_night(lab, kills=())
    lab.close()
    lab.client.flushdb()
    anew = Lab(lab.settings, lab.client, lab.ledger)
    try:
        assert points_of_a_night(anew, kills=(1, 3)) == undisturbed
    finally:
        anew.close()


def points_of_a_night(lab: Lab, kills: tuple[int, ...]) -> list[Scalar]:
    """What a search on one card drew; its leader was killed when so many of its runs had finished."""
    search = on_one_card(lab).approve_plan(plan(axes={"steps": (4,)}))
    lab.start()
    for n in kills:
        until(lambda n=n: lab.ledger.counts(search.id).get("finished", 0) >= n, 60)
        lab.stop("dispatch", signal.SIGKILL)
        lab.start("dispatch")
    return drawn(lab.ended(search, 90))


def test_two_leaders_that_draw_for_the_same_run_agree(lab: Lab) -> None:
    """The second finds the values of the first, whatever it would have drawn itself."""
    experiment = lab.approve_plan(plan())
    first = lab.ledger.runs(experiment.id)[0]
    Searches(lab.ledger).draw(first)
    value = drawn([lab.ledger.run(first.id)])

    Searches(lab.ledger).draw(first)
    assert not lab.ledger.draw([first], {"final_acc": 0.5})
    assert drawn([lab.ledger.run(first.id)]) == value


def test_a_hopeless_run_is_stopped_and_says_why(lab: Lab) -> None:
    """Its card is free for the next point, and the reason is the run's own message."""
    experiment = lab.approve_plan(
        plan(
            search="random",
            trials=8,
            epochs=10,
            prune="median",
            axes={"steps": (40,), "step_s": (0.1,), "curve": ("flat",)},
        )
    )
    lab.start()
    runs = lab.ended(experiment, 120)
    pruned = [run for run in runs if run.state is RunState.CANCELLED]

    assert pruned
    assert {run.state for run in runs} == {RunState.FINISHED, RunState.CANCELLED}
    best = max(runs, key=lambda run: float(run.point.params["final_acc"]))
    assert best.state is RunState.FINISHED
    for run in pruned:
        assert run.pruned_at is not None
        assert run.message is not None
        assert run.message.startswith(f"pruned at epoch {run.pruned_at}: val acc {run.point.params['final_acc']:.3f}, ")
        assert run.message.endswith("others")
        assert run.result is not None
        assert run.result.curves["val_acc"][0] == (1.0, run.point.params["final_acc"])
    assert lab.ledger.experiment(experiment.id).state is ExperimentState.FINISHED


# -- without processes ---------------------------------------------------------------------------------------------


@pytest.fixture
def searched(lab: Lab) -> Searches:
    return Searches(lab.ledger)


def finish(ledger: Ledger, run: Run, gpu_s: float = 1.0, value: float = 0.5) -> None:
    """The run has run on a card and finished."""
    begin(ledger, run)
    result = RunResult(metrics={"val_acc": value}, usage=Usage(gpu_s=gpu_s))
    ledger.finish(run.id, ledger.run(run.id).fence, result)


def begin(ledger: Ledger, run: Run) -> None:
    bound = ledger.bind(run.id, (f"CARD-{run.number}",), "lab-a", 0)
    lease = Leases(ledger.client, 60).claim(run.id, bound.dispatches, bound.cards, "w")
    ledger.start(run.id, lease.fence, 1)


def test_a_cancelled_search_draws_nothing_more(lab: Lab, searched: Searches) -> None:
    """Runs without values end like any that wait."""
    experiment = lab.approve_plan(plan())
    lab.ledger.cancel(experiment.id, "U1")

    assert lab.ledger.experiment(experiment.id).state is ExperimentState.CANCELLED
    assert all(run.state in FINAL_RUN and run.to_draw for run in lab.ledger.runs(experiment.id))


def test_the_retry_of_a_trial_keeps_its_values_and_its_place(lab: Lab, searched: Searches) -> None:
    """A lost card must not cost the search a point, nor make one twice."""
    experiment = lab.approve_plan(plan(trials=2))
    for run in lab.ledger.runs(experiment.id):
        searched.draw(run)
        begin(lab.ledger, run)
        lab.ledger.fail(run.id, lab.ledger.run(run.id).fence, "network", "gone")
    failed = lab.ledger.runs(experiment.id)
    (first, second) = lab.ledger.retry(experiment.id, "U1")

    assert [first.trial, second.trial] == [1, 2]
    assert not first.to_draw
    assert [first.point, second.point] == [run.point for run in failed]


def test_a_run_that_was_done_before_the_stop_reached_it_has_finished(lab: Lab, searched: Searches) -> None:
    """Its value counts; only a run that did stop is a pruned one."""
    experiment = lab.approve_plan(plan())
    run = lab.ledger.runs(experiment.id)[0]
    searched.draw(run)
    begin(lab.ledger, run)
    lab.ledger.prune(run.id, 1, "pruned at epoch 1")
    ended = lab.ledger.finish(run.id, lab.ledger.run(run.id).fence, RunResult(metrics={"val_acc": 0.9}))

    assert ended.state is RunState.FINISHED


def test_a_second_model_has_a_search_of_its_own(lab: Lab, searched: Searches) -> None:
    """What suits one says little about the other, and both get as many trials."""
    experiment = lab.approve_plan(plan(models=("probe", "probe2"), trials=2, search="random"))
    runs = lab.ledger.runs(experiment.id)
    for run in runs:
        searched.draw(run)
    values = drawn(lab.ledger.runs(experiment.id))

    assert [(run.trial, run.point.model) for run in runs] == [(1, "probe"), (1, "probe2"), (2, "probe"), (2, "probe2")]
    assert len(set(values)) == 4
