"""The list of templates: what hosts publish and plans are checked against."""

from __future__ import annotations

import importlib.util
import json

import pytest

from workers.templates import TEMPLATES


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_every_template_can_be_started_and_its_schema_published(name: str) -> None:
    """A name without a module would be found out at night, a schema that is no JSON at start."""
    template = TEMPLATES[name]
    schema = json.loads(json.dumps(template.schema()))

    assert importlib.util.find_spec(template.module)
    assert template.module == f"workers.templates.{name}"
    assert schema["additionalProperties"] is False
    assert all("description" in field and "default" in field for field in schema["properties"].values())
    assert not any("anyOf" in field for field in schema["properties"].values())


def test_the_schema_states_bounds_and_choices() -> None:
    """A plan with lr 50 or an unknown optimizer is refused before its card is shown."""
    properties = TEMPLATES["vision"].schema()["properties"]

    assert (properties["lr"]["exclusiveMinimum"], properties["lr"]["maximum"]) == (0, 10)
    assert "sgd" in properties["optimizer"]["enum"]
