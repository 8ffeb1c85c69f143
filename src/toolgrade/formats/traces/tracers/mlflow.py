"""Spans of MLflow (MLflow documentation, "Tracing", its span types and attributes)."""

from __future__ import annotations

from typing import Any

from toolgrade._internal.json import parse_json
from toolgrade._internal.message_content import Fields, first_of, object_of, text_of
from toolgrade.errors import InvalidDataError
from toolgrade.formats.traces.tracers.tracer import INPUT, OUTPUT, Attributes, Tracer

_SESSION = "mlflow.trace.session"


def _attributes_beside(fields: Fields) -> Attributes:
    """Return the session of a trace, which is in the `info` around its spans."""
    metadata = first_of(object_of(fields.get("info")), "trace_metadata", "request_metadata")
    session = text_of(object_of(metadata).get(_SESSION))
    return {} if session is None else {_SESSION: session}


def _translate(attributes: Attributes, _: str) -> Attributes:
    if "mlflow.spanType" not in attributes:
        return attributes
    return {key: _value(value) for key, value in attributes.items()}


def _value(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value of an attribute: MLflow writes every value as JSON, also numbers and booleans."""
    try:
        return parse_json(value, unique_keys=False) if isinstance(value, str) else value
    except InvalidDataError:
        return value


MLFLOW = Tracer(
    names={
        "gen_ai.operation.name": ("mlflow.spanType",),
        "gen_ai.conversation.id": (_SESSION,),
        "gen_ai.response.model": ("mlflow.llm.model",),
        "gen_ai.tool.definitions": ("mlflow.chat.tools",),
        INPUT: ("mlflow.spanInputs",),
        OUTPUT: ("mlflow.spanOutputs",),
    },
    beside=_attributes_beside,
    translate=_translate,
)
