# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Numbers of things with a unit: epochs, steps, seeds, cards, trials, runs, hours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.reader.numbers import COUNT, FLAGS, LIST, TO, Interval, count, steps, values
from agent.reader.page import Page

MORE = r"(?P<more>\s*(?:个|轮)?\s*(?:more|extra|additional|another|further|再|额外|更多)\s*)?"
EPOCH = r"(?:epochs?|eps?(?![a-z])|[ée]p(?:ocas?|oques?)|epochen|epoche|эпох\w*|エポック|에폭|에포크|(?:个)?(?:轮|回合|世代)(?!数))"
STEP_UNIT = r"(?:(?:train(?:ing)?|gradient|optimi[sz]er)?\s*(?:steps?|iters?|iterations?|updates?)(?![ -]?(?:size|lr|decay)|\s*(?:of|=|:)?\s*[\d.])|步(?!长)|次迭代|(?:个)?iter|schritte?n?|pasos|ステップ)"
SEED = r"(?:(?:random|different|new|training|verschiedene\w*|distint[ao]s|diferentes|différentes|разны\w*)?\s*(?:seeds?|semillas?|graines?|sementes?|semi)|(?:随机|不同的?|个)*(?:种子|seed)|シード|시드|сид\w*)"
CARD = r"(?:x\s*)?(?:(?:nvidia\s*)?(?:[ahvlb]\d{2,3}s?|rtx\s*\d+s?|t4s?)\s*)?(?:gpus?|graphics cards?|cards?|(?:张|块|个)?(?:gpu|卡|显卡)(?!时))"
EACH = r"(?:\s*(?:per|each|a|for each|apiece)\s*(?:run|job|experiment|trial|model)?|\s*(?:一个|每个|每)\s*(?:run|实验|任务|模型))?"


def _rx(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, FLAGS)


