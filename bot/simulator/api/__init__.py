"""Slack's Web API, a file for each family of methods."""

from bot.simulator.api import auth, chat, conversations, files, reactions, users, views
from bot.simulator.api.call import Call, Method

METHODS: dict[str, Method] = {
    **auth.METHODS,
    **chat.METHODS,
    **conversations.METHODS,
    **files.METHODS,
    **reactions.METHODS,
    **users.METHODS,
    **views.METHODS,
}

__all__ = ["METHODS", "Call", "Method"]
