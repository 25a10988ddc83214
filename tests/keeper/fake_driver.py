"""The state files that fake_nvml.c answers from."""

from __future__ import annotations

from pathlib import Path

GIB = 1024**3


class FakeDriver:
    """A driver without a GPU."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self.library = library

    def card(self, number: int | str, **fields: object) -> None:
        """Card `number` answers with these fields and with usual values for the rest; None takes a field away."""
        usual: dict[str, object] = {
            "uuid": f"GPU-{number}",
            "name": "NVIDIA L20X 144GB",
            "bus": 0x10 + int(number) if isinstance(number, int) else None,
            "total": 144 * GIB,
            "used": 2 * GIB,
            "v2_used": GIB,
            "util": 0,
            "temp": 35,
            "power": 70_000,
            "procs": "",
        }
        lines = [f"{key} {value}\n" for key, value in (usual | fields).items() if value is not None]
        new = self.folder / f".{number}"
        new.write_text("".join(lines))
        new.rename(self.folder / str(number))

    def gone(self, error: int) -> None:
        """Every call gives this error from now on."""
        (self.folder / "driver").write_text(f"error {error}\n")

    def back(self) -> None:
        """The driver was loaded again; handles of before are worth nothing."""
        (self.folder / "driver").unlink()
