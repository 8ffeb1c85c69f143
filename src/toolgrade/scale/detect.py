"""Detection of files that are scored part by part, without importing the rest of `scale`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

BOM: Final = b"\xef\xbb\xbf"

_HEAD_BYTES = 4096

LARGE_BYTES: Final = 16 << 20
"""Size from which JSON Lines are read part by part, by all cores: below, starting processes takes longer."""

MANIFEST: Final = "manifest.json"
"""Name of the first file in the folder of the parts."""


def is_large(path: str) -> bool:
    """Return whether a file is large, and neither compressed nor a pipe: it begins with an object."""
    try:
        if not Path(path).is_file() or Path(path).stat().st_size < LARGE_BYTES:
            return False
        with Path(path).open("rb") as file:
            return file.read(_HEAD_BYTES).removeprefix(BOM).lstrip().startswith(b"{")
    except OSError:
        return False


def parts_of(target: Path) -> Path:
    """Return the folder of the parts until the results are complete."""
    return target.with_name(f"{target.name}.parts")


def is_scored_by_parts(path: str, results: str | None, *, resume: bool) -> bool:
    """Return whether one file is scored part by part: it is large, or the results to resume were begun like that."""
    if results is None:
        return is_large(path)
    is_begun = (parts_of(Path(results)) / MANIFEST).exists()
    return is_begun or (is_large(path) and not (resume and Path(results).exists()))
