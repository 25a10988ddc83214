"""Which of the signs in a log is the cause: decides between them, their context and how the process ended."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from lab.diagnose import memory
from lab.diagnose.log import LONGEST, TRACEBACK, Log, Traceback, holds, no_number
from lab.diagnose.loose import LOOSE
from lab.diagnose.machine import MACHINE
from lab.diagnose.program import PROGRAM
from lab.diagnose.resources import RESOURCES
from lab.diagnose.rules import GENERIC, RETRYABLE, ROOT, SPECIFIC, STATUS, SYMPTOM, Cause, Rule


@dataclass(frozen=True)
class Diagnosis:
    """Why an attempt ended.

    Attributes:
        cause: one of the closed list of causes, `none` when nothing failed.
        evidence: the deciding line, copied from the log (what the exit status says, where the log is empty).
        advice: what to do, for whoever reads it in the morning.
        retryable: the run may be started again with nobody's help, as it was, changed, or on another card.
    """

    cause: Cause
    evidence: str
    advice: str
    retryable: bool


@dataclass(frozen=True)
class Ending:
    """What is known of the process's end beside its log.

    Attributes:
        exit_code: as a shell or subprocess gives it; None when it is not known or the run still runs.
        oom_kills: how many processes the kernel killed for want of memory meanwhile; None when unknown.
        losses: the last losses of the run's metrics, oldest first.
    """

    exit_code: int | None
    oom_kills: int | None = None
    losses: Sequence[float] = ()


@dataclass(frozen=True)
class Sign:
    """Something that could be the cause.

    Attributes:
        line: index of its line; None for the last line of the log.
        weight: as of its rule, less when the run went on afterwards or only a warning says so.
        sure: it also decides when the exit status is unknown.
    """

    cause: Cause
    weight: int
    line: int | None
    advice: str
    retryable: bool
    sure: bool = True


PAST = -100
"""Added to a sign that the run recovered from; it still tells more than nothing."""
SOFT = -60
"""Added to a sign that only a warning or a retry speaks of."""

LAST_LINES = 4
"""What a log ends with: its last lines that say something."""

_SOFT = re.compile(
    r"\bwarn(?:ing)?\b|\w+warning:|\bretrying\b|\bretry (?:\d|in\b)|will retry|(?:retry|again) with"
    r"|\bskipp(?:ed|ing)\b|\bignor(?:ed|ing)\b|fall(?:ing|s)? back|\bfallback\b|\brecovered\b|\bhandled\b"
    r"|\bcaught (?!signal|sig|collective|\w+ in (?:dataloader|replica|pin))|\battempt \d+ ?(?:/|of) ?\d+"
    r"|\bdebug ?[\]:|-]|expected failure|\bxfail|\bxpass|test\w* .*\b(?:ok|passed)$|\bpassed\b|halv(?:ed|ing) the batch"
    r"|^wandb: |警告|已跳过|重试"
)
"""Only warned of, or overcome."""
_ADDRESS = re.compile(r"\bsee:? https?://\S+")
"""Where to read more: its words say nothing about the fault."""
_NOT_SOFT = (
    "nccl warn",
    "stopping",
    "aborting",
    "exiting",
    "giving up",
    "submitit warning",
    "elastic.agent",
    "terminat",
    "cuda initialization:",
    "can't open/read file",
    "recognized processor",
)
_SYMPTOMS = frozenset(
    (
        "KeyboardInterrupt",
        "SystemExit",
        "ChildFailedError",
        "SignalException",
        "ProcessExitedException",
        "ProcessRaisedException",
        "CalledProcessError",
        "BrokenPipeError",
        "BrokenProcessPool",
        "TerminatedWorkerError",
        "WorkerCrashedError",
        "RayActorError",
        "ActorDiedError",
        "EOFError",
        "Empty",
        "ConnectionResetError",
    )
)
"""Exceptions that processes raise when something else ended: their parent, child, or somebody at the keyboard."""
_DONE = re.compile(
    r"\b(?:complet(?:e|ed)|finish(?:ed)?|done|saved?|saving|success\w*|final|best|passed|results?|uploaded|exported)\b"
    r"|完成|保存|成功|结束|最优|最终"
)
_ENDED = re.compile(r"\b(?:complet(?:e|ed)|finish(?:ed)?|done|success\w*|passed)\b|完成|成功")
_FATAL = re.compile(r"error|fatal|exception|assert|terminate called|what\(\):|panic|failed", re.IGNORECASE)
_RAISED = re.compile(r"\b[A-Z]\w*(?:Error|Exception): ")
"""An exception whose traceback was cut off or never printed; it says more than the launcher after it."""
_INTERRUPTED = re.compile(r"\bctrl-c\b|keyboardinterrupt|got signal: 2\b|received 2 death|\bsigint\b|\^c\b")
_AT_ZERO = re.compile(r"\b0%\||\[ *0/\d|\bstep 0\b|start training|starting training|\[ *1/\d")


def diagnose(
    log: str,
    exit_code: int | None,
    *,
    signal: int | None = None,
    oom_kills: int | None = None,
    losses: Sequence[float] = (),
) -> Diagnosis:
    """Why the attempt with this log ended.

    Args:
        log: its output, or the tail of it.
        exit_code: as a shell or subprocess gives it (137 and -9 are SIGKILL); None when it is not known.
        signal: the signal that ended it, where that is known apart from the exit code.
        oom_kills: how often the kernel killed for want of memory meanwhile (`oom_kill` of its cgroup or host); None
            when that is unknown.
        losses: the last losses of its metrics, oldest first.
    """
    ending = Ending(-signal if signal else exit_code, oom_kills, losses)
    read = Log.read(log)
    tracebacks = read.tracebacks()
    signs = _signs(read, tracebacks)
    signs += [*_from_metrics(read, ending), *_from_tracebacks(read, tracebacks, {sign.line for sign in signs})]
    if ending.exit_code == 0:
        signs = _despite_success(read, signs, tracebacks)
    elif ending.exit_code is None:
        signs = [sign for sign in signs if sign.weight > 0 and sign.sure]
    else:
        signs += _from_status(read, ending)
    if not signs:
        return _nothing(read, ending)
    best = max(signs, key=lambda sign: (sign.weight, -(len(read) if sign.line is None else sign.line)))
    evidence = read.last() if best.line is None else read.lines[best.line]
    return Diagnosis(best.cause, evidence or f"exit status {ending.exit_code}", best.advice, best.retryable)


def _signs(log: Log, tracebacks: list[Traceback]) -> list[Sign]:
    """What the rules find; the loose ones are asked only when the others know nothing that still holds."""
    everywhere = range(len(log))
    signs = _found(log, tracebacks, (*RESOURCES, *MACHINE, *PROGRAM), everywhere)
    if any(sign.weight > 0 for sign in signs):
        return signs
    ends = {*everywhere[log.tail(LAST_LINES) :], *(i for t in tracebacks for i in range(t.end, t.end + 3))}
    return signs + _found(log, tracebacks, LOOSE, ends)


def _found(log: Log, tracebacks: list[Traceback], rules: Iterable[Rule], where: Container[int]) -> list[Sign]:
    """One sign for every rule and line of `where` that fit."""
    signs = []
    steps = log.steps_after
    harmless = {i for t in tracebacks if t.harmless for i in range(t.start, t.end + 1)}
    inside = {i for t in tracebacks for i in range(t.start, t.end + 1)}
    first = min((t.start for t in tracebacks if _is_own(t) and not steps[t.end]), default=0)
    for rule in rules:
        for index in sorted({i for mark in rule.marks for i in log.with_mark(mark) if i in where}):
            line = log.low[index]
            if not _counts(rule, log, index, line):
                continue
            weight = rule.weight
            if steps[index] and not rule.stays:
                weight += PAST
            if rule.shell and index < first and index not in inside:
                weight = min(weight, SYMPTOM - 3)
            if _soft(line) or index in harmless:
                weight += SOFT
            advice, retryable = rule.advise(log.lines[index]), rule.may_retry()
            if rule.cause == "oom_gpu":
                advice, retryable = memory.advice(log.lines[index]) or (advice, retryable)
            signs.append(Sign(rule.cause, weight, index, advice, retryable))
    return signs


def _is_own(trace: Traceback) -> bool:
    """Whether an error of the program itself stands there, not what a parent or a thread says."""
    return not trace.harmless and trace.name not in _SYMPTOMS


def _counts(rule: Rule, log: Log, index: int, line: str) -> bool:
    if TRACEBACK in line or any(holds(line, mark) for mark in rule.unless):
        return False
    if rule.loose:
        line = _ADDRESS.sub("", line)
        if not any(holds(line, mark) for mark in rule.marks):
            return False
    if rule.only and not re.search(rule.only, line):
        return False
    if not rule.near and not rule.far:
        return True
    around = log.around(index)
    near = not rule.near or any(mark in around for mark in rule.near)
    return near and not any(mark in around for mark in rule.far)


def _soft(line: str) -> bool:
    return bool(_SOFT.search(line)) and not any(mark in line for mark in _NOT_SOFT)


def _from_tracebacks(log: Log, tracebacks: list[Traceback], known: set[int | None]) -> list[Sign]:
    """The training code's own errors: exceptions that no rule knows."""
    signs = []
    progress = log.steps_after
    for index, trace in enumerate(tracebacks):
        if trace.end in known:
            continue
        weight = SYMPTOM - 2 if trace.name in _SYMPTOMS else GENERIC
        if trace.chained and index + 1 < len(tracebacks):
            weight -= 1  # the last of a chain says it in the code's own words
        if progress[trace.end]:
            weight += PAST
        if trace.harmless:
            weight += SOFT
        if trace.name == "KeyboardInterrupt":
            signs.append(_interrupted(log, trace.end, weight + 3))
        else:
            where = f" at {trace.place}" if trace.place else ""
            advice = f"The training code raised {trace.name or 'an error'}{where} and would again: correct it first."
            signs.append(Sign("user_code", weight, trace.end, advice, False))
    for mark in ("syntaxerror: ", "indentationerror: ", "taberror: "):
        signs += [
            Sign("user_code", GENERIC + 1, at, "The script cannot be read by Python: correct this line.", False)
            for at in log.with_mark(mark)
        ]
    return signs


