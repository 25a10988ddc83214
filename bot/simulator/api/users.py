"""The people of the workspace."""

from bot.simulator.api.call import Call, Method
from bot.simulator.refusal import Json, SlackRefusal
from bot.simulator.workspace import APP, TEAM, User


def info(call: Call) -> Json:
    user = call.workspace.users.get(call.text("user"))
    if user is None:
        raise SlackRefusal("user_not_found")
    return {"user": _shown(user)}


def list_users(call: Call) -> Json:
    return {"members": [_shown(u) for u in call.workspace.users.values()], "response_metadata": {"next_cursor": ""}}


def bot_info(call: Call) -> Json:
    bot = call.workspace.bot
    if call.args.get("bot") not in (None, bot.bot_id):
        raise SlackRefusal("bot_not_found")
    return {"bot": {"id": bot.bot_id, "app_id": APP, "user_id": bot.id, "name": bot.name, "deleted": False}}


def _shown(user: User) -> Json:
    return {
        "id": user.id,
        "team_id": TEAM,
        "name": user.name,
        "real_name": user.real_name,
        "deleted": False,
        "is_bot": user.is_bot,
        "tz": "UTC",
        "tz_offset": 0,
        "profile": {"real_name": user.real_name, "display_name": user.name},
    }


METHODS: dict[str, Method] = {"users.info": info, "users.list": list_users, "bots.info": bot_info}
