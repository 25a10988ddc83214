"""How an experiment or a run stands, in a sentence: done, running, where in the queue, and when it ends."""

from __future__ import annotations

from lab import planwords
from lab.estimate import end_words, expected, place_words
from lab.forecast import Forecast
from lab.language import Phrasebook, state_word
from lab.reportwords import CAUSES
from lab.run import FINAL_RUN, Experiment, Run, RunState
from lab.when import stamp

WORDS = Phrasebook(
    {
        "tried": ("tried: {list}", "已尝试：{list}"),
        "advice": ("what you can do: {advice}", "你可以：{advice}"),
        "stop": ("; ", "；"),
        "reused": ("; from {id}, not run again", "；来自 {id}，没有重跑"),
    }
)


def experiment_words(
    experiment: Experiment, runs: list[Run], forecast: Forecast | None, now: float, chinese: bool
) -> str:
    """`exp-12 (resnet50 on digits): running, 1 of 6 runs done, 3 running, about 12 min left`."""
    said = [state_word(experiment.state, chinese), *(_counts(runs, chinese) if runs else ())]
    said += expected(forecast, now, stamp, chinese)
    if any(run.state is RunState.PAUSED for run in runs) and forecast and forecast.end:
        said.append("不含暂停的 run" if chinese else "without its paused runs")
    return _line(f"{experiment.id} ({planwords.title(experiment.plan, chinese)})", said, chinese)


def run_words(run: Run, forecast: Forecast | None, now: float, chinese: bool) -> str:
    """`exp-12/3 (resnet50 seed 2): queued, 3rd in the queue, starts in about 12 min`, or what it came to."""
    said = [state_word(run.state, chinese), *([run.cause] if run.cause else [])]
    if forecast and run.state is RunState.QUEUED and run.number in forecast.waiting:
        said.append(place_words(forecast.waiting[run.number], now, chinese))
    elif forecast and run.state not in FINAL_RUN and run.number in forecast.running:
        said.append(end_words(forecast.running[run.number], now, stamp, chinese))
    elif forecast and run.number in forecast.stuck:
        said.append(forecast.stuck[run.number])
    words = _line(f"{run.id} ({run.point.label()})", said, chinese)
    words += f": {run.message}" if run.message else ""
    words += "".join(f"\n{line}" for line in tried(run, chinese))
    if run.result:
        values = [f"{k.replace('_', ' ')} {v:.4g}" for k, v in run.result.metrics.items() if v is not None]
        words += f"; {', '.join(values)}"
    words += WORDS.say("reused", chinese, id=run.reused_from) if run.reused_from else ""
    return words


def tried(run: Run, chinese: bool) -> list[str]:
    """What was changed on the run to heal it, and what the person can do now."""
    said = [WORDS.say("tried", chinese, list=WORDS.say("stop", chinese).join(run.changes))] if run.changes else []
    advice = CAUSES.get(run.cause or "", run.advice) if chinese else run.advice
    return said + ([WORDS.say("advice", chinese, advice=advice)] if run.state is RunState.FAILED and advice else [])


def _line(what: str, said: list[str], chinese: bool) -> str:
    return f"{what}：{'，'.join(said)}" if chinese else f"{what}: {', '.join(said)}"


def _counts(runs: list[Run], chinese: bool) -> list[str]:
    done, failed = sum(run.state in FINAL_RUN for run in runs), sum(run.state is RunState.FAILED for run in runs)
    running = sum(run.state is RunState.RUNNING for run in runs)
    if chinese:
        said = [f"{len(runs)} 个 run 完成 {done} 个" + (f"（其中 {failed} 个失败）" if failed else "")]
        return said + ([f"{running} 个运行中"] if running else [])
    said = [f"{done} of {len(runs)} runs done" + (f", {failed} of them failed" if failed else "")]
    return said + ([f"{running} running"] if running else [])
