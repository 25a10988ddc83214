"""What a modal sends: the state of its inputs, as Slack's client fills and checks it before the app hears. Pure."""

from copy import deepcopy

from bot.simulator.refusal import Json, NoSuchThing

LONGEST = 3000
"""Characters of a text input, https://docs.slack.dev/reference/block-kit/block-elements/plain-text-input-element."""
_HELD = {
    "plain_text_input": ("value", "initial_value"),
    "number_input": ("value", "initial_value"),
    "email_text_input": ("value", "initial_value"),
    "url_text_input": ("value", "initial_value"),
    "static_select": ("selected_option", "initial_option"),
    "radio_buttons": ("selected_option", "initial_option"),
    "multi_static_select": ("selected_options", "initial_options"),
    "checkboxes": ("selected_options", "initial_options"),
    "datepicker": ("selected_date", "initial_date"),
    "timepicker": ("selected_time", "initial_time"),
    "users_select": ("selected_user", "initial_user"),
    "channels_select": ("selected_channel", "initial_channel"),
    "conversations_select": ("selected_conversation", "initial_conversation"),
}
"""For each input the key of its value in the state, and the one of its first value in the block."""


def first_value_fault(element: Json) -> str | None:
    """What Slack has against what an input holds at first: an option that is none of its own, a text too long."""
    held = element.get("initial_options", [element["initial_option"]] if "initial_option" in element else [])
    if not isinstance(held, list) or any(one not in _options(element) for one in held):
        return "initial option is not among the options"
    if "initial_options" in element and not held:
        return "initial_options must hold at least one"
    text = element.get("initial_value", "")
    if not isinstance(text, str) or len(text) > element.get("max_length", LONGEST):
        return "initial_value must be a string no longer than max_length"
    return None


def filled(view: Json, values: Json) -> Json:
    """The state of the whole view: what was entered, and of the other inputs what they held at first.

    Args:
        values: block_id -> action_id -> {"type": ..., "value": ...}.

    Raises:
        NoSuchThing: values for an input that the view does not have.
        ValueError: a required input is empty, a text too long, or a choice is none of the options.
    """
    inputs = {
        (block["block_id"], block["element"]["action_id"]): block
        for block in view["blocks"]
        if block["type"] == "input"
    }
    entered = {(block, action): value for block, elements in values.items() for action, value in elements.items()}
    for place in entered:
        if place not in inputs:
            there = ", ".join("/".join(known) for known in inputs) or "none"
            raise NoSuchThing(f"no input {'/'.join(place)!r} in this view; it has {there}")
    state: Json = {}
    for (block_id, action_id), block in inputs.items():
        state.setdefault(block_id, {})[action_id] = _held(block, entered.get((block_id, action_id)))
    return state


def unknown_blocks(view: Json, errors: object) -> list[str]:
    """What Slack does not take of an app's errors: block_ids that are no input; `errors` itself if there are none."""
    if not isinstance(errors, dict) or not errors:
        return ["errors"]
    inputs = {block["block_id"] for block in view["blocks"] if block["type"] == "input"}
    return [str(name) for name, text in errors.items() if name not in inputs or not isinstance(text, str) or not text]


def _held(block: Json, entered: Json | None) -> Json:
    element = block["element"]
    key, first = _HELD.get(element["type"], ("value", "initial_value"))
    held = {"type": element["type"], key: deepcopy(element.get(first))} if entered is None else deepcopy(entered)
    if held.get("type") != element["type"]:
        raise ValueError(f"{block['block_id']} is a {element['type']}, not a {held.get('type')}")
    if key == "selected_options":
        held[key] = held.get(key) or []
    value = held.setdefault(key, None)
    if value in (None, "", []) and not block.get("optional"):
        raise ValueError(f"{block['block_id']} is required; Slack does not send the view without it")
    if isinstance(value, str) and len(value) > element.get("max_length", LONGEST):
        raise ValueError(f"{block['block_id']} is longer than {element.get('max_length', LONGEST)} characters")
    _check_choice(block["block_id"], element, value)
    return held


def _check_choice(block_id: str, element: Json, value: object) -> None:
    options = [option["value"] for option in _options(element)]
    chosen = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
    for one in chosen:
        if one.get("value") not in options:
            raise ValueError(f"{block_id}: {one.get('value')!r} is none of its options")


def _options(element: Json) -> list[Json]:
    groups = element.get("option_groups") or [{"options": element.get("options") or []}]
    return [option for group in groups for option in group["options"]]
