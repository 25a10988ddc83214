"""Who is calling, and where to connect to."""

from bot.simulator.api.call import Call, Method
from bot.simulator.refusal import Json, SlackRefusal
from bot.simulator.workspace import APP, TEAM


def api_test(call: Call) -> Json:
    if call.args.get("error"):
        raise SlackRefusal(str(call.args["error"]), args=call.args)
    return {"args": {key: value for key, value in call.args.items() if key != "token"}}


def auth_test(call: Call) -> Json:
    bot = call.workspace.bot
    return {
        "url": f"{call.base_url}/",
        "team": "Lab",
        "user": bot.name,
        "team_id": TEAM,
        "user_id": bot.id,
        "bot_id": bot.bot_id,
        "is_enterprise_install": False,
    }


def connections_open(call: Call) -> Json:
    """A WebSocket URL that works for one connection."""
    ticket = call.sockets.ticket()
    return {"url": f"{call.base_url.replace('http', 'ws', 1)}/link/?ticket={ticket}&app_id={APP}"}


def team_info(call: Call) -> Json:
    return {"team": {"id": TEAM, "name": "Lab", "domain": "lab"}}


METHODS: dict[str, Method] = {
    "api.test": api_test,
    "auth.test": auth_test,
    "apps.connections.open": connections_open,
    "team.info": team_info,
}
