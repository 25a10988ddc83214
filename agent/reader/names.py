# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Models and data sets in a message: known names, lists of sizes (`resnet18/34`), paths, and names that nobody knows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agent import catalog
from agent.reader.numbers import FLAGS
from agent.reader.page import Page

SIZED = re.compile(
    r"^(?P<stem>resnet|resnext|vgg|densenet|efficientnet_b|seresnet|regnety_|regnetx_|resnetv2_|preactresnet|yolov)(?P<size>\d+)(?P<tail>[a-z]*(?:_32x4d)?)$"
)
NEXT_SIZE = re.compile(
    r"\s*(?:/|,\s*(?:and|or)?|\band\b|\bor\b|&|和|与|或|vs\.?|\bversus\b|\|)\s*-?(?P<size>b?\d+)(?![\w.%]|\s*(?:epochs?|steps?|seeds?|gpus?|runs?|轮|步|个|张|卡|hours?|trials?))",
    FLAGS,
)
PRETRAINED = re.compile(r"(?P<gap>[-\s]*)(?:pre-?train\w*|weights?\b|init\w*|checkpoint|ckpt|预训练|权重)", FLAGS)
"""Behind a data set's name: it tells where the weights come from, not what is trained on."""
OTHER_SIZE = re.compile(r"[-_](?:[bv]?\d{1,4}|[a-z])(?![A-Za-z0-9.,/]|\s*(?:epochs?|seeds?|runs?|gpus?))", FLAGS)
"""Behind a family's name: a member that the catalogue does not have, `resnet-19`."""
BRACES = re.compile(
    r"(?P<stem>resnet|vgg|densenet|efficientnet|effnet|convnext|vit|swin|deit|mobilenet|resnext)[\s_-]*(?P<open>[\[({])(?P<list>[^\])}]{1,60})[\])}]",
    FLAGS,
)
SIZE_RANGE = re.compile(r"\s*(?:-|~|to|到|至|\.\.)\s*(?:efficientnet[\s_-]?)?b(?P<size>\d)\b", FLAGS)
PATH = re.compile(
    r"(?<![\w/.:~%])(?:(?:s3|gs|hdfs|oss|nfs)://[^\s,，;)\"'\x00]+|(?:~|\.{1,2})?/(?:[\w.\-]+/)*[\w.\-]+/?)", FLAGS
)
PROGRAM = re.compile(r"\.(?:py|sh|ya?ml|json|pt|pth|ckpt|safetensors|onnx|ipynb|toml|log|txt|env)$", re.IGNORECASE)
CHECKPOINT = re.compile(r"\.(?:pt|pth|ckpt|pkl|h5|safetensors|onnx)$", re.IGNORECASE)
UNKNOWN_DATASET = re.compile(
    r"(?:(?:data ?-?sets?|数据集?)\s*(?:is|=|:|called|named|名字?(?:叫|是)?|叫|为|是|用|选)?\s*|(?<![A-Za-z])(?:on|auf|sur|sobre|su)\s+(?:the\s+|my\s+|our\s+)?|在\s*)(?P<name>[A-Za-z][\w\-.+]*[\w])(?:\s*(?:data ?-?set|数据集?))?(?=$|[\s,，;.!?)]|上|[\u4e00-\u9fff])",
    FLAGS,
)
UNKNOWN_MODEL = re.compile(
    r"(?:(?<![A-Za-z])(?:train|fine-?tune|finetune|evaluate|benchmark|compare|eval|run|sweep|try|model|trainiere|entra[iî]ne[rz]?|entrena)\s*(?:=|:|is)?\s+(?:a |an |the |model )?|(?:模型)\s*(?:是|用|为|=|:)?\s*|(?:训练?|跑|用|比较|对比|微调)(?:一下|个|一个)?\s*)(?P<name>[A-Za-z][A-Za-z]*[\w\-./+]*\d[\w\-+]*|[A-Za-z]+(?:net|former|bert|llm|gan|mixer|vit)[\w\-+]*)",
    FLAGS,
)
VERSUS = re.compile(
    r"(?P<left>[A-Za-z][\w\-./+]*[\w+])?\s*(?:\bvs\.?|\bversus\b|\bagainst\b|对比|和|与)\s*(?P<right>[A-Za-z][\w\-./+]*[\w+])?",
    FLAGS,
)
LOOKS_LIKE_NAME = re.compile(
    r"^(?=.*[A-Za-z])(?=.*\d)[A-Za-z0-9][\w\-./+]*$|^[A-Za-z]{2,}(?:net|former|bert|gan|mixer)[\w\-]*$", re.IGNORECASE
)
REFERENCE = re.compile(r"(?:\b(?:the|this|that|same)|该|这个|那个|这种)\s*$", FLAGS)
"""In front of a family's name it points back to a model that was named before."""
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_\-]{3,}[A-Za-z0-9]")
NOT_NAMES = re.compile(
    r"^(?:exp-?\d+(?:/\d+)?|runs?\d*|gpus?\d*|cuda:?\d*|fp\d+|bf\d+|int\d+|tf\d+|top-?\d|v\d+|[abchlv]\d{2,3}|seed\d*|lr\d*|bs\d*|x\d+|\d+x\d+|k\d+|r\d+|fold\d*|h\d+|pid\d*|node-?\d+|gpu-?\d+|u[0-9a-z]{4,})$",
    re.IGNORECASE,
)
COMMON_WORDS = frozenset(
    [
        "mixed", "resolution", "precision", "weights", "network", "networks", "internet", "transfer", "training",
        "transformer", "transformers", "performance", "between", "different", "difference", "inference", "places",
        "place", "placed", "digit", "images", "image", "imagine", "cities", "please", "plates", "squad", "class",
        "lines", "model", "models", "lion",
    ]
)  # fmt: skip