UNDER_AXES = _rx(
    rf"(?P<axis>warm[ _-]?up|预热|patience|early[ _-]?stop(?:ping)?|早停)\s*(?:of|for|after|=|:|为|\()?\s*(?P<n>{COUNT}(?:(?:\s*(?:epochs?|steps?|轮|步)?\s*(?:/|and|or|vs\.?|和|与)\s*\d+)+|(?:\s*,\s*\d+){{2,}}(?:\s*,?\s*(?:and|or|和)\s*\d+)?)?)\s*(?P<unit>epochs?|eps?(?![a-z])|steps?|iters?|iterations?|轮|步)"
    rf"|(?P<n2>(?:\d+(?:\s*(?:epochs?|steps?|轮|步))?\s*(?:/|,\s*(?:and|or)?|\band\b|\bor\b|\bvs\.?|和|与)\s*)*{COUNT})\s*-?\s*(?P<unit2>epochs?|eps?(?![a-z])|steps?|iters?|iterations?|轮|步)\s*(?:of\s*|的\s*)?(?:(?:linear|lr|cosine|gradual|线性)\s*)?(?P<axis2>warm[ _-]?up|预热|patience)"
    rf"|(?P<n3>(?:\d+\s*(?:/|,\s*(?:and|or)?|\band\b|\bor\b|\bvs\.?|和|与)\s*)*{COUNT})\s*(?P<axis3>warm[ _-]?up|预热)\s*(?P<unit3>epochs?|eps?(?![a-z])|steps?|iters?|iterations?|轮|步)"
)
WARMUP_SHARE = _rx(
    r"(?P<n>\d+(?:\.\d+)?\s?%(?:\s*(?:/|,|and|or|vs\.?|和|与)+\s*\d+(?:\.\d+)?\s?%)*)\s*(?:of\s*|的\s*)?(?:(?:linear|lr|steps?|线性)\s*)*(?:warm[ _-]?up|预热)|(?:warm[ _-]?up|预热)(?:\s*(?:of|for|over|the first|first|[=:]|为|前))*\s*(?P<n2>(?:\d+(?:\.\d+)?\s?%|0?\.\d+(?![\de]))(?:\s*(?:/|,|and|or|vs\.?|和|与)+\s*(?:\d+(?:\.\d+)?\s?%|0?\.\d+(?![\de])))*)"
)
"""`3 % warm-up`, `warmup 0.1`: a share of all steps."""
EPOCHS = (
    _rx(rf"(?P<sign>\+|(?:再(?:多)?|多|plus|add)\s*(?:跑|训练?|加)?\s*)?(?<!=)(?<!= )(?!\d*\.\d+\s+epochs?\s+\d)(?P<n>{COUNT}){MORE}[ \t]*-?[ \t]*(?:个)?[ \t]*{EPOCH}"),
    _rx(rf"(?<!warmup )(?<!warm-up )(?<!warm up )(?:num[_ ]?|n[_ ]?|max[_ ]?)?(?:epochs?|ep(?=\s*[=:])|轮数|训练轮数|épocas|epochen|エポック数?)\s*(?:数)?(?:\s|[=:]|to|of|is|为|是|改成|改为|换成|调到|设为|(?:加|增加|提高|提|升|降|降低|减|减少|缩短|延长)(?:到|至)|到|改|换|→)*(?P<n>{COUNT})(?!\s*[,/、]\s*\d)"),
)  # fmt: skip
EPOCH_LIST = _rx(
    rf"(?<!warmup )(?<!warm-up )(?<!warm up )(?:epochs?|轮数)\s*[=:]?\s*[\[({{]?(?P<list>\d+(?:\s*(?:,|/|and|or|vs\.?|和|与)\s*\d+)+)(?!\s*(?:epochs?|轮|seeds?|gpus?|runs?|steps?|[\d.]|个|张|卡))"
    rf"|(?:\bfor|\btrain(?:ing)?|训练?|跑|\()\s*(?P<list2>\d+(?:\s*(?:/|,|and|or|vs\.?|和|与)\s*\d+)+)\s*{EPOCH}"
    rf"|(?P<list3>\d+\s*{EPOCH}(?:\s*(?:,|and|or|vs\.?|versus|和|与|对比)+\s*(?:again|then|also|once)?\s*(?:for|with|跑)?\s*\d+\s*{EPOCH})+)"
)
STEPS = (
    _rx(rf"(?<!every )(?<!each )(?<!per )(?<!every)(?<!每)(?<!每隔)(?<!哪)(?<!第)(?<!下)(?<!这)(?<!那)(?<!上)(?<!进)(?P<n>{COUNT})\s*-?\s*{STEP_UNIT}"),
    _rx(rf"(?:max[_ ]?|num[_ ]?|total[_ ]?)(?:train[_ ]?)?(?:steps|iters|iterations)\s*(?:=|:|of|to|为)?\s*(?P<n>{COUNT})|(?<![_ -])(?:steps|iters|iterations|步数|迭代次数)\s*(?:=|:|为|改成|改为|到)\s*(?P<n2>{COUNT})"),
)  # fmt: skip
SEED_BOTH = _rx(
    rf"(?<!=)(?<!= )(?<!epochs )(?P<n>{COUNT})\s*(?:个)?{SEED}\s*[:(=]\s*\(?(?P<list>{LIST})(?!\s*(?:epochs?|gpus?|轮|卡|%|个|张))"
)
SEED_COUNTS = (
    _rx(rf"(?P<sign>\+|(?:再(?:加|多|来|补|跑)?|多加|多跑|多来|加|另外|add|plus)\s*)?(?<!=)(?<!= )(?<!epochs )(?P<n>{COUNT}){MORE}[ \t]*(?:个)?[ \t]*{SEED}(?!\s*=){EACH}"),
    _rx(r"(?P<n>\d{1,2})\s*x\s*(?=\x00)(?=[^.;]*\bseeds?\b)"),
    _rx(rf"{SEED}\s*(?P<sign>(?:再|多|另)+(?:加|多|补|来|跑)?|(?:加|补)(?!到|成|至))\s*(?P<n>{COUNT})\s*个?"),
    _rx(rf"(?:シード|시드|种子|seeds?)(?:数量?|を|는|은)?\s*(?:[:=]|增加到|加到|改成|改为|提到|换成|变成|减到|减少到|减为|降到|到)?\s*(?P<n>{COUNT})\s*(?:つ|個|개|个)"),
    _rx(rf"(?:repeat(?:ed)?|rerun|run)\s*(?:it|each|everything|this|every (?:config\w*|setting|model)|all)?\s*(?:config\w*|setting|model|one)?\s*(?P<n>{COUNT})\s*times"),
    _rx(rf"(?:each|every|every config\w*|each config\w*|each model|each setting)\s*(?P<n>{COUNT})\s*times|(?P<n2>{COUNT})\s*(?:repeats?|repetitions?|replicates?|times each)"),
    _rx(rf"(?:重复|各跑|每个(?:配置|模型|设置)?跑|各重复|每组跑|每种跑|都跑)\s*(?P<n>{COUNT})\s*(?:次|遍)|(?P<n2>{COUNT})\s*次重复"),
    _rx(r"(?:n[_ ]?|num[_ ]?)?seeds\s*[=:]\s*(?P<n>1?\d)(?![\d.]|\s*(?:,|/|~|-|\d|and\b|or\b|to\b|和|到))"),
)  # fmt: skip
SEED_RANGE = _rx(
    rf"(?:{SEED})\s*(?:[=:#(\[]|from|从|values?|为|是|用|取)*\s*(?P<low>\d+)(?:{TO}|\s*\.\.\s*)(?P<high>\d+)"
)
SEED_LIST = _rx(
    rf"(?:(?<!\d )(?<!\d)|(?=seeds?\s*=))(?:{SEED})\s*(?:,\s*用|[=:#(\[{{]|values?|为|是|用|取|设为|改成|换成|固定为?|set to|to|→)*\s*(?P<list>{LIST})(?!\s*(?:epochs?|gpus?|轮|卡|%|种|个))"
)
CARDS = (
    _rx(rf"(?<![\w/])(?P<n>{COUNT})\s*(?:x|\*)?\s*{CARD}{EACH}"),
    _rx(r"(?P<n>\d+)\s*(?:x|\*)\s*(?:a100|h100|h200|v100|a6000|l40s?|t4|4090|3090)s?(?![A-Za-z0-9])"),
    _rx(rf"(?:gpus?(?:[ _]per[ _]run)?|n_?gpus?|num_?gpus?|卡数)\s*[=:]\s*(?P<n>{COUNT})"),
    _rx(r"(?P<one>单卡|单gpu|single[- ]gpu|one gpu)"),
)  # fmt: skip
TRIALS = (
    _rx(rf"(?P<n>{COUNT})\s*(?:次|个|组)?\s*(?:trials?|samples of|draws?|evaluations?|evals|random (?:samples|configs?|points|draws)|(?:次)?(?:试验|采样|尝试|搜索)|configs?|组(?:随机)?(?:配置|参数|超参))"),
    _rx(rf"(?:n[_ ]?)?trials?\s*[=:]\s*(?P<n>{COUNT})|(?:试|采样|搜索|搜|跑|训练?)[\s\x00]*(?P<n2>{COUNT})\s*(?:次|组|遍)"),
)  # fmt: skip
RUNS = _rx(
    rf"(?:so|that'?s|=|i\.e\.|totall?ing|makes|meaning|altogether|一共|总共|共|应该是?|也就是|就是)?\s*(?P<n>{COUNT})\s*(?:个|次|组)?\s*(?:runs?|jobs?|experiments?|实验|(?:次)?运行|任务)\s*(?:in )?(?:total|altogether|right)?"
)
GRID_OF = _rx(r"(?<![\w.])(?P<a>\d{1,3})\s*(?:x|\*|by)\s*(?P<b>\d{1,3})\s*(?:的)?(?:grid|sweep|网格|组合)")
"""`3 x 3 grid`: the runs that it has to have."""
GPU_HOURS = _rx(rf"(?P<n>{COUNT})\s*(?:个)?\s*(?:gpu|card|卡|显卡)[ -]?(?:hours?|hrs?|h(?![a-z])|时|小时)")
GPU_DAYS = _rx(rf"(?P<n>{COUNT})\s*(?:个)?\s*gpu[ -]?days?")
WALL = _rx(
    rf"(?:for|within|in|under|at most|max(?:imum)?|up to|limit(?:ed)?(?: (?:it|this|that|each|them))?(?: to| of)?|budget(?: of| is|:)?|cap(?:ped)?(?: at)?|no more than|not more than|less than|最多|不超过|限时|预算|控制在|只跑|跑|训练?|pendant|durante|für)\s*(?:about|around|the|大概|大约|约)?\s*(?P<n>{COUNT}|half an|an|a|半)\s*(?:个)?(?:半)?\s*-?(?P<unit>hours?|hrs?|h(?![a-z])|小时|钟头|minutes?|mins?|分钟|days?|天|stunden?|heures?|horas?)(?:以内|之内|内)?(?!\s*(?:前|后|ago))"
)  # fmt: skip
HOURS = {"h": 1.0, "小": 1.0, "钟": 1.0, "s": 1.0, "m": 1 / 60, "分": 1 / 60, "d": 24.0, "天": 24.0}


