"""The table of cures: what is tried against each cause, in which order, and when it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.diagnose.memory import advice
from lab.losses import Losses
from lab.plan import Point
from lab.run import Run
from workers import cures
from workers.cures import CURES, Case, choose, last_word, overrides, sentence, wait_s
from workers.templates.endings import OOM_FRAGMENTED, OOM_FULL, OOM_SHARED
from workers.templates.params import VisionParams

PEOPLE_MUST_ACT = (
    "user_code",
    "bad_args",
    "import_error",
    "data_missing",
    "permission",
    "auth",
    "checkpoint_mismatch",
    "device_assert",
    "compile_error",
    "driver_mismatch",
    "arch_mismatch",
    "fork_cuda",
)
IN_A_CONTAINER = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.02 GiB is "
    "free. Including non-PyTorch memory, this process has 17.60 GiB memory in use. Of the allocated memory 16.80 GiB "
    "is allocated by PyTorch, and 322.01 MiB is reserved by PyTorch but unallocated."
)
"""The other process cannot be seen, only what it holds."""
OF_TORCH_1 = (
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 9.71 GiB already "
    "allocated; 5.56 MiB free; 9.80 GiB reserved in total by PyTorch)"
)


def case(cause: str, evidence: str = "", run: dict[str, Any] | None = None, **values: Any) -> Case:
    """A failed vision run."""
    params = VisionParams().model_dump() | values.pop("params", {})
    point = Point(model="resnet50", dataset="digits", params={"seed": 0})
    record = Run(
        id="exp-1/1", experiment_id="exp-1", number=1, point=point, template="vision", queued_at=0, **(run or {})
    )
    defaults: dict[str, Any] = {"retryable": True, "params": params}
    return Case(run=record, cause=cause, evidence=evidence, losses=Losses.after(record, 0), **(defaults | values))


def tried(first: Case) -> list[tuple[str, dict[str, Any]]]:
    """Every step, until nothing more is tried, with what each sets."""
    steps, now = [], first
    while step := choose(now):
        assert len(steps) < 30
        changed = overrides(step, now)
        steps.append((step.name, changed))
        run = now.run.model_copy(
            update={
                "cures": (*now.run.cures, cures.full_name(now, step)),
                "retries": now.run.retries + (not step.loss),
                **(now.losses.fields() if step.loss else {}),
                "environ": {**now.run.environ, **step.environ},
            }
        )
        now = replace(now, run=run, params={**now.params, **changed}, losses=Losses.after(run, 0))
    return steps


@pytest.mark.parametrize("cause", PEOPLE_MUST_ACT)
def test_what_people_must_mend_is_never_tried_again(cause: str) -> None:
    """A wrong path is as wrong the second time."""
    assert choose(case(cause)) is None


def test_every_step_of_the_table_reads_as_a_sentence() -> None:
    """A brace that names no parameter would end the worker in the middle of the night."""
    for cause, steps in CURES.items():
        for step in steps:
            it = case(cause, "loss is nan at step 40", params={"num_workers": 4})
            told = sentence(step, it, "exp-9/9")
            assert "{" not in told
            assert told.endswith("; this had helped exp-9/9")


def test_a_model_too_large_is_split_until_three_retries_are_used() -> None:
    """The effective batch stays; only its parts shrink."""
    steps = tried(case("oom_gpu", OOM_FULL))

    assert steps == [("split", {"grad_accum_steps": n}) for n in (2, 4, 8)]


@pytest.mark.parametrize(("batch", "parts"), [(4, (2, 4)), (3, (2, 3)), (1, ())])
def test_splitting_ends_at_a_micro_batch_of_one(batch: int, parts: tuple[int, ...]) -> None:
    """More parts than samples would be the same run again."""
    steps = tried(case("oom_gpu", OF_TORCH_1, params={"batch_size": batch}))

    assert steps == [("split", {"grad_accum_steps": n}) for n in parts]


def test_at_the_floor_the_run_says_that_no_part_fits() -> None:
    """So that nobody tries a smaller batch by hand."""
    it = case("oom_gpu", OOM_FULL, params={"batch_size": 8, "grad_accum_steps": 8})

    assert choose(it) is None
    assert last_word(it).startswith("not even the smallest part of a batch fits the card: CUDA out of memory")


def test_fragments_are_met_with_segments_first_and_once() -> None:
    """Nothing of the training changes by it."""
    steps = tried(case("oom_gpu", OOM_FRAGMENTED))

    assert [name for name, _ in steps] == ["segments", "split", "split"]


@pytest.mark.parametrize("text", [OOM_SHARED, IN_A_CONTAINER])
def test_a_card_that_somebody_else_fills_changes_nothing_but_the_card(text: str) -> None:
    """The run itself would fit."""
    step = choose(case("oom_gpu", text))

    assert step
    assert (step.name, step.elsewhere, overrides(step, case("oom_gpu", text))) == ("move", True, {})


def test_on_a_card_that_stays_full_nothing_is_ever_changed() -> None:
    """A smaller batch would be another training, paid for by somebody else's process."""
    assert tried(case("oom_gpu", OOM_SHARED)) == [("move", {})] * 3


@pytest.mark.parametrize(("text", "name"), [(OOM_SHARED, "move"), (OOM_FRAGMENTED, "segments"), (OOM_FULL, "split")])
def test_what_helped_once_does_not_overrule_the_figures(text: str, name: str) -> None:
    """The last run was too large for its card; this one's figures say what is wrong with it."""
    step = choose(case("oom_gpu", text), known="oom_gpu/split")

    assert step
    assert step.name == name


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        (OOM_SHARED, "move", "another process fills the card"),
        (IN_A_CONTAINER, "move", "another process fills the card"),
        (OOM_FRAGMENTED, "segments", "expandable_segments:True"),
        (OOM_FULL, "split", "halve the micro-batch"),
        (OF_TORCH_1, "split", "halve the micro-batch"),
    ],
)
def test_what_is_advised_is_what_is_done(text: str, name: str, says: str) -> None:
    """One reading of the figures: a report that advises something else than was tried would be believed by nobody."""
    step, advised = choose(case("oom_gpu", text)), advice(text)

    assert step
    assert step.name == name
    assert advised
    assert says in advised[0]


