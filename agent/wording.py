"""The sentences of a report, in English and Chinese: the same facts and the same numbers in both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from lab.language import Phrasebook, is_chinese

Language = Literal["en", "zh"]

_SENTENCES: dict[str, tuple[str, str]] = {
    # places
    "on": (" on {dataset}", "在 {dataset} 上，"),
    "after_epochs": (" after {n} epoch{s}", "{n} 个 epoch 后，"),
    "after_steps": (" after {n} step{s}", "{n} 步后，"),
    "interval": ("95 % interval {low} to {high}", "95 % 区间 {low} 到 {high}"),
    "holm": (", adjusted for {m} comparisons", "，已按 {m} 次比较校正"),
    "seeds_each": ("{n} seed{s} each", "各 {n} 个种子"),
    "seeds_both": ("{a} and {b} seeds", "种子数 {a} 与 {b}"),
    "seeds": ("{n} seed{s}", "{n} 个种子"),
    "lower": (" (lower is better)", "（越低越好）"),
    "nobody": ("nothing", "无"),
    "others": ("{n} others", "其他 {n} 个"),
    "and": (" and ", " 和 "),
    "comma": (", ", "、"),
    "dataset_claim": ("{dataset}: {claim}", "{dataset}：{claim}"),
    "claims_join": ("; ", "；"),
    "stop": (".", "。"),
    # headlines
    "win_two": (
        "{a} is better than {b}{on}{after}: {metric} {va} against {vb}, difference {d} ({interval}, {seeds})",
        "{on}{after}{a} 优于 {b}：{metric} {va} 对 {vb}，差 {d}（{interval}，{seeds}）",
    ),
    "win_many": (
        "{a} is the best of {k}{on}{after}: {metric} {va} against {vb} of {b}, the next, difference {d} "
        "({interval}, {seeds})",
        "{on}{after}{k} 个之中 {a} 最好：{metric} {va}，其次 {b} {vb}，差 {d}（{interval}，{seeds}）",
    ),
    "no_winner": (
        "No clear winner{on}{after}: {a} came out best, but is not distinguishable from {names}: {metric} {va} "
        "against {vb}{of}, difference {d} ({interval}, {seeds})",
        "{on}{after}没有明确的胜者：{a} 数值最好，但与 {names} 无法区分：{metric} {va} 对 {vb}{of}，差 {d}"
        "（{interval}，{seeds}）",
    ),
    "of": (" of {b}", "（{b}）"),
    "survivors": (
        "No winner{on}{after}: the finished seeds of {a} came out better ({metric} {va} against {vb} of {b}), but "
        "{n} of its {all} seeds diverged",
        "{on}{after}不宣布胜者：{a} 完成的种子更好（{metric} {va}，{b} 为 {vb}），但它的 {all} 个种子中有 {n} 个发散",
    ),
    "few_seeds": (
        "No winner can be named{on}{after} from {seeds}: {metric} {va} for {a} against {vb} for {b}, and 3 finished "
        "seeds of each are needed",
        "{on}{after}种子太少（{seeds}），不能宣布胜者：{metric} {a} 为 {va}，{b} 为 {vb}；各需要 3 个完成的种子",
    ),
    "no_spread": (
        "No winner is named{on}{after}: {metric} {va} for {a} against {vb} for {b}, but every seed gave exactly the "
        "same value, so there is no spread to test against",
        "{on}{after}不宣布胜者：{metric} {a} 为 {va}，{b} 为 {vb}，但每个种子的结果完全相同，没有可供检验的离散度",
    ),
    "same": (
        "No difference{on}{after}: {a} and {b} came to the same {metric}, {va} ({seeds})",
        "{on}{after}没有差别：{a} 与 {b} 的 {metric} 都是 {va}（{seeds}）",
    ),
    "one_point": (
        "{a}{on} reached {metric} {va}{after} ({spread}); there was nothing to compare it with",
        "{on}{after}{a} 的 {metric} 为 {va}（{spread}）；没有比较对象",
    ),
    "only_one_left": (
        "Only {a}{on} has results: {metric} {va}{after} ({spread}); nothing can be compared",
        "{on}{after}只有 {a} 有结果：{metric} {va}（{spread}）；无法比较",
    ),
    "none": (
        "No run{on} gave a result: {how}",
        "{on}没有任何运行得到结果：{how}",
    ),
    "out_ok": ("{n} ok", "{n} 个完成"),
    "out_diverged": ("{n} diverged", "{n} 个发散"),
    "out_failed": ("{n} failed", "{n} 个失败"),
    "out_cancelled": ("{n} cancelled", "{n} 个取消"),
    "out_unfinished": ("{n} unfinished", "{n} 个未完成"),
    # claims about one data set among several
    "claim_best": ("{a} is best", "{a} 最好"),
    "claim_none": ("no clear winner", "没有明确的胜者"),
    "claim_everywhere": ("{a} is best on all {n} data sets", "{a} 在全部 {n} 个数据集上最好"),
    "claim_no_result": ("no result", "没有结果"),
    # where the curves were heading
    "rise_both": ("; both were still improving", "；两者都仍在提升"),
    "rise_all": ("; all {k} were still improving", "；{k} 个都仍在提升"),
    "rise_it": ("; it was still improving", "；仍在提升"),
    "rise_some": ("; {names} {were} still improving", "；{names} 仍在提升"),
    "more_epochs": (
        "Curves were still improving at the end, so the order may change: {n} epochs would tell more than {now}.",
        "曲线仍在提升，名次可能改变：跑 {n} 个 epoch 会比 {now} 个更能说明问题。",
    ),
    "more_training": (
        "Curves were still improving at the end, so the order may change with longer training.",
        "曲线仍在提升，训练更久名次可能改变。",
    ),
    "worsening": (
        "{names} {were} getting worse at the end: fewer epochs, or the best one instead of the last, may suit better.",
        "{names} 在末尾变差：减少 epoch，或取最好而非最后一个 epoch，可能更合适。",
    ),
    # what would settle it
    "settle": (
        "To settle it: about {n} seeds of each, if the true difference is the one seen ({d}) and the spread too "
        "(80 % power); the spread of few seeds is itself rough.",
        "要分出高下：如果真实差异就是现在看到的 {d}，离散度也如此，各需约 {n} 个种子（检验力 80 %）；"
        "少数种子的离散度本身也很粗略。",
    ),
    "settle_many": (
        "To settle it, more than {n} seeds of each would be needed (80 % power for the difference seen): the "
        "difference is small against the spread.",
        "要分出高下，各需超过 {n} 个种子（按看到的差异，检验力 80 %）：与离散度相比，差异很小。",
    ),
    "settle_three": ("To settle it: at least 3 seeds of each.", "要分出高下：各至少 3 个种子。"),
    "settle_same": ("More seeds would only matter if they differed.", "只有种子之间出现差异，增加种子才有意义。"),
    "no_seed_effect": (
        "Seeds that all agree to the last digit suggest that the seed has no effect or the metric is coarse: check "
        "that first.",
        "所有种子连最后一位都相同，可能是种子没有起作用，或指标太粗：请先检查这一点。",
    ),
    # seeds that went wrong
    "diverged": (
        "{n} of {all} seeds of {a} diverged (seed {seeds}) and {are} not in its mean.",
        "{a} 的 {all} 个种子中有 {n} 个发散（种子 {seeds}），未计入均值。",
    ),
    "lost": (
        "{n} of {all} seeds of {a} gave no result (seed {seeds}) and {are} not in its mean.",
        "{a} 的 {all} 个种子中有 {n} 个没有结果（种子 {seeds}），未计入均值。",
    ),
    "far_off": (
        "Seed {seed} of {a} ended far from its siblings ({value}); it counts, and without it the mean would be "
        "{without} instead of {mean}.",
        "{a} 的种子 {seed} 与其他种子相差很远（{value}）；它仍被计入，去掉它均值为 {without}，而不是 {mean}。",
    ),
    "one_sided": (
        "{n} of {all} seeds of {b} diverged and are missing from its mean; that speaks against it, not for it.",
        "{b} 的 {all} 个种子中有 {n} 个发散，未计入均值；这对它不利，而不是有利。",
    ),
    "survivors_why": (
        "A mean over the seeds that survived flatters {a}; steadier training (lower lr, clipping, warm-up) is first.",
        "只对幸存种子求均值会高估 {a}；应先让训练稳定（更低的 lr、梯度裁剪、warm-up）。",
    ),
    "not_compared": (
        "{names} could not be compared: fewer than 2 finished seeds.",
        "{names} 无法比较：完成的种子不足 2 个。",
    ),
    # more about the points
    "beats": ("{a} is better than {names}.", "{a} 优于 {names}。"),
    "best_of_model": ("Best of {model}: {a}, {metric} {va}.", "{model} 中最好的是 {a}：{metric} {va}。"),
    "edge_low": (
        "The best {axis}, {value}, is the smallest tried: an even smaller one may be better.",
        "最好的 {axis} {value} 是试过的最小值：更小的可能更好。",
    ),
    "edge_high": (
        "The best {axis}, {value}, is the largest tried: an even larger one may be better.",
        "最好的 {axis} {value} 是试过的最大值：更大的可能更好。",
    ),
    "test": ("Test: Welch's t test at 0.05{holm}.", "检验：Welch t 检验，水平 0.05{holm}。"),
    "test_holm": (
        ", Holm's adjustment over {m} comparisons of {k} points",
        "，{k} 个点共 {m} 次比较，用 Holm 方法校正",
    ),
    # notes
    "note_split": (
        "Seeds share one train/validation split: the interval covers initialisation and data order, not the choice of "
        "the split.",
        "各种子共用同一个训练/验证划分：区间只反映初始化和数据顺序，不反映划分的选择。",
    ),
    "note_last": ("Values are those of the last epoch, not of the best.", "数值取自最后一个 epoch，而不是最好的一个。"),
    "note_simulated": (
        "Trained on the CPU of the host: the cards are simulated, so times and memory say nothing about a GPU.",
        "在主机 CPU 上训练：显卡是模拟的，时间和内存不代表真实 GPU。",
    ),
    "note_lengths": (
        "Not every point trained for as long as the others: compare with care.",
        "各点的训练长度不同：比较时请小心。",
    ),
    "note_estimate": (
        "It took {actual} GPU-h; the plan had estimated {estimate}{rough}.",
        "实际用了 {actual} GPU-h；计划估计为 {estimate}{rough}。",
    ),
    "rough": (" (a rough guess)", "（粗略估计）"),
    "note_wall": (
        "It ran for {actual}; the plan had estimated {estimate}.",
        "运行了 {actual}；计划估计为 {estimate}。",
    ),
    "note_attempts": (
        "{n} run{s} needed more than one attempt; the GPU time of all of them is in the total.",
        "{n} 个运行重试过；所有尝试的 GPU 时间都计入总数。",
    ),
    "note_lost": (
        "Of the GPU time, {hours} h went to attempts that were lost with their card, worker or host.",
        "其中 {hours} GPU-h 用于因显卡、工作进程或主机故障而丢失的尝试。",
    ),
    "note_room": (
        "{runs} made room for other runs and went on from {their} checkpoint.",
        "{runs} 曾为其他运行让出显卡，之后从检查点继续。",
    ),
    "note_held": (
        "The GPU time of {n} run{s} without a result is counted from start to end.",
        "{n} 个没有结果的运行按起止时间计入 GPU 时间。",
    ),
    "note_reused": (
        "{n} of {all} runs were there already and did not run again; their results are those of {where}, and their GPU "
        "time counts there.",
        "{all} 个运行中有 {n} 个已有结果，没有重跑；结果来自 {where}，GPU 时间计入那里。",
    ),
    "note_retried": ("{n} failed run{s} {are} replaced by {its} retry.", "{n} 个失败的运行已由重试代替。"),
    "note_metric": (
        "No run reported {wanted}; judged by {metric} instead.",
        "没有运行报告 {wanted}；改用 {metric} 评判。",
    ),
}


def language_of(text: str) -> Language:
    """The language of a report on a request with this text: the same as of its plan card."""
    return "zh" if is_chinese(text) else "en"


_PHRASES = Phrasebook(_SENTENCES)


class Words:
    """Says the sentences of a report in one language."""

    def __init__(self, language: Language = "en") -> None:
        self.language: Language = language

    def say(self, key: str, **values: object) -> str:
        """The sentence with its values filled in; an English plural is taken care of where it has `{s}`."""
        if "n" in values and "s" not in values:
            values["s"] = "" if values["n"] == 1 else "s"
        return _PHRASES.say(key, self.language == "zh", **values)

    def names(self, names: Sequence[str], most: int = 3) -> str:
        """The names as a list in words; the ones beyond `most` are counted."""
        shown = list(names) if len(names) <= most else [*names[:most], self.say("others", n=len(names) - most)]
        if len(shown) < 2:
            return "".join(shown) or self.say("nobody")
        return self.say("comma").join(shown[:-1]) + self.say("and") + shown[-1]
