"""What stands in a plan's way, in both languages: said in place of the plan's card, with what would help."""

from __future__ import annotations

from lab.language import Phrasebook, is_chinese
from lab.plan import Plan

WORDS = Phrasebook(
    {
        "no_host": (
            "no host is up, so nothing was checked: the runs wait until one is",
            "没有主机在线，所以什么都没检查：run 会等到有主机为止",
        ),
        "no_card": (
            "no card can train right now: the runs wait until one can; `overnight doctor` on the host says why",
            "现在没有卡能训练：run 会等到有卡为止；在主机上运行 `overnight doctor` 可以看到原因",
        ),
        "later": (
            "I cannot start runs at a later time yet. Ask again when they shall start, or leave the time out.",
            "还不能定时启动。请到时候再说，或者不写时间。",
        ),
        "evaluation": (
            "Evaluation without training cannot run yet; I can train and report the validation at the end.",
            "还不能只评估不训练；可以训练，最后报告验证结果。",
        ),
        "which_model": (
            "Which model shall be trained, and on which data set?",
            "要训练哪个模型，用哪个数据集？",
        ),
        "too_many": (
            "That is {runs}, and {most} at once is the limit here (limits.max_runs). Which values matter most?",
            "这是 {runs}，而这里一次最多 {most} 个（limits.max_runs）。哪些取值最重要？",
        ),
        "no_template": (
            "No host has the template {template!r}; here are {known}.",
            "没有主机有模板 {template!r}；现有 {known}。",
        ),
        "no_model": (
            "{model} is no image classifier of timm or torchvision, the only models that can be trained here so far."
            "{near}",
            "{model} 不是 timm 或 torchvision 的图像分类模型，目前这里只能训练这些。{near}",
        ),
        "near_model": (" Near that name: {names}.", "名称相近的有：{names}。"),
        "no_dataset": (
            "No host knows a data set {name}{near}. Present: {present}. An image folder becomes one by `datasets: "
            "{{{name}: /path}}` in the host's config.yaml.",
            "没有主机认识数据集 {name}{near}。现有：{present}。在主机的 config.yaml 里写 "
            "`datasets: {{{name}: /path}}`，图片文件夹就成为数据集。",
        ),
        "near_dataset": (" (near that name: {names})", "（名称相近的有：{names}）"),
        "absent": (
            "{name} is not on any host that is up. To get it there: {how}. Present: {present}.",
            "在线的主机上没有 {name}。获取方法：{how}。现有：{present}。",
        ),
        "ask_operator": ("ask the operator", "请找管理员"),
        "value": (
            "The template {template} cannot take {name} {value}: {why}.",
            "模板 {template} 不接受 {name} {value}：{why}。",
        ),
        "unknown_value": ("The template {template} does not know this: {why}.", "模板 {template} 不认识：{why}。"),
        "one_card": (
            "{n} cards a run: the template vision trains on one card so far. Shall I take one?",
            "每个 run {n} 张卡：模板 vision 目前只能用一张卡训练。用一张可以吗？",
        ),
        "too_few_cards": (
            "{n} cards a run, but the largest host has {most} usable. How many shall it be?",
            "每个 run {n} 张卡，但最大的主机只有 {most} 张可用。要用几张？",
        ),
        "long": ("This takes about {took}.", "这要跑约 {took}。"),
        "late": (
            "It is done at about {at}, after the deadline ({deadline}).",
            "约 {at} 完成，晚于期限（{deadline}）。",
        ),
        "not_started": ("{question}\nNothing was started.", "{question}\n什么都没有启动。"),
        "stays": ("{question}\n{id} stays as it was.", "{question}\n{id} 保持不变。"),
        "not_changed": ("Not changed ({request}): {what} is {state}.", "没有修改（{request}）：{what} {state}。"),
        "did_not_work": ("That did not work: {error}", "没有成功：{error}"),
        "went_wrong": (
            "Something went wrong here, and nothing was started ({id}; the agent's log tells more).",
            "这里出错了，什么都没有启动（{id}；agent 的日志里有详情）。",
        ),
    }
)


def say(plan: Plan, key: str, /, **fields: object) -> str:
    """The sentence in the language in which the plan was asked for."""
    return WORDS.say(key, is_chinese(plan.request_text), **fields)


def anyhow(key: str) -> set[str]:
    """The sentence in every language, to know it again among a plan's notes."""
    return {WORDS.say(key, chinese) for chinese in (False, True)}
