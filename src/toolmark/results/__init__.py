"""Files of results: written while an evaluation runs, resumed after it was stopped, and read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmark._internal.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from toolmark.results.reader import read_results

__all__ = ["read_results"]

# What writes results must not load what reads them.
_load = lazy_getattr(__name__, {"read_results": "reader"})


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    return _load(name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
