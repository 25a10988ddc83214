"""Slack's limits, read from `limits.yaml`, where each stands beside its source."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml


@dataclass(frozen=True)
class MessageLimits:
    blocks: int
    post_text: int
    update_text: int
    blocks_json: int
    attachments: int
    files: int


@dataclass(frozen=True)
class ViewLimits:
    blocks: int
    title: int
    button: int
    private_metadata: int
    callback_id: int
    stack: int


@dataclass(frozen=True)
class BlockLimits:
    id: int
    section_text: int
    section_fields: int
    section_field: int
    header: int
    actions: int
    context: int
    text: int
    image_url: int
    image_alt: int
    image_title: int
    input_label: int
    input_hint: int
    markdown: int
    table_rows: int
    table_columns: int
    table_chars: int
    tables: int


@dataclass(frozen=True)
class ElementLimits:
    button_text: int
    value: int
    url: int
    accessibility_label: int
    placeholder: int
    input_length: int
    options: int
    option_groups: int
    option_text: int
    option_value: int
    option_description: int
    overflow: int
    choices: int
    confirm_title: int
    confirm_text: int
    confirm_button: int


@dataclass(frozen=True)
class ConnectionLimits:
    ack_s: float
    redelivery_s: list[float]
    count: int
    trigger_s: float
    response_uses: int
    response_s: float


@dataclass(frozen=True)
class RateLimits:
    posts_per_s: float
    post_burst: int
    updates_per_minute: int
    others_per_minute: int


@dataclass(frozen=True)
class BodyLimits:
    json_bytes: int
    upload_bytes: int


@dataclass(frozen=True)
class Limits:
    message: MessageLimits
    view: ViewLimits
    block: BlockLimits
    element: ElementLimits
    connection: ConnectionLimits
    rate: RateLimits
    body: BodyLimits


@cache
def slack_limits() -> Limits:
    """The limits of `limits.yaml`. A key missing or too many there is a TypeError that names it."""
    table = yaml.safe_load(files("bot.simulator").joinpath("limits.yaml").read_text(encoding="utf-8"))
    return Limits(
        message=MessageLimits(**table["message"]),
        view=ViewLimits(**table["view"]),
        block=BlockLimits(**table["block"]),
        element=ElementLimits(**table["element"]),
        connection=ConnectionLimits(**table["connection"]),
        rate=RateLimits(**table["rate"]),
        body=BodyLimits(**table["body"]),
    )
