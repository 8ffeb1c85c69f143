"""Values and images as the page shows them.

Characters that do not print are escaped later, wherever a template prints a text; see `toolmark.report.html.page`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from toolmark._internal.images import DATA_URL, hash_images, image_type
from toolmark._internal.json import json_text, replace_nonfinite
from toolmark._internal.text import shorten
from toolmark.cases import MLLMImage
from toolmark.expect import Matcher

LONGEST_LINE = 300
"""Characters of a text on one line."""
LONGEST_NAME = 120
"""Characters of a name."""

_ONE_LINE = 72
_LARGEST_IMAGE = 2_000_000
_ALL_IMAGES = 20_000_000


def value_text(value: Any) -> str:  # noqa: ANN401 - a JSON value
    """Return a JSON value as text, on several lines if it is long; an image inside it as its type and hash."""
    plain = hash_images(value)
    if isinstance(plain, str) and plain.lstrip()[:1] not in {"[", "{"} and "\n" in plain:
        return plain
    text = json_text(plain)
    if len(text) > _ONE_LINE:
        return json.dumps(replace_nonfinite(plain), ensure_ascii=False, indent=2)
    return text


class Picture(NamedTuple):
    """An image as a `data:` URL, which is empty if the image is not shown, with its caption."""

    address: str
    words: str


class Pictures:
    """Images of one page, up to a total size. Nothing is fetched from the network or read from the disk."""

    def __init__(self) -> None:
        """Begin with the whole size free."""
        self._left = _ALL_IMAGES

    def parts(self, content: str | Matcher | list[str | MLLMImage] | None, place: str) -> Iterator[str | Picture]:
        """Yield the texts and images of a redacted message, which captions call `place`; a matcher is described."""
        images = 0
        if isinstance(content, Matcher):
            content = content.describe()
        for part in [content] if isinstance(content, str) else content or ():
            if isinstance(part, str):
                yield part
            else:
                images += 1
                yield self.show(part, f"image {images} of {place}")

    def show(self, image: MLLMImage, place: str) -> Picture:
        """Return a redacted image with its place, such as `image 1 of message 2`, as caption.

        Only bytes that are PNG, JPEG, GIF or WebP are shown, whatever type the image declares.
        """
        match = DATA_URL.fullmatch(image.url or "")
        data = image.data if match is None else match["data"]
        if data is None:
            return Picture("", f"{place}, not loaded: {shorten(image.url or image.path or '', LONGEST_LINE)}")
        mime = _raster_type(data)
        if mime is None:
            return Picture("", f"{place}, not shown: not a PNG, JPEG, GIF or WebP image")
        if len(data) > min(_LARGEST_IMAGE, self._left):
            return Picture("", f"{place}, not shown: {mime} of {len(data):,} characters; the page has no room for it")
        self._left -= len(data)
        return Picture(f"data:{mime};base64,{data}", place)


def _raster_type(data: str) -> str | None:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return image_type(content)
