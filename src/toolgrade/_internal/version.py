"""The installed version of toolgrade."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """Return the installed version; `0+unknown` if toolgrade runs from a source tree that is not installed."""
    try:
        return version("toolgrade")
    except PackageNotFoundError:
        return "0+unknown"
