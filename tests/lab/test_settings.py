"""Settings: read once, and a bad value names its key and what was wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import ConfigError
from lab.settings import load


def config(folder: Path, text: str) -> Path:
    """A config.yaml with this text."""
    path = folder / "config.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("gpu: {simulate: many}", "gpu.simulate"),
        ("gpu: {simulate: -1}", "gpu.simulate"),
        ("gpus: {simulate: 4}", "gpus"),
        ("run: {lease: 3}", "run.lease"),
        ("slack: nonsense", "slack"),
        ("log_level: loud", "log_level"),
        ("keeper: {interval_s: 0}", "keeper.interval_s"),
    ],
)
def test_a_bad_value_names_its_key(tmp_path: Path, text: str, key: str) -> None:
    """Whoever repairs it should not have to search."""
    with pytest.raises(ConfigError) as caught:
        load(config(tmp_path, text))

    assert caught.value.key == key


def test_an_unknown_key_is_told_its_neighbours(tmp_path: Path) -> None:
    """Most unknown keys are misspelt ones."""
    with pytest.raises(ConfigError, match="lease_s"):
        load(config(tmp_path, "run: {lease: 3}"))


def test_a_misspelt_variable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would pass in silence otherwise."""
    monkeypatch.setenv("OVERNIGHT_GPUS__SIMULATE", "4")

    with pytest.raises(ConfigError, match="OVERNIGHT_GPUS__SIMULATE"):
        load(config(tmp_path, ""))


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator overrides one value without editing."""
    monkeypatch.setenv("OVERNIGHT_GPU__SIMULATE", "2")

    settings = load(config(tmp_path, "gpu: {simulate: 4, reserve_last: false}"))

    assert settings.gpu.simulate == 2
    assert settings.gpu.reserve_last is False


def test_well_known_names_serve_where_nothing_else_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPENAI_API_KEY is set on most machines already."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-general")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")

    settings = load(config(tmp_path, "model: {api_key: sk-own}"))

    assert settings.model.api_key
    assert settings.model.api_key.get_secret_value() == "sk-own"
    assert settings.model.base_url == "http://127.0.0.1:1"
    assert "sk-own" not in repr(settings)


def test_a_file_that_is_no_map_is_refused(tmp_path: Path) -> None:
    """YAML takes almost anything for text."""
    with pytest.raises(ConfigError, match=r"config\.example\.yaml"):
        load(config(tmp_path, "just words"))
