"""How does a file appear? Whole or not at all: it is written beside its place, and then moved there."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(target: Path) -> Generator[Path, None, None]:
    """Give the path of a draft beside a file, and move it there at the end; whatever fails, the file stays as it is."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield draft
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
