"""When is a value an image, and which? By its bytes, in whatever form a framework keeps it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Any, Final

DATA_URL: Final = re.compile(
    r"data:(?P<mime>[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,(?P<data>.*)", re.DOTALL | re.ASCII
)
"""A `data:` URL with base64 text."""

_BESIDE_DATA = frozenset({"data", "type", "encoding", "size", "mime_type", "mimeType", "media_type", "mediaType"})
_AROUND = ("source", "image_url", "url")
_BESIDE_AROUND = frozenset({"type", "detail", "mime_type", "mimeType"})
_SHORTEST = 16
"""Letters of base64 text that an image has at least."""


def image_type(content: bytes) -> str | None:
    """Return the MIME type that these bytes are of: PNG, JPEG, GIF or WebP; `None` for anything else."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    return None


def hash_images(value: Any) -> Any:
    """Return a JSON value in which every image is its type and the SHA-256 of its bytes; itself if it has none.

    Images are: `data:` URLs, bytes as toolmark keeps them, `MLLMImage`, and the parts of messages of OpenAI, Anthropic
    and MCP. What only says where an image is, such as a path or an address, stays as it is: nothing is read.
    """
    if isinstance(value, str):
        return _of_url(value) if value.startswith("data:image/") else value
    if isinstance(value, list):
        items = [hash_images(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        found = _of_object(value)
        if found is not None:
            return found
        fields = {key: hash_images(item) for key, item in value.items()}
        return fields if any(fields[key] is not item for key, item in value.items()) else value
    return value


def _of_object(value: dict[str, Any]) -> dict[str, str] | None:
    data = value.get("data")
    if isinstance(data, str) and value.keys() <= _BESIDE_DATA:
        return _of_text(data)
    for name in _AROUND:
        if name in value and value.keys() - {name} <= _BESIDE_AROUND:
            inside = hash_images(value[name])
            return inside if inside is not value[name] and isinstance(inside, dict) and "sha256" in inside else None
    return None


def _of_url(url: str) -> dict[str, str] | str:
    match = DATA_URL.fullmatch(url)
    return (_of_text(match["data"]) if match else None) or url


def _of_text(text: str) -> dict[str, str] | None:
    if len(text) < _SHORTEST:
        return None
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    mime = image_type(content)
    return None if mime is None else {"image": mime, "sha256": hashlib.sha256(content).hexdigest()}
