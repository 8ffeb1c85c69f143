"""Detection of images in JSON values, by their bytes, in whatever form a framework stores them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from operator import is_
from typing import Any, Final

DATA_URL: Final = re.compile(
    r"data:(?P<mime>[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,(?P<data>.*)", re.DOTALL | re.ASCII
)
"""A `data:` URL with base64 text."""

_KEYS_OF_DATA = frozenset({"data", "type", "encoding", "size", "mime_type", "mimeType", "media_type", "mediaType"})
_WRAPPER_KEYS = ("source", "image_url", "url")
_KEYS_OF_WRAPPER = frozenset({"type", "detail", "mime_type", "mimeType"})
_MIN_LENGTH = 16
"""Letters of base64 text that an image has at least."""

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def image_type(content: bytes) -> str | None:
    """Return the MIME type of PNG, JPEG, GIF or WebP bytes; `None` for anything else."""
    for signature, mime in _SIGNATURES.items():
        if content.startswith(signature):
            return mime
    return "image/webp" if content.startswith(b"RIFF") and content[8:12] == b"WEBP" else None


def hash_images(value: Any) -> Any:
    """Return a JSON value in which every image is its type and the SHA-256 of its bytes; `value` itself if it has none.

    Images are: `data:` URLs, bytes as toolmark stores them, `MLLMImage`, and the message parts of OpenAI, Anthropic
    and MCP. Paths and addresses of images stay as they are: nothing is read or fetched.
    """
    if isinstance(value, str):
        return _hash_data_url(value) if value.startswith("data:image/") else value
    if isinstance(value, list):
        items = list(map(hash_images, value))
        # The same object is returned if nothing changed, so that comparing outputs without images copies nothing.
        return value if all(map(is_, items, value)) else items
    if isinstance(value, dict):
        return _hash_image_object(value) or _hash_fields(value)
    return value


def _hash_data_url(url: str) -> object:
    match = DATA_URL.fullmatch(url)
    return (match and _hash_base64(match["data"])) or url


def _hash_fields(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object with the images in its fields hashed; the same object if there is none."""
    fields = {key: hash_images(item) for key, item in value.items()}
    return value if all(map(is_, fields.values(), value.values())) else fields


def _hash_image_object(value: dict[str, Any]) -> dict[str, str] | None:
    """Return the hash of an object that is an image and nothing else."""
    data = value.get("data")
    if isinstance(data, str) and value.keys() <= _KEYS_OF_DATA:
        return _hash_base64(data)
    for name in _WRAPPER_KEYS:
        if name in value and value.keys() - {name} <= _KEYS_OF_WRAPPER:
            return _hash_image(value[name])
    return None


def _hash_image(value: object) -> dict[str, str] | None:
    """Return the hash of a value that is an image as a whole."""
    image = hash_images(value)
    return image if image is not value and isinstance(image, dict) and "sha256" in image else None


def _hash_base64(text: str) -> dict[str, str] | None:
    if len(text) < _MIN_LENGTH:
        return None
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    mime = image_type(content)
    return None if mime is None else {"image": mime, "sha256": hashlib.sha256(content).hexdigest()}
