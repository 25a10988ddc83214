# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""What surrounds an experiment: deadline, priority, schedule, metric, kind of search, mode."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agent.reader.numbers import FLAGS
from agent.reader.page import Page
from lab.plan import Prune, Scalar


def _rx(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, FLAGS)


DAY = r"(?:today|tonight|tomorrow|this evening|mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?|(?:next|this) (?:week|month|monday|tuesday|wednesday|thursday|friday|weekend)|eod|eow|end of (?:the )?(?:day|week)|the weekend|midnight|noon|morning|heute|morgen|demain|mañana|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|mi[eé]rcoles|jueves|viernes|s[aá]bado|domingo)"
CLOCK = r"(?:\d{1,2}(?::\d{2})?\s*(?:am|pm|uhr|h(?![a-z])|o'?clock)|\d{1,2}:\d{2}|\d{1,2}\s*(?:点半?|时)(?:\d{1,2}分)?|[一二三四五六七八九十两]+点半?)"
ZH_DAY = r"(?:今天|今晚|明天|明早|明晚|后天|周[一二三四五六日天末]|下周[一二三四五六日天末]?|星期[一二三四五六日天]|月底|今夜|凌晨|早上|上午|中午|下午|晚上|下班)"
WHEN = rf"(?:{DAY}(?:\s+(?:at\s+)?(?:morning|evening|noon|night|{CLOCK}))?|{CLOCK}(?:\s+(?:{DAY}))?)"
ZH_WHEN = rf"(?:{ZH_DAY}+\s*(?:{CLOCK})?|{CLOCK})"
DEADLINE = (
    _rx(rf"(?:(?:results?|done|finish(?:ed)?|ready|need(?:ed)? (?:it|this|them|results?)|due|answer)\s+)?(?:by|before|until|no later than|due|bis|avant|antes de|para)\s+(?:the\s+)?{WHEN}"),
    _rx(rf"{ZH_WHEN}\s*[\u4e00-\u9fff]{{0,3}}?(?:之?前|以前)(?:要?(?:给我|出|拿到|看到|完成|跑完)?(?:结果)?)?"),
    _rx(rf"{ZH_WHEN}\s*(?:要|给)(?:我)?(?:结果|看到结果|报告|用)"),
    _rx(r"(?:tonight|tomorrow|this weekend) (?:is|would be) (?:fine|ok|enough)"),
)  # fmt: skip
UNTIL = _rx(r"(?:until|till|bis)\s+(?:the\s+)?(?P<end>.+)")
"""Beside a repetition it says when that ends."""
NOT_BEFORE = _rx(
    rf"(?:\bnot|\b(?:do not|don'?t|never)\s+(?:start|run|launch|begin|queue)(?:\s+(?:it|this|that|them|anything))?|\bno(?:thing)? earlier than)\s+(?:before\s+)?(?P<at>{WHEN})|(?P<zh>{ZH_WHEN})\s*(?:之?前|以前)\s*(?:先|都)?(?:不要|别|不)(?:开始|开跑|跑|启动|训练?)"
)
"""`don't start before 8pm` says when to start; it is no deadline."""
PRIORITY = {
    "low": r"low(?:er|est)?[- ]?(?:the |its )?prio(?:rity)?|prio(?:rity)?\s*(?:=|:|is|to)?\s*low|低优先级?|优先级[^,.;]{0,4}低|niedrige priorität|baja prioridad|basse priorité",
    "high": r"(?:high(?:er|est)?|raise|bump|increase)[- ]?(?:the |its |up the )?prio(?:rity)?|prio(?:rity)?\s*(?:=|:|is|to)?\s*high|top priority|高优先级?|优先级[^,.;]{0,4}高|最高优先级?|hohe priorität|alta prioridad|haute priorité",
    "normal": r"normal[- ]?prio(?:rity)?|prio(?:rity)?\s*(?:=|:|is|to)?\s*(?:normal|medium)|普通优先级|正常优先级|优先级\s*(?:设?为|调?到|改成|=|:)?\s*(?:普通|正常|中)",
}  # fmt: skip
PRIORITY_HINTS = {
    "high": r"urgent(?:ly)?|asap|as soon as possible|(?:加急|紧急|急用|很急|尽快|优先跑|插队|dringend|urgente?)|bump (?:it )?up",
    "low": r"no (?:rush|hurry)|not urgent|whenever (?:there'?s|you have)|不急|不着急|有空再跑|慢慢跑|in no hurry|background job|when(?:ever)? (?:the )?(?:gpus?|cards?|cluster|machines?) (?:are|is) (?:idle|free)|空闲(?:的)?时候?|空的时候",
}  # fmt: skip
METRIC = {
    "miou": r"m[- ]?iou|mean iou", "map": r"map(?:@[\d.:]+)?", "f1": r"(?:macro |micro )?f1(?:[- ]?score)?", "auc": r"(?:roc[- ]?)?auc|auroc",
    "perplexity": r"perplexity|ppl|困惑度", "bleu": r"bleu", "rouge": r"rouge(?:-?[l12])?", "wer": r"wer|word error rate|词错率", "cer": r"cer(?![a-z])",
    "val_acc": r"val(?:idation)?[ _]acc(?:uracy)?|验证集?准确率|验证精度", "test_acc": r"test[ _]acc(?:uracy)?|测试集?准确率",
    "top5": r"top-?5(?: acc(?:uracy)?)?", "val_loss": r"val(?:idation)?[ _]loss|验证(?:集)?损失", "train_loss": r"train(?:ing)?[ _]loss|训练损失",
    "throughput": r"throughput|img(?:s|ages)?/s|samples/s|吞吐(?:量|率)?", "latency": r"latency|inference (?:time|speed)|延迟|推理速度|推理时间",
    "memory": r"(?:peak |gpu )?memory (?:use|usage|footprint)|peak memory|显存占用|显存峰值", "training curve": r"(?:train(?:ing)?|learning|loss) curves?|训练曲线|学习曲线|loss曲线",
    "accuracy": r"top-?1(?: acc(?:uracy)?)?|accuracy|(?<!grad )(?<!gradient )acc|准确率|正确率|genauigkeit", "fid": r"fid(?: score)?", "psnr": r"psnr", "dice": r"dice score", "recall": r"recall(?:@\d+)?|召回率",
}  # fmt: skip
METRIC_PATTERNS = {k: _rx(rf"(?<![A-Za-z_])(?:{v})(?![A-Za-z])") for k, v in METRIC.items()}
METRIC_ASKED = _rx(
    r"(?:metric|maximi[sz]e|minimi[sz]e|optimi[sz]e (?:for)?|report|measure|benchmark|compare|指标|看|以|最大化|最小化|比较|对比|metrik|métrica|for|by)[^\x00,;]{0,24}$"
)
SEARCH = {
    "bayesian": r"bayes(?:ian)?(?:[ -]?(?:opt(?:imi[sz]ation)?|search))?|\bbo\b(?= )|tpe|optuna|贝叶斯(?:优化|搜索)?|gaussian process",
    "random": r"random(?:ized)?[ -]?search|random(?:ly)? sampl\w+|randomly|random(?=[\s,(]*(?:over\b|\d+\s*(?:trials?|samples?|draws?|configs?)))|random (?:trials?|draws?|configs?)|random(?=\s*(?:[,;)]|$))|随机(?:搜索|采样|搜)",
    "grid": r"(?:full |cartesian )?grid(?:[ -]?search)?|full factorial|网格(?:搜索)?|全组合",
}  # fmt: skip
MODE = {
    "zero_shot": r"zero[- ]?shot|零样本",
    "few_shot": r"few[- ]?shot|少样本",
    "linear_probe": r"linear[- ]prob(?:e|ing)|线性探测",
}
CRON = _rx(
    r"(?<![\w*/,-])(?P<cron>(?:(?:\d{1,2}(?:[-,]\d{1,2})*(?:/\d{1,2})?|\*(?:/\d{1,2})?)\s+){2}(?:(?:\d{1,2}(?:[-,]\d{1,2})*|\*(?:/\d{1,2})?)\s+){2}(?:\*|[0-7](?:[-,][0-7])*|(?:mon|tue|wed|thu|fri|sat|sun)(?:[-,](?:mon|tue|wed|thu|fri|sat|sun))*))(?![\w*/-])"
)
"""`0 2 * * 1-5`: minute, hour, day of the month, month, day of the week."""
AFTER = _rx(
    r"(?:when|once|after|as soon as|等|等到|在)\s*(?:the )?(?P<what>exp-?\d+(?:/\d+)?|it|this|that|the (?:current|running) (?:one|run|job|experiment)|它|这个|当前(?:的)?(?:实验|任务)?)\s*(?:finish\w*|is (?:done|over|finished)|are done|completes?|ends|(?:跑|训练|做)?完(?:了|成)?(?:以?后|之后)?|结束(?:了)?(?:以?后|之后)?)?"
)
AFTER_CUE = _rx(r"finish|is done|is over|complete|ends|after|跑完|完了|完成|结束|之后|以后")
EVERY = _rx(
    rf"(?:(?:every|each)\s+(?:(?P<n>\d+|two|three|six|few)\s+)?(?P<unit>hours?|days?|nights?|mornings?|evenings?|weeks?|weekdays?|weekends?|months?|mon(?:day)?s?|tuesdays?|wednesdays?|thursdays?|fri(?:day)?s?|saturdays?|sundays?)|\b(?P<adverb>daily|nightly|weekly|hourly|monthly)\b|每(?:隔)?(?P<zn>\d+|[一二两三四五六]+)?\s*(?:个)?(?P<zunit>天|晚|周[一二三四五六日末]?|小时|月|早|日|夜|星期[一二三四五六日]?|凌晨)(?:上|里)?)\s*(?:(?:at|um|的)?\s*(?P<at>(?:凌晨|早上|上午|下午|晚上|半夜)?\s*{CLOCK}|midnight|noon))?"
)  # fmt: skip
START = _rx(
    rf"(?:(?:start(?:ing)?|begin(?:ning)?|run(?: it| this)?|launch|kick(?: it)? off|schedule(?: it| this)?(?: for)?|queue(?: it)?(?: for)?|at|on|for)\s+(?:it\s+)?(?:at|on|for)?\s*(?P<at>{WHEN})|(?:(?:start|launch|begin|kick off|run)\w*\s+(?:it\s+)?|^)(?P<in>in (?:\d+|an?|two|three) hours?)|(?P<day>tomorrow(?: (?:morning|night|evening|at {CLOCK}))?|(?:on )?(?:the|this) weekend|tonight(?: at {CLOCK})?|overnight))"
)  # fmt: skip
ZH_START = _rx(
    rf"(?P<at>{ZH_WHEN}(?:两天)?)\s*(?:之后|以后|后)?(?:开始|再|自动|帮我|给我|定时|启动|的时候|,)*\s*(?:跑|训|训练|启动|开(?:始|跑|训|起|(?=\s*[A-Za-z\x00]))|执行|重跑|运行|提交)|(?P<timer>定时|预约|(?:{CLOCK})\s*(?:开跑|启动))|(?P<later>\d+\s*(?:个)?小时(?:之?后|以后))"
)
WINDOW = _rx(
    r"(?:on|over|during|at|this)?\s*(?:the )?weekend|周末(?:两天)?|at night|during the night|off[- ]peak|晚上|夜里|夜间"
)
IDLE = _rx(
    r"(?:when(?:ever)?|if|once|as soon as)\s*(?:there(?:'s| is| are)?\s*(?:a |an |any )?)?(?:the )?(?:gpus?|cards?|cluster|a gpu|a card|machine)s?\s*(?:gets? |are |is |becomes? )?\s*(?:idle|free|available|empty|frees? up)?|(?:gpu|卡|显卡|机器)\s*(?:空闲?|有空|闲)(?:下来|出来|着)?(?:了)?(?:的)?(?:时候?|时|就|再|后)|有(?:空卡|空闲的?卡|卡空)(?:了)?(?:的时候|就|再|时)|空闲时"
)


