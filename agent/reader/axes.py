# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""The axes of an experiment: what people call them, which values they can have, and where they stand in a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from agent.reader.numbers import (
    COUNT,
    FLAGS,
    LIST,
    NUMBER,
    RANGE,
    VALUES,
    Interval,
    Scale,
    count,
    decades,
    doublings,
    interval,
    spaced,
    steps,
    values,
)
from agent.reader.page import Page
from lab.plan import Range, Scalar

Kind = Literal["float", "int"]


@dataclass(frozen=True)
class Axis:
    """An axis with numbers as values."""

    name: str
    keys: str
    kind: Kind = "float"
    scale: Scale = "linear"
    low: float = 0.0
    high: float = float("inf")
    open_low: bool = False
    """True when `low` itself is no possible value."""
    key: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", re.compile(_bounded(self.keys), FLAGS))

    def allows(self, number: float) -> bool:
        """True when a run can have this value."""
        whole = self.kind == "float" or float(number).is_integer()
        return whole and (number > self.low if self.open_low else number >= self.low) and number <= self.high


def _bounded(keys: str) -> str:
    return rf"(?<![A-Za-z0-9])(?:{keys})(?![A-Za-z])"


AXES: tuple[Axis, ...] = (
    Axis("lr", r"(?:peak |max |base |initial |start(?:ing)? )?(?:learning[ _-]?rates?|lrs?|step size)(?!\s*(?:schedul|decay|warm|strateg|polic))|lernraten?|tasas? de aprendizaje|taux d'apprentissage|(?:峰值|初始|基础|最大)?学习率(?!策略|调度|衰减|预热)|学習率|학습률", scale="log", high=100, open_low=True),
    Axis("grad_accum_steps", r"grad(?:ient)?[ _-]?acc(?:um(?:ulation)?)?(?:[ _-]?steps)?|gas?(?=\s*[=:]?\s*\d)|accum(?:ulation)?[ _-]?steps|梯度累[积计加](?:步数)?", "int", "log2", 1, 100_000),
    Axis("warmup_epochs", r"warm[ _-]?up[ _-]?epochs?|预热轮数", "int", "linear", 0, 10_000),
    Axis("warmup_ratio", r"warm[ _-]?up[ _-]?ratios?|预热比例", "float", "linear", 0, 1),
    Axis("warmup_steps", r"warm[ _-]?up(?:[ _-]?(?:steps|iters|iterations))?|预热(?:步数)?", "int", "linear", 0, 10_000_000),
    Axis("batch_size", r"(?:effective |global |total |mini[- ]?|per[- ]gpu |总|每卡)?(?:batch[ _-]?sizes?|batches|batch|bsz?|bs)|(?:总|每卡)?(?:批(?:次|量|处理)?大小|批量|批次|batch大小)|バッチ(?:サイズ)?|배치(?:\s*(?:크기|사이즈))?|taille de (?:batch|lot)|lots? de(?= ?\d)|tama[nñ]o de lote|batchgr(?:ö|oe)(?:ß|ss)en?", "int", "log2", 1, 10_000_000),
    Axis("weight_decay", r"weight[ _-]?decays?|wds?|l2(?: reg(?:ularization)?)?|权重衰减", scale="log", high=100),
    Axis("drop_path", r"drop[ _-]?path(?:[ _-]?rates?)?|stochastic depth", high=0.999),
    Axis("dropout", r"drop[ _-]?outs?(?:[ _-]?(?:rates?|p|prob(?:ability)?))?|drop[ _-]?rates?|丢弃率|随机失活率?", high=0.999),
    Axis("label_smoothing", r"label[ _-]?smooth(?:ing)?|ls(?=\s*[=:]?\s*0?\.\d)|标签平滑", high=0.999),
    Axis("momentum", r"momentums?|动量", high=0.99999),
    Axis("beta1", r"beta[ _]?1|β1", high=0.99999),
    Axis("beta2", r"beta[ _]?2|β2", high=0.99999999),
    Axis("image_size", r"(?:image|img|input|crop)[ _-]?(?:size|sz|res(?:olution)?)s?|imgsz|img|crops?|resolutions?|res|input|分辨率|(?:输入|图像|图片)(?:尺寸|大小|分辨率)?|尺寸", "int", "log2", 1, 8192),
    Axis("mixup_alpha", r"mix[ _-]?up(?:[ _-]?alphas?)?", high=100),
    Axis("cutmix_alpha", r"cut[ _-]?mix(?:[ _-]?alphas?)?", high=100),
    Axis("temperature", r"temperatures?|temp|tau|温度(?:系数|参数)?", scale="linear", open_low=True),
    Axis("grad_clip", r"(?:grad(?:ient)?s?[ _-]?(?:norm[ _-]?)?clip(?:ping|ped)?(?:[ _-]?(?:norm|value))?|clip(?:ping)?[ _-]?(?:norm|(?:the )?grad(?:ient)?s?(?:[ _-]?norm)?)|max[ _-]?grad[ _-]?norm|梯度裁剪)", open_low=True),
    Axis("lora_rank", r"lora[ _-]?(?:ranks?|r)|ranks?|r(?=\s*=\s*\d)|秩", "int", "log2", 1, 100_000),
    Axis("lora_alpha", r"lora[ _-]?alphas?", "float", "log2", open_low=True),
    Axis("n_heads", r"(?:n|num(?:ber of)?)?[ _-]?(?:attention )?heads?|(?:注意力)?头数", "int", "log2", 1, 10_000),
    Axis("n_layers", r"(?:n|num(?:ber of)?)?[ _-]?layers?|层数", "int", "linear", 1, 10_000),
    Axis("hidden_size", r"hidden(?:[ _-]?(?:size|dim|units)s?|(?=\s*[=:]?\s*\d))|d_?model|隐藏(?:层)?(?:维度|大小|单元)?|embed(?:ding)?[ _-]?dim", "int", "log2", 1, 1_000_000),
    Axis("width_mult", r"width(?:[ _-]?mult(?:iplier)?)?s?|宽度(?:系数|倍数)?", open_low=True),
    Axis("depth", r"depths?|深度", "int", "linear", 1, 10_000),
    Axis("patch_size", r"patch(?:[ _-]?sizes?|(?:es)?(?=\s*[=:]?\s*\d))", "int", "log2", 1, 1024),
    Axis("max_length", r"max[ _-]?(?:seq[ _-]?)?len(?:gth)?|seq(?:uence)?[ _-]?len(?:gth)?s?|(?:context|ctx)(?:[ _-]?(?:len(?:gth)?|size|window))?|block[ _-]?size|序列长度|最大长度|上下文长度", "int", "log2", 1, 100_000_000),
    Axis("early_stopping_patience", r"(?:early[ _-]?stop(?:ping)?[ _-]?)?patience|早停(?:轮数|耐心)?|early[ _-]?stop(?:ping)?(?: after)?", "int", "linear", 0, 100_000),
    Axis("fold", r"folds?|折", "int", "linear", 0, 1000),
    Axis("num_workers", r"num[ _-]?workers|dataloader workers", "int", "linear", 0, 1024),
    Axis("data_fraction", r"(?:data|train(?:ing)?)[ _-]?(?:fractions?|ratios?|percent)|数据(?:比例|量)", open_low=True, high=1),
    Axis("kernel_size", r"kernel[ _-]?sizes?|卷积核(?:大小|尺寸)?", "int", "linear", 1, 1024),
    Axis("beam_size", r"beams?(?:[ _-]?(?:size|width))?|束宽", "int", "linear", 1, 10_000),
    Axis("n_frames", r"(?:n|num(?:ber of)?)?[ _-]?frames|帧数", "int", "log2", 1, 100_000),
    Axis("margin", r"margins?|间隔(?=\s*[=:为]?\s*\d)", open_low=True),
    Axis("beta", r"betas?|β(?!\d)", high=1e6),
    Axis("mask_ratio", r"mask(?:ing)?[ _-]?(?:ratios?|rates?|prob(?:ability)?)|掩码(?:率|比例)", open_low=True, high=0.999),
    Axis("lora_dropout", r"lora[ _-]?drop[ _-]?out", high=0.999),
    Axis("layer_decay", r"layer[ _-]?(?:wise)?[ _-]?(?:lr[ _-]?)?decay|llrd|逐层衰减", open_low=True, high=1),
    Axis("gamma", r"gammas?|γ", high=1000),
    Axis("ema_decay", r"ema[ _-]?decay", high=0.9999999),
    Axis("alpha", r"(?<!mixup )(?<!cutmix )(?<!lora )alphas?", high=1e6),
)  # fmt: skip
BY_NAME = {axis.name: axis for axis in AXES}


