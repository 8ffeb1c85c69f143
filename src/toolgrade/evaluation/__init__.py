"""Evaluation: cases times metrics gives a report, and a file of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgrade._internal.lazy_imports import lazy_package

if TYPE_CHECKING:
    from toolgrade.evaluation.reading import read_results
    from toolgrade.evaluation.run import assert_test, evaluate, evaluate_async, partial_report

__all__ = [
    "assert_test",
    "evaluate",
    "evaluate_async",
    "partial_report",
    "read_results",
]

__getattr__, __dir__ = lazy_package(
    __name__,
    {"reading": "read_results", "run": "assert_test evaluate evaluate_async partial_report"},
)
