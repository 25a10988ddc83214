"""What a search can draw."""

from __future__ import annotations

from agent.reader.axes import AXES
from lab.plan import Range
from lab.space import WHOLE, combinations, listed, rounded


def test_the_axes_of_whole_numbers_are_those_that_the_reader_reads_as_such() -> None:
    """A batch size of 37.2 would end the trial; two lists of the same thing must not drift apart."""
    assert {axis.name for axis in AXES if axis.kind == "int"} == WHOLE


def test_whole_numbers_on_a_log2_scale_double_from_the_lower_end() -> None:
    """What people mean by `batch 16 to 256`."""
    assert listed("batch_size", Range(low=16, high=256, scale="log2")) == (16, 32, 64, 128, 256)
    assert listed("image_size", Range(low=96, high=224, scale="log2")) == (96, 192)


def test_whole_numbers_on_other_scales_are_whole_and_within_the_range() -> None:
    """Linear: each of them; logarithmic: denser where they are small, none twice."""
    assert listed("depth", Range(low=2, high=5, scale="linear")) == (2, 3, 4, 5)

    logarithmic = listed("max_length", Range(low=1, high=100, scale="log"))

    assert logarithmic is not None
    assert logarithmic == tuple(sorted(set(logarithmic)))
    assert (logarithmic[0], logarithmic[-1]) == (1, 100)


def test_only_a_space_of_listed_values_has_a_number_of_points() -> None:
    """More trials than there are points cannot all differ, and the plan says so beforehand."""
    space = {"optimizer": ("sgd", "adamw"), "batch_size": Range(low=16, high=64, scale="log2")}

    assert combinations(space) == 6
    assert combinations({**space, "lr": Range(low=1e-5, high=1e-1)}) is None


def test_a_drawn_number_can_be_typed_again() -> None:
    """The report tells people which value was best; the value that ran is that one, and it is within the range."""
    assert rounded(0.00123456, Range(low=1e-5, high=1e-1)) == 0.00123
    assert rounded(0.123456, Range(low=1e-5, high=0.12345)) == 0.123
    assert rounded(0.0123449, Range(low=0.012345, high=1)) == 0.012345
