"""Modals and the Home tab."""

import secrets
from typing import Any

from bot.simulator.api.call import Call, Method
from bot.simulator.interactions import public_view, with_ids
from bot.simulator.refusal import Json, SlackRefusal
from bot.simulator.validation import check_view
from bot.simulator.workspace import APP, TEAM, Workspace


def open_view(call: Call) -> Json:
    view = _checked(call, "modal")
    user = call.interactions.redeem_trigger(call.text("trigger_id"))
    return _show(call.workspace, view, user, call.workspace.new_id("V"))


def push(call: Call) -> Json:
    view = _checked(call, "modal")
    user = call.interactions.redeem_trigger(call.text("trigger_id"))
    below = [shown for shown in call.workspace.views.values() if shown["user"] == user]
    if not below:
        raise SlackRefusal("not_found")
    if len(below) >= call.limits.view.stack:
        raise SlackRefusal("push_limit_reached")
    return _show(call.workspace, view, user, call.workspace.new_id("V"), root=below[0]["id"])


def update(call: Call) -> Json:
    """The open modal shows the new view. With `hash`, only if nothing changed it meanwhile."""
    view = _checked(call, "modal")
    shown = _open(call)
    if call.args.get("hash") not in (None, "", shown["hash"]):
        raise SlackRefusal("hash_conflict")
    return _show(call.workspace, view, shown["user"], shown["id"], root=shown["root_view_id"])


def publish(call: Call) -> Json:
    view = _checked(call, "home")
    user = call.text("user_id")
    if user not in call.workspace.users:
        raise SlackRefusal("user_not_found")
    full = _full(view, user, f"VHOME{user}", None)
    call.workspace.show_home(user, full)
    return {"view": public_view(full)}


def replace_view(workspace: Workspace, view: Json, user: str, view_id: str) -> None:
    """The answer `response_action: update` to a submission takes effect."""
    _show(workspace, view, user, view_id)


def _checked(call: Call, kind: str) -> Json:
    view: Any = call.json("view")
    check_view(view, call.limits)
    if view["type"] != kind:
        raise SlackRefusal("invalid_arguments", [f"[ERROR] must be {kind} [json-pointer:/view/type]"])
    return dict(view)


def _open(call: Call) -> Json:
    if call.args.get("external_id"):
        wanted = call.text("external_id")
        found = next((v for v in call.workspace.views.values() if v.get("external_id") == wanted), None)
    else:
        found = call.workspace.views.get(call.text("view_id"))
    if found is None:
        raise SlackRefusal("not_found")
    return found


def _show(workspace: Workspace, view: Json, user: str, view_id: str, root: str | None = None) -> Json:
    full = _full(view, user, view_id, root)
    workspace.show_view(full)
    return {"view": public_view(full)}


def _full(view: Json, user: str, view_id: str, root: str | None) -> Json:
    return {
        "private_metadata": "",
        "callback_id": "",
        "notify_on_close": False,
        **view,
        "blocks": with_ids(view["blocks"]),
        "id": view_id,
        "team_id": TEAM,
        "app_id": APP,
        "bot_id": "B0BOT",
        "root_view_id": root or view_id,
        "previous_view_id": None,
        "state": {"values": {}},
        "hash": secrets.token_hex(6),
        "user": user,
        "trouble": "",
    }


METHODS: dict[str, Method] = {
    "views.open": open_view,
    "views.push": push,
    "views.update": update,
    "views.publish": publish,
}