def named(name: str) -> Axis:
    """The axis of that name; one without bounds where only the asker's template knows it."""
    return BY_NAME.get(name) or Axis(name, re.escape(name), low=float("-inf"))


PLURAL = {"lr": "learning rates", "batch_size": "batch sizes", "weight_decay": "weight decays"}
GLUE = (
    r"(?:\s|[=:(\[{\"']|\b(?:sizes?|values?|rates?|of|in|at|to|from|is|are|be|as|set|use|using|try|trying|test|over|range|ranging|"
    r"either|both|equal|equals|only|say|just|log(?:[- ]?(?:uniform|scale|spaced))?|uniform(?:ly)?|linear(?:ly)?|should|must|sweep|sweeping|grid|search|scan|instead|back)\b|∈|→|"
    r"对数|等比|均匀|线性|为|是|用|取|固定|统一|(?:调|降|升|提|减|增|加)[低高小大少加升]?(?:到|至|成)|设置?|分别|试|测试|从|改成|改为|改到|换成|换到|调成|调到|调为|调整为|降到|降为|升到|提到|变成|变为|成|到|各|选|有|值|改|换|调|范围|区间|搜索|扫描|扫|搜|网格|依次|的|だけを?|のみ|を|は|が|に|를|을|는|은|로){0,8}"
)
FORWARD = {a.name: re.compile(rf"{_bounded(a.keys)}{GLUE}{VALUES}(?P<px>\s*(?:px|像素|x\s*\d+))?", FLAGS) for a in AXES}
UNIT = r"(?!\s*(?:px)?\s*(?:epochs?|steps?|iters?|seeds?|gpus?|cards?|runs?|hours?|hrs?|h\b|min|轮|步|个|张|卡|次|小时|分钟))"
BACKWARD_AXES = (
    "lr",
    "batch_size",
    "weight_decay",
    "dropout",
    "grad_accum_steps",
    "image_size",
    "n_layers",
    "n_heads",
    "momentum",
    "label_smoothing",
)
BACKWARD = {
    a.name: re.compile(
        rf"(?P<list>{LIST}){UNIT}\s*(?:(?:as|for|to|in|into)\s*(?:the\s*)?|的|作为)?\s*{_bounded(a.keys)}(?!{GLUE}[\d.])",
        FLAGS,
    )
    for a in AXES
    if a.name in BACKWARD_AXES
}
HOW_MANY = {
    a.name: re.compile(
        rf"(?P<n>{COUNT})\s*(?:-\s*)?(?:个|种|组|档|different|distinct|log[- ]spaced|evenly[- ]spaced|random|values? (?:of|for))?\s*(?:不同的?)?\s*(?={_bounded(a.keys)})",
        FLAGS,
    )
    for a in AXES
    if a.name in ("lr", "batch_size", "weight_decay", "dropout", "temperature", "momentum", "image_size")
}
"""A count in front of an axis: `3 lrs (1e-2 1e-3 1e-4)`, `100 lr values`."""
SEVERAL = re.compile(r"(?!bs\b)[a-z][a-z _-]*s\b|[a-z _-]+ (?:values?|settings?|options?)\b|[\u4e00-\u9fff]+值", FLAGS)
DISTANT = {
    a.name: re.compile(
        rf"{_bounded(a.keys)}[^:;\n\d]{{0,90}}?(?:[:：=]|\btry(?:ing)?\b|试(?:试|一下)?|分别[取用]?|[降升调提改换设](?:到|成|为))\s*[\[({{]?(?P<list>{NUMBER}(?:\s*(?:,|/|and|or|和|\s)\s*{NUMBER})+)|{_bounded(a.keys)}[^:;\n\d]{{0,12}}(?:[降升调提改换设](?:到|成|为)|\s(?:lower|higher|smaller|larger|bigger)[\s,:]*(?:like|say|maybe|to|of|about|around)?)\s*(?P<list2>{NUMBER})",
        FLAGS,
    )
    for a in AXES
}
"""`lr sweep for resnet18 on cifar10: 0.1, 0.03`"""
DISTANT_RANGE = {
    a.name: re.compile(
        rf"{_bounded(a.keys)}[^:;,\n\d]{{0,60}}?(?:[,:]\s*)?(?=from|between|over|in|在|从|介于|{NUMBER}\s*(?:~|→|到|to\b)\s*{NUMBER}){RANGE}",
        FLAGS,
    )
    for a in AXES
}
"""`the best lr for resnet18 on svhn between 1e-3 and 1e-1`"""
SPLIT = re.compile(
    rf"(?:(?:effective|global|total|总|等效)\s*(?:batch(?:[ _-]?size)?|bs|批量)\s*(?:of|=|为)?\s*(?P<total>{COUNT})\s*)?(?:via|by|using|with|through|用|通过)?\s*"
    r"(?:grad(?:ient)?[ _-]?accum\w*|梯度累[积计加])\s*[(:,=]*\s*(?P<batch>\d+)\s*[x*]\s*(?P<accum>\d+)\)?",
    FLAGS,
)
"""`effective batch 256 via grad accum (32x8)`"""