def _from_metrics(log: Log, ending: Ending) -> list[Sign]:
    """A loss that is no number at the end, or that stays at 0 while its gradients are no numbers."""
    told = list(ending.losses) or log.losses()
    tail = told[-3:]
    advice = (
        "The loss stopped being a number: go back to the last finite checkpoint with a lower learning rate, a warm-up, "
        "or bf16/fp32."
    )
    if len(tail) >= 2 and all(no_number(value) for value in tail[-2:]):
        return [Sign("nan_loss", ROOT, log.first_nan_loss(), advice, True)]
    bad = log.nan_gradients()
    if len(bad) >= 3 and len(tail) == 3 and not any(tail[:2]) and len(bad) * 2 > len(told):
        return [Sign("nan_loss", ROOT - 5, bad[0], advice, True)]
    return []


def _interrupted(log: Log, line: int | None, weight: int) -> Sign:
    """Ctrl-C: somebody gave up waiting when no step followed the first ones, else somebody wanted the card."""
    steps = [line for line, step in zip(log.low, log.steps, strict=True) if step]
    if len(steps) <= 1 and (not steps or _AT_ZERO.search(steps[0])):
        advice = (
            "Somebody interrupted a run that took no more steps: resume once, with a stack dump if it stands still."
        )
        return Sign("hang", weight, line, advice, True)
    return Sign("preempted", weight, line, "Somebody interrupted it (Ctrl-C): resume if it is still wanted.", True)


