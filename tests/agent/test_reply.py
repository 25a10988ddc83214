"""What the person reads back: every assumed value, in the language of the message."""

from __future__ import annotations

import re

import pytest

from agent.understand import understand
from lab import planwords


def test_every_assumed_value_is_in_the_reply() -> None:
    """`lr (default)` says nothing; a wrong number that is shown can be corrected."""
    understood = understand("train resnet18 on svhn")

    assert "lr 0.001, batch size 64, 3 epochs (default)" in understood.reply
    assert understood.plan is not None
    for words in planwords.assumptions(understood.plan):
        assert words in understood.reply or "card a run" in words


def test_a_chinese_message_gets_a_chinese_reply() -> None:
    """Names and fields stay as they are written everywhere; the sentences around them do not."""
    reply = understand("对比 resnet18 和 resnet34，数据集 svhn，学习率从 1e-3 到 1e-1").reply

    assert "6 个 run = 2 个模型 x 3 个学习率" in reply
    assert "batch size 64、3 轮（默认）" in reply
    assert not re.search(
        r"\b(?:runs?|models|seeds?|assumed|default|became)\b", reply.replace("6 个 run", ""), re.IGNORECASE
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("compare resnet18 and resnet18 on svhn", "named twice"),
        ("train resnet18 on svhn, lr 5", "lr 5 is unusual"),
        ("train resnet18 on svhn, batch size 1000000", "batch_size 1000000 is unusual"),
        ("resnet18 在 svhn 上，学习率 5", "lr 5 不常见"),
    ],
)
def test_what_looks_like_a_slip_is_pointed_out(text: str, said: str) -> None:
    """The plan stands, and the person sees it before the cards do."""
    understood = understand(text)

    assert said in understood.reply
    assert understood.plan is not None
    assert understood.plan.notes


@pytest.mark.parametrize(
    "text",
    [
        "train my_model.py on digits",
        "run our train.sh",
        "use my own training script",
        "用我自己写的脚本训练",
        "bash run_all.sh",
    ],
)
def test_own_scripts_are_declined_with_what_can_run(text: str) -> None:
    """Nothing is started, and the person learns what to ask instead."""
    understood = understand(text)

    assert not understood.may_start
    assert re.search(r"timm", understood.reply)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a b c 1 2 3 !!!", "I plan and run experiments"),
        ("what's the weather", "I plan and run experiments"),
        ("今天天气怎么样", "规划和运行实验"),
        ("hello", "Hello!"),
        ("thanks a lot!", "welcome"),
    ],
)
def test_small_talk_is_answered_as_what_it_is(text: str, said: str) -> None:
    """A greeting is no answer to a question."""
    assert said in understand(text).reply


@pytest.mark.parametrize("text", ["compare resnet18 and resnet34 with 5000 seeds", "resnet18 在 svhn 上跑 5000 个种子"])
def test_too_many_seeds_are_asked_about_as_seeds(text: str) -> None:
    """No search can do with fewer, and searches cannot run yet."""
    question = understand(text).question or ""

    assert re.search(r"How many seeds|几个种子", question)
    assert not re.search(r"random|Bayesian|随机搜索|贝叶斯", question)


def test_a_grid_over_the_limit_shows_its_factors() -> None:
    """So that the person sees which list to shorten."""
    question = understand("resnet18 on svhn, 40 values of lr from 1e-4 to 1e-1, batch size 1 to 512").question or ""

    assert "400 runs (40 lr x 10 batch_size)" in question


def test_a_plan_that_is_too_large_is_counted_in_the_language_of_the_question() -> None:
    """A Chinese question with an English sum in it is half an answer."""
    question = understand("在 digits 上给 resnet18 找最好的学习率，60 个种子").question or ""

    assert "240 个 run = 60 个种子 x 4 个学习率" in question
