# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Axes whose values are words or on/off: optimizers, precisions, schedules, losses, augmentations, toggles."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.reader import negations
from agent.reader.negations import Denied
from agent.reader.numbers import FLAGS, NUMBER, value
from agent.reader.page import Page
from lab.plan import Scalar

WORDS: dict[str, dict[str, str]] = {
    "optimizer": {
        "adamw": "adamw|adam-w", "adam": "adam", "sgd": r"sgd(?:\s*(?:\+|with|w/)\s*momentum(?!\s*[\d.=]))?|随机梯度下降", "rmsprop": "rmsprop",
        "adagrad": "adagrad", "adadelta": "adadelta", "nadam": "nadam", "radam": "radam", "lamb": "lamb", "lars": "lars",
        "lion": "lion", "adafactor": "adafactor", "adamax": "adamax", "muon": "muon", "sophia": "sophia",
        "shampoo": "shampoo", "lbfgs": "l-?bfgs",
    },
    "precision": {
        "fp32": "fp32|float32|full precision|单精度|全精度", "tf32": "tf32", "bf16": "bf16|bfloat16", "fp16": "fp16|float16|half precision|半精度",
        "fp8": "fp8", "int8": "int8", "int4": "int4", "fp64": "fp64|float64", "amp": "amp|mixed[ -]precision|混合精度",
    },
    "scheduler": {
        "cosine": r"cosine(?:[ _-]?(?:annealing|decay|schedule[rd]?|lr))?|余弦(?:退火|衰减)?", "onecycle": "one[ _-]?cycle", "step": r"(?<=cosine和)step|(?<=cosine 和 )step|(?<=cosine and )step|(?<=cosine vs )step|(?<=cosine/)step|step(?=\s*(?:和|and|vs\.?|/)\s*(?:cosine|余弦))|step[ _-]?lr|step decay|step schedule[r]?|阶梯衰减",
        "multistep": r"multi[ _-]?step(?:lr)?", "exponential": r"exponential (?:decay|schedule)|指数衰减", "plateau": r"(?:reduce(?:lr)?(?: on)? ?)?plateau",
        "linear": r"linear (?:decay|schedule[r]?|warmup and decay|warm-?up(?!.{0,16}cosine))|线性衰减", "constant": r"constant (?:lr|schedule[r]?|learning rate)|恒定学习率", "polynomial": r"poly(?:nomial)? (?:decay|schedule)",
    },
    "loss": {
        "cross_entropy": r"cross[ _-]?entropy|ce loss|交叉熵", "focal": r"focal(?:[ _-]?loss)?", "label_smoothing_ce": "label smoothing ce",
        "bce": r"bce(?: loss)?|binary cross[ _-]?entropy", "mse": "mse loss", "dice": "dice(?:[ _-]?loss)", "triplet": r"triplet(?:[ _-]?loss)", "supcon": r"supcon|supervised contrastive", "arcface": "arcface",
    },
    "activation": {
        "gelu": "gelu", "leaky_relu": r"leaky[ _-]?relu|lrelu", "prelu": "prelu", "relu6": "relu6", "relu": "relu", "silu": "silu|swish", "mish": "mish", "selu": "selu", "elu": "elu", "tanh": "tanh", "swiglu": "swiglu", "geglu": "geglu",
    },
    "augmentation": {
        "randaugment": r"rand[ _-]?aug(?:ment)?", "autoaugment": r"auto[ _-]?augment(?:ation)?|autoaug", "trivialaugment": r"trivial[ _-]?aug(?:ment)?", "augmix": "augmix",
    },
}  # fmt: skip
"""Axis to value to what people write for it."""
PATTERNS = {
    axis: re.compile(
        rf"(?<![A-Za-z0-9_])(?:{'|'.join(f'(?P<{v}>{p})' for v, p in table.items())})(?:优化器| optimi[sz]er)?(?![A-Za-z0-9_])", FLAGS
    )
    for axis, table in WORDS.items()
}  # fmt: skip
AXIS_WORDS = {
    "optimizer": r"optimi[sz]ers?|优化器", "precision": r"precisions?|dtypes?|精度", "scheduler": r"(?:lr )?schedul(?:e|er)s?|调度器|学习率策略",
    "activation": r"activations?(?: functions?)?|激活函数", "loss": r"loss(?:es| functions?)?|损失函数", "augmentation": r"aug(?:mentation)?s?|数据增强|增强",
}  # fmt: skip


