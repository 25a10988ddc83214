"""What a modal sends: Slack's client fills in what was not touched, and sends nothing that it would not send."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient

from bot.simulator import Simulator
from bot.simulator.forms import filled, unknown_blocks
from bot.simulator.limits import slack_limits
from bot.simulator.people import TROUBLE
from bot.simulator.validation import view_complaints


def words(text: str) -> dict[str, str]:
    return {"type": "plain_text", "text": text}


def menu(*values: str) -> list[dict[str, Any]]:
    return [{"text": words(value), "value": value} for value in values]


def block(name: str, element: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {
        "type": "input",
        "block_id": name,
        "label": words(name),
        "element": {"action_id": "value", **element},
        **others,
    }


VIEW: dict[str, Any] = {
    "type": "modal",
    "callback_id": "edit",
    "title": words("Edit"),
    "submit": words("Save"),
    "blocks": [
        block("lr", {"type": "plain_text_input", "initial_value": "0.1", "max_length": 5}),
        block("priority", {"type": "static_select", "options": menu("low", "high"), "initial_option": menu("low")[0]}),
        block("sets", {"type": "multi_static_select", "options": menu("a", "b")}, optional=True),
        {"type": "context", "elements": [words("small print")]},
    ],
}
TYPED = {"type": "plain_text_input", "value": "0.2"}


def test_what_was_not_touched_is_sent_as_it_was() -> None:
    """The app gets the state of every input, not of those alone that changed."""
    assert filled(VIEW, {"lr": {"value": TYPED}}) == {
        "lr": {"value": TYPED},
        "priority": {"value": {"type": "static_select", "selected_option": menu("low")[0]}},
        "sets": {"value": {"type": "multi_static_select", "selected_options": []}},
    }


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"wd": {"value": TYPED}}, "no input 'wd/value'"),
        ({"lr": {"other": TYPED}}, "no input 'lr/other'"),
        ({"lr": {"value": {"type": "number_input", "value": "1"}}}, "lr is a plain_text_input"),
        ({"lr": {"value": {"type": "plain_text_input", "value": ""}}}, "lr is required"),
        ({"lr": {"value": {"type": "plain_text_input", "value": None}}}, "lr is required"),
        ({"lr": {"value": {"type": "plain_text_input", "value": "0.12345"}}}, "longer than 5"),
        ({"priority": {"value": {"type": "static_select", "selected_option": menu("urgent")[0]}}}, "none of its"),
        ({"sets": {"value": {"type": "multi_static_select", "selected_options": menu("a", "z")}}}, "'z' is none"),
    ],
)
def test_what_slack_would_not_send_is_not_sent(values: dict[str, Any], why: str) -> None:
    """A test that sends it would show nothing."""
    with pytest.raises((LookupError, ValueError), match=why):
        filled(VIEW, values)


@pytest.mark.parametrize(
    ("element", "complaint"),
    [
        ({"type": "static_select", "options": menu("a"), "initial_option": menu("b")[0]}, "not among the options"),
        ({"type": "multi_static_select", "options": menu("a"), "initial_options": menu("a", "b")}, "not among"),
        ({"type": "multi_static_select", "options": menu("a"), "initial_options": []}, "at least one"),
        ({"type": "plain_text_input", "initial_value": "0.12345", "max_length": 5}, "max_length"),
        ({"type": "plain_text_input", "initial_value": 3}, "must be a string"),
    ],
)
def test_a_first_value_that_could_not_be_entered_is_refused(element: dict[str, Any], complaint: str) -> None:
    """Slack does not open such a modal, and the button behind it seems dead."""
    (found,) = view_complaints({**VIEW, "blocks": [block("x", element)]}, slack_limits())

    assert complaint in found
    assert "/view/blocks/0/element" in found
    assert view_complaints(VIEW, slack_limits()) == []


@pytest.mark.parametrize("errors", [None, {}, "lr: no", {"wd": "no"}, {"lr": ""}, {"lr": 1}])
def test_errors_have_to_name_inputs_of_the_view(errors: Any) -> None:
    """Slack shows only trouble then, and nobody learns what is wrong with the values."""
    assert unknown_blocks(VIEW, errors)


def test_errors_of_inputs_are_taken() -> None:
    """The ordinary case."""
    assert unknown_blocks(VIEW, {"lr": "a number, please"}) == []


def bad_view() -> dict[str, Any]:
    view = copy.deepcopy(VIEW)
    del view["title"]
    return view


@pytest.mark.parametrize(
    "answer",
    [
        {"response_action": "errors", "errors": {"wd": "no"}},
        {"response_action": "update", "view": bad_view()},
        {"response_action": "push", "view": {}},
    ],
)
def test_an_answer_that_slack_cannot_use_leaves_the_modal_with_trouble(
    slack: Simulator, app: App, connected: SocketModeHandler, answer: dict[str, Any]
) -> None:
    """The app believes that it has answered; whoever looks at the modal sees that it has not."""
    heard = threading.Event()

    @app.command("/edit")
    def edit(ack: Any, body: dict[str, Any], client: WebClient) -> None:
        ack()
        client.views_open(trigger_id=body["trigger_id"], view=VIEW)

    @app.view("edit")
    def save(ack: Any) -> None:
        ack(**answer)
        heard.set()

    slack.command("/edit")
    (shown,) = slack.wait_for(lambda: slack.views)
    slack.submit(shown["id"], {})
    slack.wait_for(lambda: slack.views and slack.views[-1]["trouble"])

    assert heard.is_set()
    assert [view["trouble"] for view in slack.views] == [TROUBLE]
    assert "errors" not in slack.views[0]
