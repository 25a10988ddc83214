"""What a JSON schema has against a value, in words."""

from __future__ import annotations

from jsonschema.exceptions import ValidationError

from lab.plan import number

CHINESE = {
    "maximum": "最大是 {limit}",
    "minimum": "最小是 {limit}",
    "exclusiveMaximum": "必须小于 {limit}",
    "exclusiveMinimum": "必须大于 {limit}",
    "multipleOf": "必须是 {limit} 的倍数",
    "type": "类型应为 {limit}",
    "enum": "只能是 {limit} 之一",
    "const": "只能是 {limit}",
    "pattern": "格式应为 {limit}",
    "required": "缺少 {limit}",
}
"""By the schema's keyword; others are said in the library's English."""


def complaint(error: ValidationError, chinese: bool) -> str:
    """Why the value is not taken: `0.5 is greater than the maximum of 0.1`, `最大是 0.1`."""
    keyword = str(error.validator)
    if not chinese:
        return error.message
    if keyword == "additionalProperties" and isinstance(error.instance, dict):
        known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        return "没有参数 " + "、".join(sorted(set(error.instance) - set(known)))
    limit = error.validator_value
    shown = "、".join(number(value) for value in limit) if isinstance(limit, list) else number(limit)
    return CHINESE[keyword].format(limit=shown) if keyword in CHINESE else error.message
