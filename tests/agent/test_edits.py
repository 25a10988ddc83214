"""A plan corrected by click is checked and estimated by the agent like one that was asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent import intake, obstacles
from agent.desk import Desk
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, Edit, Experiment
from tests.agent.test_intake import ASKED, _ask, _proposed, here

__all__ = ["here"]


def corrected(ledger: Ledger, experiment: Experiment, plan: Plan, revision: int = 0) -> Answer:
    """What the agent says to the plan that came of a form."""
    edit = Edit(experiment_id=experiment.id, revision=revision, plan=plan)
    request = ledger.submit(f"{experiment.id}: edited", "U0ALICE", experiment.conversation, edit=edit)
    assert request is not None
    intake.answer(request.id)
    answer = ledger.request(request.id).answer
    assert answer is not None
    return answer


@pytest.fixture
def proposed(here: Callable[..., Desk], ledger: Ledger) -> Experiment:
    here()
    return _proposed(ledger, _ask(ledger, ASKED))


def test_the_plan_is_replaced_with_a_new_estimate(ledger: Ledger, proposed: Experiment) -> None:
    """Ten times the epochs take longer, which the card has to say before somebody presses Run."""
    plan = proposed.plan.model_copy(update={"epochs": 30})
    answer = corrected(ledger, proposed, plan)
    after = ledger.experiment(proposed.id)

    assert answer == Answer(kind="revised", experiment_id=proposed.id)
    assert (after.plan, after.n_runs, after.edited_by) == (plan, 4, "U0ALICE")
    assert proposed.estimate is not None
    assert after.estimate is not None
    assert after.estimate.gpu_hours > 5 * proposed.estimate.gpu_hours


def test_what_no_host_can_do_leaves_the_plan_as_it_was(ledger: Ledger, proposed: Experiment) -> None:
    """The sentence says what stands in the way and that nothing was changed."""
    answer = corrected(ledger, proposed, proposed.plan.model_copy(update={"dataset": "cifar10"}))

    assert answer.kind == "question"
    assert "python -c 'download'" in answer.text
    assert answer.text.endswith(f"{proposed.id} stays as it was.")
    assert ledger.experiment(proposed.id) == proposed


def test_a_correction_that_comes_too_late_says_so(ledger: Ledger, proposed: Experiment) -> None:
    """Somebody pressed Run while the form was open; what runs is what was approved."""
    ledger.approve(proposed.id, "U0ALICE")
    answer = corrected(ledger, proposed, proposed.plan.model_copy(update={"epochs": 9}))

    assert answer.kind == "reply"
    assert f"{proposed.id} is approved" in answer.text
    assert ledger.experiment(proposed.id).plan.epochs == 3


def test_what_was_noted_of_the_hosts_is_looked_at_again(ledger: Ledger, proposed: Experiment) -> None:
    """A note of yesterday that no host is up would stand there twice, or be wrong by now."""
    plan = proposed.plan.model_copy(
        update={"notes": (obstacles.WORDS.say("no_host", False), "not used: tonight"), "epochs": 4}
    )
    corrected(ledger, proposed, plan)

    assert ledger.experiment(proposed.id).plan.notes == ("not used: tonight",)
