"""Calls of the driver's library, with its errors sorted: unknown, this card lost, or the whole driver gone."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil

from lab.errors import CardError

SEE = "see `nvidia-smi` and the kernel's log"

Handle = Any
"""An opaque pointer of the driver's library."""


class Lost(Exception):
    """This card no longer answers; its handle is worth nothing."""


class Gone(Exception):
    """The driver behind all cards no longer answers."""


class Opening:
    """NVML being initialised in a thread of its own: without persistence mode that takes seconds, or never ends."""

    def __init__(self, shut_down_first: bool) -> None:
        self._shut_down_first = shut_down_first
        self.since = time.monotonic()
        self._outcome: queue.SimpleQueue[list[Handle | None] | CardError] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="nvml-open", daemon=True).start()

    def outcome(self, wait_s: float) -> list[Handle | None] | CardError | None:
        """A handle for every card, None for those the driver refuses one; or why there is none; told once.

        None while it is not known yet.
        """
        try:
            return self._outcome.get(timeout=wait_s)
        except queue.Empty:
            return None

    def _run(self) -> None:
        import pynvml

        try:
            if self._shut_down_first:
                with contextlib.suppress(pynvml.NVMLError):
                    pynvml.nvmlShutdown()
            pynvml.nvmlInit()
            self._outcome.put([handle_of(number) for number in range(pynvml.nvmlDeviceGetCount())])
        except (pynvml.NVMLError, Gone) as error:
            self._outcome.put(CardError(what_to_do(error)))


def handle_of(number: int) -> Handle | None:
    import pynvml

    with contextlib.suppress(Lost):
        return tried(pynvml.nvmlDeviceGetHandleByIndex, number)
    return None


def tried(call: Callable[..., Any], *arguments: Any, errors: list[str] | None = None) -> Any:
    """What the driver answers, None where it does not tell; errors other than "not supported" are added to `errors`.

    Raises:
        Lost: the card is not there any more.
        Gone: the driver is not there any more.
    """
    import pynvml

    try:
        return call(*arguments)
    except UnicodeDecodeError:
        return None
    except pynvml.NVMLError as error:
        if error.value in (
            pynvml.NVML_ERROR_GPU_IS_LOST,
            pynvml.NVML_ERROR_RESET_REQUIRED,
            pynvml.NVML_ERROR_GPU_NOT_FOUND,
        ):
            raise Lost(f"the driver says: {error}") from error
        if error.value in (
            pynvml.NVML_ERROR_UNINITIALIZED,
            pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
            pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
        ):
            raise Gone(str(error)) from error
        unknown = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        if errors is not None and error.value not in unknown:
            errors.append(str(error))
        return None


def memory_of(handle: Handle, errors: list[str]) -> tuple[int | None, int | None]:
    """Bytes used and in all. A driver may answer success with 0 of 0 bytes (Thor): that is no answer either."""
    import pynvml

    memory = tried(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    memory = memory or tried(pynvml.nvmlDeviceGetMemoryInfo, handle, errors=errors)
    return (memory.used, memory.total) if memory and memory.total else (None, None)


def process_name(pid: int) -> str | None:
    """None when no such process is seen from here: in a container the driver tells the host's ids."""
    try:
        return psutil.Process(pid).name()
    except (psutil.Error, ValueError):
        return None


def what_to_do(error: Exception) -> str:
    import pynvml

    advice = {
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "there is no NVIDIA driver here (libnvidia-ml is not found): install it, "
        "give the container its GPUs, or set gpu.simulate to go without",
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is installed but not loaded: `modprobe nvidia`, "
        "or see the kernel's log",
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the NVIDIA library and kernel module are of different versions: "
        "reload the module or reboot, then start this again",
        pynvml.NVML_ERROR_NO_PERMISSION: "the NVIDIA driver refuses this user: see the permissions of /dev/nvidia*",
    }
    value = getattr(error, "value", None)
    return advice.get(value) or f"the NVIDIA driver does not work ({error}): {SEE}"