@dataclass
class Counts:
    """What a message says in numbers with a unit."""

    epochs: int | float | None = None
    epochs_added: int | None = None
    epochs_several: tuple[int | float, ...] = ()
    max_steps: int | float | None = None
    seeds: int | float | None = None
    seeds_added: int | None = None
    seed_values: tuple[int, ...] = ()
    gpus: int | float | None = None
    trials: int | float | None = None
    runs_told: int | None = None
    gpu_hours: float | None = None
    wall_hours: float | None = None
    axes: dict[str, tuple[int | float, ...]] = field(default_factory=dict)
    """Warm-up and patience, which have the units of epochs and steps."""

    @property
    def anything(self) -> bool:
        """True when the message states any number of a run: not the runs that it counts itself."""
        stated = (self.epochs, self.epochs_added, self.max_steps, self.seeds, self.seeds_added, self.gpus, self.trials)
        return any(n is not None for n in (*stated, self.gpu_hours, self.wall_hours)) or bool(self.seed_values)


NO_NUMBER = _rx(
    rf"(?P<word>[-+]?(?:nan|inf(?:inite(?:ly many)?|inity)?|unlimited|endless)(?![A-Za-z])|∞|无限(?:多|次)?|无穷多?)\s*(?:个|次)?\s*(?P<what>{EPOCH}|{STEP_UNIT}|{SEED}|trials?|gpus?)|(?P<what2>epochs?|steps?|seeds?|轮数|步数)\s*(?:=|:|为|of)?\s*(?P<word2>nan|inf(?:inity|inite)?|∞|无限|无穷)(?![A-Za-z])"
)


