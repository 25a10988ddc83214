"""The last lines of failures that need a card, a scheduler or several hosts: what the probe says and ends with.

What can fail on any machine really does (faults.py).
"""

from __future__ import annotations

_FRAME = 'Traceback (most recent call last):\n  File "train.py", line 118, in <module>\n    main()\n'
_CUDA_HINT = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect."
)
_TRY = (
    "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html"
    "#environment-variables)"
)

OOM_FULL = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.19 GiB is "
    "free. Including non-PyTorch memory, this process has 77.91 GiB memory in use. Of the allocated memory 75.43 GiB "
    f"is allocated by PyTorch, and 1.91 GiB is reserved by PyTorch but unallocated. {_TRY}"
)
"""What torch 2 says when the model is too large for the card."""
OOM_FRAGMENTED = (
    "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 2.10 GiB is "
    "free. Including non-PyTorch memory, this process has 77.00 GiB memory in use. Of the allocated memory 48.20 GiB "
    f"is allocated by PyTorch, and 28.10 GiB is reserved by PyTorch but unallocated. {_TRY}"
)
"""Plenty is reserved and in pieces."""
OOM_SHARED = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.02 GiB is "
    "free. Process 31007 has 60.44 GiB memory in use. Including non-PyTorch memory, this process has 17.60 GiB memory "
    "in use. Of the allocated memory 16.80 GiB is allocated by PyTorch, and 322.01 MiB is reserved by PyTorch but "
    f"unallocated. {_TRY}"
)
"""Somebody else is on the card."""

OOM_KILLED = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=4242.0. Some of the step tasks have been OOM Killed."
)
"""What Slurm says when the kernel kills for want of memory."""

ENDINGS: dict[str, tuple[str, int]] = {
    "shm": (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"
        + _FRAME
        + "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit.",
        1,
    ),
    "nccl": (
        "[rank0]:[E715 03:12:44.118 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=8123, OpType=ALLREDUCE, NumelIn=25557032, Timeout(ms)=600000) ran for 600021 milliseconds "
        "before timing out.\n"
        + _FRAME
        + "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, unhandled system error",
        1,
    ),
    "hardware": (
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus.\n"
        + _FRAME
        + "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        1,
    ),
    "illegal_access": (
        _FRAME + f"RuntimeError: CUDA error: an illegal memory access was encountered\n{_CUDA_HINT}",
        1,
    ),
    "auth": (
        _FRAME + "huggingface_hub.errors.GatedRepoError: 401 Client Error. Cannot access gated repo. You must be "
        "authenticated to access it.",
        1,
    ),
    "checkpoint_mismatch": (
        _FRAME + "RuntimeError: Error(s) in loading state_dict for ResNet:\n\tsize mismatch for fc.weight: copying a "
        "param with shape torch.Size([1000, 2048]) from checkpoint, the shape in current model is torch.Size([10, "
        "2048]).",
        1,
    ),
    "device_assert": (
        "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: "
        "[3,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
        + _FRAME
        + f"RuntimeError: CUDA error: device-side assert triggered\n{_CUDA_HINT}",
        1,
    ),
    "compile_error": (
        _FRAME + "torch._inductor.exc.InductorError: CppCompileError: C++ compile error\ncsrc/ops.cpp:14:10: fatal "
        "error: cuda_runtime_api.h: No such file or directory\ncompilation terminated.",
        1,
    ),
    "driver_mismatch": (
        _FRAME + "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your "
        "GPU driver by downloading and installing a new version.",
        1,
    ),
    "arch_mismatch": (_FRAME + "RuntimeError: CUDA error: no kernel image is available for execution on the device", 1),
    "fork_cuda": (
        _FRAME + "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
        "must use the 'spawn' start method",
        1,
    ),
}
"""Name of the failure to (standard error, exit status)."""
