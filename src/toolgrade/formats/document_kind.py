"""Detection of what one JSON value of a file holds. No other module decides this."""

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
"""What a JSON value holds:

- `case`: a case, a golden, a record, or a conversation of `turns`;
- `messages`: the messages of one conversation, or an object with them, such as a request or a response;
- `message`: one message of a conversation;
- `trace`: a trace or a part of one;
- `results`: results of an evaluation;
- `unknown`: anything else.
"""

_KEYS_OF_MESSAGES = (
    *("messages", "input", "choices", "output", "request", "response", "body"),
    *("contents", "candidates", "promptFeedback", "prompt_feedback"),
)
"""Keys of an object that holds messages. A text under one of them does not: the `{"input": "...", "output": "..."}` of
a data set must not read as an answer without calls."""
_KEYS_OF_CALLS = {"tools_called", "toolsCalled"}


def kind_of(value: object) -> Kind:
    """Return what a JSON value holds; a list holds messages, or is a trace."""
    if isinstance(value, Mapping):
        return _kind_of_object(value)
    if not isinstance(value, list):
        return "unknown"
    return "trace" if _is_trace(value) else "messages"


def _kind_of_object(value: Mapping[str, Any]) -> Kind:
    """Return what an object holds. The first rule that fits decides, so `{"role": "user", "turns": []}` is a case."""
    keys = value.keys() - {"$schema"}
    if RESULTS_MARK in keys or {"metrics", "cases"} <= keys:
        return "results"
    if _is_case(value, keys):
        return "case"
    if _is_message(value):
        return "message"
    # A span may have an input and an output, too.
    if not keys & {"messages", "choices"} and _is_trace(value):
        return "trace"
    return "messages" if "role" in keys or _holds_messages(value) else "unknown"


def _is_case(value: Mapping[str, Any], keys: set[str]) -> bool:
    """Return whether an object is a case; one with a name alone is, too."""
    has_calls = "turns" in keys or not keys.isdisjoint(_KEYS_OF_CALLS)
    return has_calls or looks_like_record(value) or keys <= LLMTestCase.model_fields.keys()


def _is_message(value: Mapping[str, Any]) -> bool:
    if is_claude_code(value):
        return True
    if "stop_reason" in value:  # a response of Anthropic's API, which has the role of its message
        return False
    return "role" in value or is_adk_event(value) or is_item(value) or message_fields(value) is not None


def _holds_messages(value: Mapping[str, Any]) -> bool:
    if {"message", "done"} <= value.keys() or is_adk_session(value):  # the first is Ollama's
        return True
    return any(not isinstance(value.get(key), (str, NoneType)) for key in _KEYS_OF_MESSAGES)


def has_calls(value: object) -> bool:
    """Return whether a JSON value has calls that were made, or has messages or a trace, which may have some.

    A golden has none, also in its turns: `{"turns": [{"input": "Hi", "expected_tools": []}]}`.
    """
    kind = kind_of(value)
    if kind != "case" or not isinstance(value, Mapping):
        return kind in {"messages", "message", "trace"}
    turns = value.get("turns")
    parts = [value, *(turns if isinstance(turns, list) else ())]
    return looks_like_record(value) or any(_has_calls_or_role(part) for part in parts)


def _has_calls_or_role(part: object) -> bool:
    """Return whether a case, or a turn of one, has calls or is a recorded message."""
    return isinstance(part, Mapping) and not part.keys().isdisjoint({*_KEYS_OF_CALLS, "role"})


def is_one_conversation(value: list[Any]) -> bool:
    """Return whether a list is one conversation or trace, and not a list of cases or conversations."""
    return bool(value) and (_begins_conversation(value[0]) or _is_trace(value))


def _begins_conversation(entry: object) -> bool:
    """Return whether the first entry of a list is a message, an item, an event or a chunk of a conversation."""
    if isinstance(entry, list):  # a pair of LangGraph's stream: one conversation, so that one error refuses the list
        return any("langgraph_node" in one for one in entry[1:] if isinstance(one, Mapping))
    kind = kind_of(entry)
    if not isinstance(entry, Mapping) or kind in {"case", "results"}:
        return False
    if kind == "message":
        return True
    return "stop_reason" not in entry and (bool(entry.keys() & {"role", "type"}) or is_piece(entry))


def _is_trace(value: object) -> bool:
    from toolgrade.formats.traces.read import trace_format_of  # noqa: PLC0415 - not loaded for cases

    return trace_format_of(value) is not None