def test_host_memory_is_met_with_fewer_loading_processes() -> None:
    """A smaller batch would hardly help."""
    assert tried(case("oom_host", params={"num_workers": 6})) == [
        ("fewer_workers", {"num_workers": 3}),
        ("no_workers", {"num_workers": 0}),
    ]
    assert tried(case("shm")) == [("fewer_workers", {"num_workers": 2}), ("no_workers", {"num_workers": 0})]
    assert tried(case("oom_host", params={"num_workers": 0})) == []


def test_a_nan_skips_batches_then_lowers_the_rate_three_times_in_all() -> None:
    """The last time from the beginning: weights may have gone astray before the checkpoint."""
    steps = tried(case("nan_loss", "loss is nan at step 40 (lr 0.001)", saved_step=36))

    assert steps == [
        ("skip", {"skip_steps": "37-40"}),
        ("lower_lr", {"lr": 5e-4}),
        ("lower_lr_anew", {"lr": 2.5e-4}),
    ]


def test_at_most_eight_steps_are_skipped_and_earlier_ones_stay_skipped() -> None:
    """A checkpoint may be an hour old."""
    it = case("nan_loss", "loss is nan at step 40", saved_step=3, params={"skip_steps": "5-6"})
    step = choose(it)

    assert step
    assert overrides(step, it) == {"skip_steps": "5-6,33-40"}


def test_in_a_short_run_nothing_is_skipped() -> None:
    """Leaving out half of it would be another training, not a cure."""
    steps = tried(case("nan_loss", "loss is nan at step 13", saved_step=8, steps_total=16))

    assert [name for name, _ in steps] == ["lower_lr", "lower_lr_anew", "lower_lr_anew"]


def test_a_nan_is_met_three_times_however_many_retries_are_allowed() -> None:
    """A rate that is wrong by more than eight is the plan's mistake."""
    assert len(tried(case("nan_loss", "loss is nan at step 40", max_retries=20))) == 3


def test_where_learning_rates_are_compared_a_diverged_run_is_a_result() -> None:
    """Halving the rate there would make it another point."""
    it = case("nan_loss", "loss is nan at step 40", varied=("lr", "seed"))

    assert choose(it) is None
    assert (
        last_word(it) == "loss is nan at step 40; the experiment varies lr, so this is a result and is not tried again"
    )


@pytest.mark.parametrize(
    ("cause", "names"),
    [
        ("hang", ["move"]),
        ("nccl", ["again", "move"]),
        ("illegal_access", ["move"]),
        ("port_in_use", ["again", "again"]),
        ("network", ["again", "again", "again"]),
        ("hardware", ["move", "move"]),
        ("time_limit", ["resume", "resume"]),
        ("preempted", ["resume", "resume"]),
        ("disk_full", []),
    ],
)
def test_other_faults_have_their_own_ladders(cause: str, names: list[str]) -> None:
    """Losses end at run.max_attempts, here 3, and leave the retries alone."""
    assert [name for name, _ in tried(case(cause))] == names


def test_a_network_that_is_away_is_waited_for_twice_as_long_each_time() -> None:
    """Three tries within ten seconds would be used up long before it is back."""
    waits, cures_so_far = [], ()
    for _ in range(3):
        it = case("network", run={"cures": cures_so_far})
        step = choose(it)
        assert step
        waits.append((wait_s(step, it), sentence(step, it)))
        cures_so_far = (*cures_so_far, cures.full_name(it, step))
    split = choose(case("oom_gpu", OOM_FULL))

    assert [seconds for seconds, _ in waits] == [30, 60, 120]
    assert waits[1][1] == "started once more after the network failed, 60 s later"
    assert split
    assert wait_s(split, case("oom_gpu", OOM_FULL)) == 0


def test_a_faulty_card_is_left_alone_for_an_hour_and_costs_no_retry() -> None:
    """It is the card's fault."""
    step = choose(case("hardware", run={"retries": 3}))

    assert step
    assert (step.quarantine_s, step.elsewhere, step.loss) == (3600, True, True)


def test_the_same_again_needs_the_diagnosis_to_allow_it() -> None:
    """A host name that does not exist stays so."""
    assert choose(case("network", retryable=False)) is None
    assert choose(case("oom_host", retryable=False, params={"num_workers": 4})) is not None


def test_a_known_cure_is_tried_first() -> None:
    """Another run has paid for finding it."""
    it = case("nan_loss", "loss is nan at step 40")
    step = choose(it, known="nan_loss/lower_lr")

    assert step
    assert step.name == "lower_lr"
    assert sentence(step, it, "exp-1/7") == "lr halved to 0.0005 after the loss was NaN; this had helped exp-1/7"


def test_a_template_without_the_parameter_has_no_such_cure() -> None:
    """An unknown parameter would end the next attempt as bad_args."""
    it = case("oom_gpu", OOM_FULL)
    params = {name: value for name, value in it.params.items() if name != "grad_accum_steps"}

    assert choose(Case(it.run, it.cause, it.evidence, True, params)) is None


def test_used_up_retries_are_told() -> None:
    """The reader sees that it was tried."""
    it = case("hang", "no step for 600 s", run={"retries": 3})

    assert choose(it) is None
    assert last_word(it) == "no step for 600 s; 3 retries did not help"
