"""Which scenario can a version of the SDK not have, and why? Asserted in every environment, never skipped."""

from __future__ import annotations

from importlib import metadata

VERSION = tuple(int(part) for part in metadata.version("openai-agents").split(".")[:3])

ENFORCES_IDS = VERSION >= (0, 22)
"""A call without an id, or with that of another call, ends the run."""

TELLS_EXCEPTIONS = VERSION >= (0, 24)
"""The exception of a tool that was handled can be seen; before, only its text can."""