def no_numbers(page: Page) -> Iterator[tuple[str, str]]:
    """Counts that are no numbers, and what they count: `infinite epochs`."""
    for match in page.take_all(NO_NUMBER):
        yield (match["what"] or match["what2"]).strip(), (match["word"] or match["word2"])


def read(page: Page) -> Counts:
    """Every number with a unit on the page; what was used is crossed out."""
    told = Counts()
    _under_axes(page, told)
    _budget(page, told)
    _seeds(page, told)
    _epochs(page, told)
    told.max_steps = _first(page, STEPS)
    told.gpus = _cards(page)
    told.trials = _first(page, TRIALS)
    runs = page.take(RUNS)
    if grid := page.take(GRID_OF):
        told.runs_told = int(grid["a"]) * int(grid["b"])
        return told
    told.runs_told = int(count(runs["n"])) if runs and count(runs["n"]) > 1 else None
    return told


def _first(page: Page, patterns: tuple[re.Pattern[str], ...]) -> int | float | None:
    for pattern in patterns:
        match = page.take(pattern)
        if match:
            return count(next(v for k, v in match.groupdict().items() if k.startswith("n") and v))
    return None


def _under_axes(page: Page, told: Counts) -> None:
    if share := page.take(WARMUP_SHARE):
        told.axes["warmup_ratio"] = tuple(values(share["n"] or share["n2"]))
    for match in page.take_all(UNDER_AXES):
        name = (match["axis"] or match["axis2"] or match["axis3"]).lower()
        unit = (match["unit"] or match["unit2"] or match["unit3"]).lower()
        number = _numbers(match["n"] or match["n2"] or match["n3"])
        if name.startswith(("warm", "预")):
            told.axes["warmup_epochs" if unit[0] in "e轮" else "warmup_steps"] = number
        else:
            told.axes["early_stopping_patience"] = number