@dataclass(frozen=True)
class Toggle:
    """Something that is on or off."""

    axis: str
    pattern: str
    alpha: str | None = None
    """The axis of numbers that stands for it when a strength is given."""
    bare: bool = False
    """True when the word alone turns it on: `freeze the backbone`."""
    listed: bool = False
    """True when an item of a list turns it on: `resnet18 on cifar10, mixup, ema`."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The axes whose numbers say that it is on."""
        if self.axis == "warmup":
            return ("warmup_epochs", "warmup_ratio", "warmup_steps")
        return (self.alpha,) if self.alpha else ()


TOGGLES = (
    Toggle("mixup", r"mix[ _-]?up", "mixup_alpha", listed=True),
    Toggle("cutmix", r"cut[ _-]?mix", "cutmix_alpha", listed=True),
    Toggle("label_smoothing", r"label[ _-]?smooth(?:ing)?|标签平滑", "label_smoothing"),
    Toggle("cutout", r"cut[ _-]?out|random erasing|随机擦除", listed=True),
    Toggle("randaugment", r"rand[ _-]?aug(?:ment)?", "randaugment_magnitude", listed=True),
    Toggle("autoaugment", r"auto[ _-]?aug(?:ment(?:ation)?)?", listed=True),
    Toggle("augmentation", r"(?:data[ _-]?)?augment(?:ation)?s?|(?:data[ _-]?)aug|数据增强|数据增广"),
    Toggle("pretrained", r"pre[ _-]?train(?:ed|ing)?(?: weights)?|imagenet weights|预训练(?:权重)?", listed=True),
    Toggle("freeze_backbone", r"(?:a )?(?:freez(?:e|ing)|frozen)(?: the)?(?: (?:\w+ )?(?:backbone|encoder|trunk|body))?|冻(?:结|住)\s*(?:骨干(?:网络)?|主干(?:网络)?|backbone|编码器)?|(?:only|just)\s+(?:train|finetune|fine-tune|tune)(?:ing)?\s+(?:the\s+)?(?:\w+\s+)?head|只(?:训练?|调|微调)(?:最后的?)?(?:分类)?(?:头|最后一层)", bare=True),
    Toggle("nesterov", r"nesterov", listed=True),
    Toggle("ema", r"ema|指数滑动平均", listed=True),
    Toggle("warmup", r"(?:lr |learning rate )?warm[ _-]?up|预热", "warmup_steps"),
    Toggle("dropout", r"drop[ _-]?out", "dropout"),
    Toggle("batch_norm", r"batch[ _-]?norm(?:alization)?|bn"),
    Toggle("amp", r"amp|mixed[ -]precision|混合精度"),
    Toggle("gradient_checkpointing", r"(?:grad(?:ient)?|activation)[ _-]checkpointing|梯度检查点", bare=True),
    Toggle("compile", r"(?:torch[._ ])?compile", listed=True),
    Toggle("early_stopping", r"early[ _-]?stop(?:ping)?|早停"),
    Toggle("sam", r"sharpness[ -]aware(?: minimi[sz]ation)?"),
    Toggle("weight_decay", r"weight[ _-]?decay|权重衰减", "weight_decay"),
    Toggle("lora", r"lora", "lora_rank"),
    Toggle("swa", r"swa|stochastic weight averaging", listed=True),
    Toggle("channels_last", r"channels[ _-]last", listed=True),
    Toggle("flash_attention", r"flash[ _-]?att(?:entio)?n", listed=True),
    Toggle("class_weights", r"class[ _-]?weight(?:s|ing)|类别权重"),
)  # fmt: skip
STRENGTH = rf"(?:[\s(,]*(?:alpha|α|with alpha|p|rate|of|=|为)?\s*[=:]?\s*(?P<strength>{NUMBER})\s*\)?)?"
BOTH = r"(?:\b(?:with|w/?)\s*(?:and|&|/|vs\.?|or|versus)\s*(?:without|w/?o)\b|\bwithout\s*(?:and|&|vs\.?|or)\s*with\b|有无|有没有|加不加|用不用|带不带|开不开|要不要|加和不加|用和不用|带和不带|开和不开|开关|是否(?:使用|用|加|开启?)?|mit und ohne|con y sin|avec et sans|ablat\w*)"
OFF = r"(?:\bwithout|\bw/o|\bno|(?<!why )(?<!or )\bnot(?: to)?(?: us(?:e|ing)| with| apply)?|\b(?:do not|don'?t|dont|never|cannot|can'?t)(?: (?:use|add|apply|enable|do|want|need|turn on))?(?: with| any)?|\bavoid|\bdisabl\w+|\bturn(?:ing)? off|\bremove|\bdrop|\bskip|别(?:用|加|开|做|带|使用)?|不(?:用|加|带|开|要|做|使用|需要|想用)?|无需|去掉|关掉|关闭|没有|无|ohne|sin|sans)"
ON = r"(?:\bwith|\busing|\badd(?:ing)?|\buse|\benabl\w+|\bturn on|\bplus|\+|加上?|开启?|使用|用|带上?|启用)"
TURN = {
    "both": [rf"{BOTH}\s*(?:the |a )?{{t}}{STRENGTH}", r"{t}\s*(?:on\s*(?:/|vs\.?|and|or)\s*off|off\s*(?:/|vs\.?|and|or)\s*on|开/关|开关(?:对比)?|yes/no|or not|与否)",
             rf"{{t}}{STRENGTH}\s*(?:vs\.?|versus|and|/|和|与|对比)\s*(?:{OFF}\s*(?:{{t}}|it)?|none|scratch|from scratch|(?:random|scratch) init\w*|从头(?:训练|开始)?|不用|不加|full(?: fine-?tun\w+)?|全量微调|unfrozen|unfreez(?:e|ing)|解冻|不冻结?)(?![A-Za-z])",
             rf"{OFF}\s*{{t}}\s*(?:vs\.?|versus|and|/|和|与|对比)\s*(?:{ON})?\s*{{t}}{STRENGTH}",
             r"{t}[^.;]{0,40}?\b(?:vs\.?|versus|对比)\s*(?:training\s+)?(?:from\s+)?scratch\b",
             r"\b(?:whether(?: or not)?|if|does|do)\s+(?:the |using )?{t}(?:\s*(?:of|=)?\s*(?P<strength>0?\.\d+))?\s+(?:helps?|matters?|works?|hurts?|improves?|makes)\b", r"{t}\s*(?:有没有用|有用吗|是否有[用效])",
             r"(?:from scratch|scratch|从头(?:训练|开始)?)\s*(?:vs\.?|versus|and|or|/|和|与|还是|对比)\s*{t}"],
    "off": [rf"{OFF}\s*(?:the |any )?{{t}}", r"{t}\s*(?:=\s*(?:off|false|no|0(?![.\d]))|off\b|aus\b|关)"],
    "on": [rf"{ON}\s*(?:the |a )?{{t}}{STRENGTH}", r"{t}\s*(?:=\s*(?:on|true|yes)|on\b)"],
}  # fmt: skip
ITEM = r"(?:^|(?<=[,;+/(])|(?<=[,;+/(] )|(?<=\band ))(?:strong |heavy )?{t}(?=\s*(?:$|[,;.+)]|and\b))"
_TURNED = {
    (t.axis, how): [re.compile(p.replace("{t}", rf"(?<![A-Za-z])(?:{t.pattern})(?![A-Za-z])"), FLAGS) for p in patterns]
    for t in TOGGLES
    for how, patterns in (
        TURN | {"on": [*TURN["on"], *(["{t}"] if t.bare else []), *([ITEM] if t.listed else [])]}
    ).items()
}
SCRATCH = re.compile(
    r"from scratch|scratch init|random(?:ly)? init\w*|从头(?:开始)?训|从零(?:开始)?训|不用预训练", FLAGS
)
WEIGHTS = re.compile(r"\b(?:imagenet|pre-?trained) (?:weights|init\w*|checkpoint)\b|\bpre-?trained\b|预训练", FLAGS)
"""Beside training from scratch, the other half of a comparison."""
TURNS: dict[str, tuple[Scalar, ...]] = {"both": (False, True), "off": (False,), "on": (True,)}


