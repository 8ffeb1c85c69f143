"""Detection of files that are scored part by part, without importing the rest of `scale`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PARQUET: Final = b"PAR1"
"""First bytes of a Parquet file."""

MANIFEST: Final = "manifest.json"
"""Name of the first file in the folder of the parts."""


def is_parquet(path: str) -> bool:
    """Return whether a file is Parquet; one that cannot be read, or only once, is not."""
    try:
        if not Path(path).is_file():  # reading a pipe would consume it
            return False
        with Path(path).open("rb") as file:
            return file.read(len(PARQUET)) == PARQUET
    except OSError:
        return False


def parts_of(target: Path) -> Path:
    """Return the folder of the parts until the results are complete."""
    return target.with_name(f"{target.name}.parts")


def is_begun(results: str) -> bool:
    """Return whether there are parts of these results, so that the run can be resumed."""
    return (parts_of(Path(results)) / MANIFEST).exists()
