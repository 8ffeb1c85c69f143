"""Images of a case that a judge is sent: read from data or from a folder that the user named, never fetched."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from toolgrade._internal.images import DATA_URL, image_type
from toolgrade._internal.json import short_repr
from toolgrade.cases import MLLMImage
from toolgrade.errors import ConfigurationError, InvalidDataError

LARGEST = 20_000_000
"""Bytes of the largest image that is sent."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image with its id in the evidence, a `data:` URL or address, and the SHA-256 of its bytes or address."""

    id: str
    url: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ImageAccess:
    """What may be read of images: files in a folder (`None`: no file), and whether addresses may be passed on.

    Nothing is ever fetched here. An image at an address is passed on as that address, and only if the user allowed it:
    the judge's provider then fetches it. A file is read only from the folder that the user named: a case does not say
    who made it, and a data set could name any file of this machine.
    """

    folder: Path | None = None
    addresses: bool = False


def read_image(image: MLLMImage, id: str, access: ImageAccess) -> Picture:
    """Return an image under an id.

    Raises:
        ConfigurationError: The image is an address or a file, and these are not allowed.
        InvalidDataError: The image is missing, outside of the folder, too large, not a PNG, JPEG, GIF or WebP image, or
            contradicts its `mime_type`.
    """
    if image.url is not None and not image.url.startswith("data:"):
        return _picture_at_address(image.url, id, allow_addresses=access.addresses)
    name = repr(image.path) if image.path is not None else "given as data"
    content, declared = _read_content(image, access.folder)
    if len(content) > LARGEST:
        message = f"the image {name} has {len(content):,} bytes or more; a judge is sent at most {LARGEST:,}"
        raise InvalidDataError(message)
    # The type is read from the bytes, so that a file that is not an image is never sent, whatever its name.
    mime = image_type(content)
    if mime is None:
        raise InvalidDataError(f"the image {name} is not a PNG, JPEG, GIF or WebP; it begins with {content[:12]!r}")
    if declared is not None and declared.lower().replace("image/jpg", "image/jpeg") != mime:
        raise InvalidDataError(f"the image {name} declares {declared!r}, but its bytes are {mime!r}; correct mime_type")
    text = base64.b64encode(content).decode("ascii")
    return Picture(id, f"data:{mime};base64,{text}", hashlib.sha256(content).hexdigest())


def _picture_at_address(url: str, id: str, *, allow_addresses: bool) -> Picture:
    if not allow_addresses:
        advice = "allow it with Judge(..., image_addresses=True), or give the image as data"
        raise ConfigurationError(f"the judge would have to fetch the image at {short_repr(url)}; {advice}")
    if not url.startswith(("https://", "http://")):
        raise InvalidDataError(f"the address of an image must begin with https:, http: or data:, got {short_repr(url)}")
    return Picture(id, url, hashlib.sha256(url.encode()).hexdigest())


def _read_content(image: MLLMImage, folder: Path | None) -> tuple[bytes, str | None]:
    """Return the bytes of an image, at most one more than is allowed of a file, and the declared type."""
    if image.path is not None:
        return _read_file(image.path, folder), image.mime_type
    if image.data is not None:
        return base64.b64decode(image.data), image.mime_type
    match = DATA_URL.fullmatch(image.url or "")
    if match is None:
        message = f"a data: URL of an image must have the form data:image/png;base64,..., got {short_repr(image.url)}"
        raise InvalidDataError(message)
    try:
        return base64.b64decode(match["data"], validate=True), image.mime_type or match["mime"]
    except ValueError as error:
        raise InvalidDataError(f"the data: URL of an image does not hold base64 text: {error}") from None


def _read_file(name: str, folder: Path | None) -> bytes:
    """Return the bytes of a file in a folder, at most one more than is allowed; a relative name is one in the folder.

    Raises:
        ConfigurationError: There is no folder.
        InvalidDataError: The file is elsewhere, not a regular file, or cannot be read.
    """
    if folder is None:
        advice = "name the folder of its images with Judge(..., image_folder=...), or give the image as data"
        raise ConfigurationError(
            f"the image {name!r} is a file, and a case may name any file of this machine; {advice}"
        )
    try:
        # Links are followed here, so that one that leads out of the folder is seen.
        path = (folder / name).resolve(strict=True)
        if not path.is_relative_to(folder.resolve()):
            raise InvalidDataError(f"the image {name!r} must lie in image_folder {str(folder)!r}, got {str(path)!r}")
        # Opening a named pipe waits for another program, and a device may have no end.
        if not path.is_file():
            raise InvalidDataError(f"the image {name!r} must be a regular file; give another path")
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except (OSError, ValueError, RuntimeError) as error:  # the last for links in a circle
        raise InvalidDataError(f"the image {name!r} cannot be read: {error}") from error
