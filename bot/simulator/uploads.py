"""Uploaded bytes: what they are, by their own first bytes, and how a message shows them."""

from bot.simulator.refusal import Json
from bot.simulator.workspace import StoredFile

_SIGNATURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n", "png"),
    "image/jpeg": (b"\xff\xd8\xff", "jpg"),
    "image/gif": (b"GIF8", "gif"),
}


def image_type(data: bytes) -> str | None:
    """The type if these bytes are an image that the page may show, else None. The name is not believed; no SVG."""
    for kind, (signature, _) in _SIGNATURES.items():
        if data.startswith(signature):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def public_file(file: StoredFile, base_url: str) -> Json:
    """The file object of Slack's API."""
    kind = image_type(file.data or b"")
    extension = file.name.rsplit(".", 1)[-1].lower() if "." in file.name else "binary"
    url = f"{base_url}/files/{file.id}"
    return {
        "id": file.id,
        "name": file.name,
        "title": file.title,
        "mimetype": kind or "application/octet-stream",
        "filetype": extension,
        "size": file.length,
        "user": file.user,
        "alt_txt": file.alt_text,
        "url_private": url,
        "url_private_download": url,
        "permalink": url,
        "is_external": False,
        "mode": "hosted",
    }
