"""A driver without a GPU: the C library of fake_nvml.c under the real nvidia-ml-py."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_driver import FakeDriver


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """fake_nvml.c compiled under the name by which the real library is looked for."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not here, so there is no library to put in the driver's place")
    library = tmp_path_factory.mktemp("lib") / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("fake_nvml.c")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.fixture
def driver(fake_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """The fake driver under this process's nvidia-ml-py, with no card yet."""
    import pynvml

    folder = tmp_path / "driver"
    folder.mkdir()
    monkeypatch.setenv("FAKE_NVML", str(folder))
    library = ctypes.CDLL(str(fake_library))
    library.nvmlShutdown()
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    yield FakeDriver(folder, fake_library)

    shutil.rmtree(folder)  # lets go of calls that hang
