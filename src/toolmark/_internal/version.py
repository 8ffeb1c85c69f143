"""The installed version of toolmark."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """Return the installed version; `0+unknown` if toolmark runs from a source tree that is not installed."""
    try:
        return version("toolmark")
    except PackageNotFoundError:
        return "0+unknown"
