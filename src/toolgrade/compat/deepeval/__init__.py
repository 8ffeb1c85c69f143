"""DeepEval's names for the evaluation of tool calls: replace `deepeval` with `toolgrade.compat.deepeval` in imports."""

from __future__ import annotations

from toolgrade.evaluation.run import assert_test, evaluate

__all__ = ["assert_test", "evaluate"]
