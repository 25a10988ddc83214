"""A plan that waits for a yes: corrected, withdrawn, expired; and never changed once it was approved."""

from __future__ import annotations

import time

import pytest

from lab import events
from lab.errors import MoveRefused
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, Edit, Experiment, ExperimentState, Request, RequestState
from lab.store import Client

PLAN = Plan(template="probe", models=("probe",), axes={"seed": (0, 1)})
MORE = PLAN.model_copy(update={"axes": {"seed": (0, 1, 2)}})


def asked(ledger: Ledger, text: str = "probe", edit: Edit | None = None) -> Request:
    request = ledger.submit(text, "U1", "terminal:1", edit=edit)
    assert request
    return request


def proposed(ledger: Ledger) -> Experiment:
    experiment = ledger.propose(asked(ledger).id, PLAN, None, Answer(kind="plan"))
    assert experiment
    return experiment


def test_a_corrected_plan_takes_the_place_of_the_old_one(ledger: Ledger, store: Client) -> None:
    """The same experiment, its card edited; the runs are those of the plan that was approved."""
    experiment = proposed(ledger)
    request = asked(ledger, "3 seeds", Edit(experiment_id=experiment.id, revision=0, plan=MORE))
    revised = ledger.revise(request.id, experiment.id, 0, MORE, None)
    ledger.approve(experiment.id, "U1")

    assert revised == ledger.experiment(experiment.id).model_copy(
        update={"state": ExperimentState.PROPOSED, "approved_by": None, "approved_at": None}
    )
    assert (revised.n_runs, revised.plan_revision, revised.edited_by) == (3, 1, "U1")
    assert len(ledger.runs(experiment.id)) == 3
    assert ledger.request(request.id).edit == request.edit
    assert ledger.request(request.id).answer == Answer(kind="revised", experiment_id=experiment.id)
    kinds = [events.parse(i, f).kind for i, f in store.xrange(events.STREAM)]
    assert kinds.count("experiment.revised") == 1


def test_a_plan_is_corrected_once_for_each_request(ledger: Ledger) -> None:
    """The queue may deliver twice; the second time must not undo what came after."""
    experiment = proposed(ledger)
    request = asked(ledger)
    ledger.revise(request.id, experiment.id, 0, MORE, None)

    assert ledger.revise(request.id, experiment.id, 1, PLAN, None) is None
    assert ledger.experiment(experiment.id).n_runs == 3


def test_a_correction_of_an_older_plan_is_refused(ledger: Ledger) -> None:
    """Two people with the form open: the second has not seen what the first changed."""
    experiment = proposed(ledger)
    ledger.revise(asked(ledger).id, experiment.id, 0, MORE, None)

    with pytest.raises(MoveRefused, match="edited meanwhile"):
        ledger.revise(asked(ledger).id, experiment.id, 0, PLAN, None)
    assert ledger.experiment(experiment.id).n_runs == 3


def test_what_was_approved_is_not_corrected(ledger: Ledger) -> None:
    """What runs is what was approved."""
    experiment = proposed(ledger)
    ledger.approve(experiment.id, "U1")

    with pytest.raises(MoveRefused, match="approved"):
        ledger.revise(asked(ledger).id, experiment.id, 0, MORE, None)
    assert ledger.experiment(experiment.id).plan == PLAN


def test_a_withdrawn_request_is_answered_with_silence(ledger: Ledger) -> None:
    """Its message was deleted before the agent came to it; no plan may appear under a message that is gone."""
    request = asked(ledger)

    assert ledger.withdraw(request.id, "U1") is None
    assert ledger.request(request.id).state is RequestState.ANSWERED
    assert ledger.propose(request.id, PLAN, None, Answer(kind="plan")) is None
    assert ledger.experiments() == []


def test_withdrawing_cancels_a_plan_that_waits_and_leaves_one_that_runs(ledger: Ledger) -> None:
    """A deleted message is no order to stop what was approved."""
    waits, runs = proposed(ledger), proposed(ledger)
    ledger.approve(runs.id, "U1")

    assert ledger.withdraw(waits.request_id, "U1") is None
    assert ledger.experiment(waits.id).state is ExperimentState.CANCELLED
    assert ledger.withdraw(runs.request_id, "U1") == ledger.experiment(runs.id)
    assert ledger.experiment(runs.id).state is ExperimentState.APPROVED


def test_a_plan_that_nobody_approves_expires_and_cannot_start(ledger: Ledger) -> None:
    """Cards, data and code of last month are not what it was made for."""
    experiment = proposed(ledger)

    assert ledger.proposed_before(experiment.created_at) == []
    assert ledger.proposed_before(time.time() + 1) == [experiment.id]
    assert ledger.expire(experiment.id).state is ExperimentState.EXPIRED
    with pytest.raises(MoveRefused, match="expired"):
        ledger.approve(experiment.id, "U1")
    with pytest.raises(MoveRefused):
        ledger.expire(experiment.id)
