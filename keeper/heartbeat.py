"""The heartbeat: a little memory held on one card and touched at every interval, in a process of its own.

Run as `python -m keeper.heartbeat` by `keeper.hold`, which listens to the JSON lines on its standard output. CUDA is
initialised in this process and no other, so that a CUDA fault ends only this one, and so that its parent can answer a
signal at once while this one is inside an import or a driver call.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.util
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from keeper.stop import Stop
from lab.card import KeeperStatus
from lab.errors import CardError
from lab.processes import die_with_parent

log = logging.getLogger(__name__)

FLOATS = 1024
RETRIES = 3
"""Tries after a failed beat before the process ends: a faulted CUDA context never recovers, a new process can."""
FIRST_RETRY_S = 1.0
CANNOT_START = 3
"""Exit status of this process when there is nothing to hold (no torch, no driver, no such card)."""
FAULTED = 4
CUDA_ERROR_NO_DEVICE = 100  # cuda.h


class CardMemory(Protocol):
    """1024 float32 on a card; every method may raise RuntimeError, as torch does for CUDA errors."""

    def hold(self) -> None:
        """The memory is allocated."""
        ...

    def touch(self) -> None:
        """1 was added to every element and then all were set to zero; the card has finished doing so."""
        ...

    def release(self) -> None:
        """Nothing is held; harmless when nothing was."""
        ...


class CudaMemory:
    """Memory on a CUDA device, through torch; its context takes 290 to 670 MB besides (pytorch#86509)."""

    def __init__(self, index: int) -> None:
        self._torch: Any = _usable_torch()
        self._device = f"cuda:{index}"
        self._tensor: Any = None

    def hold(self) -> None:
        """As in `CardMemory`: (1024,) float32."""
        self._tensor = self._torch.zeros(FLOATS, dtype=self._torch.float32, device=self._device)

    def touch(self) -> None:
        """As in `CardMemory`; synchronises, because errors of a kernel only show then."""
        self._tensor.add_(1)
        self._tensor.zero_()
        self._torch.cuda.synchronize(self._device)

    def release(self) -> None:
        """As in `CardMemory`; the cached block goes back to the driver too."""
        self._tensor = None
        self._torch.cuda.empty_cache()
        self._torch.cuda.synchronize(self._device)


class HostMemory:
    """The same on the CPU for a simulated card, through numpy, so that torch is not loaded for it."""

    def __init__(self) -> None:
        import numpy

        self._numpy = numpy
        self._array: Any = None

    def hold(self) -> None:
        """As in `CardMemory`: (1024,) float32."""
        self._array = self._numpy.zeros(FLOATS, dtype=self._numpy.float32)

    def touch(self) -> None:
        """As in `CardMemory`."""
        self._array += 1
        self._array[:] = 0

    def release(self) -> None:
        """As in `CardMemory`."""
        self._array = None


class Heartbeat:
    """Touches a card's memory at every interval until it is asked to stop.

    Args:
        on_beat: told after every beat and every failure, from the thread that runs `run`.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        memory: CardMemory,
        card: str,
        interval_s: float,
        on_beat: Callable[[KeeperStatus], None],
        stop: Stop,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._memory = memory
        self._interval_s = interval_s
        self._on_beat = on_beat
        self._stop = stop
        self._clock = clock
        self._failures = 0
        self._held = False
        self.status = KeeperStatus(card=card, pid=os.getpid(), interval_s=interval_s)

    def run(self) -> None:
        """The stop was asked for, and the memory is free.

        Raises:
            CardError: the card failed several times in a row; the memory is free as far as the driver still answers.
        """
        try:
            while not self._stop.asked:
                self._stop.wait(self._beat())
        finally:
            self._release()

    def _beat(self) -> float:
        """One beat was tried and told; returns the seconds to wait for the next one."""
        try:
            if not self._held:
                self._memory.hold()
                self._held = True
            self._memory.touch()
        except (RuntimeError, MemoryError) as error:
            return self._failed(error)
        self._failures = 0
        self._tell(beats=self.status.beats + 1, last_beat_at=self._clock(), problem=None)
        return self._interval_s

    def _failed(self, error: Exception) -> float:
        self._release()
        self._failures += 1
        problem = f"beat failed: {_first_line(error)}"
        self._tell(problem=problem)
        if self._failures > RETRIES:
            raise CardError(f"{self.status.card}: {problem} ({self._failures} times in a row)") from error
        return min(self._interval_s, FIRST_RETRY_S * math.pow(2, self._failures - 1))

    def _release(self) -> None:
        self._held = False
        with contextlib.suppress(RuntimeError):  # a faulted context cannot even synchronise; the process's end frees it
            self._memory.release()

    def _tell(self, **changes: Any) -> None:
        self.status = self.status.model_copy(update=changes)
        self._on_beat(self.status)


def cuda_cards() -> int:
    """How many cards CUDA shows to this process, asked of the driver without loading torch.

    Raises:
        CardError: no torch, no driver, or a driver that does not work; says which.
    """
    if importlib.util.find_spec("torch") is None:
        raise CardError("torch is not installed here: pip install torch, or use --simulate")
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError as error:
        raise CardError(
            f"there is no NVIDIA driver here ({error}): install it, or give the container its GPUs"
        ) from error
    code = driver.cuInit(0)
    if code == CUDA_ERROR_NO_DEVICE:
        return 0
    if code:
        raise CardError(f"the NVIDIA driver does not work (cuInit gives {code}): see whether nvidia-smi does")
    count = ctypes.c_int(0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    return count.value


def cuda_memory(gpu: int | None, uuid: str | None) -> CudaMemory:
    """The memory of the card with this index in PCI order, or with this UUID.

    Raises:
        CardError: there is nothing to hold; says why.
    """
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if uuid is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = uuid
    count = cuda_cards()
    if uuid is not None and count == 0:
        raise CardError(f"CUDA sees no card {uuid}: `nvidia-smi -L` lists the UUIDs")
    if gpu is not None and gpu >= count:
        raise CardError(f"there is no GPU {gpu}: CUDA sees {_how_many(count)} here")
    return CudaMemory(gpu or 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """The heartbeat's process: a JSON line, a `KeeperStatus`, for every beat and failure until SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process in order
    options = _parser().parse_args(arguments)
    _end_with(options.parent)
    card = options.uuid or f"GPU {options.gpu}"
    try:
        memory = HostMemory() if options.simulate else cuda_memory(options.gpu, options.uuid)
        # Until here SIGTERM ends the process at once: nothing is held yet, and an import must not delay it.
        Heartbeat(memory, card, options.interval, _print, Stop().on_signals()).run()
    except CardError as error:
        problem = _first_line(error)
        _print(KeeperStatus(card=card, pid=os.getpid(), interval_s=options.interval, problem=problem))
        return FAULTED if isinstance(error.__cause__, RuntimeError | MemoryError) else CANNOT_START
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m keeper.heartbeat")
    parser.add_argument("--gpu", type=int)
    parser.add_argument("--uuid")
    parser.add_argument("--interval", type=float, required=True)
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--parent", type=int, help="end with this process")
    return parser


def _end_with(parent: int | None) -> None:
    """This process is killed when its parent ends.

    Asked for here and not between fork and exec: the watch has threads inside the driver's library then.
    """
    if parent is None:
        return
    die_with_parent()
    if os.getppid() != parent:  # it ended before the kernel was asked
        sys.exit(0)


def _usable_torch() -> Any:
    import torch

    if torch.version.cuda is None:
        raise CardError(f"torch {torch.__version__} is built without CUDA: install a build with it")
    if not torch.cuda.is_available():
        raise CardError(f"torch {torch.__version__} for CUDA {torch.version.cuda} cannot use the driver that is here")
    return torch


def _how_many(count: int) -> str:
    if count < 2:
        return "one, GPU 0," if count else "none"
    return f"{count}, GPU 0 to {count - 1},"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _print(status: KeeperStatus) -> None:
    print(status.model_dump_json(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