NO_DATASET = frozenset(
    [
        "the", "this", "that", "these", "those", "them", "they", "everything", "anything", "something", "all",
        "both", "each", "one", "two", "three", "four", "it", "its", "my", "our", "your", "his", "her", "their", "a",
        "an", "new", "same", "other", "default", "full", "whole", "top", "average", "time", "purpose", "hold",
        "gpu", "gpus", "card", "cards", "cpu", "cpus", "cuda", "node", "nodes", "machine", "machines", "server",
        "cluster", "data", "dataset", "datasets", "images", "text", "monday", "tuesday", "wednesday", "thursday",
        "friday", "saturday", "sunday", "weekend", "weekends", "tomorrow", "tonight", "today", "demand", "half",
        "single", "multiple", "several", "many", "more", "less", "what", "which", "whether", "and", "or", "with",
        "without", "for", "from", "only", "just", "validation", "test", "train", "training", "val", "batch", "lr",
        "seeds", "seed", "epochs", "epoch", "steps", "idle", "free", "available", "slurm", "docker", "sum", "max",
        "min", "earth", "par", "off", "fire", "top-1", "board", "track", "schedule", "loss", "accuracy", "next",
        "last", "that's", "fp16", "bf16", "amp", "models", "own", "custom", "private", "internal", "special",
        "favourite", "favorite", "whatever", "model", "networks", "network", "layers", "vision", "nlp", "speech",
        "small", "large", "tiny", "big", "base", "simple", "standard", "different", "various", "h100", "a100",
        "v100", "l40s", "smaller", "bigger",
    ]
)  # fmt: skip
"""Words after `on` that are no data set."""


@dataclass
class Names:
    """Models and data sets of a message, in order."""

    models: list[str] = field(default_factory=list)
    datasets: list[str] = field(default_factory=list)
    families: dict[str, str] = field(default_factory=dict)
    """Model to what the message called it, where it named a family only."""
    unknown: list[tuple[str, str]] = field(default_factory=list)
    """(kind, name) of names that stand where a model or data set should and are in no catalogue."""
    checkpoint: str | None = None
    spans: list[tuple[int, int, str]] = field(default_factory=list)
    """Where each name stood, for follow-ups (`swap vit for swin`)."""


def read(page: Page) -> Names:
    """Known names on the page; what was used is crossed out."""
    names = Names()
    _paths(page, names)
    _braces(page, names)
    for found in list(catalog.find(page.left)):
        _note(page, names, found)
    return names


def settle(names: Names, held: tuple[str, ...]) -> None:
    """A family's name means the thread's model of that family, where it has exactly one."""
    for usual, called in list(names.families.items()):
        stem = catalog.squash(called)
        members = [h for h in held if catalog.squash(h).startswith(stem)]
        if len(members) == 1 and usual not in held:
            names.models[:] = list(dict.fromkeys(members[0] if m == usual else m for m in names.models))
            names.spans[:] = [(s, e, members[0] if n == usual else n) for s, e, n in names.spans]
            del names.families[usual]


def _add(names: Names, kind: str, name: str, start: int, end: int) -> None:
    target = names.models if kind == "model" else names.datasets
    if name not in target:
        target.append(name)
    names.spans.append((start, end, name))


