"""What cards, hosts, schedulers and ranks say when they end a run."""

from __future__ import annotations

from lab.diagnose.rules import GENERIC, LINE, PATH, RANKS, ROOT, SPECIFIC, SYMPTOM, Rule, any_of

MACHINE: tuple[Rule, ...] = (
    # -- faulty cards and hosts --------------------------------------------------------------------------------------
    Rule(
        "illegal_access",
        ROOT,
        any_of("xid"),
        "A kernel read or wrote memory that is not its own (Xid {}): resume once on another card; if it comes back, "
        "look at the custom kernels.",
        value=r"xid[^\n]{0,40}?\)?: (\d+)",
        only=r"\bxid\b[^\n]{0,60}?: (?:13|31)\b",
    ),
    Rule(
        "hardware",
        ROOT + 1,
        any_of("xid"),
        "The card reported Xid {}: quarantine it, tell the admin, and resume on another card.",
        value=r"xid[^\n]{0,40}?\)?: (\d+)",
        only=r"\bxid\b[^\n]{0,60}?: (?:32|38|46|48|54|56|57|58|6[1-9]|7[4-9]|8\d|9[2-5]|1[0-7]\d)\b",
        stays=True,
    ),
    Rule(
        "hardware",
        ROOT + 1,
        any_of(
            """
            fallen off the bus | uncorrectable ecc | ecc error | double bit ecc
            unable to determine the device handle | gpu is lost | gpu_is_lost | gpu has been lost | row remap*fail
            row remapping failure | cudaerrorecc | hardware stack error | nvlink error | nvlink*fatal error
            uncorrectable nvlink | due to node fail | node_fail | machine check | mce: [hardware error]
            uncorrected error | thermal shutdown | hardware error | gpu requires reset | contained ecc
            pcie bus error: severity=uncorrected | no devices were found | gsp rpc timeout | rminitadapter failed
            i/o error, dev | node failure | task launch for*failed on node | nodelost | node not ready | nodenotready
            node is not ready | node lost | uncorrected (fatal)
            """
        ),
        "The card or its host is faulty: quarantine it, tell the admin, and resume elsewhere.",
        stays=True,
        unless=("corrected error received", "no ecc error", "ecc errors: 0", "correctable ecc errors: 0"),
    ),
    Rule(
        "hardware",
        ROOT,
        any_of("errno 5] input/output error | input/output error | remote i/o error | 输入/输出错误"),
        "Reading or writing {} failed in the storage below: tell the admin, and run on another host.",
        value=PATH,
        otherwise="a file",
    ),
    Rule(
        "hardware",
        SPECIFIC,
        any_of(
            """
            all cuda-capable devices are busy or unavailable | cuda-capable device(s) is/are busy or unavailable
            cudaerrordevicesunavailable
            """
        ),
        "The card answers nobody, or another process holds it alone: run on another card and look at this one.",
    ),
    Rule(
        "hardware",
        SYMPTOM + 1,
        any_of(
            """
            cuda error*unknown error | cuda runtime error (30) | cuda runtime error (999) | cudaerrorunknown
            cuda failure 'unknown error' | cuda_error_unknown
            """
        ),
        "CUDA gave no reason: read the kernel log for Xid lines, and resume on another card.",
        unless=("incorrectly set up environment",),
    ),
    # -- kernels -----------------------------------------------------------------------------------------------------
    Rule(
        "device_assert",
        ROOT,
        any_of("assertion * failed"),
        "A kernel's check failed ({}): an index or label is out of range; compare it with the number of classes or "
        "embeddings, on the CPU for a readable traceback.",
        value=r"assertion `?([^`]{1,100}?)`? failed",
        otherwise="device-side assert",
        only=r"\.cu\b|\.cuh\b|block: ?\[|thread: ?\[",
    ),
    Rule(
        "device_assert",
        ROOT - 1,
        any_of(
            """
            device-side assert | cudaerrorassert | assert_async | cuda runtime error (59) | cuda runtime error (710)
            cuda error(710) | cuda error 710
            """
        ),
        "A kernel's check failed: an index or label is out of range; run one batch on the CPU to see which.",
    ),
    Rule(
        "illegal_access",
        ROOT - 2,
        any_of(
            """
            an illegal memory access | cuda runtime error (77) | cuda runtime error (700) | cuda error(700)
            cuda error 700 | illegal memory access | misaligned address | illegal instruction was encountered
            cuda_error_illegal_address | cudaerrorillegaladdress | warp illegal address | warp out-of-range address
            invalid program counter | invalid __shared__ | invalid __global__
            """
        ),
        "A kernel touched memory that is not its own: resume once on another card; if it comes back, look at the "
        "custom kernels with CUDA_LAUNCH_BLOCKING=1.",
    ),
    Rule(
        "illegal_access",
        SYMPTOM + 2,
        any_of(
            """
            unspecified launch failure | cuda runtime error (4) | cuda error(719) | cuda error 719
            cudaerrorlaunchfailure | cudnn_status_execution_failed | cudnn_status_mapping_error
            cudnn_status_internal_error | cublas_status_execution_failed | cublas_status_internal_error
            """
        ),
        "A kernel broke off without a reason: resume once on another card, with CUDA_LAUNCH_BLOCKING=1 if it repeats.",
    ),
    # -- drivers and builds ------------------------------------------------------------------------------------------
    Rule(
        "driver_mismatch",
        ROOT,
        any_of(
            """
            driver/library version mismatch | driver version is insufficient | driver on your system is too old
            found no nvidia driver | couldn't communicate with the nvidia driver | system not yet initialized
            error 803 | error 804 | error 802 | forward compatibility was attempted | unsupported display driver
            unsupported toolchain | failed to initialize nvml: unknown error | failed to initialize nvml: driver
            nvml_error_lib_rm_version_mismatch | incorrectly set up environment
            api mismatch: the client has the version | requires a newer nvidia driver | please update your gpu driver
            libcuda.so*cannot open shared object | libcuda.so.1: file too short | unsatisfied condition: cuda
            no nvidia driver | fabric manager | nvidia-container-cli: initialization error
            could not select device driver | kernel version*does not match dso version | cudaerrorinsufficientdriver
            cudaerrorsystemnotready | cuda_error_system_driver_mismatch | cuda_error_compat_not_supported
            """
        ),
        "The host's NVIDIA driver does not fit{}: run on another host, and have the driver updated or this one "
        "restarted.",
        value=r"((?:CUDA|version|cuda>=) ?[\d.]+)",
        unless=("starting fabric manager", "fabric manager: completed", "cuda initialization:"),
    ),
    Rule(
        "driver_mismatch",
        GENERIC + 1,
        any_of("cuda initialization: *driver | cuda initialization: unexpected error"),
        "The host's NVIDIA driver does not fit{}, so torch saw no card: run on another host, and have the driver "
        "updated.",
        value=r"found version ([\d.]+)",
    ),
    Rule(
        "arch_mismatch",
        ROOT,
        any_of(
            """
            no kernel image is available | kernel image is invalid | cuda runtime error (48)
            cuda runtime error (209) | is not compatible with the current pytorch installation | only supports ampere
            only supports hopper | flashattention only supports | supported only on*compute capability
            is only supported on gpus with compute capability | compute capability*required
            requires compute capability | compute capability*or higher | requires gpu with compute capability
            compute capability >= | compute capability*not supported | not supported on*compute capability
            invalid device function | cudaerrornokernelimagefordevice | cuda_error_no_binary_for_gpu
            no binary for gpu | unsupported gpu architecture at runtime | exec format error | only supported on h100
            not supported on this gpu | not supported in this architecture | not supported on this architecture
            not supported by this gpu | unsupported device architecture | gpu architecture is not supported
            does not support bfloat16 | doesn't support bfloat16 | bf16/gpu | your setup doesn't support bf16
            feature 'cvt | 可执行文件格式错误
            """
        ),
        "This build has no code for this card{}: run on a card that it was built for, or install a build for this one.",
        value=r"(sm_\d+)",
        stays=True,
    ),
    Rule(
        "arch_mismatch",
        SPECIFIC + 6,
        any_of("is not a recognized processor for this target"),
        "The compiler here is older than the card ({}): run on another card, or update torch and triton.",
        value=r"(sm_\d+)",
        otherwise=LINE,
    ),
    Rule(
        "arch_mismatch",
        SYMPTOM + 1,
        any_of("illegal instruction"),
        "The program was built for another processor: run on another host, or install a build for this one.",
        unless=("was encountered",),
    ),
    Rule(
        "fork_cuda",
        ROOT,
        any_of(
            """
            cannot re-initialize cuda in forked subprocess | re-initialize cuda in forked | cuda*forked subprocess
            poison_fork | must use the 'spawn' start method
            """
        ),
        "CUDA was used before the process forked: use the spawn start method, or touch CUDA only in the children.",
    ),
    Rule(
        "fork_cuda",
        SPECIFIC,
        any_of("cuda*initialization error | cudaerrorinitializationerror"),
        "CUDA was used before the process forked: use the spawn start method, or touch CUDA only in the children.",
        unless=("nvidia-container", "driver"),
    ),
    # -- ports -------------------------------------------------------------------------------------------------------
    Rule(
        "port_in_use",
        ROOT,
        any_of(
            """
            address already in use | eaddrinuse | port*is already in use | port*already allocated
            port is already allocated | errno 98] | errno: 98 | already listening on port
            could not find an available port | cannot find any free port | port*is in use
            only one usage of each socket address | port*another process is utilizing | port*used by another process
            地址已在使用 | 地址已被使用 | 端口*占用 | 端口*已被使用
            """
        ),
        "Port {} is taken by another process: start again with a free one (MASTER_PORT, --master_port).",
        value=r"port:? ?=?(\d{2,5})|[\w.\]]:(\d{4,5})\b|', (\d{2,5})\)",
        otherwise="of the run",
        unless=("trying another", "using port", "trying port", "instead"),
    ),
    Rule(
        "port_in_use",
        SPECIFIC + 6,
        any_of("failed to bind to | could not bind to | cannot bind to | unable to bind to"),
        "Port {} could not be had, mostly because another process holds it: start again with a free one.",
        value=r":(\d{2,5})\b|port (\d{2,5})",
        otherwise="of the run",
        unless=("trying another", "permission", "cannot assign"),
    ),
    # -- ends from outside -------------------------------------------------------------------------------------------
    Rule(
        "time_limit",
        ROOT + 2,
        any_of(
            """
            due to time limit | time limit exhausted | jobtimeoutexception | exceeded maximum timeout value
            walltime*exceeded | exceeded walltime | exceeded wall time | term_runlimit | run time limit
            deadlineexceeded: job | active*longer than*specified deadline | reason: deadlineexceeded
            timelimitexceeded | time limit exceeded | resource allocation expired
            time limit reached | time limit of | reached time limit | hit time limit
            exceeded the maximum execution time | exceeded the time limit | exceeded its time limit
            timeout: sending signal | maximum runtime | max runtime | time-limit | maxruntimeexceeded
            timeoutexpired: command | wall clock limit | wall-clock limit | wall time limit | h_rt | job timed out
            超时终止 | 运行时间超过 | 时间上限
            """
        ),
        "The run hit its time limit{}: raise the limit and resume from the last checkpoint.",
        value=r"(?:limit of|limit|value|after|seconds)[ (]{1,2}(\d[\d:.]* ?(?:s\w*|min\w*|h\w*)?)(?:[ ),.]|$)",
        stays=True,
        unless=("time limit: ", "time limit=", "time-limit=", "time_limit=", "left before", "urlopen", "http"),
    ),
    Rule(
        "preempted",
        ROOT + 2,
        any_of(
            """
            due to preemption | is preempted | was preempted | been preempted | preempted by | preempting job
            spot instance interruption | spot interruption | spot termination | instance-action
            "action": "terminate" | "action": "stop" | preemption notice
            preemption signal | preemption event | preemptible*terminat | evicted | job was evicted
            reason: preempted | preemptionbyscheduler | term_preempt | term_requeue | requeued due to | job requeued
            instance is being terminated | scheduled for termination | reclaimed by | node is being drained | 被抢占
            maintenance event | reason: preempting | preempted in order to
            """
        ),
        "A more important job or the host's owner took the place: resume from the last checkpoint.",
        stays=True,
        unless=("low on resource", "cache", "key evicted", "not preempted", "preempted 0"),
    ),
    Rule(
        "preempted",
        ROOT - 3,
        any_of(
            """
            *** job * cancelled at | *** step * cancelled at | cancelled by user | term_owner | job deleted
            """
        ),
        "Somebody or the scheduler cancelled the job: resume from the last checkpoint if it is still wanted.",
        stays=True,
        unless=("time limit", "preemption", "node fail", "due to task failure"),
    ),
    Rule(
        "preempted",
        SYMPTOM + 7,
        any_of(
            """
            received sigterm | caught sigterm | got sigterm | sigterm received | sigterm caught | signal 15 received
            received signal 15 | received 15 death signal | received signal: sigterm | got signal: 15
            caught signal 15 | sigtermexception | received signal sigterm | received term signal | received sigusr1
            received sigusr2
            """
        ),
        "The run was told to stop from outside: resume from the last checkpoint.",
        stays=True,
    ),
    Rule(
        "hang",
        ROOT - 4,
        any_of(
            """
            no new line for | no output for | no log output | no progress for | no progress in | no step for
            no heartbeat for | made no progress | has not made progress | makes no progress | has not progressed
            stalled for
            appears to be stuck | appears to be hung | seems stuck | seems to hang | is stuck | job hung | run hung
            hang detected | deadlock detected | stall detected | log silent | silent for | unresponsive for
            blocked for more than | last log line*ago | last output*ago | last step*ago | without any output
            without progress | idle for*kill | without output | watchdog*no progress | watchdog: no | 卡住
            没有新输出 | 无输出 | 无响应 | no step, no line | since the last step*kill
            since the last step*abort | since last step*kill | since last step*abort | watchdog hang
            never reached the barrier | never entered the barrier
            """
        ),
        "The run stood still{}: resume once from the last checkpoint, and take a stack dump (py-spy) if it repeats.",
        value=r"(for [\d:.]+ ?(?:s|sec|seconds|min|minutes|h|hours)?)\b",
        unless=("early stopping", "improve", "patience", "nvrm"),
    ),
    Rule(
        "hang",
        SYMPTOM + 8,
        any_of("timeout (*)!"),
        "It took no step until its own timer dumped the stacks: read there what it waited for, and resume once.",
        only=r"^timeout \(\d+:\d\d:\d\d\)!$",
    ),
    # -- ranks that talk ---------------------------------------------------------------------------------------------
    Rule(
        "user_code",
        SPECIFIC,
        any_of("duplicate gpu detected"),
        "Two ranks use the same card: set the device from LOCAL_RANK in the training code.",
    ),
    Rule(
        "nccl",
        SYMPTOM + 4,
        any_of(
            """
            collective operation timeout | collective timeout | ncclsystemerror
            ncclinternalerror | ncclunhandledcudaerror | ncclremoteerror | ncclinvalidusage | nccl warn | nccl error
            nccl communicator was aborted | distbackenderror | diststoreerror | nccl*timed out | nccl timeout
            timed out waiting*clients | timed out after*clients | clients joined | socket timeout | wait timeout after
            store->get('0') | storewait | rendezvoustimeouterror | rendezvousconnectionerror | rendezvousclosederror
            connection closed by remote peer | gloo/transport | timed out waiting*recv operation | monitoredbarrier
            client socket has timed out | distnetworkerror | horovodinternalerror | store based barrier
            timed out initializing process group | heartbeat monitor timed out | no heartbeat of its watchdog
            monitored barrier | got completion with error | heartbeatmonitor | tcpstore*failed
            failed to connect to*tcpstore | connect() timed out | tcpstore*timed out | failed to recv, got 0 bytes
            ibv_ | mpi_abort was invoked | mpi_err | btl_tcp | mlx5*error | ucx*error | libfabric*error
            horovod*stalled | process group watchdog | barrier timed out | coordination_service*error
            coordination service*error | jax distributed service detected
            """
        ),
        "The ranks lost each other: find the rank that died first; if there is none, resume once from the last "
        "checkpoint.",
        unless=("nccl info", "nccl warn netname", "plugin", "connection reset by peer (retry"),
    ),
    Rule(
        "nccl",
        SYMPTOM + 4,
        any_of(
            """
            connection reset by peer | connection refused | broken pipe | connection timed out | no route to host
            """
        ),
        "The ranks lost each other: find the rank that died first; if there is none, resume once from the last "
        "checkpoint.",
        near=RANKS,
    ),
)