def _numbers(text: str) -> tuple[int, ...]:
    """One number in digits or words, or a list in digits."""
    return (int(count(text)),) if re.fullmatch(COUNT, text, FLAGS) else _whole(text)


def _budget(page: Page, told: Counts) -> None:
    if match := page.take(GPU_HOURS):
        told.gpu_hours = float(count(match["n"]))
    elif match := page.take(GPU_DAYS):
        told.gpu_hours = 24.0 * count(match["n"])
    elif match := page.take(WALL):
        word = match["n"].lower()
        number = {"half an": 0.5, "半": 0.5, "an": 1.0, "a": 1.0}.get(word) or float(count(word))
        if "半小" in match[0] and word != "半":
            number += 0.5
        told.wall_hours = number * HOURS[match["unit"][0].lower()]


def _seeds(page: Page, told: Counts) -> None:
    if match := page.take(SEED_BOTH):
        told.seeds, told.seed_values = count(match["n"]), _whole(match["list"])
    elif match := page.take(SEED_RANGE):
        low, high = sorted((int(match["low"]), int(match["high"])))
        told.seed_values = tuple(int(v) for v in steps(Interval(low, high, 1), True))
    elif match := _seed_count(page):
        number = count(next(v for k, v in match.groupdict().items() if k in ("n", "n2") and v))
        added = bool(match.groupdict().get("sign") or match.groupdict().get("more")) or "another" in match[0].lower()
        told.seeds_added, told.seeds = (int(number), None) if added else (None, number)
        if listed := page.take(SEED_LIST):
            told.seed_values = _whole(listed["list"])
    elif match := page.take(SEED_LIST):
        told.seed_values = _whole(match["list"])


def _seed_count(page: Page) -> re.Match[str] | None:
    return next((m for pattern in SEED_COUNTS if (m := page.take(pattern))), None)


def _whole(text: str) -> tuple[int, ...]:
    return tuple(int(v) for v in values(text.replace("/", ",")))  # `seeds 1/2` are two, and no half


def _epochs(page: Page, told: Counts) -> None:
    several = page.take(EPOCH_LIST) if _several(page) else None
    if several:
        told.epochs_several = tuple(values(several["list"] or several["list2"] or several["list3"]))
        return
    for pattern in EPOCHS:
        if match := page.take(pattern):
            groups = match.groupdict()
            number = count(match["n"])
            if groups.get("sign") or groups.get("more"):
                told.epochs_added = int(number)
            else:
                told.epochs = number
            return


def _several(page: Page) -> bool:
    match = EPOCH_LIST.search(page.left)
    return bool(match) and len(_whole(match["list"] or match["list2"] or match["list3"])) > 1 if match else False


def _cards(page: Page) -> int | float | None:
    for pattern in CARDS:
        if match := page.take(pattern):
            return 1 if match.groupdict().get("one") else count(match["n"])
    return None
