"""What the cards of an experiment say, in English and in Chinese; the language is that of its request."""

from __future__ import annotations

from lab.language import Phrasebook, is_chinese
from lab.run import Experiment

WORDS = Phrasebook(
    {
        "with": ("with: {list}", "给定：{list}"),
        "assumed": ("assumed: {list}", "假设：{list}"),
        "semicolon": ("; ", "；"),
        "comma": (", ", "，"),
        "and_more": ("; and {n} more", "；另有 {n} 项"),
        "edited": ("Edited by {who}.", "{who} 修改过。"),
        "expired": (
            "Expired: nobody pressed Run in time. Ask again to get a new plan.",
            "已过期：没有人及时批准。再说一次就会有新的计划。",
        ),
        "second": ("Waits for a second approval.", "等待第二人批准。"),
        "cancelled_by": ("Cancelled by {who}; nothing ran.", "{who} 已取消；什么都没有运行。"),
        "nothing_ran": ("Cancelled; nothing ran.", "已取消；什么都没有运行。"),
        "approved": ("Approved by {who}.", "{who} 已批准。"),
        "run": ("Run", "运行"),
        "edit": ("Edit", "修改"),
        "cancel": ("Cancel", "取消"),
        "edit_title": ("Edit {id}", "修改 {id}"),
        "change_plan": ("Change the plan", "修改计划"),
        "leave_it": ("Leave it", "不改了"),
        "by_sentence": ("Only by a sentence in the thread: {list}.", "只能在线程里用一句话修改：{list}。"),
        "pause": ("Pause", "暂停"),
        "resume": ("Resume", "恢复"),
        "seeds": ("{n} seed{s}", "{n} 个种子"),
        "on": ("on {name}", "用 {name}"),
        "sure": ("Cancel {id}?", "取消 {id}？"),
        "what_stops": (
            "Runs that have not ended stop at their next step; what they measured is kept.",
            "没有结束的 run 会在下一步停下；已测得的结果会保留。",
        ),
        "yes": ("Cancel the runs", "取消这些 run"),
        "no": ("Keep going", "继续跑"),
        "n_queued": ("{n} run{s} queued", "{n} 个 run 排队中"),
        "done_of": ("{done} of {all} done", "{all} 个完成 {done} 个"),
        "counted": ("{n} {state}", "{n} 个{state}"),
        "more": ("{n} more {state}", "另有 {n} 个{state}"),
        "and": ("and {list}", "{list}"),
        "made_room": ("made room for {run}, {place}", "为 {run} 让出了卡，{place}"),
        "later": ("goes on later", "稍后继续"),
        "queued": ("queued", "排队中"),
        "queued_again": ("queued again", "重新排队"),
        "done": ("done", "完成"),
        "reused": ("from {id}", "来自 {id}"),
        "failed": ("failed: {why}", "失败：{why}"),
        "no_cause": ("no cause known", "原因不明"),
        "starting": ("starting", "正在启动"),
        "pruned_at": ("stopped early at epoch {n}", "在第 {n} 轮提前停止"),
        "n_pruned": ("{n} stopped early", "{n} 个提前停止"),
        "stopping": ("stopping", "正在停止"),
        "paused": ("paused", "已暂停"),
        "running": ("running", "运行中"),
        "epoch": ("epoch {n}", "第 {n} 轮"),
        "step": ("step {n}", "第 {n} 步"),
        "left": ("{time} left", "还要 {time}"),
    }
)


def chinese(experiment: Experiment) -> bool:
    """True when its cards speak Chinese."""
    return is_chinese(experiment.plan.request_text)
