"""Detection of images in JSON values, by their bytes, in whatever form a framework stores them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from operator import is_
from typing import Any, Final

from toolgrade._internal.message_content import MIME_KEYS, first_of

DATA_URL: Final = re.compile(
    r"data:(?P<mime>[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,(?P<data>.*)", re.DOTALL | re.ASCII
)
"""A `data:` URL with base64 text."""

_DATA_KEYS = ("data", "base64")
_KEYS_OF_DATA = frozenset({*_DATA_KEYS, *MIME_KEYS, "type", "encoding", "size", "source_type"})
_WRAPPER_KEYS = ("source", "image_url", "url")
_KEYS_OF_WRAPPER = frozenset({"type", "detail", "source_type", "mime_type", "mimeType"})
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

    See `replace_images`.
    """
    return replace_images(value, _hash)


def replace_images(value: Any, replace: Callable[[str, bytes], dict[str, Any]]) -> Any:
    """Return a JSON value in which every image is what `replace(mime_type, content)` returns; else `value` itself.

    Images are: `data:` URLs, bytes as toolgrade stores them, `MLLMImage`, and the message parts of OpenAI, Anthropic,
    LangChain and MCP. Paths and addresses of images stay as they are: nothing is read or fetched.
    """
    return _ImageReplacer(replace).value(value)


class _ImageReplacer:
    """Replacement of the images in one JSON value."""

    def __init__(self, replace: Callable[[str, bytes], dict[str, Any]]) -> None:
        self._replace = replace

    def value(self, value: Any) -> Any:
        """Return a value with its images replaced, the same object if it has none."""
        if isinstance(value, str):
            match = DATA_URL.fullmatch(value) if value.startswith("data:image/") else None
            return (match and self._base64(match["data"])) or value
        if isinstance(value, list):
            items = list(map(self.value, value))
            # The same object is returned if nothing changed, so that comparing outputs without images copies nothing.
            return value if all(map(is_, items, value)) else items
        if isinstance(value, dict):
            return self._image_object(value) or self._fields(value)
        return value

    def _fields(self, value: dict[str, Any]) -> dict[str, Any]:
        fields = {key: self.value(item) for key, item in value.items()}
        return value if all(map(is_, fields.values(), value.values())) else fields

    def _image_object(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """Return the replacement of an object that is an image and nothing else."""
        data = first_of(value, *_DATA_KEYS)
        if isinstance(data, str) and value.keys() <= _KEYS_OF_DATA:
            return self._base64(data)
        for name in _WRAPPER_KEYS:
            if name in value and value.keys() - {name} <= _KEYS_OF_WRAPPER:
                inner = value[name]
                image = self._image_object(inner) if isinstance(inner, dict) else self.value(inner)
                return image if isinstance(image, dict) else None
        return None

    def _base64(self, text: str) -> dict[str, Any] | None:
        if len(text) < _MIN_LENGTH:
            return None
        try:
            content = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return None
        mime = image_type(content)
        return None if mime is None else self._replace(mime, content)


def _hash(mime: str, content: bytes) -> dict[str, Any]:
    return {"image": mime, "sha256": hashlib.sha256(content).hexdigest()}
