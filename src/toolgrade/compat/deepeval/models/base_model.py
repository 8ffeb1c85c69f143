"""The names of `deepeval.models.base_model`."""

from __future__ import annotations

from toolgrade.compat.deepeval.models import DeepEvalBaseLLM

__all__ = ["DeepEvalBaseLLM"]
