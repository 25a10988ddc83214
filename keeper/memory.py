"""What a keeper holds on its card and computes there: on a CUDA device, or on the CPU for a simulated card."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import time
from typing import Any, Protocol

from lab.errors import CardError

FLOATS = 1024
SIDE = 512
"""Of the square matrices that a burst multiplies: three of them take 3 MB, one product some 20 to 100 microseconds."""
BATCH_S = 0.002
"""How much is queued before the card is waited for: small, so that a burst ends when it should."""
CUDA_ERROR_NO_DEVICE = 100  # cuda.h


class CardMemory(Protocol):
    """1024 float32 on a card; every method may raise RuntimeError, as torch does for CUDA errors."""

    def hold(self) -> None:
        """The memory is allocated."""
        ...

    def touch(self) -> None:
        """1 was added to every element and then all were set to zero; the card has finished doing so."""
        ...

    def burst(self, seconds: float) -> None:
        """Matrices were multiplied for about so long, without a pause; the card has finished doing so."""
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
        self._factors: tuple[Any, Any, Any] | None = None
        self._batch = 1

    def hold(self) -> None:
        """As in `CardMemory`: (1024,) float32."""
        self._tensor = self._torch.zeros(FLOATS, dtype=self._torch.float32, device=self._device)

    def touch(self) -> None:
        """As in `CardMemory`; synchronises, because errors of a kernel only show then."""
        self._tensor.add_(1)
        self._tensor.zero_()
        self._torch.cuda.synchronize(self._device)

    def burst(self, seconds: float) -> None:
        """As in `CardMemory`: (SIDE, SIDE) float32; the batches grow or shrink until one takes BATCH_S."""
        if self._factors is None:
            left, right = (self._torch.rand(SIDE, SIDE, device=self._device) for _ in range(2))
            self._factors = left, right, self._torch.zeros(SIDE, SIDE, device=self._device)
        left, right, product = self._factors
        begun = now = time.perf_counter()
        while now - begun < seconds:
            for _ in range(self._batch):
                self._torch.mm(left, right, out=product)
            self._torch.cuda.synchronize(self._device)
            before, now = now, time.perf_counter()
            fitting = round(self._batch * BATCH_S / max(now - before, 1e-6))
            self._batch = max(1, min(fitting, 2 * self._batch, 1000))

    def release(self) -> None:
        """As in `CardMemory`; the cached block goes back to the driver too."""
        self._tensor = self._factors = None
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

    def burst(self, seconds: float) -> None:
        """As in `CardMemory`, on one core."""
        factor = self._numpy.ones((64, 64), self._numpy.float32)
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            factor @ factor

    def release(self) -> None:
        """As in `CardMemory`."""
        self._array = None


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
