"""DeepEval's names for the evaluation of tool calls: replace `deepeval` with `toolgrade.compat.deepeval` in imports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolgrade.compat.deepeval import _absent
from toolgrade.compat.deepeval.bridge import from_deepeval, to_deepeval
from toolgrade.compat.deepeval.evaluate import assert_test, evaluate

__all__ = ["assert_test", "evaluate", "from_deepeval", "log_hyperparameters", "on_test_run_end", "to_deepeval"]


def log_hyperparameters(function: Callable[..., Any] | None = None, **_: object) -> Callable[..., Any]:
    """Return a function as it is: hyperparameters are not stored."""
    return _unchanged if function is None else function


def on_test_run_end(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as it is: it is not called."""
    _absent.warn_of({"on_test_run_end": True}, "this file")
    return function


def _unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


__getattr__: _absent.Getter = _absent.getter(__name__, "a_flush_traces compare flush_traces instrument login telemetry")
