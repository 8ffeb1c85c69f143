"""JSON Schemas of the files that people write: cases, goldens and records. `build` derives them from the readers."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

KINDS: Final = ("cases", "goldens", "records")
"""What the files of the schemas hold; the file of `cases` is `cases.schema.json`."""


def schema_text(kind: str) -> str:
    """Return the published schema of one of `KINDS` as JSON text."""
    return files(__name__).joinpath(f"{kind}.schema.json").read_text(encoding="utf-8")
