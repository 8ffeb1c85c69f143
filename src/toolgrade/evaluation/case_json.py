"""JSON form of a case in a file of results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python

from toolgrade._internal.json import json_text, short_repr, to_json_value
from toolgrade._internal.model import Model, drop_none
from toolgrade.calls import Execution, ToolCall, ToolSpec
from toolgrade.cases import AnyCase, ConversationalTestCase, Handoff, LLMTestCase, MLLMImage, MLLMTestCase, Run, Turn
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.expect import read_expectation
from toolgrade.expect.json_form import is_expectation
from toolgrade.redact import DEFAULT, may_hold_secret

_TYPES: Mapping[str, type[AnyCase]] = {
    "case": LLMTestCase,
    "multimodal": MLLMTestCase,
    "conversation": ConversationalTestCase,
}
_NAMES = {model: name for name, model in _TYPES.items()}
# Models whose fields hold JSON values or such models only, since their validators convert them.
_PLAIN_MODELS = frozenset(
    {LLMTestCase, ConversationalTestCase, Turn, Run, MLLMImage, ToolCall, Execution, ToolSpec, Handoff}
)
_MAX_DEPTH = 20


class EncodedCase(NamedTuple):
    """A case or a golden with its JSON text; of one that cannot be written the text is the reason."""

    case: object
    text: bytes


def encode_case(case: object) -> EncodedCase:
    """Return any case or golden with its JSON text."""
    try:
        text = encode_model(case) if isinstance(case, Model) else json_text(to_json_value(case, [])).encode()
    except InvalidDataError as error:
        text = json_text(str(error)).encode()
    return EncodedCase(case, text)


def case_members(encoded: EncodedCase) -> bytes:
    """Return the type and content of a case in a line of results, without secrets, or why it cannot be written."""
    case, text = encoded
    if not isinstance(case, (LLMTestCase, MLLMTestCase, ConversationalTestCase)) or type(case) not in _NAMES:
        return _not_written(json_text(f"{type(case).__name__} is not a case").encode())
    if may_hold_secret(text):
        text = encode_case(DEFAULT.model(case)).text
    if not text.startswith(b"{"):
        return _not_written(text)
    return b'"type": "%b", "content": %b' % (_NAMES[type(case)].encode(), text)


def _not_written(reason: bytes) -> bytes:
    return b'"not_written": ' + reason


def case_from_json(type_name: str | None, content: Mapping[str, Any] | None, **names: str | None) -> AnyCase:
    """Return a case from its JSON form; without content, a case with an id or a name only.

    The content of a case that is named by its place has no name.

    Raises:
        InvalidDataError: The content does not fit the type.
    """
    if content is None:
        return LLMTestCase.model_validate(drop_none(names))
    content = {**drop_none(names), **content}
    model = _TYPES.get(type_name or "case")
    if model is None:
        message = f"expected one of {', '.join(_TYPES)}, got {short_repr(type_name)}"
        raise InvalidDataError(message, [Problem("$.type", message)])
    # A predicate is written as its name; only `read_expectation(allow_predicates=True)` accepts that.
    if '"$is": "predicate"' not in json.dumps(content.get("expected_tools")):
        return model.model_validate(content)
    expected = content["expected_tools"]
    plan = read_expectation(expected, allow_predicates=True) if is_expectation(expected) else expected
    return model.model_validate({**content, "expected_tools": plan})


class _UnusualError(Exception):
    """A value that only `to_dict` can write."""


def encode_model(model: Model) -> bytes:
    """Return the JSON text of what `to_dict` returns, several times faster.

    Raises:
        InvalidDataError: See `Model.to_dict`.
    """
    text = _encode_plain(model)
    return json_text(model.to_dict()).encode() if text is None else text


def _encode_plain(value: object) -> bytes | None:
    """Return the JSON text of models and JSON values, `None` if only `to_dict` can write them."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:  # lone surrogates
        return _encode_ascii(value).encode()
    except (_UnusualError, ValueError, RecursionError):  # also NaN and integers of thousands of digits
        return None


def _to_plain(value: object) -> object:
    if type(value) in _PLAIN_MODELS and isinstance(value, Model):
        if type(value) is Execution and value.children and _is_deep(value, _MAX_DEPTH):
            raise _UnusualError
        return _set_fields(value)
    if isinstance(value, Enum):
        return value.value
    if type(value) is datetime:
        return to_jsonable_python(value)
    raise _UnusualError


def _set_fields(model: Model) -> dict[str, Any]:
    names = model.__pydantic_fields_set__
    return {name: value for name, value in model.__dict__.items() if name in names}


def _is_deep(execution: Execution, levels: int) -> bool:
    children = [call.execution for call in execution.children if call.execution is not None]
    return levels == 0 or any(_is_deep(child, levels - 1) for child in children)


# Models are frozen, and their values are JSON, so none contains itself.
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, default=_to_plain).encode
_encode_ascii = json.JSONEncoder(check_circular=False, allow_nan=False, default=_to_plain).encode
