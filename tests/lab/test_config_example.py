"""config.example.yaml is the list of settings that an operator reads; it may not lag behind the code."""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from lab.errors import ConfigError
from lab.settings import PREFIX, WELL_KNOWN, Settings, load

EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(PREFIX) or name in WELL_KNOWN:
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def keys_of(model: type[BaseModel], before: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from keys_of(inner, f"{before}{name}.")
        else:
            yield before + name


def keys_in(document: dict[str, Any], before: str = "") -> Iterator[str]:
    for name, value in document.items():
        if isinstance(value, dict) and value:
            yield from keys_in(value, f"{before}{name}.")
        else:
            yield before + name


def test_the_example_lists_every_key_in_the_order_of_the_code() -> None:
    """A setting that the example lacks is one that nobody finds."""
    document = yaml.safe_load(EXAMPLE.read_text())

    assert list(keys_in(document)) == list(keys_of(Settings))


def test_the_example_loads_and_changes_nothing() -> None:
    """Its values are the defaults, so copying it whole is safe."""
    assert load(EXAMPLE) == Settings()


def test_every_key_has_a_comment() -> None:
    """The line above a key says what it is for."""
    lines = EXAMPLE.read_text().splitlines()
    document = yaml.safe_load(EXAMPLE.read_text())
    sections = {name for name, value in document.items() if isinstance(value, dict) and value}

    bare = [
        line
        for above, line in pairwise(lines)
        if ":" in line and not line.lstrip().startswith("#") and not above.lstrip().startswith("#")
    ]
    assert [line for line in bare if line.rstrip(":") not in sections] == []


def test_the_example_commented_out_is_usable(tmp_path: Path) -> None:
    """What stands in comments as an example is valid where the key is given so."""
    config = tmp_path / "config.yaml"
    config.write_text("data_root: /data/torchvision\ndatasets:\n  chest-xray: /data/chest-xray\n")

    assert load(config).datasets["chest-xray"] == Path("/data/chest-xray")


def test_a_misspelt_key_of_the_example_is_refused_by_name(tmp_path: Path) -> None:
    """A wrong key ends the process at start, with the key and what was wanted."""
    config = tmp_path / "config.yaml"
    config.write_text(EXAMPLE.read_text().replace("lease_s:", "leese_s:"))

    with pytest.raises(ConfigError, match=r"run\.leese_s.*lease_s"):
        load(config)
