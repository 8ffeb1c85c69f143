"""The names of `deepeval.errors`."""

from __future__ import annotations

from toolgrade.errors import MissingFieldError as MissingTestCaseParamsError
from toolgrade.errors import ToolgradeError as DeepEvalError

__all__ = ["DeepEvalError", "MissingTestCaseParamsError"]
