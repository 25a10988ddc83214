"""What the simulator says when it refuses: Slack's own error codes, and mistakes of the person at the keyboard."""

from typing import Any

Json = dict[str, Any]
"""A payload in Slack's own words: its shape is Slack's to define, so it is not modelled here."""


class SlackRefusal(Exception):
    """A Web API call that Slack answers with `{"ok": false, "error": code}` and HTTP status 200."""

    def __init__(self, code: str, messages: list[str] | None = None, **extra: Any) -> None:
        self.code = code
        self.messages = messages or []
        self.extra = extra
        super().__init__(f"{code}: {'; '.join(self.messages)}" if self.messages else code)

    def answer(self) -> Json:
        """The body of the answer, with `response_metadata.messages` where there is something to explain."""
        body: Json = {"ok": False, "error": self.code, **self.extra}
        if self.messages:
            body["response_metadata"] = {"messages": self.messages}
        return body


class Throttled(Exception):
    """A Web API call that Slack answers with HTTP 429 and a Retry-After header."""

    def __init__(self, retry_after_s: int) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(f"ratelimited, retry after {retry_after_s} s")


class NoSuchThing(LookupError):
    """A test or a person asked for a channel, message, button or user that is not there."""
