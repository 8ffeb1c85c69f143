"""Is a file scored part by part, by what it is or by what was begun? Told without loading `scale`, which does it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PARQUET: Final = b"PAR1"
"""How a Parquet file begins."""

MANIFEST: Final = "manifest.json"
"""What lies first in the folder of the parts."""


def is_parquet(path: str) -> bool:
    """Return whether a file begins as Parquet files do; one that cannot be read, or read again, does not."""
    try:
        if not Path(path).is_file():  # what is read from a pipe is gone
            return False
        with Path(path).open("rb") as file:
            return file.read(len(PARQUET)) == PARQUET
    except OSError:
        return False


def parts_of(target: Path) -> Path:
    """Return the folder in which the parts of results are kept until they are whole."""
    return target.with_name(f"{target.name}.parts")


def is_begun(results: str) -> bool:
    """Return whether parts of these results are there, so that they can be gone on with."""
    return (parts_of(Path(results)) / MANIFEST).exists()