@dataclass
class Circumstances:
    """Deadline, priority, schedule, metric, search and mode of a message; absent means not said."""

    deadline: str | None = None
    priority: str | None = None
    metric: str | None = None
    search: str | None = None
    prune: Prune | None = None
    mode: str | None = None
    schedule: dict[str, Scalar] | None = None
    hints: dict[str, str] = field(default_factory=dict)
    """Field to the words it was concluded from, where the message does not say it outright."""


def read(page: Page, asks_later: bool) -> Circumstances:
    """What the page says around the experiment; `asks_later` when a mention of a time means when to start."""
    told = Circumstances()
    told.schedule = _repeated(page)
    if wait := page.take(NOT_BEFORE):
        told.schedule = (told.schedule or {}) | {"at": (wait["at"] or wait["zh"]).strip()}
    told.deadline = _deadline(page)
    if told.deadline and told.schedule and (end := UNTIL.match(told.deadline)):
        told.schedule, told.deadline = told.schedule | {"until": end["end"]}, None
    _schedule(page, told, asks_later)
    _priority(page, told)
    for search, pattern in SEARCH.items():
        if _rx(rf"(?<![A-Za-z])(?:{pattern})").search(page.left):
            told.search = search
            break
    for mode, pattern in MODE.items():
        if page.take(_rx(pattern)):
            told.mode = mode
    _metric(page, told)
    return told