def _from_status(log: Log, ending: Ending) -> list[Sign]:
    """What the exit status and the cgroup say by themselves."""
    code = ending.exit_code or 0
    number = -code if code < 0 else code - 128 if 128 < code < 160 else 0
    if ending.oom_kills:
        advice = "The kernel killed it at its host memory limit: fewer data-loading workers, or more host memory."
        return [Sign("oom_host", ROOT, None, advice, True)]
    said: tuple[Cause, int, str] | None = None
    match number:
        case signals.SIGKILL if ending.oom_kills == 0:
            said = (
                "preempted",
                STATUS,
                "It was killed from outside, not for want of memory: resume it.",
            )
        case signals.SIGKILL:
            said = (
                "oom_host",
                SYMPTOM + 5,
                "It was killed (SIGKILL), mostly for want of host memory: ask for more of it.",
            )
        case signals.SIGTERM | signals.SIGUSR1 | signals.SIGUSR2 | signals.SIGHUP:
            said = "preempted", STATUS, "It was told to stop from outside: resume from the last checkpoint."
        case signals.SIGXCPU:
            said = "time_limit", STATUS, "It used up its CPU time: raise the limit and resume."
        case signals.SIGXFSZ:
            said = "disk_full", STATUS, "It reached the limit of a file's size: raise it or make room."
        case signals.SIGBUS:
            said = "shm", SYMPTOM, "A bus error mostly means a full /dev/shm: a larger --shm-size or fewer workers."
        case signals.SIGILL:
            said = "arch_mismatch", SYMPTOM, "It was built for another processor: run on another host."
        case signals.SIGSEGV:
            said = (
                "user_code",
                SYMPTOM - 1,
                "Native code crashed (segmentation fault): run with -X faulthandler to see.",
            )
        case signals.SIGINT:
            return [_interrupted(log, _interruption(log), STATUS)]
    if code == 124:
        said = "time_limit", STATUS + 5, "`timeout` ended it: raise the limit and resume from the last checkpoint."
    if code == 126:
        said = "permission", SYMPTOM - 1, "The command may not be executed: give it the right (chmod +x)."
    if code == 127:
        said = "import_error", SYMPTOM - 1, "The command was not found on this host: install it or correct its name."
    if code == 2 and "usage:" in log.text:
        said = "bad_args", STATUS, "The command line does not fit the program: correct it."
    if said is None:
        return []
    cause, weight, advice = said
    return [Sign(cause, weight, _spoken(log, cause), advice, cause in RETRYABLE)]


