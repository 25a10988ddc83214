"""What people said in approved plans is remembered, the newest of it, until they want it forgotten."""

from __future__ import annotations

from lab import habits
from lab.ledger import Ledger
from lab.plan import Assumed, Plan
from lab.run import Answer
from lab.store import Client

PLAN = Plan(
    models=("resnet18",),
    dataset="cifar10",
    axes={"seed": (0, 1, 2), "lr": (0.1, 0.01), "batch_size": (128,)},
    epochs=5,
    assumed=(Assumed(field="epochs", reason="default"),),
)


def approve(ledger: Ledger, plan: Plan, person: str = "U1") -> None:
    request = ledger.submit("train", person, "terminal:1")
    assert request
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment
    ledger.approve(experiment.id, "U2")


def test_only_what_was_said_as_one_value_counts() -> None:
    """A default that nobody asked for is no habit, and a sweep over learning rates has no usual one."""
    assert habits.stated(PLAN) == {"dataset": "cifar10", "axes.seed": 3, "axes.batch_size": 128}


def test_approval_remembers_for_the_asker(ledger: Ledger, store: Client) -> None:
    """Whoever presses Run for somebody else has said nothing of it."""
    approve(ledger, PLAN)

    assert habits.uses(store, "U1") == [habits.stated(PLAN)]
    assert habits.uses(store, "U2") == []


def test_several_data_sets_come_back_as_they_were(ledger: Ledger, store: Client) -> None:
    """JSON knows no tuples."""
    approve(ledger, PLAN.model_copy(update={"dataset": ("cifar10", "svhn")}))

    assert habits.uses(store, "U1")[0]["dataset"] == ("cifar10", "svhn")


def test_the_newest_are_kept(ledger: Ledger, store: Client) -> None:
    """What somebody did a year ago is not what he usually does."""
    for epochs in range(1, habits.KEPT + 3):
        approve(ledger, Plan(models=("resnet18",), axes={"seed": (0,)}, epochs=epochs))

    found = [use["epochs"] for use in habits.uses(store, "U1")]
    assert found == list(range(habits.KEPT + 2, 2, -1))


def test_one_field_or_everything_is_forgotten(ledger: Ledger, store: Client) -> None:
    """And nobody else's."""
    for person in ("U1", "U1", "U2"):
        approve(ledger, PLAN, person)

    assert habits.forget(store, "U1", "dataset")
    assert [set(use) for use in habits.uses(store, "U1")] == [{"axes.seed", "axes.batch_size"}] * 2
    assert not habits.forget(store, "U1", "dataset")
    assert habits.forget(store, "U1")
    assert habits.uses(store, "U1") == []
    assert len(habits.uses(store, "U2")) == 1
