"""Uploads in Slack's three steps: ask for a URL, send the bytes there, complete."""

from typing import Any

from bot.simulator.api.call import Call, Method
from bot.simulator.interactions import bot_message
from bot.simulator.refusal import Json, SlackRefusal
from bot.simulator.uploads import public_file
from bot.simulator.validation import check_message
from bot.simulator.workspace import Channel, StoredFile


def get_upload_url(call: Call) -> Json:
    name = call.text("filename")
    length = call.number("length", 0)
    if length <= 0:
        raise SlackRefusal("invalid_arguments", ["[ERROR] must be greater than 0 [json-pointer:/length]"])
    if length > call.limits.body.upload_bytes:
        raise SlackRefusal("file_upload_size_restricted")
    file_id = call.workspace.new_id("F")
    alt_text = str(call.args.get("alt_txt") or "")
    call.workspace.files[file_id] = StoredFile(file_id, name, name, length, call.workspace.bot.id, alt_text=alt_text)
    return {"upload_url": f"{call.base_url}/upload/{call.upload_ticket(file_id)}", "file_id": file_id}


def complete_upload(call: Call) -> Json:
    """The files are there for everybody, and stand in one message where a channel was given."""
    wanted = call.array("files", "invalid_arguments")
    if not wanted or len(wanted) > call.limits.message.files:
        raise SlackRefusal("invalid_arguments", ["[ERROR] must have 1 to 10 files [json-pointer:/files]"])
    files = [_uploaded(call, item) for item in wanted]
    messages = [(channel, _message(call, channel)) for channel in _channels(call)]
    for file, item in zip(files, wanted, strict=True):
        file.title = str(item.get("title") or file.name)
        file.shared = True
    for channel, message in messages:
        _post(call, channel, message, files)
    return {"files": [public_file(file, call.base_url) for file in files]}


def info(call: Call) -> Json:
    return {"file": public_file(_known(call), call.base_url)}


def list_files(call: Call) -> Json:
    shared = [file for file in call.workspace.files.values() if file.shared]
    return {"files": [public_file(file, call.base_url) for file in shared]}


def delete(call: Call) -> Json:
    file = _known(call)
    del call.workspace.files[file.id]
    return {}


def _known(call: Call) -> StoredFile:
    file = call.workspace.files.get(call.text("file"))
    if file is None or not file.shared:
        raise SlackRefusal("file_not_found")
    return file


def _uploaded(call: Call, item: Any) -> StoredFile:
    file_id = item.get("id") if isinstance(item, dict) else None
    file = call.workspace.files.get(str(file_id))
    if file is None or file.data is None:
        raise SlackRefusal("file_not_found")
    if file.shared:
        raise SlackRefusal("file_already_completed")
    return file


def _channels(call: Call) -> list[Channel]:
    if call.args.get("channel_id"):
        return [call.channel(name="channel_id", writing=True)]
    if not call.args.get("channels"):
        return []
    names = str(call.args["channels"]).split(",")
    return [call.with_args(channel=name).channel(writing=True) for name in names]


def _message(call: Call, channel: Channel) -> Json:
    """The message that will carry the files, checked before anything is changed."""
    text = str(call.args.get("initial_comment") or "")
    blocks = call.array("blocks", "invalid_blocks_format")
    if text or blocks:
        check_message(text, blocks, None, call.limits, updating=False)
    message = bot_message(call.workspace, {"text": text, "blocks": blocks})
    thread_ts = call.thread_ts(channel)
    if thread_ts is not None:
        message["thread_ts"] = thread_ts
    return message


def _post(call: Call, channel: Channel, message: Json, files: list[StoredFile]) -> None:
    message["files"] = [public_file(file, call.base_url) for file in files]
    message["upload"] = True
    for file in files:
        file.channels.append(channel.id)
    call.workspace.post(channel.id, message)


METHODS: dict[str, Method] = {
    "files.getUploadURLExternal": get_upload_url,
    "files.completeUploadExternal": complete_upload,
    "files.info": info,
    "files.list": list_files,
    "files.delete": delete,
}
