"""Guesses from the words of a last line that no other rule knows: two kinds of words have to meet in it."""

from __future__ import annotations

from lab.diagnose.resources import FEWER, SMALLER
from lab.diagnose.rules import GENERIC, LINE, PATH, Cause, Rule, any_of


def _loose(cause: Cause, marks: str, only: str, advice: str, retryable: bool | None = None) -> Rule:
    value = PATH if "{}" in advice else ""
    return Rule(
        cause, GENERIC + 1, any_of(marks), advice, retryable, value=value, otherwise=LINE, only=only, loose=True
    )


_SHORT = r"out of|ran out|not enough|insufficient|exhaust|fail|cannot|unable|exceed|limit"
_WRONG = r"mismatch|does not match|doesn't match|not match|incompatible|unexpected|missing|different"

LOOSE: tuple[Rule, ...] = (
    _loose(
        "oom_gpu",
        "memory | resourceexhausted",
        rf"(?=.*(?:cuda|gpu|cupy|hip\b|vram|on device|conv))(?=.*(?:{_SHORT}))(?!.*(?:illegal|access|shared))",
        f"The card's memory did not suffice. {SMALLER}",
    ),
    _loose(
        "oom_host",
        "memory",
        rf"(?=.*(?:{_SHORT}|killed))(?=.*(?:alloc|limit|out of|enough))"
        r"(?!.*(?:cuda|gpu|cupy|device|illegal|shared|pin))",
        f"The host's memory did not suffice. {FEWER}",
    ),
    _loose(
        "nan_loss",
        "diverg | nan | explod | blew | blown | infinite | finite",
        r"(?=.*\b(?:loss|objective|training|grad(?:ient)?|reward|logit|activation|weight)s?\b)"
        r"(?=.*(?:diverg|\bnans?\b|explod|blew up|blown up|infinite|not finite|non-finite))"
        r"(?!.*(?:column|input|nan \w+: 0))",
        "The loss stopped being a number: go back to the last finite checkpoint with a lower rate, or bf16/fp32.",
    ),
    _loose(
        "disk_full",
        "disk | storage | quota | space",
        r"(?=.*(?:disk|storage|quota|space left))(?=.*(?:full|exceed|insufficient|not enough|no space|left))",
        "The disk or quota is full ({}): make room, then start the run again.",
    ),
    _loose(
        "port_in_use",
        "in use | bind | taken",
        r"(?=.*(?:port|address|socket|bind))(?=.*(?:already|in use|taken|occupied))",
        "A port is taken by another process ({}): start again with a free one.",
    ),
    _loose(
        "arch_mismatch",
        "compute capability | sm_ | architecture | gpus",
        r"(?=.*(?:compute capability|sm_\d|architecture|gpus))(?=.*(?:support|require|compatible|minimum))"
        r"(?=.*(?:not|no longer|require|unsupported|only|minimum))",
        "The card is not one that this build was made for ({}): run on another, or install a build for it.",
    ),
    _loose(
        "import_error",
        "torchvision | version | operator | compiled | install",
        r"compiled with different|operator \S+::\S+ does not exist|incompatible version|please install|pip install"
        r"|(?:requires|required|need)\b.{0,80}(?:version|>=)|is not installed"
        r"|version .{0,60}is (?:not supported|too old)",
        "The installed packages do not fit each other ({}): install versions that do.",
    ),
    _loose(
        "compile_error",
        "compil | nvcc | nvrtc | linker | build",
        r"(?=.*(?:compil|nvcc|nvrtc|linker|build))(?=.*(?:fail|error|cannot|unable))(?!.*compiled with)",
        "Compiling failed ({}): fix the compiler, toolkit or package version, or run without compilation.",
    ),
    _loose(
        "time_limit",
        "time",
        r"(?=.*(?:wall|run|max|limit|budget|allotted|job))(?=.*\b\w*time\b)(?=.*exceed|.*reached|.*expired)(?!.*runtimeerror)",
        "The run hit its time limit ({}): raise it and resume from the last checkpoint.",
    ),
    _loose(
        "hang",
        "kill | stop | restart | abort | terminat | dead | frozen | hung | stuck | signal",
        r"(?=.*\b(?:heartbeat|(?:last|no|without|since)\b.{0,40}\b(?:line|output|stdout|step|log|progress|update|checkpoint)))"
        r"(?=.*\d+ ?(?:s|sec|seconds|m|min|minutes|h|hours)\b)(?!.*(?:patience|improve|time.?limit))",
        "The run stood still ({}): resume once from the last checkpoint, with a stack dump (py-spy) if it repeats.",
    ),
    _loose(
        "auth",
        "permission to | unauthori | not authorized | credential | token | login | log in | anonymous | access key",
        r"(?=.*(?:https?|url|api|hub|wandb|s3|gcs|storage|repo|account|request|resource|key|login|log in))"
        r"(?=.*(?:permission|authori|credential|denied|invalid|expired|required|missing|anonymous|log ?in))"
        r"(?!.*(?:token id|tokens|pad_token|eos_token|special token|tokenizer))",
        "A service refused access ({}): ask for access and store a valid token on the host.",
    ),
    _loose(
        "checkpoint_mismatch",
        "checkpoint | state_dict | state dict | ckpt | pretrained weights",
        rf"{_WRONG}|corrupt|truncat|not found in|shape|damaged|invalid|cannot load|could not load|failed to load",
        "The checkpoint does not fit or cannot be read ({}): correct the model's settings or take another one.",
    ),
    _loose(
        "network",
        "connect | download | http | url | hub | payload | network | resolve | proxy | dns | socket | server",
        r"(?=.*(?:timed? ?out|timeout|refused|reset|unreach|fail|unable|cannot|could not|error happened|not completed"
        r"|closed|aborted|unavailable|incomplete|interrupted|5\d\d))"
        r"(?!.*(?:nccl|rank|c10d|gloo|collective|cuda|argument|attribute))",
        "The network or a server failed ({}): start again in a while.",
    ),
    _loose(
        "data_missing",
        "archive | dataset | data file | directory | folder | file | path | image | annotation | split",
        r"not present|does not exist|doesn't exist|not found|missing|empty|doesn't contain|does not contain|no such"
        r"|corrupt|cannot find|could not find|couldn't find|truncated|cannot read|could not read|unable to read"
        r"|not a directory",
        "Data is missing or damaged ({}): check the path and this host's data folder.",
    ),
    _loose(
        "permission",
        "readonly | read-only | not permitted | not writable | not writeable | access is denied | no write access",
        "",
        "The run may not write there ({}): choose another folder or ask for the rights.",
    ),
    _loose(
        "bad_args",
        "--",
        r"error: (?:\S+ )?--\w[\w-]*\b.*(?:must|should|invalid|expected|got|unknown|requires|cannot|not)",
        "The command does not fit the program ({}): correct it and start again.",
    ),
)
"""Tried on exception lines and the last lines of a log that holds no better sign; the first of equal ones decides."""
