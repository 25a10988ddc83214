"""What Slack refuses, by tables of cases: the limits are the point of a strict simulator."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.simulator.limits import slack_limits
from bot.simulator.refusal import SlackRefusal
from bot.simulator.validation import block_complaints, check_message, view_complaints

LIMITS = slack_limits()
Json = dict[str, Any]


def plain(text: str) -> Json:
    return {"type": "plain_text", "text": text}


def section(text: str = "x", **more: Any) -> Json:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}, **more}


def button(**more: Any) -> Json:
    return {"type": "button", "text": plain("Run"), "action_id": "run", **more}


def actions(*elements: Json) -> Json:
    return {"type": "actions", "elements": list(elements)}


def table(rows: int, columns: int, text: str = "x") -> Json:
    return {"type": "table", "rows": [[{"type": "raw_text", "text": text}] * columns] * rows}


def image(**more: Any) -> Json:
    return {"type": "image", "alt_text": "curves", **more}


def option(value: str = "v", text: str = "t") -> Json:
    return {"text": plain(text), "value": value}


def menu(options: list[Json]) -> Json:
    return {"type": "static_select", "action_id": "pick", "placeholder": plain("Pick"), "options": options}


CONFIRM = {"title": plain("Sure?"), "text": plain("Really."), "confirm": plain("Yes"), "deny": plain("No")}

FINE = [
    section("x" * 3000),
    section(fields=[{"type": "mrkdwn", "text": "x" * 2000}] * 10),
    section(accessory=button(confirm=CONFIRM, style="danger", value="v" * 2000)),
    {"type": "header", "text": plain("x" * 150)},
    {"type": "divider"},
    {"type": "context", "elements": [{"type": "mrkdwn", "text": "x"}] * 9 + [image(image_url="https://e.org/a.png")]},
    actions(*[button(action_id=str(n)) for n in range(25)]),
    actions(menu([option()] * 100)),
    image(slack_file={"id": "F1"}, title=plain("t")),
    {"type": "markdown", "text": "x" * 12000},
    table(100, 20, "12345"),
    {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "x"}]}]},
]

WRONG: list[tuple[Json, str, str]] = [
    ({"type": "carousel"}, "unsupported type: carousel", "/blocks/0/type"),
    ({"type": "data_table"}, "unsupported type: data_table", "/blocks/0/type"),
    ({"text": "x"}, "missing required field: type", "/blocks/0"),
    (section("x" * 3001), "must be less than 3001 characters", "/blocks/0/text/text"),
    (section(""), "must be more than 0 characters", "/blocks/0/text/text"),
    ({"type": "section"}, "missing required field: text or fields", "/blocks/0"),
    (section(fields=[plain("x")] * 11), "no more than 10 items allowed", "/blocks/0/fields"),
    (section(fields=[plain("x" * 2001)]), "must be less than 2001 characters", "/blocks/0/fields/0/text"),
    (section(colour="red"), "invalid additional property: colour", "/blocks/0"),
    (section(block_id="x" * 256), "must be less than 256 characters", "/blocks/0/block_id"),
    ({"type": "header", "text": plain("x" * 151)}, "must be less than 151 characters", "/blocks/0/text/text"),
    ({"type": "header", "text": {"type": "mrkdwn", "text": "x"}}, "must be a plain_text object", "/blocks/0/text/type"),
    ({"type": "context", "elements": [plain("x")] * 11}, "no more than 10 items allowed", "/blocks/0/elements"),
    ({"type": "context", "elements": [button()]}, "unsupported type: button", "/blocks/0/elements/0/type"),
    (actions(), "no less than 1 items allowed", "/blocks/0/elements"),
    (actions(*[button(action_id=str(n)) for n in range(26)]), "no more than 25 items", "/blocks/0/elements"),
    (actions(button(), button()), "action_id `run` already exists", "/blocks/0/elements"),
    (actions(button(text=plain("x" * 76))), "must be less than 76 characters", "/blocks/0/elements/0/text/text"),
    (actions(button(value="x" * 2001)), "must be less than 2001 characters", "/blocks/0/elements/0/value"),
    (actions(button(value=7)), "must be a string", "/blocks/0/elements/0/value"),
    (actions(button(style="green")), "must be one of primary, danger", "/blocks/0/elements/0/style"),
    (actions(button(confirm={**CONFIRM, "title": plain("x" * 101)})), "must be less than 101", "/confirm/title/text"),
    (actions(menu([option()] * 101)), "no more than 100 items allowed", "/blocks/0/elements/0/options"),
    (actions(menu([option(value="x" * 151)])), "must be less than 151 characters", "/options/0/value"),
    (actions({"type": "plain_text_input", "action_id": "a"}), "unsupported type: plain_text_input", "/elements/0/type"),
    (image(), "exactly one of image_url and slack_file", "/blocks/0"),
    ({"type": "image", "image_url": "https://e.org"}, "missing required field: alt_text", "/blocks/0"),
    (image(image_url="file:///etc/passwd"), "must be a valid URL", "/blocks/0/image_url"),
    ({"type": "markdown", "text": "x" * 12001}, "must be less than 12001 characters", "/blocks/0/text"),
    (table(101, 1), "no more than 100 items allowed", "/blocks/0/rows"),
    (table(1, 21), "no more than 20 items allowed", "/blocks/0/rows/0"),
    (table(11, 1, "x" * 1000), "table cells together must be less than 10001 characters", "/blocks/0"),
    ({"type": "table", "rows": [["x"]]}, "a cell is raw_text or rich_text", "/blocks/0/rows/0/0/type"),
]


@pytest.mark.parametrize("block", FINE, ids=lambda block: str(block["type"]))
def test_block_at_its_limit_is_accepted(block: Json) -> None:
    """A limit one too small would push the bot to hide what it could show."""
    assert block_complaints([block], "message", LIMITS) == []


@pytest.mark.parametrize(("block", "what", "pointer"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_block_beyond_its_limit_is_refused_where_it_is_wrong(block: Json, what: str, pointer: str) -> None:
    """The pointer is what a developer has to find the fault in a card of forty blocks."""
    complaints = block_complaints([block], "message", LIMITS)

    assert any(what in said and f"{pointer}]" in said for said in complaints), complaints
    assert all(said.startswith("[ERROR] ") and "[json-pointer:/" in said for said in complaints)


@pytest.mark.parametrize(
    ("text", "blocks", "updating", "code"),
    [
        ("", [], False, "no_text"),
        (None, None, True, "no_text"),
        ("x" * 11801, None, False, "msg_too_long"),
        ("x" * 4001, None, True, "msg_too_long"),
        ("x", [{"type": "divider"}] * 51, False, "invalid_blocks"),
        ("x", [section(block_id="a"), section(block_id="a")], False, "invalid_blocks"),
        ("x", [table(1, 1), table(1, 1)], False, "invalid_blocks"),
        ("x", [{"type": "markdown", "text": "x" * 6001}] * 2, False, "invalid_blocks"),
        ("x", [section("x" * 2800)] * 5, False, "msg_blocks_too_long"),
    ],
)
def test_message_is_refused(text: str | None, blocks: list[Json] | None, updating: bool, code: str) -> None:
    """Each of these has its own code, and a bot reacts to each in another way."""
    with pytest.raises(SlackRefusal) as refusal:
        check_message(text, blocks, None, LIMITS, updating=updating)

    assert refusal.value.code == code


def test_update_is_shorter_than_a_post() -> None:
    """4,000 characters are the limit of chat.update alone."""
    check_message("x" * 4001, None, None, LIMITS, updating=False)
    check_message("x" * 4000, None, None, LIMITS, updating=True)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"title": plain("x" * 25)}, "must be less than 25 characters [json-pointer:/view/title/text]"),
        ({"private_metadata": "x" * 3001}, "must be less than 3001 characters"),
        ({"blocks": [section()] * 101}, "no more than 100 items allowed"),
        ({"blocks": [table(1, 1)]}, "unsupported type: table"),
        (
            {"blocks": [{"type": "input", "label": plain("l"), "element": {"type": "plain_text_input"}}]},
            "submit is required",
        ),
    ],
)
def test_modal_is_refused(change: Json, what: str) -> None:
    """Modals have limits of their own."""
    view = {"type": "modal", "title": plain("Edit"), "blocks": [section()], **change}

    assert any(what in said for said in view_complaints(view, LIMITS))


KEYS = st.sampled_from(["type", "text", "elements", "fields", "accessory", "rows", "options", "confirm", "element"])
KINDS = st.sampled_from(["section", "actions", "table", "rich_text", "button", "static_select", "input", "mrkdwn"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | KINDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(ANYTHING, max_size=3))
def test_any_json_gets_an_answer(blocks: list[Any]) -> None:
    """Whatever a bot sends, it hears what is wrong: a crash of the simulator would look like Slack being away."""
    assert all(isinstance(said, str) for said in block_complaints(blocks, "message", LIMITS))
