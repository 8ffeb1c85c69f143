"""The names of `deepeval.test_case`."""

from __future__ import annotations

from toolgrade.calls import ToolCall, ToolCallParams
from toolgrade.cases import ConversationalTestCase, LLMTestCase, MLLMImage, MLLMTestCase, Turn

__all__ = [
    "ConversationalTestCase",
    "LLMTestCase",
    "MLLMImage",
    "MLLMTestCase",
    "ToolCall",
    "ToolCallParams",
    "Turn",
]
