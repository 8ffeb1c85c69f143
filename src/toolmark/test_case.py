"""Test cases and calls under DeepEval's import path: `from toolmark.test_case import LLMTestCase`."""

from __future__ import annotations

from toolmark.calls import ToolCall, ToolCallParams, ToolCallType
from toolmark.cases import ConversationalTestCase, LLMTestCase, MLLMImage, MLLMTestCase, Turn

__all__ = [
    "ConversationalTestCase",
    "LLMTestCase",
    "MLLMImage",
    "MLLMTestCase",
    "ToolCall",
    "ToolCallParams",
    "ToolCallType",
    "Turn",
]
