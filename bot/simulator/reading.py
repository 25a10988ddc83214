"""What a person reads in a message: its blocks as plain lines. Pure; for tests and transcripts."""

from typing import Any

from bot.simulator.refusal import Json


def shown_text(message: Json) -> str:
    """All words of a message as a reader sees them: its blocks, or its text where it has none, then file titles.

    Buttons stand in square brackets, table cells are parted by ` | `.
    """
    blocks = message.get("blocks") or []
    lines = [_block(block) for block in blocks] or [message.get("text", "")]
    lines += [f"[file {file['title']}]" for file in message.get("files", [])]
    return "\n".join(line for line in lines if line)


def _block(block: Json) -> str:
    match block.get("type"):
        case "table":
            return "\n".join(" | ".join(_words(cell) for cell in row) for row in block["rows"])
        case "actions":
            return " ".join(_element(element) for element in block["elements"])
        case "image":
            return f"[image {block['alt_text']}]"
        case "section":
            parts = [_words(block.get("text")), *map(_words, block.get("fields", [])), _element(block.get("accessory"))]
            return "\n".join(part for part in parts if part)
        case _:
            return _words(block)


def _element(element: Json | None) -> str:
    if not element:
        return ""
    if element["type"] == "image":
        return f"[image {element['alt_text']}]"
    return f"[{_words(element.get('text')) or _words(element.get('placeholder')) or element['type']}]"


def _words(value: Any) -> str:
    """The text in an object of any nesting."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return ""
    text = value.get("text")
    if text is not None:
        return _words(text)
    return "".join(_words(element) for element in value.get("elements", []))