FOLDS = re.compile(
    rf"(?P<n>{COUNT})[\s-]*folds?\s*(?:stratified\s*)?(?:cv|cross[\s-]*valid\w*)|(?P<n2>{COUNT})\s*折(?:交叉验证)?",
    FLAGS,
)
"""`5-fold cv`: as many runs as folds."""
ON_PIXELS = re.compile(
    r"(?:\bat|@|\bin)\s*(?P<list>(?:96|112|128|160|192|224|256|288|320|336|384|448|512|518|640|768|896|1024|1280)(?:\s*(?:,|/|and|or|vs\.?|和|与)\s*\d{2,4})*)(?![\d.:]|\s*(?:[A-Za-z%]|轮|步|张|个|次|点))"
    r"|(?<![\w.])(?P<list2>(?:160|192|224|288|320|336|384|448|518)(?:\s*(?:,|/|→|and|or|to|vs\.?|和|与|到)\s*(?:160|192|224|288|320|336|384|448|518))+)(?![\d.:])",
    FLAGS,
)
"""`coco at 1280`: the usual sizes of images, where nothing else claims them."""
WITH_UNIT = {
    "image_size": re.compile(
        r"(?:\b(?:resiz|rescal|upscal|downscal|upsampl|downsampl)\w*\s+(?:up\s+|down\s+)?(?:images?\s+)?to|缩放[到至成]|(?:smaller|larger|bigger|lower|higher)[- ]?(?:res(?:olution)?\s+)?(?:images?|inputs?|crops?|pics?)\s*[,:(]?\s*(?:of|at|like|say)?)\s*(?P<list2>\d{2,4}(?:\s*(?:,|/|and|和)\s*\d{2,4})*)|(?P<list>(?<![\w.])\d{2,4}(?:\s*(?:px|pixels?|像素)?\s*(?:,|/|and|or|和|与|vs\.?)\s*\d{2,4})*)\s*(?:px|pixels?|像素)(?![A-Za-z])",
        FLAGS,
    ),
    "data_fraction": re.compile(
        r"(?P<list2>\b)(?P<list>\d+(?:\.\d+)?\s?%(?:\s*(?:,|/|and|or|vs\.?|和|与)+\s*(?:and\s*)?\d+(?:\.\d+)?\s?%)*)\s*(?:(?:of\s+(?:the\s+)?|的)?\s*(?:train(?:ing)?\s+|训练)?(?:data|samples|set|数据|样本)|of\s+(?:the\s+)?(?=\x00))",
        FLAGS,
    ),
}
"""Values that their unit gives away: 224px, 10 % of the data."""
OWN = re.compile(rf"(?<![\w.])(?P<key>[A-Za-z][A-Za-z_]{{0,24}})\s*=\s*(?P<list>{LIST})", FLAGS)
"""`margin=0.2`: a parameter that only the asker's template knows, under the name that it was given."""
NO_PARAMETERS = frozenset(
    ["acc", "accuracy", "loss", "f1", "auc", "map", "miou", "id", "exp", "run", "runs", "total", "sum", "epoch", "epochs",
     "step", "steps", "gpu", "gpus", "seed", "seeds", "trials", "jobs", "n", "x", "y"]
)  # fmt: skip
"""What stands in front of `=` and is a count or a result."""
NO_NUMBER = {
    a.name: re.compile(
        rf"{_bounded(a.keys)}{GLUE}(?P<word>[-+]?(?:nan|inf(?:inity)?|null|undefined|n/?a|\?{{2,}}|xxx+)(?![A-Za-z])|∞|无穷大?)",
        FLAGS,
    )
    for a in AXES
}
SQUARE = re.compile(r"(?<![\w.])(?P<list>\d{2,4})\s*x\s*(?P=list)(?!\w)", FLAGS)


