"""Images for a judge: read from where a case says they are, and told to be what they are.

Nothing is fetched here, ever. An image at an address is handed on as that address, and only if the user allowed it: the
provider of the judge then fetches it.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from toolmark._internal.images import DATA_URL, image_type
from toolmark._internal.json import short_repr
from toolmark.cases import MLLMImage
from toolmark.errors import ConfigurationError, InvalidDataError

LARGEST = 20_000_000
"""Bytes of an image."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as a judge gets it.

    Attributes:
        id: Its id in the evidence.
        url: A `data:` URL, or the address.
        sha256: Of the bytes, or of the address.
    """

    id: str
    url: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ImageReader:
    """Reads images.

    Attributes:
        addresses: Hand on addresses of images; else they are refused.
    """

    addresses: bool = False

    def read(self, image: MLLMImage, id: str) -> Picture:
        """Return an image under an id.

        Raises:
            ConfigurationError: It is an address, and addresses are not allowed.
            InvalidDataError: There is no such file, it is too large, or it is no PNG, JPEG, GIF or WebP image, or not
                the one that its `mime_type` says.
        """
        if image.url is not None and not image.url.startswith("data:"):
            return self._address(image.url, id)
        content, said = _content(image)
        mime = _mime(content, said, image)
        text = base64.b64encode(content).decode("ascii")
        return Picture(id, f"data:{mime};base64,{text}", hashlib.sha256(content).hexdigest())

    def _address(self, url: str, id: str) -> Picture:
        if not self.addresses:
            message = (
                f"the judge would have to fetch the image at {short_repr(url)}; allow it with "
                "Judge(..., image_addresses=True), or give the image as a path or as data"
            )
            raise ConfigurationError(message)
        if not url.startswith(("https://", "http://")):
            message = f"the address of an image begins with https:, http: or data:, got {short_repr(url)}"
            raise InvalidDataError(message)
        return Picture(id, url, hashlib.sha256(url.encode()).hexdigest())


def _content(image: MLLMImage) -> tuple[bytes, str | None]:
    """Return the bytes of an image, and the type that it is said to have."""
    if image.path is not None:
        return _file(image.path), image.mime_type
    if image.data is not None:
        content, said = base64.b64decode(image.data), image.mime_type
    else:
        match = DATA_URL.fullmatch(image.url or "")
        if match is None:
            message = f"a data: URL of an image has the form data:image/png;base64,..., got {short_repr(image.url)}"
            raise InvalidDataError(message)
        try:
            content = base64.b64decode(match["data"], validate=True)
        except ValueError as error:
            message = f"the data: URL of an image holds no base64 text: {error}"
            raise InvalidDataError(message) from None
        said = image.mime_type or match["mime"]
    if len(content) > LARGEST:
        raise _too_large("given as data", len(content))
    return content, said


def _file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        message = f"the image {path!r} cannot be read: {error}"
        raise InvalidDataError(message) from error
    if len(content) > LARGEST:
        raise _too_large(repr(path), len(content))
    return content


def _too_large(where: str, size: int) -> InvalidDataError:
    return InvalidDataError(f"the image {where} has {size:,} bytes or more; a judge is sent at most {LARGEST:,}")


def _mime(content: bytes, said: str | None, image: MLLMImage) -> str:
    """Return what the bytes are. A file that is no image is not sent, whatever it is called."""
    found = image_type(content)
    name = repr(image.path) if image.path is not None else "given as data"
    if found is None:
        message = f"the image {name} is no PNG, JPEG, GIF or WebP; it begins with {content[:12]!r}"
        raise InvalidDataError(message)
    if said is not None and said.lower().replace("image/jpg", "image/jpeg") != found:
        message = f"the image {name} is said to be {said!r}, but its bytes are {found!r}; correct mime_type"
        raise InvalidDataError(message)
    return found