def _deadline(page: Page) -> str | None:
    for pattern in DEADLINE:
        if match := page.take(pattern):
            return match[0].strip()
    return None


def _repeated(page: Page) -> dict[str, Scalar] | None:
    if (cron := CRON.search(page.left)) and "*" in cron[0]:
        page.cross(*cron.span())
        return {"cron": cron["cron"]}
    match = page.take(EVERY)
    if not match:
        return None
    groups = {k: v for k, v in match.groupdict().items() if v}
    every = " ".join(str(groups[k]) for k in ("n", "unit", "adverb", "zn", "zunit") if k in groups)
    schedule: dict[str, Scalar] = {"every": every.lower()}
    if "at" in groups:
        schedule["at"] = groups["at"].strip()
    return schedule


def _schedule(page: Page, told: Circumstances, asks_later: bool) -> None:
    schedule: dict[str, Scalar] = dict(told.schedule or {})
    after = AFTER.search(page.left)
    if after and AFTER_CUE.search(after[0]):
        page.cross(*after.span())
        schedule["after"] = after["what"]
    idle = page.take(IDLE)
    if idle and re.search(r"idle|free|avail|empty|空|闲", idle[0]):
        schedule["when"] = "idle"
        told.hints.setdefault("priority", idle[0].strip())
    start = page.take(ZH_START) or page.take(START)
    if start:
        words = next(v for v in start.groupdict().values() if v)
        if "at" not in schedule and words != "overnight":
            schedule["at"] = words.strip()
    if "at" not in schedule and (schedule or asks_later) and (window := page.take(WINDOW)):
        schedule["window"] = "weekend" if re.search("weekend|周末", window[0]) else "night"
    told.schedule = schedule or None


def _priority(page: Page, told: Circumstances) -> None:
    for level, pattern in PRIORITY.items():
        if page.take(_rx(pattern)):
            told.priority = level
            told.hints.pop("priority", None)
            return
    for level, pattern in PRIORITY_HINTS.items():
        if match := page.take(_rx(rf"(?<![A-Za-z])(?:{pattern})")):
            told.priority = level
            told.hints["priority"] = match[0].strip()
            return
    if "priority" in told.hints:
        told.priority = "low"


def _metric(page: Page, told: Circumstances) -> None:
    for metric, pattern in METRIC_PATTERNS.items():
        match = pattern.search(page.left)
        if match:
            told.metric = metric
            if not METRIC_ASKED.search(page.left[: match.start()]):
                told.hints["metric"] = match[0]
            page.cross(*match.span())
            return