@dataclass
class Told:
    """What a message says about one axis."""

    numbers: tuple[float | int, ...] = ()
    interval: Interval | None = None
    expected: int | None = None
    """A count that the message gives for the values: `3 lrs (...)`."""
    text: str = ""


def read(page: Page) -> dict[str, Told]:
    """Every axis with numbers on the page; what was used is crossed out."""
    found: dict[str, Told] = {}
    if split := page.take(SPLIT):
        found["batch_size"] = Told((int(split["batch"]),), text=split[0])
        found["grad_accum_steps"] = Told((int(split["accum"]),), text=split[0])
    for name, pattern in WITH_UNIT.items():
        if match := page.take(pattern):
            found[name] = Told(tuple(values(match["list"] or match["list2"])), text=match[0])
    if square := page.take(SQUARE):
        found["image_size"] = Told((int(square["list"]),), text=square[0])
    if folds := page.take(FOLDS):
        found["fold"] = Told(tuple(range(int(count(folds["n"] or folds["n2"])))), text=folds[0])
    counted = dict(_counted(page))
    for patterns in (FORWARD, DISTANT, DISTANT_RANGE, BACKWARD):
        missing = {n: p for n, p in patterns.items() if n not in found}
        found |= dict(_stated(page, missing))
    if "image_size" not in found and (pixels := page.take(ON_PIXELS)):
        found["image_size"] = Told(tuple(values(pixels["list"] or pixels["list2"])), text=pixels[0])
    for name, number in counted.items():
        found[name] = _expecting(found.get(name, Told()), number)
    for own in page.find(OWN):
        if own["key"].lower() not in NO_PARAMETERS and own["key"] not in found:
            page.cross(*own.span())
            found[own["key"]] = Told(tuple(values(own["list"])), text=own[0])
    if "alpha" in found and "lora_rank" in found:
        found["lora_alpha"] = found.pop("alpha")
    return found


