"""How do texts, values and images of a case stand on a page? Shortened where everybody sees it, and never as markup.

What does not print is made visible later, wherever the templates print a text; see `toolmark.report.html.page`.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NamedTuple

from toolmark._internal.images import DATA_URL, hash_images, image_type
from toolmark._internal.json import json_text, replace_nonfinite
from toolmark._internal.text import shorten
from toolmark.cases import MLLMImage

LONGEST_TEXT = 8_000
"""Characters of one message, reason or error."""
LONGEST_VALUE = 4_000
"""Characters of one JSON value."""
LONGEST_LINE = 300
"""Characters of a text on one line."""
LONGEST_NAME = 120
"""Characters of a name."""

_ONE_LINE = 72
_LARGEST_IMAGE = 2_000_000
_ALL_IMAGES = 20_000_000


class Clip(NamedTuple):
    """A text, or its beginning.

    Attributes:
        text: What is shown.
        note: How much is not; empty where all is.
    """

    text: str
    note: str = ""


def clip(text: str, limit: int = LONGEST_TEXT) -> Clip:
    """Return a text of at most `limit` characters, and a note where that is not all of it."""
    if len(text) <= limit:
        return Clip(text)
    return Clip(text[:limit], f"shortened: the first {limit:,} of {len(text):,} characters")


def value_clip(value: Any, limit: int = LONGEST_VALUE) -> Clip:  # noqa: ANN401 - a JSON value
    """Return a JSON value as text, over several lines where it is long; an image in it as its type and its hash."""
    plain = hash_images(value)
    if isinstance(plain, str) and plain.lstrip()[:1] not in {"[", "{"} and "\n" in plain:
        return clip(plain, limit)
    text = json_text(plain)
    if len(text) > _ONE_LINE:
        text = json.dumps(replace_nonfinite(plain), ensure_ascii=False, indent=2)
    return clip(text, limit)


class Picture(NamedTuple):
    """An image of a case.

    Attributes:
        address: A `data:` URL of a raster image; empty where it is not shown.
        words: What it is, or why it is not shown.
    """

    address: str
    words: str


class Pictures:
    """Makes pictures of images that are free of secrets, until the page has enough. Nothing is fetched or read."""

    def __init__(self) -> None:
        """Begin with none."""
        self._left = _ALL_IMAGES

    def of(self, image: MLLMImage, place: str) -> Picture:
        """Return an image that stands at a place, such as `image 1 of the input`.

        Only bytes that are PNG, JPEG, GIF or WebP are shown, whatever the image says of itself.
        """
        match = DATA_URL.fullmatch(image.url or "")
        data = image.data if match is None else match["data"]
        if data is None:
            where = image.path if image.url is None else image.url
            return Picture("", f"{place}, not loaded: {shorten(where or '', LONGEST_LINE)}")
        mime = _raster(data)
        if mime is None:
            return Picture("", f"{place}, not shown: no PNG, JPEG, GIF or WebP")
        if len(data) > min(_LARGEST_IMAGE, self._left):
            return Picture("", f"{place}, not shown: {mime} of {len(data):,} characters; the page has no room for it")
        self._left -= len(data)
        return Picture(f"data:{mime};base64,{data}", place)


def _raster(data: str) -> str | None:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return image_type(content)
