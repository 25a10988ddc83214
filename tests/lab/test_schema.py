"""What a template has against a value is said in the asker's language."""

from __future__ import annotations

import jsonschema
import pytest

from lab.schema import complaint
from workers.templates import TEMPLATES

VALIDATOR = jsonschema.Draft202012Validator(TEMPLATES["vision"].schema())


@pytest.mark.parametrize(
    ("params", "english", "chinese"),
    [
        ({"lr": -1.0}, "-1.0 is less than or equal to the minimum of 0", "必须大于 0"),
        ({"batch_size": "many"}, "'many' is not of type 'integer'", "类型应为 integer"),
        ({"batch_size": 0}, "0 is less than the minimum of 1", "最小是 1"),
        (
            {"spin": 1},
            "Additional properties are not allowed ('spin' was unexpected)",
            "没有参数 spin",
        ),
    ],
)
def test_a_complaint_names_the_limit(params: dict[str, object], english: str, chinese: str) -> None:
    """English is the library's own; Chinese says the same, limit included."""
    (error,) = VALIDATOR.iter_errors(params)

    assert complaint(error, chinese=False) == english
    assert complaint(error, chinese=True) == chinese


def test_choices_are_listed() -> None:
    """Else nobody knows what to write instead."""
    (error,) = VALIDATOR.iter_errors({"optimizer": "sophia"})

    assert complaint(error, chinese=True).startswith("只能是 ")
    assert "adamw" in complaint(error, chinese=True)