def _paths(page: Page, names: Names) -> None:
    for match in list(page.find(PATH)):
        path = match[0].rstrip(".")
        if path.count("/") == 1 and not path.startswith(("/", "~")):
            continue
        page.cross(match.start(), match.start() + len(path))
        if CHECKPOINT.search(path):
            names.checkpoint = path
        elif not PROGRAM.search(path) and len(path) > 2:
            _add(names, "dataset", path, match.start(), match.start() + len(path))


def _braces(page: Page, names: Names) -> None:
    for match in list(page.find(BRACES)):
        parts = [p for p in re.split(r"[\s,/|]+", match["list"]) if p]
        members = [catalog.model(f"{match['stem']}{p}") or catalog.model(f"{match['stem']} {p}") for p in parts]
        if members and all(members):
            for member in members:
                _add(names, "model", str(member), *match.span())
            page.cross(*match.span())


def _note(page: Page, names: Names, found: catalog.Found) -> None:
    if page.left[found.start : found.end] != page.text[found.start : found.end]:
        return
    if found.name.startswith(("clip_", "squad")) and re.search(
        r"(?:grad\w*|norm)\s*$", page.text[: found.start], FLAGS
    ):
        return
    if found.name == "clip_vit_b_32" and re.match(r"\s*(?:ping|norm|grad|=|\d)", page.text[found.end :], FLAGS):
        return
    called = page.text[found.start : found.end]
    if found.name == "transformer" and names.spans and not page.text[names.spans[-1][1] : found.start].strip():
        return
    if found.kind == "dataset" and (origin := PRETRAINED.match(page.text, found.end)):
        page.cross(found.start, origin.end("gap"))
        return
    if found.family and names.models and REFERENCE.search(page.text[: found.start]):
        return
    if called.islower() and called in COMMON_WORDS - {"transformer"}:
        return
    if found.family and (size := OTHER_SIZE.match(page.left, found.end)):
        names.unknown.append((found.kind, page.text[found.start : size.end()]))
        page.cross(found.start, size.end())
        return
    _add(names, found.kind, found.name, found.start, found.end)
    if found.family:
        names.families[found.name] = called
    page.cross(found.start, found.end)
    if found.kind == "model":
        _more_sizes(page, names, found)


def _more_sizes(page: Page, names: Names, found: catalog.Found) -> None:
    """`resnet18/34 and 50`, `efficientnet b0-b3`: sizes that follow a name of the same family."""
    sized = SIZED.match(found.name)
    if not sized:
        return
    end = found.end
    if sized["stem"] == "efficientnet_b" and (span := SIZE_RANGE.match(page.left, end)):
        for size in range(int(sized["size"]) + 1, int(span["size"]) + 1):
            _add(names, "model", f"efficientnet_b{size}", found.start, span.end())
        page.cross(end, span.end())
        return
    while following := NEXT_SIZE.match(page.left, end):
        member = catalog.model(f"{sized['stem']}{following['size'].lower().removeprefix('b')}{sized['tail']}")
        if member is None:
            return
        _add(names, "model", member, following.start("size"), following.end())
        end = following.end()
        page.cross(found.end, end)


def unknown(page: Page, names: Names) -> None:
    """Note names in the place of a model or a data set, and words that look like a typo of one; read last."""
    candidates: list[tuple[str, re.Match[str]]] = []
    candidates += [("dataset", m) for m in page.find(UNKNOWN_DATASET)]
    candidates += [("model", m) for m in page.find(UNKNOWN_MODEL)]
    for kind, match in candidates:
        _judge(page, names, kind, match["name"], match.start("name"))
    for match in list(page.find(VERSUS)):
        for side in ("left", "right"):
            word = match[side]
            if word and LOOKS_LIKE_NAME.match(word):
                _judge(page, names, "model", word, match.start(side))
    for match in list(page.find(WORD)):
        _judge_typo(page, names, match)


def _judge(page: Page, names: Names, kind: str, word: str, start: int) -> None:
    end = start + len(word)
    if NOT_NAMES.match(word) or page.left[start:end] != word:
        return
    if kind == "model" and not LOOKS_LIKE_NAME.match(word):
        return
    if kind == "dataset" and (word.lower() in NO_DATASET or len(word) < 3):
        return
    names.unknown.append((kind, word))
    page.cross(start, end)


def _judge_typo(page: Page, names: Names, match: re.Match[str]) -> None:
    word = match[0]
    if word.lower() in COMMON_WORDS or NOT_NAMES.match(word) or len(word) < 5:
        return
    if not re.search(r"\d|net|vit|bert|mnist|cifar|former", word, re.IGNORECASE):
        return
    for kind in ("model", "dataset"):
        if catalog.nearest(word, kind, 1, likeness=0.82):
            names.unknown.append((kind, word))
            page.cross(*match.span())
            return