def _interruption(log: Log) -> int | None:
    return next((index for index, line in enumerate(log.low) if _INTERRUPTED.search(line)), None)


def _spoken(log: Log, cause: Cause) -> int | None:
    """The line in which the shell or the program told of the signal; None for the log's last."""
    words = {
        "oom_host": ("killed", "sigkill"),
        "preempted": ("sigterm", "hangup", "signal", "stopp", "terminated"),
        "user_code": ("segmentation fault", "segfault", "sigsegv"),
        "bad_args": (" error: ",),
    }.get(cause, ())
    found = (i for word in words for i in range(len(log) - 1, -1, -1) if word in log.low[i])
    return next(found, None)


def _despite_success(log: Log, signs: list[Sign], tracebacks: list[Traceback]) -> list[Sign]:
    """What still counts although the status is 0: a loss that is no number, or an end that a shell swallowed."""
    kept = [sign for sign in signs if sign.cause == "nan_loss" and sign.weight > SPECIFIC]
    tail = log.tail(LAST_LINES)
    for sign in signs:
        if sign.line is None or sign.weight <= 0 or sign.cause == "nan_loss":
            continue
        fatal = "slurmstepd: error: ***" in log.low[sign.line]
        if fatal and not any(_ENDED.search(line) for line in log.low[sign.line :]):
            kept.append(sign)
    last = tracebacks[-1] if tracebacks else None
    if last and last.end >= tail and not last.harmless and not any(_DONE.search(line) for line in log.low):
        kept += [sign for sign in signs if sign.weight > 0]
    return kept


def _nothing(log: Log, ending: Ending) -> Diagnosis:
    """No sign at all: a failed run counts as the training code's, which nobody should take for a finding."""
    last, status = log.last(), ending.exit_code
    if status == 0:
        return Diagnosis("none", last, "Nothing failed.", False)
    if status is None:
        return Diagnosis("none", last, "Nothing in the log tells of a failure, and how it ended is not known.", False)
    complaints = [line for line in reversed(log.lines) if _FATAL.search(line[:LONGEST])]
    raised = (line for line in complaints if _RAISED.search(line[:LONGEST]))
    complaint = next(raised, complaints[0] if complaints else None)
    if complaint:
        advice = f"It ended with status {status}, and this last complaint is of no known kind: read the log around it."
    else:
        advice = (
            f"Nothing in the log tells why it ended with status {status}; user_code is a guess. Run it by hand, and "
            "look where it writes its errors."
        )
    return Diagnosis("user_code", complaint or last or f"exit status {status}", advice, False)
