"""Answers that are words: a question, a refusal, a reply, an error."""

from __future__ import annotations

from bot.render.alert import clock
from bot.render.message import Message, actions, button, context, message, plain
from bot.render.text import cut, escape, name, person
from bot.render.words import chinese
from lab.estimate import gpu_hours
from lab.language import Phrasebook, state_word
from lab.run import Answer, Experiment, ExperimentState
from lab.when import stamped

PICK = "pick"
"""Action of the buttons of designs, with the design's number behind it."""
BUTTON_CHARS = 75
"""Of a button's label (Slack, Block Kit reference)."""
WORDS = Phrasebook(
    {
        "nothing": (
            "I have no answer to that; please say it in other words.",
            "这个我答不上来，请换个说法。",
        ),
        "how": ("To answer, mention me in this thread.", "要回答，请在这个线程里 @ 我。"),
        "away": (
            "I cannot take requests right now: my store is away. Nothing was started, and Slack hands me your message "
            "again for a few minutes; if I have not answered by then, please send it again.",
            "现在接不了请求：我的存储不可用。什么都没有启动；几分钟内 Slack 会把这条消息再交给我，"
            "如果到时还没有回答，请再发一次。",
        ),
        "away_press": (
            "I cannot do that right now: my store is away. Nothing was changed; please press again in a minute.",
            "现在做不了：我的存储不可用。什么都没有改变；请过一分钟再按。",
        ),
        "away_cards": (
            "I cannot say what the cards do right now: my store is away. Please ask again in a minute.",
            "现在看不到各张卡的状态：我的存储不可用。请过一分钟再问。",
        ),
        "went_wrong": (
            "Something went wrong on my side, and nothing was changed. Please try again; reference for the operator: "
            "{reference}.",
            "我这边出错了，什么都没有改变。请再试一次；给管理员的编号：{reference}。",
        ),
        "too_slow": (
            "Slack did not let me open the form in time; please press Edit again.",
            "Slack 没有及时让我打开表单；请再按一次“修改”。",
        ),
        "edited_meanwhile": (
            "{id} was edited by somebody else meanwhile. Close this and press Edit again.",
            "{id} 刚刚被别人修改过。请关掉这个表单，再按一次“修改”。",
        ),
        "design": ("{n}: {name}, {runs} runs, {hours} GPU-h", "{n}：{name}，{runs} 个 run，{hours} GPU 小时"),
        "not_yours": (
            "Only {owner}, who asked for {id}, can {start} it.",
            "只有提出 {id} 的 {owner} 可以{start}。",
        ),
        "press_again": (
            "{id} cannot be {approved} right now; please press again.",
            "{id} 现在不能{approved}；请再按一次。",
        ),
        "approved_already": (
            "{id} was approved already{by}; nothing more was started.",
            "{id} 已经批准过了{by}；没有再启动什么。",
        ),
        "by": (" by {who}", "（{who}）"),
        "second": ("{id} waits for its second approval.", "{id} 在等第二人批准。"),
        "expired": (
            "{id} has expired, so it cannot be {approved}. Ask again to get a new plan.",
            "{id} 已过期，不能{approved}。再说一次就会有新的计划。",
        ),
        "ended": ("{id} is {state} already, so it cannot be {approved}.", "{id} {state}，不能{approved}。"),
        "gone": ("There is no {what} any more.", "{what} 已经不在了。"),
        "changed": (
            "You changed the message behind {id}, which is {state} already; the change does nothing to it. Please "
            "write a new message for what should be different.",
            "你改了 {id} 的那条消息，但它{state}；修改对它不起作用。要有不同，请另发一条消息。",
        ),
        "deleted": (
            "You deleted the message behind {id}, which is {state} already and is not stopped by that. To stop it: "
            "`cancel {id}`, or Cancel on its card.",
            "你删了 {id} 的那条消息，但它{state}，不会因此停下。要停下：`取消 {id}`，或按卡片上的“取消”。",
        ),
    }
)
VERBS = {"start": "启动", "edit": "修改", "cancel": "取消", "approved": "批准", "edited": "修改", "cancelled": "取消"}


def said(key: str, zh: bool, /, **fields: object) -> Message:
    """One of the sentences as a message."""
    return plain(WORDS.say(key, zh, **fields))


def words(answer: Answer, in_channel: bool, zh: bool = False) -> Message:
    """The answer's text, what is to be said beside it in small print below."""
    shown = plain(stamped(escape(answer.text), clock) or WORDS.say("nothing", zh))
    how = WORDS.say("how", zh) if answer.kind == "question" and in_channel else ""
    return message(shown.text, *shown.blocks, context(escape(answer.note or ""), how))


def choices(answer: Answer, request_id: str, zh: bool = False) -> Message:
    """The designs in words, a button with the figures for each."""
    shown = words(answer, in_channel=False, zh=zh)
    buttons = []
    for n, design in enumerate(answer.designs, start=1):
        hours = gpu_hours(design.estimate.gpu_hours)
        label = WORDS.say("design", zh, n=n, name=design.name, runs=design.plan.n_runs, hours=hours)
        style = "primary" if n == 1 else None
        buttons.append(button(cut(label, BUTTON_CHARS), f"{PICK}_{n}", f"design {n} of {request_id}", style))
    return message(shown.text, *shown.blocks, actions(*buttons))


def not_yours(experiment: Experiment, what: str) -> Message:
    """Said to whoever presses a button of somebody else's experiment."""
    zh = chinese(experiment)
    return said("not_yours", zh, owner=person(experiment.owner), id=experiment.id, start=VERBS[what] if zh else what)


def too_late(experiment: Experiment, what: str) -> Message:
    """Said to whoever presses a button whose time is over."""
    zh = chinese(experiment)
    fields = {"id": experiment.id, "approved": VERBS[what] if zh else what}
    match experiment.state:
        case ExperimentState.PROPOSED:
            return said("press_again", zh, **fields)
        case ExperimentState.APPROVED | ExperimentState.RUNNING:
            by = WORDS.say("by", zh, who=person(experiment.approved_by)) if experiment.approved_by else ""
            return said("approved_already", zh, by=by, **fields)
        case ExperimentState.AWAITING_SECOND_APPROVAL:
            return said("second", zh, **fields)
        case ExperimentState.EXPIRED:
            return said("expired", zh, **fields)
        case state:
            return said("ended", zh, state=state_word(state, zh), **fields)


def gone(subject: str, zh: bool = False) -> Message:
    return said("gone", zh, what=name(subject, 40))


def runs_already(experiment: Experiment) -> Message:
    """Said to whoever edits a message after its plan was approved."""
    zh = chinese(experiment)
    return said("changed", zh, id=experiment.id, state=state_word(experiment.state, zh))


def went_on(experiment: Experiment) -> Message:
    """Said to whoever deletes a message after its plan was approved."""
    zh = chinese(experiment)
    return said("deleted", zh, id=experiment.id, state=state_word(experiment.state, zh))
