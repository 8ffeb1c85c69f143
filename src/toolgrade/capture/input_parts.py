"""Texts and images of a user's message, read from the content of any provider or framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolgrade._internal.message_content import DATA_URL, image_fields, part_text, parts_of
from toolgrade._internal.model import drop_none
from toolgrade.cases import MLLMImage


def image_parts(content: object) -> list[str | MLLMImage] | None:
    """Return the texts and images of a message's content in their order, `None` if there is no image.

    The content has the form of OpenAI's chat or Responses API, Anthropic, LangChain, LlamaIndex, MCP, or the GenAI
    conventions of OpenTelemetry, as plain objects or as objects of the SDK; an `MLLMImage` is taken as it is. Other
    parts, empty texts, images that a provider stores under an id, and images whose data is not base64 text are left
    out. A `data:` address becomes `data`. Never raises, and opens no file and no address.

    Example:
        >>> from toolgrade.capture import image_parts
        >>> content = [{"type": "text", "text": "Where is it?"}, {"type": "image", "url": "https://example.com/a.png"}]
        >>> text, image = image_parts(content)
        >>> text, image.url
        ('Where is it?', 'https://example.com/a.png')
    """
    return None if isinstance(content, str) else texts_with_images(map(_read_part, parts_of(content)))


def texts_with_images(pieces: Iterable[object]) -> list[str | MLLMImage] | None:
    """Return the texts that are not empty and the images among these pieces, `None` if there is no image."""
    parts = [piece for piece in pieces if piece and isinstance(piece, (str, MLLMImage))]
    return parts if any(isinstance(part, MLLMImage) for part in parts) else None


def texts_in(parts: Iterable[object]) -> list[str]:
    """Return the texts among the parts of a message."""
    return [part for part in parts if isinstance(part, str)]


def read_image(part: object) -> MLLMImage | None:
    """Return a part that is an image, `None` for any other part and for an image that cannot be read."""
    if isinstance(part, MLLMImage):
        return part
    try:
        fields = image_fields(part)
        return None if fields is None else MLLMImage(**_with_data(fields))
    except Exception:  # noqa: BLE001 - objects of a framework run code of their own, and a recorder never raises
        return None


def _with_data(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an image with the data of a `data:` address in its place, so that equal images are equal."""
    match = DATA_URL.fullmatch(fields.get("url") or "")
    if match is None:
        return fields
    return drop_none({"data": match["data"], "mime_type": fields.get("mime_type") or match["mime"]})


def _read_part(part: object) -> MLLMImage | str | None:
    try:
        return read_image(part) or part_text(part)
    except Exception:  # noqa: BLE001 - as for images
        return None
