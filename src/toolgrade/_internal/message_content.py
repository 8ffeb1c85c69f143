"""Content of messages in the forms of providers and frameworks: objects, texts and images, read without failing.

Recorders and readers of files take the same forms, so they are known here, once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from typing import Any, TypeAlias

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

    An SDK object is one with `model_dump`, or a dataclass; fields that are `None` were not set, and are left out.
    """
    if type(value) is dict:
        return value
    if type(value) in _NOT_OBJECTS or isinstance(value, type):
        return None
    return value if isinstance(value, Mapping) else _sdk_fields(value)


def _sdk_fields(value: Any) -> Fields | None:  # noqa: ANN401 - any value
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


def first_of(fields: Fields, *keys: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return the first value under one of these keys that is not `None`."""
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


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
    Nothing is read or fetched.
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
