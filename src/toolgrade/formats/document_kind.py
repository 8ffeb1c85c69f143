"""Detection of what one JSON value of a file holds: the only one."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, TypeAlias

from toolgrade._internal.json import RESULTS_MARK
from toolgrade.cases import LLMTestCase
from toolgrade.formats.messages.detect import is_adk_event, is_adk_session, is_claude_code, is_item, is_piece
from toolgrade.formats.messages.langchain import message_fields
from toolgrade.formats.records import looks_like_record

Kind: TypeAlias = Literal["case", "messages", "message", "trace", "results", "unknown"]
"""A case, golden, record or conversation of turns; the messages of a conversation; one message of it; (a part of) a
trace; results; anything else."""

_MESSAGES_KEYS = (
    *("messages", "input", "choices", "output", "request", "response", "body"),
    *("contents", "candidates", "promptFeedback", "prompt_feedback"),
)
"""Keys of an object that holds messages. A text under one of them does not: the `{"input": "...", "output": "..."}` of
a data set must not read as an answer without calls."""
_CASE_KEYS = {"tools_called", "toolsCalled", "turns"}


def kind_of(value: object) -> Kind:
    """Return what a JSON value holds; a list holds messages, or is a trace."""
    if isinstance(value, Mapping):
        return _kind_of_object(value)
    if not isinstance(value, list):
        return "unknown"
    return "trace" if _is_trace(value) else "messages"


def _kind_of_object(value: Mapping[str, Any]) -> Kind:
    keys = value.keys() - {"$schema"}
    if RESULTS_MARK in keys or {"metrics", "cases"} <= keys:
        return "results"
    if looks_like_record(value) or keys & _CASE_KEYS or keys <= LLMTestCase.model_fields.keys():
        return "case"
    if is_claude_code(value) or ("stop_reason" not in keys and _is_message(value)):
        return "message"
    # A span may have an input and an output, too.
    if not keys & {"messages", "choices"} and _is_trace(value):
        return "trace"
    return "messages" if "role" in keys or _holds_messages(value) else "unknown"


def _is_message(value: Mapping[str, Any]) -> bool:
    return "role" in value or is_adk_event(value) or is_item(value) or message_fields(value) is not None


def _holds_messages(value: Mapping[str, Any]) -> bool:
    if {"message", "done"} <= value.keys() or is_adk_session(value):  # the first is Ollama's
        return True
    return any(not isinstance(value.get(key), (str, NoneType)) for key in _MESSAGES_KEYS)


def is_one_conversation(value: list[Any]) -> bool:
    """Return whether a list is one conversation or trace, and not a list of cases or conversations."""
    return bool(value) and (_is_piece(value[0]) or _is_trace(value))


def has_calls(value: object) -> bool:
    """Return whether a JSON value has calls that were made, as cases and recordings have and goldens have not."""
    kind = kind_of(value)
    if kind != "case" or not isinstance(value, Mapping):
        return kind in {"messages", "message", "trace"}
    return bool(value.keys() & _CASE_KEYS) or looks_like_record(value)


def _is_piece(entry: object) -> bool:
    """Return whether a value is a message, an item, an event or a chunk of a conversation."""
    if isinstance(entry, list):  # a pair of LangGraph's stream, which is refused as a whole
        return any("langgraph_node" in one for one in entry[1:] if isinstance(one, Mapping))
    if not isinstance(entry, Mapping) or kind_of(entry) in {"case", "results"}:
        return False
    if kind_of(entry) == "message":
        return True
    return "stop_reason" not in entry and (bool(entry.keys() & {"role", "type"}) or is_piece(entry))


def _is_trace(value: object) -> bool:
    from toolgrade.formats.traces.read import trace_format_of  # noqa: PLC0415 - not loaded for cases

    return trace_format_of(value) is not None
