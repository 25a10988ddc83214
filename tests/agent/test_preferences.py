"""What somebody says again and again is assumed, shown as such, outranked by every word, and forgotten on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent import preferences
from agent.desk import Desk
from agent.preferences import USES, USUAL, WINDOW, Wish, read_wish, usual
from agent.reader import PreviousPlan
from agent.understand import Defaults, understand
from lab import habits, hosts, planwords
from lab.card import DataSet, Host
from lab.ledger import Ledger
from lab.plan import Plan
from tests.agent.test_intake import _ask, _proposed, here
from workers.templates import TEMPLATES

__all__ = ["here"]

DEFAULTS = Defaults(
    usual={
        "dataset": "cifar10",
        "axes.seed": 5,
        "epochs": 12,
        "metric": "val_acc",
        "axes.batch_size": 256,
        "axes.lr": 0.03,
        "axes.optimizer": "sgd",
    }
)


def plan_of(text: str, previous: PreviousPlan | None = None, defaults: Defaults = DEFAULTS) -> Plan:
    found = understand(text, previous, defaults=defaults).plan
    assert found is not None
    return found


def test_three_uses_of_five_make_a_preference() -> None:
    """Twice is chance; and who changed his mind three times has a new habit."""
    old, new = {"epochs": 10}, {"epochs": 20}

    assert usual([old] * (USES - 1)) == {}
    assert usual([old] * USES) == {"epochs": 10}
    assert usual([{"metric": "x"}, old, old, {"metric": "x"}, old]) == {"epochs": 10}
    assert usual([new] * 2 + [old] * 3) == {"epochs": 10}
    assert usual([new] * 3 + [old] * 17) == {"epochs": 20}
    assert usual([new, new, {"epochs": 1}, {"epochs": 2}, {"epochs": 3}, *[new] * 9]) == {}
    assert WINDOW < 2 * USES, "two values at once could be usual"


def test_what_a_message_does_not_say_is_as_usual() -> None:
    """Every value is listed with the reason, so that one look shows what was not said."""
    plan = plan_of("compare resnet18 and resnet34")

    assert plan.dataset == "cifar10"
    assert plan.axes == {"seed": (0, 1, 2, 3, 4), "batch_size": (256,), "lr": (0.03,), "optimizer": ("sgd",)}
    assert (plan.epochs, plan.metric) == (12, "val_acc")
    assert {a.field for a in plan.assumed if a.reason == USUAL} == set(DEFAULTS.usual)
    assert any("cifar10" in words and words.endswith("(your usual)") for words in planwords.assumptions(plan))


@pytest.mark.parametrize(
    ("said", "field", "value"),
    [
        ("on svhn", "dataset", "svhn"),
        ("2 seeds", "axes.seed", (0, 1)),
        ("7 epochs", "epochs", 7),
        ("batch 64", "axes.batch_size", (64,)),
        ("lr 0.1", "axes.lr", (0.1,)),
        ("lr 0.1 and 0.2", "axes.lr", (0.1, 0.2)),
        ("with adam", "axes.optimizer", ("adam",)),
        ("数据集 svhn", "dataset", "svhn"),
    ],
)
def test_what_is_said_outranks_what_is_usual(said: str, field: str, value: Any) -> None:
    """A preference is the weakest of all reasons but the lab's default."""
    plan = plan_of(f"train resnet18 {said}")

    name = field.removeprefix("axes.")
    assert (plan.axes[name] if field.startswith("axes.") else getattr(plan, name)) == value
    assert plan.why(field) is None
    assert plan.why("epochs" if field != "epochs" else "dataset") == USUAL


def test_steps_in_place_of_epochs_are_not_doubled() -> None:
    """500 steps and the usual 12 epochs contradict each other."""
    plan = plan_of("train resnet18 for 500 steps")

    assert (plan.max_steps, plan.epochs) == (500, None)


@pytest.mark.parametrize(
    ("text", "field"),
    [("train resnet18, not on cifar10", "dataset"), ("train resnet18, don't use sgd", "axes.optimizer")],
)
def test_what_is_excluded_is_not_taken_because_it_is_usual(text: str, field: str) -> None:
    """Somebody who says not this time means it."""
    plan = understand(text, defaults=DEFAULTS).plan

    assert plan is None or plan.why(field) != USUAL


def test_the_plan_of_a_thread_is_not_filled_up() -> None:
    """`and 2 more epochs` is about that plan, whose silence was filled when it was made."""
    held = Plan(models=("resnet18",), dataset="svhn", axes={"lr": (0.1,), "batch_size": (32,), "seed": (0,)}, epochs=3)
    plan = plan_of("same with 2 more epochs", PreviousPlan.of(held, "exp-1"))

    assert (plan.dataset, plan.axes, plan.epochs) == ("svhn", held.axes, 5)
    assert [a.field for a in plan.assumed if a.reason == USUAL] == []


def test_an_axis_to_be_tuned_is_not_set_to_what_is_usual() -> None:
    """`find the best learning rate` asks for other values than the one of every day."""
    plan = plan_of("find the best learning rate for resnet18 on digits")

    assert plan.why("axes.lr") != USUAL
    assert len(plan.axes["lr"]) > 1  # type: ignore[arg-type]


def test_usual_seeds_do_not_make_a_grid_too_large() -> None:
    """Nobody is asked which values matter most because of seeds that he did not ask for."""
    tight = DEFAULTS.model_copy(update={"max_runs": 8})
    understood = understand("resnet18 on digits, lr 0.1, 0.2, 0.3", defaults=tight)

    assert understood.question is None
    assert understood.plan is not None
    assert understood.plan.n_runs == 3


