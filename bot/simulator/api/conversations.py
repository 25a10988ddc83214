"""Channels and what was said in them."""

from bot.simulator.api.call import Call, Method
from bot.simulator.refusal import Json, SlackRefusal
from bot.simulator.workspace import Channel


def open_conversation(call: Call) -> Json:
    """The direct message with one person. Group messages are not pretended."""
    if call.args.get("channel"):
        return {"channel": _shown(call.channel())}
    people = call.text("users").split(",")
    if len(people) != 1:
        raise SlackRefusal("method_not_supported_for_channel_type")
    if people[0] not in call.workspace.users:
        raise SlackRefusal("user_not_found")
    if people[0] == call.workspace.bot.id:
        raise SlackRefusal("cannot_dm_bot")
    return {"channel": _shown(call.workspace.open_im(people[0]))}


def info(call: Call) -> Json:
    channel = call.workspace.find_channel(call.text("channel"))
    if channel is None:
        raise SlackRefusal("channel_not_found")
    return {"channel": _shown(channel)}


def list_conversations(call: Call) -> Json:
    kinds = str(call.args.get("types", "public_channel")).split(",")
    chosen = [c for c in call.workspace.channels.values() if ("im" if c.is_im else "public_channel") in kinds]
    return {"channels": [_shown(channel) for channel in chosen], "response_metadata": {"next_cursor": ""}}


def members(call: Call) -> Json:
    channel = call.channel()
    people = [channel.person or "", call.workspace.bot.id] if channel.is_im else list(call.workspace.users)
    return {"members": people, "response_metadata": {"next_cursor": ""}}


def join(call: Call) -> Json:
    return {"channel": _shown(call.channel())}


def history(call: Call) -> Json:
    """Newest first and without replies, as Slack gives it."""
    channel = call.channel()
    roots = [m for m in call.workspace.messages(channel.id) if m.get("thread_ts", m["ts"]) == m["ts"]]
    return _page(call, [m for m in reversed(roots) if _in_range(call, m["ts"])], 100)


def replies(call: Call) -> Json:
    """The thread's root and its replies, oldest first."""
    channel = call.channel()
    root = call.message(channel, refusal="thread_not_found")
    thread = call.workspace.thread(channel.id, str(root.get("thread_ts", root["ts"])))
    return _page(call, [m for m in thread if m["ts"] == root["ts"] or _in_range(call, m["ts"])], 1000)


def _in_range(call: Call, ts: str) -> bool:
    oldest, latest = str(call.args.get("oldest") or "0"), str(call.args.get("latest") or "9999999999")
    if call.flag("inclusive") and ts in (oldest, latest):
        return True
    return float(oldest) < float(ts) < float(latest)


def _page(call: Call, messages: list[Json], default: int) -> Json:
    try:
        start = int(call.args.get("cursor") or 0)
    except ValueError:
        raise SlackRefusal("invalid_cursor") from None
    end = start + max(1, call.number("limit", default))
    more = end < len(messages)
    page: Json = {"messages": messages[start:end], "has_more": more}
    page["response_metadata"] = {"next_cursor": str(end) if more else ""}
    return page


def _shown(channel: Channel) -> Json:
    if channel.is_im:
        return {"id": channel.id, "is_im": True, "user": channel.person, "is_archived": False}
    return {
        "id": channel.id,
        "name": channel.name,
        "is_channel": True,
        "is_im": False,
        "is_private": False,
        "is_archived": channel.is_archived,
        "is_member": channel.bot_is_member,
        "topic": {"value": channel.topic},
    }


METHODS: dict[str, Method] = {
    "conversations.open": open_conversation,
    "conversations.info": info,
    "conversations.list": list_conversations,
    "conversations.members": members,
    "conversations.join": join,
    "conversations.history": history,
    "conversations.replies": replies,
}