def read(page: Page, denied: Denied) -> dict[str, tuple[Scalar, ...]]:
    """Values of every axis of words and of every toggle on the page; what was used is crossed out.

    Args:
        denied: gets the words that the page says not to use.
    """
    found = _toggles(page)
    for axis, pattern in PATTERNS.items():
        matches = page.take_all(pattern)
        if axis in BARE and (matches or NAMED[axis].search(page.text)):
            matches += page.take_all(BARE[axis])
        stated, excluded = negations.sort(
            page.text, [(*m.span(), str(m.lastgroup)) for m in sorted(matches, key=lambda m: m.start())]
        )
        if stated and axis == "augmentation" and (found.get(axis) == TURNS["off"] or page.take(NO_AUGMENTATION)):
            stated.append("none")
        if stated:
            found[axis] = tuple(stated)
        for name in excluded:
            denied.add(axis, name)
    if "amp" in found and found.get("precision") == ("amp",):
        del found["precision"]
    if found.get("pretrained", (True,)) == (True,) and page.take(SCRATCH):
        found["pretrained"] = TURNS["both" if found.get("pretrained") or WEIGHTS.search(page.text) else "off"]
    return found


NO_AUGMENTATION = re.compile(
    r"(?<![A-Za-z])(?:none|no (?:data )?aug\w*)(?![A-Za-z])|无增强|不(?:做|用|加)(?:数据)?增强", FLAGS
)
NAMED = {axis: re.compile(rf"(?<![A-Za-z])(?:{AXIS_WORDS[axis]})(?![A-Za-z])", FLAGS) for axis in ("scheduler", "loss")}
BARE = {
    "scheduler": re.compile(
    r"(?<![A-Za-z])(?:(?P<constant>constant|fixed|恒定|固定(?=和|与|,|/))|(?P<linear>linear|线性)|(?P<exponential>exponential|exp(?!-?\d)|指数)|(?P<polynomial>poly(?:nomial)?)|(?P<step>step|阶梯))(?![A-Za-z]|\s*(?:warm|size|layer|prob|=|\d))", FLAGS
    ),
    "loss": re.compile(
        r"(?<![A-Za-z0-9_])(?:(?P<cross_entropy>ce|xent)|(?P<mse>mse|l2)|(?P<mae>mae|l1)|(?P<huber>huber)|(?P<dice>dice)|(?P<bce>bce)|(?P<poly>poly-?1)|(?P<hinge>hinge)|(?P<nll>nll))(?![A-Za-z0-9_])", FLAGS
    ),
}  # fmt: skip
"""`cosine vs step vs constant`, `focal or ce`: short names, where such are the matter."""


