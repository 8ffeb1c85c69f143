"""Evaluation: cases times metrics gives a report, and a file of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgrade._internal.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from toolgrade.evaluation.reading import read_results
    from toolgrade.evaluation.run import Evaluator, assert_test, evaluate, evaluate_async, partial_report

__all__ = [
    "Evaluator",
    "assert_test",
    "evaluate",
    "evaluate_async",
    "partial_report",
    "read_results",
]

_load = lazy_getattr(__name__, dict.fromkeys(__all__, "run") | {"read_results": "reading"})


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    return _load(name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
