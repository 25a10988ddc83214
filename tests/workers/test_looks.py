"""One run of each model of an experiment is looked at first; its copies wait for their turn."""

from __future__ import annotations

from lab.plan import Point
from lab.run import Run
from workers.looks import Looks


def run(experiment: int, number: int, model: str = "resnet50", **fields: object) -> Run:
    point = Point(model=model, dataset="digits", params={})
    made = Run(
        id=f"exp-{experiment}/{number}",
        experiment_id=f"exp-{experiment}",
        number=number,
        point=point,
        template="vision",
        queued_at=0,
    )
    return made.model_copy(update=fields)


def test_copies_of_a_run_that_has_started_are_due_no_look() -> None:
    """They would stop each other for minutes to show the same."""
    looks = Looks()
    first = run(1, 1, started_at=10.0, fence=1, cards=("c0",))
    looks.see([run(1, 2, started_at=11.0, fence=1, cards=("c1",)), first, run(1, 3)])

    assert not looks.over(first)  # it is in its look
    assert looks.over(run(1, 2, started_at=11.0, fence=1, cards=("c1",)))
    assert looks.over(run(1, 3))
    assert not looks.over(run(1, 4, model="vit_b_16"))
    assert not looks.over(run(2, 1))


def test_a_look_is_had_once() -> None:
    """Whatever ended it, a run that waits again or is in a later attempt waits like the others."""
    looks = Looks()
    looks.see([run(1, 1, started_at=10.0, fence=1, cards=("c0",))])

    assert looks.over(run(1, 1, started_at=10.0, fence=1))
    assert looks.over(run(1, 1, started_at=90.0, fence=2, cards=("c0",)))


def test_a_run_that_is_only_dispatched_has_shown_nothing() -> None:
    """Its worker may be dead; the look is not had before it starts."""
    looks = Looks()
    looks.see([run(1, 1, cards=("c0",))])

    assert not looks.over(run(1, 1, cards=("c0",)))
    assert not looks.over(run(1, 2))