def test_a_habit_grows_from_approved_plans_and_is_used(here: Callable[..., Desk], ledger: Ledger) -> None:
    """The whole way; a plan that was only proposed, or assumed the value, is no use."""
    here()
    for number in range(USES):
        found = _proposed(ledger, _ask(ledger, "train resnet18 on digits, batch 32", f"slack:C:{number}"))
        assert (
            _proposed(ledger, _ask(ledger, "train resnet34", f"slack:C:x{number}")).plan.why("axes.batch_size")
            == "default"
        )
        ledger.approve(found.id, "U0ALICE")

    later = _proposed(ledger, _ask(ledger, "train resnet34", "slack:C:9"))
    assert later.plan.axes["batch_size"] == (32,)
    assert later.plan.why("axes.batch_size") == USUAL
    assert later.plan.why("epochs") == "default"
    ledger.approve(later.id, "U0ALICE")
    assert len(habits.uses(ledger.client, "U0ALICE")) == USES, "what was assumed feeds no habit"


def test_a_data_set_that_is_no_longer_there_is_not_used(here: Callable[..., Desk], ledger: Ledger) -> None:
    """The lab's ordinary default takes its place, and the list says why."""
    here()
    client = ledger.client
    with client.pipeline() as pipe:
        for _ in range(USES):
            habits.remember(pipe, "U0ALICE", Plan(models=("resnet18",), dataset="helmets", epochs=4))
        pipe.execute()
    plan = _proposed(ledger, _ask(ledger, "train resnet18", "slack:C:1")).plan
    told = _ask(ledger, "what do you remember about me?", "slack:C:2").text

    assert plan.why("dataset") == "the only data set on these hosts"
    assert plan.why("epochs") == USUAL
    assert "- data set: helmets (not used: no host that is up has it)" in told
    schemas = {name: template.schema() for name, template in TEMPLATES.items()}
    helmets = DataSet(name="helmets", present=True)
    hosts.publish_host(client, Host(host="b", version="0", templates=schemas, datasets=(helmets,)))
    assert _proposed(ledger, _ask(ledger, "train resnet18", "slack:C:3")).plan.why("dataset") == USUAL


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("what do you remember about me", Wish()),
        ("What do you know about me?", Wish()),
        ("show me my preferences please", Wish()),
        ("my habits", Wish()),
        ("你记得我什么", Wish()),
        ("你记住了我哪些习惯？", Wish()),
        ("我的偏好有哪些", Wish()),
        ("forget my preferences", Wish(forget=True)),
        ("please forget everything about me.", Wish(forget=True)),
        ("Forget all my habits", Wish(forget=True)),
        ("忘掉我的习惯", Wish(forget=True)),
        ("请清除我的偏好吧", Wish(forget=True)),
        ("forget my usual data set", Wish(forget=True, field="dataset")),
        ("forget my dataset", Wish(forget=True, field="dataset")),
        ("forget my usual number of seeds", Wish(forget=True, field="axes.seed")),
        ("forget my preferred lr", Wish(forget=True, field="axes.lr")),
        ("forget my usual batch size", Wish(forget=True, field="axes.batch_size")),
        ("忘掉我常用的数据集", Wish(forget=True, field="dataset")),
        ("忘记我的学习率", Wish(forget=True, field="axes.lr")),
        ("train resnet18 and forget my preferences", None),
        ("what do you remember about exp-12", None),
        ("forget it", None),
        ("delete my data set from disk", None),
        ("忘了加种子", None),
    ],
)
def test_wishes_are_told_from_other_messages(text: str, wish: Wish | None) -> None:
    """Only a message that is nothing else; the rest is for the reader."""
    assert read_wish(text) == wish


def test_every_field_can_be_named_in_both_languages() -> None:
    """What can be remembered can be forgotten."""
    assert list(preferences.WORDS) == list(habits.FIELDS)
    for field, (english, chinese, _) in preferences.WORDS.items():
        assert read_wish(f"forget my usual {english}") == Wish(forget=True, field=field)
        assert read_wish(f"忘掉我常用的{chinese}") == Wish(forget=True, field=field)


def test_preferences_are_listed_and_forgotten(here: Callable[..., Desk], ledger: Ledger) -> None:
    """In the asker's language; of the asker alone."""
    here()
    with ledger.client.pipeline() as pipe:
        for person in ("U0ALICE", "U0BEN"):
            for _ in range(USES):
                plan = Plan(models=("resnet18",), dataset="digits", epochs=4, axes={"seed": (0, 1, 2)})
                habits.remember(pipe, person, plan)
        pipe.execute()

    assert "Your usual:\n- data set: digits\n- number of seeds: 3\n- epochs: 4\n" in _ask(ledger, "my preferences").text
    assert "你常用的：\n- 数据集：digits\n- 种子数：3\n- 轮数：4\n" in _ask(ledger, "你记得我什么").text
    assert _ask(ledger, "forget my usual data set").text == "Forgotten: your data set."
    assert "data set: digits" not in _ask(ledger, "my preferences").text
    assert _ask(ledger, "忘掉我的习惯").text == "已忘掉你的习惯。"
    assert _ask(ledger, "forget my preferences").text == "I remembered nothing of your preferences."
    assert _ask(ledger, "my preferences").text.startswith(
        "Nothing is usual yet; I have kept what you said in 0 approved plans."
    )
    assert len(habits.uses(ledger.client, "U0BEN")) == USES
