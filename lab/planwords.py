"""A plan in words, in English and in Chinese: for people to read, and as a sentence that asks for the same again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.language import Phrasebook
from lab.plan import Axis, Budget, Plan, Range, Scalar, few, number

REASONS = {
    "default": "默认",
    "one seed; say `3 seeds` to see the spread": "一个种子；说“3 个种子”可以看离散程度",
    "one run each cannot tell a difference from luck": "每个只跑一次分不清差异和运气",
    "as in the previous plan": "同上一个计划",
    "no data set was named; this is the lab's usual one": "没有指定数据集，这是实验室常用的",
    "it ships with Overnight": "Overnight 自带",
    "the only data set on these hosts": "这些机器上唯一的数据集",
    "the lab's default": "实验室默认",
    "a grid by tens, since no values were named": "没有给出取值，按数量级取",
    "common values, since none were named": "没有给出取值，取常用值",
    "a usual range, since none was named": "没有给出范围，取常用范围",
    "a number without a name, read as lr": "没有名称的数，读作学习率",
    "your usual": "你的习惯",
    "the language model's reading of your words; say if it is wrong": "语言模型的理解；不对请指出",
}
"""Why a value was assumed: what the plan records, and the same in Chinese."""
PARTS = (
    ("concluded from", "根据"),
    (" was read as ", " 读作 "),
    ("which ", ""),
    (" is usually started with", " 常用"),
    ("around ", "围绕 "),
)
FACTORS = {
    "models": ("models", "个模型"),
    "datasets": ("data sets", "个数据集"),
    "trials": ("trials", "次采样"),
    "seed": ("seeds", "个种子"),
    "lr": ("learning rates", "个学习率"),
    "batch_size": ("batch sizes", "个 batch 大小"),
    "optimizer": ("optimizers", "个优化器"),
}
"""What multiplies to the number of runs; other axes are counted in values."""
PRIORITIES = {"low": "低优先级", "normal": "普通优先级", "high": "高优先级"}
PRUNES = {"median": ("median pruner", "中位数剪枝"), "halving": ("successive halving", "逐次减半")}
SEARCHES = {"random": ("random search", "随机搜索"), "bayesian": ("Bayesian search", "贝叶斯搜索"), "grid": ("", "")}
CHOICES = {
    "search": {**SEARCHES, "bayesian": ("Bayesian search (TPE)", "贝叶斯搜索")},
    "prune": {**PRUNES, "median": ("runs below the median are stopped early", "中位数剪枝")},
}
"""Fields with a word for each value."""
WORDS = Phrasebook(
    {
        "title": ("{names} on {datasets}", "{names}，数据集 {datasets}"),
        "against": (" against ", " 对比 "),
        "n_models": ("{n} models", "{n} 个模型"),
        "comma": (", ", "、"),
        "runs": ("{n} run{s}", "{n} 个 run"),
        "seeds": ("{n} seed{s}", "{n} 个种子"),
        "reason": ("{values} ({reason})", "{values}（{reason}）"),
        "dataset": ("{names}", "数据集 {names}"),
        "epochs": ("{n} epoch{s}", "{n} 轮"),
        "max_steps": ("{n} step{s}", "{n} 步"),
        "gpus_per_run": ("{n} card{s} a run", "每个 run {n} 张卡"),
        "trials": ("{n} trial{s}", "{n} 次采样"),
        "metric": ("metric {value}", "指标 {value}"),
        "deadline": ("deadline {value}", "期限 {value}"),
        "at_most": ("at most {limits}", "最多 {limits}"),
        "gpu_hours": ("{n} GPU-h", "{n} GPU 小时"),
        "wall_hours": ("{n} h", "{n} 小时"),
    }
)
COUNTED = ("epochs", "max_steps", "gpus_per_run", "trials")
NAMED = ("metric", "deadline")


def title(plan: Plan, chinese: bool = False) -> str:
    """The plan in a few words: `resnet50 against efficientnet_b0 on digits`."""
    names = WORDS.say("against", chinese).join(plan.models) or plan.template
    if len(plan.models) > 3:
        names = WORDS.say("n_models", chinese, n=len(plan.models))
    datasets = WORDS.say("comma", chinese).join(plan.datasets)
    return WORDS.say("title", chinese, names=names, datasets=datasets) if datasets else names


def arithmetic(plan: Plan, chinese: bool = False) -> str:
    """How the number of runs comes about: `6 runs = 2 models x 3 seeds`."""
    draws = plan.search != "grid"
    sizes = [("models", len(plan.models)), ("datasets", len(plan.datasets))]
    sizes += [("trials", plan.trials or 0)] if draws else []
    sizes += [(name, _size(axis)) for name, axis in plan.axes.items() if not draws or name == "seed"]
    factors = " x ".join(f"{n} {_factor(name, chinese)}" for name, n in sizes if n > 1)
    runs = _counted("runs", plan.n_runs, chinese)
    return f"{runs} = {factors}" if factors else runs


def _size(axis: Axis) -> int:
    return (axis.num or 0) if isinstance(axis, Range) else len(axis)


def _factor(name: str, chinese: bool) -> str:
    return FACTORS.get(name, (f"values of {name}", f"个 {name}"))[chinese]


def _counted(key: str, n: int, chinese: bool) -> str:
    return WORDS.say(key, chinese, n=n, s="" if n == 1 else "s")


def stated(plan: Plan, chinese: bool = False) -> list[str]:
    """What the message itself gave, for people, models and data sets left out: `lr 0.1, 0.01`, `20 epochs`."""
    fields = [f"axes.{name}" for name in plan.axes]
    fields += ["search"] if plan.search != "grid" else []
    fields += [n for n in ("prune", "epochs", "max_steps", "metric", "budget", "deadline") if getattr(plan, n)]
    fields += ["gpus_per_run"] if plan.gpus_per_run > 1 else []
    fields += ["priority"] if plan.priority != "normal" else []
    return [in_words(plan, field, chinese) for field in fields if plan.why(field) is None]


def assumptions(plan: Plan, chinese: bool = False) -> list[str]:
    """What was assumed and why, the values of one reason together: `lr 0.001, 3 epochs (default)`."""
    by_reason: dict[str, list[str]] = {}
    for assumed in plan.assumed:
        by_reason.setdefault(assumed.reason, []).append(in_words(plan, assumed.field, chinese))
    comma = WORDS.say("comma", chinese)
    return [
        WORDS.say("reason", chinese, values=comma.join(values), reason=reason_words(reason) if chinese else reason)
        for reason, values in by_reason.items()
    ]


def reason_words(reason: str) -> str:
    """A reason in Chinese; one that nobody translated stays as it is."""
    known = REASONS.get(reason)
    if known:
        return known
    for english, chinese in PARTS:
        reason = reason.replace(english, chinese)
    return reason


def in_words(plan: Plan, field: str, chinese: bool = False) -> str:
    """A field with its value for people: `lr 0.001`, `3 seeds`, `3 epochs`; a long list is counted.

    Names of axes stay as they are, in Chinese too.
    """
    name = field.removeprefix("axes.")
    if name in plan.axes:
        return _axis_words(name, plan.axes[name], plan.why(field) is not None, chinese)
    value: Any = getattr(plan, name, None)
    if name in ("models", "dataset", "datasets"):
        return _names(plan, name, chinese)
    if name in COUNTED and isinstance(value, int):
        return _counted(name, value, chinese)
    if name == "priority":
        return PRIORITIES[plan.priority] if chinese else f"{value} priority"
    if name in CHOICES and isinstance(value, str):
        return CHOICES[name].get(value, (value, value))[chinese]
    if name in NAMED and isinstance(value, str):
        return WORDS.say(name, chinese, value=value)
    if isinstance(value, Budget):
        limits = [WORDS.say(k, chinese, n=number(v)) for k, v in value.model_dump().items() if v is not None]
        return WORDS.say("at_most", chinese, limits=WORDS.say("comma", chinese).join(limits))
    label = name.replace("_", " ")
    return f"{label} {number(value)}" if isinstance(value, bool | int | float | str) else label


def _names(plan: Plan, field: str, chinese: bool) -> str:
    names = WORDS.say("comma", chinese).join(few(plan.models if field == "models" else plan.datasets))
    return WORDS.say("dataset", chinese, names=names) if names and field != "models" else names or field


def _axis_words(name: str, axis: Axis, assumed: bool, chinese: bool) -> str:
    label = name.replace("_", " ")
    if isinstance(axis, Range):
        return f"{label} {number(axis.low)} to {number(axis.high)} ({axis.scale})"
    if name == "seed" and axis == tuple(range(len(axis))) and (assumed or len(axis) > 1):
        return _counted("seeds", len(axis), chinese)
    return f"{label} {', '.join(few(axis))}"


SPOKEN: dict[str, str] = {
    "freeze_backbone": "freeze backbone",
    "sam": "sharpness-aware minimization",
    "n_heads": "n heads",
    "map": "mAP",
}
"""Names that are not read as they are written in a plan."""
AGAIN = Phrasebook(
    {
        "compare": ("compare {models}{on}", "对比 {models}{on}"),
        "train": ("train {models}{on}", "训练 {models}{on}"),
        "evaluate": ("evaluate {models}{on}", "评估 {models}{on}"),
        "on": (" on {datasets}", "，数据集 {datasets}"),
        "seeds": ("{n} seed{s}", "{n} 个种子"),
        "one_seed": ("seed {n}", "种子 {n}"),
        "seed_list": ("seeds {list}", "种子 {list}"),
        "epochs": ("{n} epoch{s}", "{n} 轮"),
        "max_steps": ("{n} step{s}", "{n} 步"),
        "gpus": ("{n} gpus per run", "每个 run {n} 张卡"),
        "trials": ("{n} trial{s}", "{n} 次试验"),
        "low": ("low priority", "低优先级"),
        "high": ("high priority", "高优先级"),
        "gpu_hours": ("at most {n} gpu hours", "最多 {n} gpu 小时"),
        "wall_hours": ("for at most {n} hours", "最多 {n} 小时"),
        "metric": ("metric {name}", "指标 {name}"),
        "range": ("{axis} {scale} from {low} to {high}", "{axis} {scale} 从 {low} 到 {high}"),
        "with": ("with {name}", "用 {name}"),
        "without": ("without {name}", "不用 {name}"),
        "both": ("with and without {name}", "有无 {name}"),
        "anew": ("run all again", "全部重跑"),
        "and": (" and ", " 和 "),
        "stop": ("; ", "；"),
    }
)


def sentence(plan: Plan, chinese: bool = False) -> str:
    """A message that asks for this plan, every value named, so that no default and no thread is needed to repeat it."""

    def say(key: str, **fields: object) -> str:
        return AGAIN.say(key, chinese, s="" if fields.get("n") == 1 else "s", **fields)

    evaluates = bool(plan.mode) or (plan.epochs is None and plan.max_steps is None and "epochs" not in plan.axes)
    verb = "evaluate" if evaluates else "compare" if len(plan.models) > 1 else "train"
    on = say("on", datasets=say("and").join(plan.datasets)) if plan.datasets else ""
    parts = [say(verb, models=say("and").join(plan.models), on=on)]
    parts += [plan.mode.replace("_", "-")] if plan.mode else []
    parts += [_axis(name, axis, chinese) for name, axis in plan.axes.items()]
    parts += [say(name, n=n) for name in ("epochs", "max_steps") if (n := getattr(plan, name)) is not None]
    parts += [say("gpus", n=plan.gpus_per_run)] if plan.gpus_per_run > 1 else []
    if plan.search != "grid":
        parts += [SEARCHES[plan.search][chinese], *([say("trials", n=plan.trials)] if plan.trials else [])]
        parts += [PRUNES[plan.prune][chinese]] if plan.prune else []
    if plan.budget is not None:
        limits = (("gpu_hours", plan.budget.gpu_hours), ("wall_hours", plan.budget.wall_hours))
        parts += [say(name, n=number(hours)) for name, hours in limits if hours is not None]
    parts += [say("metric", name=SPOKEN.get(plan.metric, plan.metric.replace("_", " ")))] if plan.metric else []
    parts += [say(plan.priority)] if plan.priority != "normal" else []
    parts += [say("anew")] if plan.anew else []
    return say("stop").join(parts)


def _axis(name: str, axis: Axis, chinese: bool) -> str:
    label = SPOKEN.get(name, name.replace("_", " "))
    if isinstance(axis, Range):
        ends = {"low": number(axis.low), "high": number(axis.high)}
        return AGAIN.say("range", chinese, axis=label, scale=axis.scale, **ends)
    if name == "seed":
        return _seeds(axis, chinese)
    if all(isinstance(value, bool) for value in axis):
        key = "both" if len(axis) > 1 else "with" if axis[0] else "without"
        return AGAIN.say(key, chinese, name=label)
    values = ", ".join(_plain(value) for value in axis)
    return f"{label} {values}"


def _plain(value: Scalar) -> str:
    """The value with every digit that it has, so that reading it gives the same value."""
    return repr(value) if isinstance(value, float) else number(value)


def _seeds(seeds: Sequence[Scalar], chinese: bool) -> str:
    if len(seeds) == 1:
        return AGAIN.say("one_seed", chinese, n=seeds[0])
    if tuple(seeds) == tuple(range(len(seeds))):
        return AGAIN.say("seeds", chinese, n=len(seeds), s="s")
    return AGAIN.say("seed_list", chinese, list=", ".join(str(s) for s in seeds))
