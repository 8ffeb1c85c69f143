"""Arguments that a tool received, as its span records them.

A span may hold the argument object, its JSON text or `repr`, the call of the Python function behind the tool, or an
object of the framework around any of these. What the model requested decides between two readings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolmark.capture import Request
from toolmark.formats.messages.content_parts import with_arguments
from toolmark.formats.traces.attribute_readers import printed_object
from toolmark.formats.traces.span_tree import Span
from toolmark.matching.json_compare import ABSENT, json_equal

_PYTHON_CALL = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
"""Keys that instrumentations of Python functions write; the last one is an argument of smolagents' own wrapper."""
_INVALID_JSON = {"INVALID_JSON"}
"""The key under which Pydantic AI's tool spans keep a text that is not JSON; the tool received nothing."""


def received_arguments(span: Span, requested: object = ABSENT) -> object:
    """Return the arguments that a tool received; `ABSENT` where the span does not show them.

    Args:
        span: The span of the tool; receives a warning where arguments cannot be read.
        requested: The arguments that the model requested. An object equal to them is not unwrapped, since a model may
            call a tool whose parameters are named `input`, or `args` and `kwargs`.
    """
    value = span.tool_run.arguments
    if value is ABSENT:
        return ABSENT
    fields = _object_in(value)
    if fields is None:
        return _argument_of_text(span, requested)
    if fields.keys() == _INVALID_JSON:
        return ABSENT
    if json_equal(fields, requested):
        return fields
    if _is_python_call(fields):
        return _arguments_by_name(fields, span, requested)
    if isinstance(value, dict) and fields.keys() == {"input"}:
        return _argument_of_input(fields, requested, is_wrapped=span.tool_run.input_wrapped)
    return fields


def _argument_of_input(fields: Mapping[str, Any], requested: object, *, is_wrapped: bool) -> object:
    """Return the arguments of `{"input": ...}`: a framework's object around them, or the arguments themselves."""
    inner = _object_in(fields["input"])
    if inner is None:
        return ABSENT if is_wrapped and requested is not ABSENT else fields
    return inner if is_wrapped or json_equal(inner, requested) else fields


def _argument_of_text(span: Span, requested: object) -> object:
    """Return the arguments of a tool whose span holds a value that is not an object."""
    value = span.tool_run.arguments
    text = str(value).strip()
    if requested is not ABSENT:
        return ABSENT  # the requested object is more exact than a summary of it
    if text.startswith("{"):
        tool = span.tool_run.tool
        span.doubt(span.path, f"the JSON text of the arguments of {tool!r} is cut off; they count as not captured")
        return ABSENT
    # A LangChain tool with one parameter is traced with that argument alone, as a text.
    return {} if value is None or not text else {"input": value}


def _is_python_call(fields: Mapping[str, object]) -> bool:
    """Return whether an object is the call of a Python function: `{"args": [1], "kwargs": {"b": 2}}`."""
    if not isinstance(fields.get("kwargs"), dict) or not isinstance(fields.get("args", []), list):
        return False
    return fields.keys() <= _PYTHON_CALL


def _arguments_by_name(fields: Mapping[str, Any], span: Span, requested: object) -> object:
    """Return the arguments of a Python call by their names; positional ones need the parameters of the tool."""
    positional, names = fields.get("args") or [], span.tool_run.parameters
    if len(positional) <= len(names):
        return {**dict(zip(names, positional, strict=False)), **fields["kwargs"]}
    if requested is ABSENT:
        span.doubt(
            span.path,
            f"the arguments of {span.tool_run.tool!r} are positional and their names are unknown; "
            "they count as not captured",
        )
    return ABSENT


def _object_in(value: object) -> dict[str, Any] | None:
    """Return the object that a value is, or that its text means as JSON or as a Python literal."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, str) or not value.strip():
        return None
    arguments = with_arguments(Request("_"), value).arguments
    if isinstance(arguments, dict):
        return arguments
    return printed_object(value)
