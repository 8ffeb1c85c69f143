"""Content of messages in the forms of providers and frameworks: objects, texts and images.

Recorders and readers of files take the same forms, so they are known here, once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from operator import is_
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from toolgrade._internal.model import drop_none

Fields: TypeAlias = Mapping[str, Any]
"""An object as it was recorded, or the fields of an SDK object."""

_TEXT_KEYS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Types of content parts that are text, each with the key of the text."""

_NOT_OBJECTS = frozenset({type(None), str, int, float, bool, list})
"""Types of JSON values that are not objects. Most lookups end here, and `isinstance` of an abstract class is slow."""

_IMAGE_TYPES = frozenset({"image", "image_url", "input_image"})

MIME_KEYS = ("mime_type", "mimeType", "media_type", "mediaType", "image_mimetype")
"""Names of the MIME type in the forms of images."""


def as_object(value: object) -> Fields | None:
    """Return a mapping as it is, the fields of an SDK object, and `None` for anything else.

    An SDK object is one with `model_dump`, or a dataclass; of models and dataclasses, fields that are `None` were not
    set, and are left out.
    """
    if type(value) is dict:
        return value
    if type(value) in _NOT_OBJECTS or isinstance(value, type):
        return None
    return value if isinstance(value, Mapping) else _sdk_fields(value)


def _sdk_fields(value: Any) -> Fields | None:
    """Return the fields of an SDK object, `None` for anything else."""
    if isinstance(value, BaseModel):
        # Clients build their objects unchecked, so a field may hold what its type rules out.
        return value.model_dump(exclude_none=True, warnings=False)
    if is_dataclass(value):
        return drop_none({field.name: getattr(value, field.name) for field in fields_of(value)})
    dump = getattr(value, "model_dump", None)
    fields = dump() if callable(dump) else None
    return fields if isinstance(fields, Mapping) else None


def object_of(value: object) -> Fields:
    """Return an object as `as_object` does; an empty one for anything else."""
    return as_object(value) or {}


def parts_of(content: object) -> list[Any]:
    """Return the parts of a message's content; anything but a list is one part, and `None` is none."""
    if isinstance(content, (list, tuple)):
        return list(content)
    return [] if content is None else [content]


def text_of(value: object) -> str | None:
    """Return a text that is not empty; `None` for anything else."""
    return value if isinstance(value, str) and value else None


def text_or_empty(value: object) -> str:
    """Return a text; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def first_of(fields: Fields, *keys: str) -> Any:
    """Return the first value under one of these keys that is not `None`."""
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def is_tool_search(name: object) -> bool:
    """Return whether this names a provider's search for tools, or the type of its result: no tool is used by it."""
    return str(name).startswith("tool_search")


def part_type(part: object) -> str | None:
    """Return the `type` of a content part, if it has one."""
    return text_of(object_of(part).get("type"))


def part_text(part: object) -> str | None:
    """Return the text of a content part that is text or a refusal, `None` for any other."""
    if isinstance(part, str):
        return part
    fields = object_of(part)
    key = _TEXT_KEYS.get(str(fields.get("type", "text")))
    text = fields.get(key) if key else None
    return text if isinstance(text, str) else None


def image_fields(part: object) -> dict[str, Any] | None:
    """Return the `url`, `path` or `data`, and the `mime_type` if known, of a part that is an image; else `None`.

    The part has the form of OpenAI's chat or Responses API, Anthropic, LangChain, LlamaIndex, MCP, or the GenAI
    conventions of OpenTelemetry. An image that a provider stores under an id is not in the part, and gives `None`.
    Nothing is read or fetched. Values of other types than these forms have may raise.
    """
    fields = object_of(part)
    if fields.get("modality") == "image":  # OpenTelemetry's types are `blob` and `uri`
        data, url = fields.get("content"), fields.get("uri")
        is_image = data is not None or url is not None
        return drop_none({"data": data, "url": url, "mime_type": fields.get("mime_type")}) if is_image else None
    return _typed_image_fields(fields) if first_of(fields, "type", "block_type") in _IMAGE_TYPES else None


def _typed_image_fields(fields: Fields) -> dict[str, Any] | None:
    inner = first_of(fields, "source", "image_url")
    holder: Fields = {"url": inner} if isinstance(inner, str) else object_of(inner) or fields
    data, url, path = first_of(holder, "data", "base64", "image"), holder.get("url"), holder.get("path")
    mime_type = text_of(first_of(holder, *MIME_KEYS) or first_of(fields, *MIME_KEYS))
    if data:
        # Under LlamaIndex's `image`, bytes are base64 text; under another key they are the image itself.
        data = data.decode("ascii") if isinstance(data, bytes) and "image" in holder else data
        return drop_none({"data": data, "mime_type": mime_type})
    if url:
        return drop_none({"url": str(url), "mime_type": mime_type})
    return drop_none({"path": os.fspath(path), "mime_type": mime_type}) if path else None


DATA_URL: Final = re.compile(
    r"data:(?P<mime>[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,(?P<data>.*)", re.DOTALL | re.ASCII
)
"""A `data:` URL with base64 text."""

_DATA_KEYS = ("data", "base64")
_ALLOWED_BESIDE_DATA = frozenset({*_DATA_KEYS, *MIME_KEYS, "type", "encoding", "size", "source_type"})
_WRAPPER_KEYS = ("source", "image_url", "url")
_ALLOWED_BESIDE_WRAPPER = frozenset({"type", "detail", "source_type", "mime_type", "mimeType"})
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
    """Return a JSON value in which each image is its type and the SHA-256 of its bytes; the same object if it has none.

    See `replace_images`.
    """
    return replace_images(value, _hash)


def replace_images(value: Any, replace: Callable[[str, bytes], dict[str, Any]]) -> Any:
    """Return a JSON value in which each image is what `replace(mime_type, content)` returns, or the same object.

    Images are PNG, JPEG, GIF and WebP data of at least 16 letters of base64: `data:` URLs, bytes as toolgrade stores
    them, `MLLMImage`, and the message parts of OpenAI, Anthropic, LangChain and MCP. Paths and addresses of images stay
    as they are: nothing is read or fetched.
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
        if isinstance(data, str) and value.keys() <= _ALLOWED_BESIDE_DATA:
            return self._base64(data)
        for name in _WRAPPER_KEYS:
            if name in value and value.keys() - {name} <= _ALLOWED_BESIDE_WRAPPER:
                inner = value[name]
                image = self._image_object(inner) if isinstance(inner, dict) else self.value(inner)
                return image if isinstance(image, dict) else None
        return None

    def _base64(self, text: str) -> dict[str, Any] | None:
        """Return the replacement of base64 text that is an image, else `None`."""
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
