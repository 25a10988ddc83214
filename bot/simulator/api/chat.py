"""Posting, editing and deleting messages."""

from bot.simulator.api.call import Call, Method
from bot.simulator.interactions import bot_message, with_ids
from bot.simulator.refusal import Json, SlackRefusal
from bot.simulator.validation import check_message


def post_message(call: Call) -> Json:
    channel = call.channel(writing=True)
    body = _checked(call, updating=False)
    message = bot_message(call.workspace, body)
    thread_ts = call.thread_ts(channel)
    if thread_ts is not None:
        message["thread_ts"] = thread_ts
    if call.flag("reply_broadcast"):
        message["subtype"] = "thread_broadcast"
    posted = call.workspace.post(channel.id, message)
    return {"channel": channel.id, "ts": posted["ts"], "message": posted}


def update(call: Call) -> Json:
    """The message shows what was sent and nothing else: text without blocks takes the blocks away."""
    channel = call.channel(writing=True)
    message = call.message(channel)
    _own(call, message, "cant_update_message")
    body = _checked(call, updating=True)
    change = {"text": body["text"] or "", "blocks": with_ids(body["blocks"] or None)}
    if body["attachments"] is not None or "attachments" in message:
        change["attachments"] = body["attachments"] or None
    edited = call.workspace.edit(channel.id, message["ts"], change, call.workspace.bot.id)
    return {"channel": channel.id, "ts": edited["ts"], "text": edited["text"], "message": edited}


def delete(call: Call) -> Json:
    channel = call.channel(writing=True)
    message = call.message(channel)
    _own(call, message, "cant_delete_message")
    call.workspace.delete(channel.id, message["ts"], call.workspace.bot.id)
    return {"channel": channel.id, "ts": message["ts"]}


def post_ephemeral(call: Call) -> Json:
    channel = call.channel(writing=True)
    user = call.text("user")
    if user not in call.workspace.users or (channel.is_im and channel.person != user):
        raise SlackRefusal("user_not_in_channel")
    message = bot_message(call.workspace, _checked(call, updating=False))
    thread_ts = call.thread_ts(channel)
    if thread_ts is not None:
        message["thread_ts"] = thread_ts
    shown = call.workspace.whisper(channel.id, user, message)
    return {"message_ts": shown["ts"]}


def permalink(call: Call) -> Json:
    channel = call.channel()
    message = call.message(channel, "message_ts")
    link = f"{call.base_url}/archives/{channel.id}/p{message['ts'].replace('.', '')}"
    thread_ts = message.get("thread_ts", message["ts"])
    if thread_ts != message["ts"]:
        link += f"?thread_ts={thread_ts}&cid={channel.id}"
    return {"channel": channel.id, "permalink": link}


def _checked(call: Call, *, updating: bool) -> Json:
    """The message's fields after Slack's checks."""
    text = call.args.get("text")
    if text is not None and not isinstance(text, str):
        raise SlackRefusal("invalid_arguments", ["[ERROR] must be a string [json-pointer:/text]"])
    blocks = call.array("blocks", "invalid_blocks_format")
    attachments = call.array("attachments", "invalid_attachments")
    check_message(text, blocks, attachments, call.limits, updating=updating)
    return {"text": text, "blocks": blocks, "attachments": attachments, "metadata": call.json("metadata")}


def _own(call: Call, message: Json, refusal: str) -> None:
    if message["user"] != call.workspace.bot.id:
        raise SlackRefusal(refusal)


METHODS: dict[str, Method] = {
    "chat.postMessage": post_message,
    "chat.update": update,
    "chat.delete": delete,
    "chat.postEphemeral": post_ephemeral,
    "chat.getPermalink": permalink,
}
