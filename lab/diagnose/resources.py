"""What is said when memory, shared memory or a disk ends, and when the loss is no number any more."""

from __future__ import annotations

from lab.diagnose.rules import PATH, ROOT, SYMPTOM, Rule, any_of

SMALLER = "Halve the micro-batch and double the accumulation steps: the effective batch stays the same."
FEWER = "Use fewer data-loading workers or ask for more host memory; a smaller batch hardly helps."
SHM = any_of(
    """
    /dev/shm | torch_shm | /torch_ | psm_ | multiprocessing/synchronize.py | multiprocessing/heap.py | _share_filename
    shared memory | shared_memory.py | multiprocessing/reductions.py | semlock
    """
)
"""Near one of these a full device is /dev/shm."""

RESOURCES: tuple[Rule, ...] = (
    # -- memory of the card ------------------------------------------------------------------------------------------
    Rule(
        "oom_gpu",
        ROOT,
        any_of(
            """
            out of memory. tried to allocate*reserved by pytorch | cuda out of memory. tried to allocate
            """
        ),
        f"The card could not give another {{}}. {SMALLER}",
        value=r"tried to allocate ([\d.]+ ?[KMGT]i?B)",
        otherwise="block",
        unless=("cpuallocator",),
    ),
    Rule(
        "oom_gpu",
        ROOT,
        any_of(
            """
            cuda out of memory | cuda error: out of memory | cuda driver error: out of memory
            cuda runtime error (2) : out of memory | hip out of memory | cuda_error_out_of_memory
            cudaerrormemoryallocation | cuda failure*out of memory | cuda failure 2 | outofmemoryerror:*gpu
            resource_exhausted: out of memory | resource_exhausted: failed to allocate
            xlaruntimeerror: internal: failed to allocate
            oom when allocating tensor*gpu | resource exhausted: oom when allocating
            no available memory for the cache blocks | less than desired gpu memory utilization
            out of memory*failed to allocate*on gpu | gpu out of memory | gpu memory exhausted
            out of memory error on gpu | mps backend out of memory | cuda_out_of_memory | 显存不足 | cudamalloc failed
            cudamalloc*out of memory
            """
        ),
        f"The model and its batch did not fit the card. {SMALLER}",
        unless=("device:cpu",),
    ),
    Rule(
        "oom_gpu",
        SYMPTOM,
        any_of(
            """
            cublas_status_alloc_failed | cudnn_status_alloc_failed | unable to find a valid cudnn algorithm
            get was unable to find an engine to execute this computation | cublas_status_not_initialized
            """
        ),
        f"A CUDA library found no memory left on the card. {SMALLER}",
    ),
    # -- memory of the host ------------------------------------------------------------------------------------------
    Rule(
        "oom_host",
        ROOT,
        any_of(
            """
            unable to allocate*for an array with shape | defaultcpuallocator: can't allocate memory
            defaultcpuallocator: not enough memory | oom when allocating tensor*cpu
            """
        ),
        f"The host had no memory for {{}}. {FEWER}",
        value=r"(?:allocate|tried to allocate) ([\d.]+ (?:[KMGTP]i?B|bytes))",
        otherwise="an array",
    ),
    Rule(
        "oom_host",
        ROOT,
        any_of(
            """
            oom_kill event | died due to signal 9 | oom-kill event | oom-kill: | oom killed | oomkilled | oom killer
            oom-killer | out of memory: kill | memory cgroup out of memory | exceeded memory limit
            exceeded job memory limit | exceeded step memory limit | term_memlimit | low on resource: memory
            task*: out of memory | killed by the oom | ray.exceptions.outofmemoryerror | low on memory | out_of_memory
            mem*exceeded limit | memory usage exceeded | memory limit exceeded
            """
        ),
        f"The host's memory limit ended the run, not the card. {FEWER}",
        stays=True,
        unless=("oomkilled: false", 'oomkilled": false', "oomkilled=false", "oom_score", "cuda", "gpu"),
    ),
    Rule(
        "oom_host",
        ROOT,
        any_of(
            """
            errno 12] cannot allocate memory | cannot allocate memory | std::bad_alloc | bad_alloc
            out of memory allocating | memory allocation of*failed | java.lang.outofmemoryerror | arrowmemoryerror
            malloc of size*failed
            内存不足 | 无法分配内存
            """
        ),
        f"The host ran out of memory. {FEWER}",
        unless=("cuda", "cupy", "torch_", "/dev/shm", "显存"),
    ),
    Rule(
        "oom_host",
        ROOT - 2,
        any_of("memoryerror"),
        f"Python found no host memory left. {FEWER}",
        only=r"\bmemoryerror\b",
    ),
    Rule(
        "oom_host",
        SYMPTOM + 6,
        any_of(
            """
            dataloader worker*killed by signal: killed | dataloader worker*killed by signal: 9 | exited on signal 9
            killed by signal 9 | terminated by signal 9 | signal 9 (sigkill) | signal: killed
            died with <signals.sigkill: 9> | return code = -9 | exitcode: -9 | exitcode  : -9 | exit code: -9
            terminated with signal sigkill | a process in the process pool was terminated abruptly
            a worker process managed by the executor was unexpectedly terminated | task*: killed | signal 9 (killed)
            """
        ),
        f"A process was killed with SIGKILL, which is nearly always the host's memory. {FEWER}",
    ),
    Rule(
        "oom_host",
        SYMPTOM + 5,
        any_of("killed | 已杀死"),
        f"The kernel killed the process, which is nearly always the host's memory. {FEWER}",
        only=r"已杀死|^\s*killed\s*$|\d+ killed\s|:\s+killed\s*$|\bkilled +(?:python|torchrun|accelerate|deepspeed)\b",
    ),
    Rule(
        "user_code",
        SYMPTOM - 3,
        any_of("dataloader worker*exited unexpectedly with exit code"),
        "A data-loading worker failed and its own error is not in the log: run with num_workers=0 to see it.",
    ),
    Rule(
        "oom_host",
        SYMPTOM - 3,
        any_of("dataloader worker*exited unexpectedly"),
        f"A data-loading worker vanished without a word, mostly for want of host memory. {FEWER}",
    ),
    # -- shared memory -----------------------------------------------------------------------------------------------
    Rule(
        "shm",
        ROOT,
        any_of(
            """
            insufficient shared memory | out of shared memory | killed by signal: bus error
            unable to open shared memory object | unable to mmap*torch_ | unable to write to file </torch_
            error while creating shared memory segment | unable to resize file </torch_
            unable to allocate shared memory | shared memory*no space left | /dev/shm*no space left
            no space left on device*/dev/shm | no space left on device*torch_ | no space left on device*psm_
            no space left on device*shm_open | could not create shared memory | received 0 items of ancdata
            /dev/shm is full | posix_fallocate failed*no space left | posix_fallocate*shm
            """
        ),
        "Shared memory (/dev/shm) is too small for the data loaders: start with a larger --shm-size or fewer workers.",
        unless=("out of resource: shared memory", "too many open files"),
    ),
    Rule(
        "shm",
        ROOT,
        any_of("no space left on device"),
        "Shared memory (/dev/shm) is full: start with a larger --shm-size or fewer data-loading workers.",
        near=SHM,
    ),
    Rule(
        "shm",
        SYMPTOM,
        any_of("bus error | 总线错误 | return code = -7 | exitcode: -7 | exitcode  : -7 | signals.sigbus"),
        "A bus error mostly means that /dev/shm is full: a larger --shm-size or fewer data-loading workers.",
        unless=("pcie",),
    ),
    # -- disk --------------------------------------------------------------------------------------------------------
    Rule(
        "disk_full",
        ROOT,
        any_of(
            """
            no space left on device | disk quota exceeded | quota exceeded | errno 28] | errno 122] | enospc
            not enough disk space | not enough free disk space | low on resource: ephemeral-storage | disk is full
            database or disk is full | file too large | no free space | there is not enough space on the disk
            insufficient disk space | 磁盘空间不足 | 磁盘已满 | 设备上没有空间 | 超出磁盘限额
            """
        ),
        "The disk or quota that holds {} is full: make room there, then start the run again.",
        value=PATH,
        otherwise="the run's output",
        unless=("inotify", "429", "api rate", "rate limit", "gpu quota", "requests"),
    ),
    Rule(
        "disk_full",
        SYMPTOM,
        any_of(
            """
            pytorchstreamwriter failed writing | unexpected pos | write failed*file size | short write
            """
        ),
        "A file could not be written to its end, which is mostly a full disk: check room and quota of the output.",
    ),
    # -- the loss ----------------------------------------------------------------------------------------------------
    Rule(
        "nan_loss",
        ROOT,
        any_of(
            """
            loss is nan | loss is inf | loss is not finite | loss became nan | loss became inf | loss turned nan
            loss was nan | non-finite loss | nonfinite loss | nan loss | nanloss | nan or inf found in | nans or infs
            loss diverged | loss = nan | loss=nan* | diverged with loss | training diverged | training has diverged
            run diverged | is not finite. previous best | current loss scale already at minimum
            minimum loss scale reached | returned nan values in its | contains either `inf`, `nan`
            found invalid values:*nan | nan encountered | nan detected | detected nan | nans detected
            encountered nan | found nan in | nan in loss | nan in grad | nan gradients | gradients are nan
            gradient norm is nan | non-finite grad | total norm of order*is non-finite | all nan | loss exploded
            loss has exploded | loss blew up | loss has blown up
            is nan at step | losses are nan | loss infinite or nan | invalid loss | infinite loss | loss: nan,*stop
            损失为nan | 损失为 nan | 损失变为
            """
        ),
        "The loss stopped being a number{}: go back to the last finite checkpoint with a lower learning rate, a "
        "warm-up, or bf16/fp32.",
        value=r"((?:at |in )?(?:step|iteration|iter|epoch|batch) \d+)",
        unless=("skipp", "nan_skipped", "filled", "dropping", "ignored", "input contains"),
    ),
    Rule(
        "nan_loss",
        ROOT,
        any_of("but found invalid values:"),
        "The model's output stopped being a number: go back to the last finite checkpoint with a lower learning rate, "
        "a warm-up, or bf16/fp32.",
        near=("nan,", "nan]"),
    ),
)
