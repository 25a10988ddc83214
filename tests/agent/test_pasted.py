"""A pasted log is diagnosed; a request that merely names an error is none."""

from __future__ import annotations

import pytest

from agent.pasted import answer

OOM = """Traceback (most recent call last):
  File "train.py", line 88, in <module>
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 23.65 GiB"""


@pytest.mark.parametrize(("lead", "advice"), [("what does this mean?", "batch"), ("这是什么错？", "显存不足")])
def test_a_pasted_log_is_answered_with_cause_advice_and_evidence(lead: str, advice: str) -> None:
    """In the language of the words around it, since logs are English anyway."""
    said = answer(f"{lead}\n```\n{OOM}\n```") or ""

    assert said.startswith("oom_gpu: " if "what" in lead else "oom_gpu：")
    assert advice in said
    assert "Tried to allocate 3.00 GiB" in said


@pytest.mark.parametrize(
    "text",
    [
        "run 3 为什么 OOM 了? batch 64 should fit on 24G",
        "train resnet18 on digits\nlr 0.1\n3 seeds",
        "epoch 1 loss 0.4\nepoch 2 loss 0.3\ndone",
    ],
)
def test_what_is_no_log_of_a_failure_is_left_to_the_reader(text: str) -> None:
    """Requests of several lines and logs of runs that went well."""
    assert answer(text) is None
