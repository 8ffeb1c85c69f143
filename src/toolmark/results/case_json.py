"""JSON form of a case in a file of results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from toolmark._internal.json import short_repr, to_json_value
from toolmark._internal.model import Model, drop_none
from toolmark.calls import Execution, ToolCall, ToolSpec
from toolmark.cases import AnyCase, ConversationalTestCase, Handoff, LLMTestCase, MLLMImage, MLLMTestCase, Run, Turn
from toolmark.errors import InvalidDataError, Problem
from toolmark.expect import read_expectation
from toolmark.expect.json_form import is_expectation
from toolmark.redact import DEFAULT, Redactor

_TYPES: Mapping[str, type[AnyCase]] = {
    "case": LLMTestCase,
    "multimodal": MLLMTestCase,
    "conversation": ConversationalTestCase,
}
_NAMES = {model: name for name, model in _TYPES.items()}
# Models whose dictionaries and lists hold JSON values or such models only, since their validators convert them.
_PLAIN_MODELS = (LLMTestCase, ConversationalTestCase, Turn, Run, MLLMImage, ToolCall, Execution, ToolSpec, Handoff)
_JSON_TYPES = (str, int, float, bool, type(None), dict)
_MAX_DEPTH = 20


def case_to_json(case: object, redactor: Redactor = DEFAULT, *, plain: object = None) -> dict[str, Any]:
    """Return a case with its type as JSON values, without secrets, or why it cannot be written.

    `plain` is the result of `to_plain(case)` if the caller has it.
    """
    if not isinstance(case, (LLMTestCase, MLLMTestCase, ConversationalTestCase)) or type(case) not in _NAMES:
        return {"not_written": f"{type(case).__name__} is not a case"}
    try:
        redacted = redactor.model(case)
        content = plain if redacted is case and isinstance(plain, dict) else model_to_dict(redacted)
    except InvalidDataError as error:
        return {"not_written": str(error)}
    return {"type": _NAMES[type(case)], "content": _without_copied_input(content)}


def _without_copied_input(content: dict[str, Any]) -> dict[str, Any]:
    """Return a case without the `input_parts` of its run where they are its own input: images are large.

    They are `null` where there are none, which distinguishes the two.
    """
    run, parts = content.get("run"), content.get("input")
    if not isinstance(run, dict) or not isinstance(parts, list):
        return content
    shortened = {"input_parts": None, **run}
    if shortened["input_parts"] == parts:
        del shortened["input_parts"]
    return {**content, "run": shortened}


def _with_copied_input(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a case with the `input_parts` of its run that `_without_copied_input` left out."""
    run, parts = content.get("run"), content.get("input")
    if not isinstance(run, dict) or "input_parts" in run or not isinstance(parts, list):
        return content
    return {**content, "run": {**run, "input_parts": parts}}


def case_from_json(type_name: str | None, content: Mapping[str, Any] | None, **names: str | None) -> AnyCase:
    """Return a case from its JSON form; without content, a case with an id or a name only.

    Raises:
        InvalidDataError: The content does not fit the type.
    """
    if content is None:
        return LLMTestCase.model_validate(drop_none(names))
    model = _TYPES.get(type_name or "case")
    if model is None:
        message = f"expected one of {', '.join(_TYPES)}, got {short_repr(type_name)}"
        raise InvalidDataError(message, [Problem("$.type", message)])
    content = _with_copied_input(content)
    # A predicate is written as its name; only `read_expectation(allow_predicates=True)` accepts that.
    if '"$is": "predicate"' not in json.dumps(content.get("expected_tools")):
        return model.model_validate(content)
    expected = content["expected_tools"]
    plan = read_expectation(expected, allow_predicates=True) if is_expectation(expected) else expected
    return model.model_validate({**content, "expected_tools": plan})


def to_plain(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return any case or golden as JSON values, for a fingerprint."""
    if isinstance(value, Model):
        try:
            return model_to_dict(value)
        except InvalidDataError as error:
            return str(error)
    return to_json_value(value, [])


class _UnusualError(Exception):
    """A value that only `to_dict` can write."""


def model_to_dict(model: Model) -> dict[str, Any]:
    """Return what `to_dict` does, several times faster; NaN and huge integers are left to `json_text`.

    Raises:
        InvalidDataError: See `Model.to_dict`.
    """
    try:
        plain: dict[str, Any] = _fields(model, {}, 0)
    except _UnusualError:
        return model.to_dict()
    return plain


def _fields(value: Any, plain_by_id: dict[int, Any], depth: int) -> Any:  # noqa: ANN401 - a JSON value
    kind = type(value)
    if kind in _JSON_TYPES:
        return value
    if isinstance(value, list):
        return [_fields(item, plain_by_id, depth) for item in value]
    if isinstance(value, Enum):
        return value.value
    if kind not in _PLAIN_MODELS or depth > _MAX_DEPTH:
        raise _UnusualError
    # A case and its run share their calls.
    if id(value) not in plain_by_id:
        plain_by_id[id(value)] = _model_fields(value, plain_by_id, depth + 1)
    return plain_by_id[id(value)]


def _model_fields(model: Model, plain_by_id: dict[int, Any], depth: int) -> dict[str, Any]:
    fields_set = model.model_fields_set
    return {
        name: item if type(item) in _JSON_TYPES else _fields(item, plain_by_id, depth)
        for name, item in model.__dict__.items()
        if name in fields_set
    }
