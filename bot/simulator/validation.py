"""What Slack refuses in messages and views, in Slack's words. Pure: JSON in, a list of complaints out.

A complaint reads `[ERROR] must be less than 3001 characters [json-pointer:/blocks/0/text/text]`, as Slack puts it in
`response_metadata.messages`.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, Literal

from bot.simulator.forms import first_value_fault
from bot.simulator.limits import Limits
from bot.simulator.refusal import Json, SlackRefusal

Surface = Literal["message", "modal", "home"]

_EVERYWHERE = {"section", "divider", "header", "context", "actions", "image", "input", "rich_text", "markdown", "video"}
_BLOCKS: dict[Surface, set[str]] = {
    "message": _EVERYWHERE | {"table", "file"},
    "modal": _EVERYWHERE - {"markdown"},
    "home": _EVERYWHERE - {"markdown"},
}
_MENUS = {
    f"{many}{source}_select"
    for many in ("", "multi_")
    for source in ("static", "external", "users", "conversations", "channels")
}
_PICKERS = {"datepicker", "timepicker", "datetimepicker"}
_CHOICES = {"checkboxes", "radio_buttons"}
_TYPED = {"plain_text_input", "number_input", "email_text_input", "url_text_input", "rich_text_input", "file_input"}
_IN_ACTIONS = {"button", "overflow"} | _MENUS | _PICKERS | _CHOICES
_IN_SECTION = _IN_ACTIONS | {"image"}
_IN_INPUT = _MENUS | _PICKERS | _CHOICES | _TYPED
_MANY = 10_000  # Slack names no limit for the parts of a rich_text block
_RICH = {"rich_text_section", "rich_text_list", "rich_text_preformatted", "rich_text_quote"}


def check_message(
    text: str | None, blocks: list[Any] | None, attachments: list[Any] | None, limits: Limits, *, updating: bool
) -> None:
    """Raises the SlackRefusal that a post, or with `updating` an update, of this message meets."""
    if not text and not blocks and not attachments:
        raise SlackRefusal("no_text")
    if text and len(text) > (limits.message.update_text if updating else limits.message.post_text):
        raise SlackRefusal("msg_too_long")
    if attachments and len(attachments) > limits.message.attachments:
        raise SlackRefusal("too_many_attachments")
    if not all(isinstance(item, dict) and isinstance(item.get("blocks") or [], list) for item in attachments or []):
        raise SlackRefusal("invalid_attachments")
    nested = [block for item in attachments or [] for block in item.get("blocks") or []]
    if sum(_is(block, "table") for block in [*(blocks or []), *nested]) > limits.block.tables:
        raise SlackRefusal("invalid_blocks", ["[ERROR] only_one_table_allowed [json-pointer:/blocks]"])
    complaints = block_complaints(blocks or [], "message", limits)
    for index, item in enumerate(attachments or []):
        at = f"/attachments/{index}/blocks"
        complaints += block_complaints(item.get("blocks") or [], "message", limits, at=at)
    if complaints:
        raise SlackRefusal("invalid_blocks", complaints)
    if _weight([*(blocks or []), *nested]) > limits.message.blocks_json:
        raise SlackRefusal("msg_blocks_too_long")


def check_view(view: Any, limits: Limits) -> None:
    """Raises the SlackRefusal that opening or publishing this view meets."""
    if not isinstance(view, dict) or view.get("type") not in ("modal", "home"):
        raise SlackRefusal("invalid_arguments", ["[ERROR] missing or unknown view type [json-pointer:/view/type]"])
    complaints = view_complaints(view, limits)
    if complaints:
        raise SlackRefusal("invalid_arguments", complaints)


def view_complaints(view: Json, limits: Limits) -> list[str]:
    """Everything wrong with a modal or a Home tab."""
    check = _Check(limits)
    modal = view["type"] == "modal"
    if modal:
        check.text_object(view.get("title"), "/view/title", limits.view.title, plain=True)
        for name in ("submit", "close"):
            if name in view:
                check.text_object(view[name], f"/view/{name}", limits.view.button, plain=True)
    check.length(view.get("private_metadata", ""), "/view/private_metadata", limits.view.private_metadata)
    check.length(view.get("callback_id", ""), "/view/callback_id", limits.view.callback_id)
    blocks = view.get("blocks")
    if not isinstance(blocks, list):
        return [*check.complaints, _say("missing required field: blocks", "/view")]
    if modal and "submit" not in view and any(_is(block, "input") for block in blocks):
        check.add("submit is required when an input block is within blocks", "/view")
    return check.complaints + block_complaints(blocks, "modal" if modal else "home", limits, at="/view/blocks")


def block_complaints(blocks: list[Any], surface: Surface, limits: Limits, *, at: str = "/blocks") -> list[str]:
    """Everything wrong with these blocks, each with the JSON pointer to it."""
    check = _Check(limits)
    most = limits.message.blocks if surface == "message" else limits.view.blocks
    check.count(blocks, at, most)
    check.unique((b.get("block_id") for b in blocks if isinstance(b, dict)), "block_id", at)
    for index, block in enumerate(blocks):
        check.block(block, f"{at}/{index}", surface)
    markdown = sum(len(str(block.get("text", ""))) for block in blocks if _is(block, "markdown"))
    if markdown > limits.block.markdown:
        check.add(f"markdown blocks together must be less than {limits.block.markdown + 1} characters", at)
    return check.complaints


def _say(what: str, pointer: str) -> str:
    return f"[ERROR] {what} [json-pointer:{pointer}]"


def _kind(value: Any) -> str | None:
    """The type of a block or element; None where there is none that could be one."""
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


def _is(block: Any, kind: str) -> bool:
    return isinstance(block, dict) and block.get("type") == kind


def _weight(blocks: list[Any]) -> int:
    """Characters of the compact JSON, without tables: those have a limit of their own."""
    rest = [block for block in blocks if not _is(block, "table")]
    return len(json.dumps(rest, separators=(",", ":"), ensure_ascii=False)) if rest else 0


class _Check:
    """Collects complaints while it walks down the blocks."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.complaints: list[str] = []

    # -- what is common -------------------------------------------------------------------------------------------

    def add(self, what: str, pointer: str) -> None:
        self.complaints.append(_say(what, pointer))

    def required(self, value: Json, pointer: str, *names: str) -> bool:
        missing = [name for name in names if name not in value]
        for name in missing:
            self.add(f"missing required field: {name}", pointer)
        return not missing

    def length(self, value: Any, pointer: str, most: int, least: int = 0) -> None:
        if not isinstance(value, str):
            self.add("must be a string", pointer)
        elif len(value) > most:
            self.add(f"must be less than {most + 1} characters", pointer)
        elif len(value) < least:
            self.add(f"must be more than {least - 1} characters", pointer)

    def count(self, values: Any, pointer: str, most: int, least: int = 0) -> list[Any]:
        """The list itself, or an empty one after the complaint that it is none."""
        if not isinstance(values, list):
            self.add("must be an array", pointer)
            return []
        if len(values) > most:
            self.add(f"no more than {most} items allowed", pointer)
        if len(values) < least:
            self.add(f"no less than {least} items allowed", pointer)
        return values

    def unique(self, values: Iterable[Any], name: str, pointer: str) -> None:
        seen: set[str] = set()
        for value in values:
            if isinstance(value, str) and value in seen:
                self.add(f"{name} `{value}` already exists", pointer)
            elif isinstance(value, str):
                seen.add(value)

    def allowed(self, value: Json, pointer: str, *names: str) -> None:
        for name in sorted(set(value) - {"type", "block_id", *names}):
            self.add(f"invalid additional property: {name}", pointer)

    def text_object(self, value: Any, pointer: str, most: int, *, plain: bool = False) -> None:
        if not isinstance(value, dict):
            self.add("missing required field: text object", pointer)
        elif value.get("type") not in ("plain_text", "mrkdwn"):
            self.add(f"unsupported type: {value.get('type')}", f"{pointer}/type")
        elif plain and value["type"] != "plain_text":
            self.add("must be a plain_text object", f"{pointer}/type")
        elif self.required(value, pointer, "text"):
            self.length(value["text"], f"{pointer}/text", most, least=1)
            permitted = {"plain_text": ("text", "emoji"), "mrkdwn": ("text", "verbatim")}[value["type"]]
            self.allowed(value, pointer, *permitted)

    # -- blocks ---------------------------------------------------------------------------------------------------

    def block(self, block: Any, at: str, surface: Surface) -> None:
        kind = _kind(block)
        if kind is None:
            self.add("missing required field: type", at)
            return
        if kind not in _BLOCKS[surface]:
            self.add(f"unsupported type: {kind}", f"{at}/type")
            return
        if "block_id" in block:
            self.length(block["block_id"], f"{at}/block_id", self.limits.block.id)
        walkers: dict[str, Callable[[Json, str], None]] = {
            "section": self._section,
            "divider": self.allowed,
            "header": self._header,
            "context": self._context,
            "actions": self._actions,
            "image": self._image_block,
            "input": self._input,
            "rich_text": self._rich_text,
            "markdown": self._markdown,
            "table": self._table,
            "file": self._file,
            "video": self._video,
        }
        walkers[kind](block, at)

    def _section(self, block: Json, at: str) -> None:
        self.allowed(block, at, "text", "fields", "accessory", "expand")
        if "text" not in block and "fields" not in block:
            self.add("missing required field: text or fields", at)
        if "text" in block:
            self.text_object(block["text"], f"{at}/text", self.limits.block.section_text)
        if "fields" in block:
            fields = self.count(block["fields"], f"{at}/fields", self.limits.block.section_fields, least=1)
            for index, text in enumerate(fields):
                self.text_object(text, f"{at}/fields/{index}", self.limits.block.section_field)
        if "accessory" in block:
            self.element(block["accessory"], f"{at}/accessory", _IN_SECTION)

    def _header(self, block: Json, at: str) -> None:
        self.allowed(block, at, "text")
        self.text_object(block.get("text"), f"{at}/text", self.limits.block.header, plain=True)

    def _context(self, block: Json, at: str) -> None:
        self.allowed(block, at, "elements")
        for index, element in enumerate(self._elements(block, at, self.limits.block.context)):
            here = f"{at}/elements/{index}"
            if _is(element, "image"):
                self._image(element, here)
            else:
                self.text_object(element, here, self.limits.block.text)

    def _actions(self, block: Json, at: str) -> None:
        self.allowed(block, at, "elements")
        elements = self._elements(block, at, self.limits.block.actions)
        self.unique((e.get("action_id") for e in elements if isinstance(e, dict)), "action_id", f"{at}/elements")
        for index, element in enumerate(elements):
            self.element(element, f"{at}/elements/{index}", _IN_ACTIONS)

    def _elements(self, block: Json, at: str, most: int) -> list[Any]:
        if not self.required(block, at, "elements"):
            return []
        return self.count(block["elements"], f"{at}/elements", most, least=1)

    def _image_block(self, block: Json, at: str) -> None:
        self.allowed(block, at, "image_url", "slack_file", "alt_text", "title")
        self._image(block, at)
        if "title" in block:
            self.text_object(block["title"], f"{at}/title", self.limits.block.image_title, plain=True)

    def _image(self, image: Json, at: str) -> None:
        if self.required(image, at, "alt_text"):
            self.length(image["alt_text"], f"{at}/alt_text", self.limits.block.image_alt, least=1)
        if ("image_url" in image) == ("slack_file" in image):
            self.add("must have exactly one of image_url and slack_file", at)
        elif "image_url" in image:
            self.length(image["image_url"], f"{at}/image_url", self.limits.block.image_url, least=1)
            if not str(image["image_url"]).startswith(("https://", "http://")):
                self.add("must be a valid URL", f"{at}/image_url")
        elif not isinstance(image["slack_file"], dict) or len({"id", "url"} & set(image["slack_file"])) != 1:
            self.add("must have exactly one of id and url", f"{at}/slack_file")

    def _input(self, block: Json, at: str) -> None:
        self.allowed(block, at, "label", "element", "hint", "optional", "dispatch_action")
        self.text_object(block.get("label"), f"{at}/label", self.limits.block.input_label, plain=True)
        if "hint" in block:
            self.text_object(block["hint"], f"{at}/hint", self.limits.block.input_hint, plain=True)
        if self.required(block, at, "element"):
            sound = len(self.complaints)
            self.element(block["element"], f"{at}/element", _IN_INPUT)
            fault = first_value_fault(block["element"]) if len(self.complaints) == sound else None
            if fault:
                self.add(fault, f"{at}/element")

    def _rich_text(self, block: Json, at: str) -> None:
        self.allowed(block, at, "elements")
        if not self.required(block, at, "elements"):
            return
        for index, element in enumerate(self.count(block["elements"], f"{at}/elements", _MANY)):
            if _kind(element) not in _RICH:
                self.add(f"unsupported type: {_kind(element)}", f"{at}/elements/{index}/type")
            elif not isinstance(element.get("elements"), list):
                self.add("missing required field: elements", f"{at}/elements/{index}")

    def _markdown(self, block: Json, at: str) -> None:
        self.allowed(block, at, "text")
        if self.required(block, at, "text"):
            self.length(block["text"], f"{at}/text", self.limits.block.markdown, least=1)

    def _table(self, block: Json, at: str) -> None:
        self.allowed(block, at, "rows", "column_settings")
        if not self.required(block, at, "rows"):
            return
        total = 0
        for index, row in enumerate(self.count(block["rows"], f"{at}/rows", self.limits.block.table_rows, least=1)):
            cells = self.count(row, f"{at}/rows/{index}", self.limits.block.table_columns, least=1)
            for column, cell in enumerate(cells):
                total += self._cell(cell, f"{at}/rows/{index}/{column}")
        if total > self.limits.block.table_chars:
            self.add(f"table cells together must be less than {self.limits.block.table_chars + 1} characters", at)
        self.count(block.get("column_settings", []), f"{at}/column_settings", self.limits.block.table_columns)

    def _cell(self, cell: Any, at: str) -> int:
        """Characters in the cell."""
        if _is(cell, "raw_text"):
            self.length(cell.get("text"), f"{at}/text", self.limits.block.table_chars, least=1)
            return len(str(cell.get("text", "")))
        if _is(cell, "rich_text"):
            self._rich_text(cell, at)
            return len(_plain(cell))
        self.add("unsupported type: a cell is raw_text or rich_text", f"{at}/type")
        return 0

    def _file(self, block: Json, at: str) -> None:
        self.required(block, at, "external_id", "source")

    def _video(self, block: Json, at: str) -> None:
        self.required(block, at, "alt_text", "title", "thumbnail_url", "video_url")

    # -- elements -------------------------------------------------------------------------------------------------

    def element(self, element: Any, at: str, permitted: set[str]) -> None:
        kind = _kind(element)
        if kind not in permitted:
            self.add(f"unsupported type: {kind}", f"{at}/type")
            return
        if kind == "image":
            self._image(element, at)
            return
        if "action_id" in element:
            self.length(element["action_id"], f"{at}/action_id", self.limits.block.id, least=1)
        if "confirm" in element:
            self._confirm(element["confirm"], f"{at}/confirm")
        if "placeholder" in element:
            self.text_object(element["placeholder"], f"{at}/placeholder", self.limits.element.placeholder, plain=True)
        if kind == "button":
            self._button(element, at)
        elif kind == "plain_text_input":
            self._typed(element, at)
        elif kind in {"static_select", "multi_static_select", "overflow"} | _CHOICES:
            self._options(element, at)

    def _button(self, button: Json, at: str) -> None:
        limits = self.limits.element
        self.allowed(button, at, "text", "action_id", "url", "value", "style", "confirm", "accessibility_label")
        self.text_object(button.get("text"), f"{at}/text", limits.button_text, plain=True)
        for name, most in (
            ("value", limits.value),
            ("url", limits.url),
            ("accessibility_label", limits.accessibility_label),
        ):
            if name in button:
                self.length(button[name], f"{at}/{name}", most)
        if button.get("style", "primary") not in ("primary", "danger"):
            self.add("must be one of primary, danger", f"{at}/style")

    def _confirm(self, confirm: Any, at: str) -> None:
        if not isinstance(confirm, dict):
            self.add("must be an object", at)
            return
        limits = self.limits.element
        self.text_object(confirm.get("title"), f"{at}/title", limits.confirm_title, plain=True)
        self.text_object(confirm.get("text"), f"{at}/text", limits.confirm_text)
        self.text_object(confirm.get("confirm"), f"{at}/confirm", limits.confirm_button, plain=True)
        self.text_object(confirm.get("deny"), f"{at}/deny", limits.confirm_button, plain=True)
        self.allowed(confirm, at, "title", "text", "confirm", "deny", "style")

    def _typed(self, element: Json, at: str) -> None:
        longest = element.get("max_length", self.limits.element.input_length)
        if not isinstance(longest, int) or not 1 <= longest <= self.limits.element.input_length:
            self.add(f"must be between 1 and {self.limits.element.input_length}", f"{at}/max_length")

    def _options(self, element: Json, at: str) -> None:
        limits = self.limits.element
        if "option_groups" in element and "static_select" in element["type"]:
            groups = self.count(element["option_groups"], f"{at}/option_groups", limits.option_groups, least=1)
            for index, group in enumerate(groups):
                here = f"{at}/option_groups/{index}"
                if not isinstance(group, dict):
                    self.add("must be an object", here)
                    continue
                self.text_object(group.get("label"), f"{here}/label", limits.option_text, plain=True)
                self._option_list(group.get("options"), f"{here}/options", limits.options)
            return
        most = {"overflow": limits.overflow, "checkboxes": limits.choices, "radio_buttons": limits.choices}
        self._option_list(element.get("options"), f"{at}/options", most.get(element["type"], limits.options))

    def _option_list(self, options: Any, at: str, most: int) -> None:
        limits = self.limits.element
        for index, option in enumerate(self.count(options, at, most, least=1)):
            here = f"{at}/{index}"
            if not isinstance(option, dict):
                self.add("must be an object", here)
                continue
            self.text_object(option.get("text"), f"{here}/text", limits.option_text)
            if self.required(option, here, "value"):
                self.length(option["value"], f"{here}/value", limits.option_value, least=1)
            if "description" in option:
                self.text_object(option["description"], f"{here}/description", limits.option_description, plain=True)


def _plain(value: Any) -> str:
    """All the text in a rich_text element, without its styles."""
    if isinstance(value, dict):
        own = value.get("text")
        return (own if isinstance(own, str) else "") + _plain(value.get("elements", []))
    if isinstance(value, list):
        return "".join(_plain(item) for item in value)
    return ""
