"""Short orders are recognised whole, in two languages, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from agent.orders import read_order, read_orders
from lab.orders import MINE, Order

HERE = "exp-7"


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("pause exp-12", Order("pause", "exp-12")),
        ("Please pause exp-12/3.", Order("pause", "exp-12/3")),
        ("cancel exp-3 run 2", Order("cancel", "exp-3/2")),
        ("stop it", Order("cancel", HERE)),
        ("resume", Order("resume", HERE)),
        ("retry run 4", Order("retry", f"{HERE}/4")),
        ("rerun the failed runs of exp-9", Order("retry", "exp-9")),
        ("cancel everything of mine that's still in the queue", Order("cancel", MINE)),
        ("pause all my queued runs", Order("pause", MINE)),
        ("取消 exp-12", Order("cancel", "exp-12")),
        ("暂停exp-12第3个run", Order("pause", "exp-12/3")),
        ("继续", Order("resume", HERE)),
        ("重试 exp-5", Order("retry", "exp-5")),
        ("exp-12 high priority", Order("priority", "exp-12", "high")),
        ("bump exp-12 to high prio", Order("priority", "exp-12", "high")),
        ("把exp-12的优先级改为低", Order("priority", "exp-12", "low")),
        ("priority of exp-4/2: low", Order("priority", "exp-4/2", "low")),
        ("exp-1 priority high", Order("priority", "exp-1", "high")),
        ("priority exp-1 urgent", Order("priority", "exp-1", "high")),
        ("make exp-3 urgent", Order("priority", "exp-3", "high")),
        ("lower the priority of exp-3", Order("priority", "exp-3", "low")),
        ("exp-3 提到最高优先级", Order("priority", "exp-3", "high")),
        ("降低 exp-3 的优先级", Order("priority", "exp-3", "low")),
        ("把 exp-3 暂停一下", Order("pause", "exp-3")),
        ("exp-3/2 暂停", Order("pause", "exp-3/2")),
        ("把exp-1取消掉", Order("cancel", "exp-1")),
        ("把我排队的任务都取消", Order("cancel", MINE)),
        ("取消所有我在排队的任务", Order("cancel", MINE)),
        ("恢复我所有暂停的任务", Order("resume", MINE)),
        ("resume everything of mine", Order("resume", MINE)),
        ("resume all my paused runs", Order("resume", MINE)),
    ],
)
def test_an_order_is_read_whole(text: str, order: Order) -> None:
    """What people type when something has to happen now."""
    assert read_order(text, HERE) == order


@pytest.mark.parametrize(
    "text",
    [
        "compare resnet18 and resnet34",
        "rerun exp-12 with lr 1e-4",
        "stop at 90 % accuracy",
        "cancel the vit one",
        "don't cancel exp-3",
        "pause exp-3 and exp-4",
        "is exp-3 paused?",
        "continue training resnet18 for 5 more epochs",
        "retry with batch 32",
        "cancel bob's runs",
        "exp-3 停了",
        "exp-3 is high",
        "继续我的实验",
        "",
    ],
)
def test_anything_more_than_an_order_is_left_to_the_reader(text: str) -> None:
    """Half an order obeyed is worse than none."""
    assert read_order(text, HERE) is None


def test_without_an_experiment_here_an_order_that_names_none_is_none() -> None:
    """`stop` in a fresh thread must not stop something somewhere."""
    assert read_order("stop", None) is None
    assert read_order("stop exp-2", None) == Order("cancel", "exp-2")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cancel exp-1; cancel exp-2", [("cancel", "exp-1"), ("cancel", "exp-2")]),
        ("cancel exp-1, exp-2 and exp-3/4", [("cancel", "exp-1"), ("cancel", "exp-2"), ("cancel", "exp-3/4")]),
        ("取消 exp-1 和 exp-2", [("cancel", "exp-1"), ("cancel", "exp-2")]),
        ("pause exp-1 and then resume exp-2", [("pause", "exp-1"), ("resume", "exp-2")]),
        ("cancel exp-1", [("cancel", "exp-1")]),
    ],
)
def test_every_order_of_a_message_is_read(text: str, told: list[tuple[str, str]]) -> None:
    """The second one passed over in silence would run all night."""
    assert [(order.verb, order.subject) for order in read_orders(text, HERE)] == told


@pytest.mark.parametrize(
    "text", ["cancel exp-1 and train resnet18 on digits", "exp-1 and exp-2", "and", "cancel exp-1; hm"]
)
def test_a_message_that_says_more_than_orders_is_left_to_the_reader(text: str) -> None:
    """Half of it done would be worse than a question."""
    assert read_orders(text, HERE) == ()
