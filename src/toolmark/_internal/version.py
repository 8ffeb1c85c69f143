"""Which version of toolmark is this?"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """Return the version that is installed; `0+unknown` where it is run from a source tree that never was."""
    try:
        return version("toolmark")
    except PackageNotFoundError:
        return "0+unknown"
