"""The form of a plan: what it holds at first, what may be entered, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from bot.form import Around, Faults, corrected, difference, entries, left_out
from lab.plan import Assumed, Plan, Range
from workers.templates import TEMPLATES

PLAN = Plan(
    models=("resnet50", "efficientnet_b0"),
    dataset="digits",
    axes={"lr": (0.001, 1e-05), "batch_size": (64,), "optimizer": ("adam",), "seed": (0, 1, 2)},
    epochs=3,
    assumed=(Assumed(field="axes.seed", reason="default"), Assumed(field="epochs", reason="default")),
    notes=("lr from 1e-05 to 0.001 became a decade grid", "not used: tonight"),
)
AROUND = Around(("cifar10", "digits"), TEMPLATES["vision"].schema(), 30)


def faults(values: dict[str, Any], plan: Plan = PLAN, around: Around = AROUND) -> dict[str, str]:
    with pytest.raises(Faults) as caught:
        corrected(plan, values, around)
    return caught.value.by_field


def test_a_form_sent_as_it_came_changes_nothing() -> None:
    """Whoever only looked has stated nothing: what was assumed stays assumed."""
    sent = {entry.name: entry.value for entry in entries(PLAN, AROUND)}

    assert set(sent) == {
        "models", "dataset", "axes.seed", "epochs", "axes.lr", "axes.batch_size", "axes.optimizer", "priority",
    }  # fmt: skip
    assert corrected(PLAN, sent, AROUND) == PLAN
    assert difference(PLAN, corrected(PLAN, sent, AROUND)) == []


@pytest.mark.parametrize(
    ("name", "entered", "value"),
    [
        ("models", "resnet18， vit_tiny_patch16_224", ("resnet18", "vit_tiny_patch16_224")),
        ("dataset", ("cifar10",), "cifar10"),
        ("dataset", ("digits", "cifar10"), ("digits", "cifar10")),
        ("axes.seed", "5", (0, 1, 2, 3, 4)),
        ("axes.seed", "0, 5, 7", (0, 5, 7)),
        ("axes.seed", "5,", (5,)),
        ("epochs", " 12 ", 12),
        ("axes.lr", "1e-3; 0.03", (0.001, 0.03)),
        ("axes.lr", "1", (1.0,)),
        ("axes.batch_size", "128、256", (128, 256)),
        ("axes.optimizer", ("sgd", "adamw"), ("sgd", "adamw")),
        ("priority", "high", "high"),
    ],
)
def test_what_is_entered_is_in_the_plan_and_no_longer_assumed(name: str, entered: Any, value: Any) -> None:
    """Only that field; the others stay as they were, with their reasons."""
    new = corrected(PLAN, {name: entered}, AROUND)

    bare = name.removeprefix("axes.")
    assert (new.axes[bare] if bare in new.axes else getattr(new, bare)) == value
    assert new.why(name) is None
    assert {a.field for a in new.assumed} == {"axes.seed", "epochs"} - {name}
    assert len(difference(PLAN, new)) == 1


def test_numbers_keep_their_kind() -> None:
    """A learning rate of 1 is 1.0, and a batch of 6.4e1 is 64: the template and the history tell them apart."""
    new = corrected(PLAN, {"axes.lr": "1", "axes.batch_size": "6.4e1"}, AROUND)

    assert repr(new.axes["lr"]) == "(1.0,)"
    assert repr(new.axes["batch_size"]) == "(64,)"


def test_notes_about_a_changed_axis_go_and_others_stay() -> None:
    """That a range became a grid is no longer true of values that were typed in."""
    assert corrected(PLAN, {"axes.lr": "0.1"}, AROUND).notes == ("not used: tonight",)


@pytest.mark.parametrize(
    ("name", "entered", "said"),
    [
        ("models", " , ", "Say at least one."),
        ("models", "resnet18, resnet18", "resnet18 stands there twice."),
        ("dataset", (), "Say at least one."),
        ("axes.seed", "three", "'three' is no whole number."),
        ("axes.seed", "2.5", "2.5 is no whole number."),
        ("axes.seed", "0", "0 is not between 1 and 1000."),
        ("axes.seed", "nan", "nan is no whole number."),
        ("epochs", "", "'' is no whole number."),
        ("epochs", "0", "0 is not between 1 and 100000."),
        ("axes.lr", "fast", "'fast' is no number; write 0.001 or 1e-3."),
        ("axes.lr", "0.1, inf", "inf is no finite number."),
        ("axes.lr", "-0.1", "-0.1 cannot be: -0.1 is less than or equal to the minimum of 0."),
        ("axes.batch_size", "64.5", "64.5 is no whole number."),
        ("axes.batch_size", "0", "0 cannot be: 0 is less than the minimum of 1."),
        ("axes.optimizer", ("lion",), "lion cannot be: 'lion' is not one of"),
        ("priority", "urgent", "'urgent' is none of low, normal, high."),
    ],
)
def test_what_cannot_be_is_said_of_its_field(name: str, entered: Any, said: str) -> None:
    """With the value that was entered, so that it is found again among many."""
    found = faults({name: entered, "epochs": "7"} if name != "epochs" else {name: entered})

    assert set(found) == {name}
    assert found[name].startswith(said)


def test_every_field_at_fault_is_named_at_once() -> None:
    """One after the other would be a form that is sent four times."""
    assert set(faults({"models": "", "epochs": "x", "axes.lr": "y"})) == {"models", "epochs", "axes.lr"}


def test_too_many_runs_are_said_with_their_arithmetic() -> None:
    """At the field that multiplies most."""
    found = faults({"axes.seed": "10", "epochs": "1"})

    assert found == {
        "axes.seed": "That makes 40 runs = 2 models x 2 learning rates x 10 seeds, and 30 at once is the limit"
        " (limits.max_runs)."
    }


def test_without_a_host_the_plan_itself_says_which_kind_a_value_has() -> None:
    """No host is up at night, and the plan can still be corrected; the agent checks it when one is."""
    nowhere = Around()

    assert corrected(PLAN, {"axes.lr": "2"}, nowhere).axes["lr"] == (2.0,)
    assert set(faults({"axes.batch_size": "1.5"}, around=nowhere)) == {"axes.batch_size"}
    assert next(e for e in entries(PLAN, nowhere) if e.name == "dataset").options == ("digits",)


def test_ranges_and_endless_lists_have_no_field_and_are_named() -> None:
    """A search draws from a range; a list of a thousand values fits no line."""
    many = tuple(1 + i / 1000 for i in range(900))
    plan = PLAN.model_copy(update={"axes": {"lr": Range(low=1e-5, high=1e-2), "weight_decay": many, "seed": (0,)}})

    assert {e.name for e in entries(plan, AROUND)} == {"models", "dataset", "axes.seed", "epochs", "priority"}
    assert [words.split()[0] for words in left_out(plan, AROUND)] == ["lr", "weight"]
    assert corrected(plan, {"epochs": "4"}, Around(max_runs=10**6)).axes["lr"] == plan.axes["lr"]


def test_steps_stand_in_place_of_epochs() -> None:
    """A plan has the one or the other."""
    plan = PLAN.model_copy(update={"epochs": None, "max_steps": 500})

    assert corrected(plan, {"max_steps": "600"}, AROUND).max_steps == 600
    assert "epochs" not in {e.name for e in entries(plan, AROUND)}