def no_numbers(page: Page) -> Iterator[tuple[str, str]]:
    """Axes that are given something that is no number, and what: `lr nan`, `batch size = inf`."""
    for axis in AXES:
        for match in page.take_all(NO_NUMBER[axis.name]):
            yield axis.name, match["word"]


def _counted(page: Page) -> Iterator[tuple[str, int]]:
    """`3 lrs (1e-2 1e-3 1e-4)`, `100 lr values`: a count that is no value itself."""
    for name, pattern in HOW_MANY.items():
        for match in page.find(pattern):
            number = count(match["n"])
            key = BY_NAME[name].key.match(page.left, match.end())
            after = page.left[key.start() if key else match.end() :][:40]
            several = re.search(r"个|种|组|档|different|distinct|spaced|values", match[0]) or SEVERAL.match(after)
            if several and isinstance(number, int) and number >= 2:
                page.cross(*match.span("n"))
                yield name, number


def _expecting(told: Told, number: int) -> Told:
    """The same with the count: a range without steps becomes that many points."""
    span = told.interval
    if span is not None and span.step is None and span.num is None:
        span = replace(span, num=number)
    return replace(told, interval=span, expected=number)


def _stated(page: Page, patterns: dict[str, re.Pattern[str]]) -> Iterator[tuple[str, Told]]:
    for name, pattern in patterns.items():
        numbers: list[float | int] = []
        text = ""
        for match in page.find(pattern):
            page.cross(*match.span())
            text = match[0]
            if match.groupdict().get("low"):
                yield name, Told((), interval(match), None, text)
                break
            numbers += [v for v in values(match["list"] or match["list2"]) if v not in numbers]
        else:
            if numbers:
                yield name, Told(tuple(numbers), None, None, text)


def expand(axis: Axis, told: Interval) -> tuple[list[float | int], str]:
    """The values that a grid takes from a range, and how they came about."""
    whole = axis.kind == "int"
    if told.step:
        return steps(told, whole), ""
    scale = told.spacing or ("log" if axis.scale != "linear" else "linear")
    if told.num:
        return spaced(told, told.num, scale, whole), ""
    ratio = told.high / told.low if told.low > 0 else 0.0
    if axis.scale == "log" and ratio:
        return decades(told), "a decade grid"
    if axis.scale == "log2" and ratio >= 2:
        return doublings(told), "doublings"
    if whole and told.high - told.low <= 16:
        return steps(Interval(told.low, told.high, 1), whole), "every whole number"
    tenths = Interval(told.low, told.high, 0.1)
    if len(steps(tenths, False)) in range(2, 12) and abs(steps(tenths, False)[-1] - told.high) < 1e-9:
        return steps(tenths, False), "steps of 0.1"
    return spaced(told, 5, "linear", whole), "5 values, evenly spaced"


def as_range(axis: Axis, told: Interval) -> Range:
    """The range itself, for a search that draws from it."""
    scale = told.spacing or axis.scale
    return Range(low=told.low, high=told.high, scale=scale if told.low > 0 else "linear", num=told.num)


def typed(axis: Axis, number: float | int) -> Scalar:
    """The number in the axis' own type: 64 for a batch size, 0.001 for a learning rate."""
    return int(number) if axis.kind == "int" and float(number).is_integer() else number
