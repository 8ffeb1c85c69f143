"""Test cases and calls under DeepEval's import path: `from toolgrade.test_case import LLMTestCase`."""

from __future__ import annotations

from toolgrade.calls import ToolCall, ToolCallParams, ToolCallType
from toolgrade.cases import ConversationalTestCase, LLMTestCase, MLLMImage, MLLMTestCase, Turn

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