ABLATES = re.compile(r"\bablat\w*|消融", FLAGS)
"""What a message of an ablation names is tried on and off."""


def _toggles(page: Page) -> dict[str, tuple[Scalar, ...]]:
    found: dict[str, tuple[Scalar, ...]] = {}
    ablates = bool(ABLATES.search(page.text))
    for how in TURNS:
        for toggle in TOGGLES:
            if toggle.axis in found or toggle.alpha in found:
                continue
            for pattern in _TURNED[toggle.axis, how]:
                match = page.take(pattern)
                if match:
                    found.update([_turned(toggle, "both" if ablates and how == "on" else how, match, page)])
                    break
    return found


def both(axis: str, text: str) -> bool:
    """True when the text wants the toggle on and off, whatever was read of it already."""
    return any(pattern.search(text) for pattern in _TURNED[axis, "both"])


def _turned(toggle: Toggle, how: str, match: re.Match[str], page: Page) -> tuple[str, tuple[Scalar, ...]]:
    strength = match.groupdict().get("strength")
    if strength is None and how == "both" and toggle.alpha:
        nearby = page.take(re.compile(rf"[(,]?\s*(?:alpha|α|rate|p)\s*[=:]?\s*(?P<strength>{NUMBER})\s*\)?", FLAGS))
        strength = nearby["strength"] if nearby else None
    if strength and toggle.alpha:
        number = value(strength)
        return toggle.alpha, (0.0, number) if how == "both" else (number,)
    if how == "off" and toggle.alpha == toggle.axis:
        return toggle.axis, (0.0,)
    return toggle.axis, TURNS[how]
